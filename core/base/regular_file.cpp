#include "core/base/regular_file.h"

#include "core/base/result.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace linnet::core {
namespace {

[[noreturn]] void failToRead(const std::filesystem::path& file, int code) {
    fail(code == ENOENT ? ErrorCode::NotFound : ErrorCode::Io, "can't read " + file.string() + ": " + std::strerror(code), {{"file", file.string()}});
}

} // namespace

RegularFile::RegularFile(const std::filesystem::path& file) : m_path(file) {
    m_descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); // O_NONBLOCK: a named pipe must not hang us
    if (m_descriptor < 0)
        failToRead(file, errno);
    struct stat status = {};
    const int code = ::fstat(m_descriptor, &status) != 0 ? errno : 0;
    if (code == 0 && S_ISREG(status.st_mode)) {
        m_size = static_cast<std::uint64_t>(status.st_size);
        return;
    }
    ::close(m_descriptor); // the destructor does not run after a throw
    if (code != 0)
        failToRead(file, code);
    fail(ErrorCode::Io, file.string() + (S_ISDIR(status.st_mode) ? " is a folder, a file was expected" : " is not a regular file"), {{"file", file.string()}});
}

RegularFile::~RegularFile() {
    ::close(m_descriptor);
}

std::size_t RegularFile::read(std::uint64_t offset, void* out, std::size_t count) const {
    std::size_t done = 0;
    while (done < count) {
        const auto got = ::pread(m_descriptor, static_cast<char*>(out) + done, count - done, static_cast<off_t>(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            failToRead(m_path, errno);
        if (got == 0)
            break;
        done += static_cast<std::size_t>(got);
    }
    return done;
}

std::string readRegularFile(const std::filesystem::path& path, std::uint64_t most) {
    const RegularFile file(path);
    const auto check = [&](std::uint64_t size) {
        if (size > most)
            fail(ErrorCode::Malformed, path.string() + " is larger than the " + std::to_string(most >> 20) + " MiB that are read of such a file",
                 {{"file", path.string()}, {"expected", std::to_string(most)}, {"found", std::to_string(size)}});
    };
    check(file.size());
    std::string text;
    for (std::size_t piece = file.size() + 1;; piece = 1 << 20) { // + 1: its end shows
        const auto before = text.size();
        text.resize(before + piece);
        const auto got = file.read(before, text.data() + before, piece);
        text.resize(before + got);
        check(text.size()); // it may grow, and files of /proc say no size
        if (got < piece)
            return text;
    }
}

} // namespace linnet::core
