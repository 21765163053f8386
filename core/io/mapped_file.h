// A file mapped read-only. Its bytes are only ever copied out (formats allow unaligned tensors), under a guard: a file that
// shrinks while mapped is Failure{Io}, where a plain access would end the process with SIGBUS.
#pragma once

#include "core/base/regular_file.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace linnet::core {

class MappedFile {
public:
    explicit MappedFile(const std::filesystem::path& file); // Failure{NotFound, Io}; only regular files
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    const std::filesystem::path& path() const { return m_path; }
    std::uint64_t size() const { return m_size; } // when it was opened
    // Copies bytes [offset, offset + count). Failure{Malformed} outside of the file, Failure{Io} where it has shrunk.
    void copy(std::uint64_t offset, std::size_t count, void* out) const;
    // Gives the pages that hold these bytes back to the kernel; they are read again if they are asked for again.
    void release(std::uint64_t offset, std::uint64_t count) const;

private:
    std::filesystem::path m_path;
    RegularFile m_file;
    std::uint64_t m_size = 0;
    std::byte* m_bytes = nullptr;
};

} // namespace linnet::core
