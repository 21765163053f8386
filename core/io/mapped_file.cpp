#include "core/io/mapped_file.h"

#include "core/base/result.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace linnet::core {
namespace {

// Signal handlers belong to the process, so these two can't live in an object.
thread_local sigjmp_buf* volatile t_escape = nullptr; // where a copy in progress on this thread goes back to
struct sigaction g_previousHandler;

void onBusError(int, siginfo_t*, void*) {
    if (t_escape)
        siglongjmp(*t_escape, 1);
    ::sigaction(SIGBUS, &g_previousHandler, nullptr); // not ours: the access repeats and meets the handler that was there
}

// memcpy from a mapping; false where a page of it is no longer backed by the file. Holds no object with a destructor, because
// siglongjmp runs none.
bool copyGuarded(void* out, const void* in, std::size_t count) {
    sigjmp_buf escape;
    if (sigsetjmp(escape, 1) != 0) {
        t_escape = nullptr;
        return false;
    }
    t_escape = &escape;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    std::memcpy(out, in, count);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    t_escape = nullptr;
    return true;
}

void installHandlerOnce() {
    static std::once_flag once;
    std::call_once(once, [] {
        struct sigaction action = {};
        action.sa_sigaction = onBusError;
        action.sa_flags = SA_SIGINFO;
        ::sigemptyset(&action.sa_mask);
        ::sigaction(SIGBUS, &action, &g_previousHandler);
    });
}

} // namespace

MappedFile::MappedFile(const std::filesystem::path& file) : m_path(file), m_file(file), m_size(m_file.size()) {
    installHandlerOnce();
    if (m_size == 0)
        return;
    void* mapping = ::mmap(nullptr, m_size, PROT_READ, MAP_PRIVATE, m_file.descriptor(), 0);
    if (mapping == MAP_FAILED)
        fail(ErrorCode::Io, "can't open " + file.string() + ": " + std::strerror(errno), {{"file", file.string()}});
    m_bytes = static_cast<std::byte*>(mapping);
}

MappedFile::~MappedFile() {
    if (m_bytes)
        ::munmap(m_bytes, m_size);
}

void MappedFile::copy(std::uint64_t offset, std::size_t count, void* out) const {
    const auto range = std::to_string(count) + " bytes at offset " + std::to_string(offset);
    if (count > m_size || offset > m_size - count)
        fail(ErrorCode::Malformed,
             m_path.string() + ": needs " + range + ", but the file has " + std::to_string(m_size) + " bytes",
             {{"file", m_path.string()}, {"expected", range}, {"found", std::to_string(m_size)}});
    if (count == 0)
        return;
    struct stat status = {};
    const bool present = ::fstat(m_file.descriptor(), &status) == 0 && static_cast<std::uint64_t>(status.st_size) >= offset + count;
    if (!present || !copyGuarded(out, m_bytes + offset, count))
        fail(ErrorCode::Io,
             m_path.string() + ": can't read " + range + ": the file has shrunk since it was opened with " +
                 std::to_string(m_size) + " bytes, or its disk failed; open it again once it is complete",
             {{"file", m_path.string()}, {"expected", std::to_string(m_size)}, {"found", std::to_string(status.st_size)}});
}

void MappedFile::release(std::uint64_t offset, std::uint64_t count) const {
    if (!m_bytes || offset >= m_size)
        return;
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    const auto start = offset / page * page;
    const auto end = offset + std::min(count, m_size - offset);
    ::madvise(m_bytes + start, end - start, MADV_DONTNEED); // advice: a failure costs memory, nothing else
}

} // namespace linnet::core
