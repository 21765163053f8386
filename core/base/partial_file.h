// A file that is written piece by piece beside its target and takes its name when it is whole: a reader sees all of it or nothing.
#pragma once

#include <cstddef>
#include <filesystem>

namespace linnet::core {

class PartialFile {
public:
    explicit PartialFile(std::filesystem::path target); // Failure{Io, Disk} naming the target, as all below
    ~PartialFile();                                     // removes what is there unless finished
    PartialFile(const PartialFile&) = delete;
    PartialFile& operator=(const PartialFile&) = delete;

    const std::filesystem::path& target() const { return m_target; }
    void append(const void* bytes, std::size_t count);
    void finish(); // sync and rename

private:
    [[noreturn]] void failErrno() const;

    std::filesystem::path m_target, m_partial;
    int m_descriptor = -1;
};

} // namespace linnet::core
