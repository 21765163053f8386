#include "core/base/partial_file.h"

#include "core/base/result.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace linnet::core {

PartialFile::PartialFile(std::filesystem::path target) : m_target(std::move(target)), m_partial(m_target) {
    m_partial += ".part." + std::to_string(::getpid());
    m_descriptor = ::open(m_partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (m_descriptor < 0)
        failErrno();
}

PartialFile::~PartialFile() {
    if (m_descriptor >= 0) {
        ::close(m_descriptor);
        ::unlink(m_partial.c_str());
    }
}

void PartialFile::failErrno() const {
    const int code = errno;
    const bool full = code == ENOSPC || code == EDQUOT || code == EFBIG;
    fail(full ? ErrorCode::Disk : code == ENOENT ? ErrorCode::NotFound : ErrorCode::Io, "can't write " + m_target.string() + ": " + std::strerror(code),
         {{"file", m_target.string()}});
}

void PartialFile::append(const void* bytes, std::size_t count) {
    auto* data = static_cast<const char*>(bytes);
    while (count > 0) {
        const auto written = ::write(m_descriptor, data, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            failErrno();
        data += written;
        count -= static_cast<std::size_t>(written);
    }
}

void PartialFile::finish() {
    if (m_descriptor < 0)
        fail(ErrorCode::Internal, "writing " + m_target.string() + ": it was finished before", {{"file", m_target.string()}});
    if (::fsync(m_descriptor) != 0 || ::rename(m_partial.c_str(), m_target.c_str()) != 0)
        failErrno();
    ::close(m_descriptor);
    m_descriptor = -1;
}

} // namespace linnet::core
