// The one way in which files are opened to be read: regular ones alone. A named pipe or a terminal would block, /dev/zero never ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace linnet::core {

inline constexpr std::uint64_t kMostTextBytes = 4ull << 30, kMostJsonBytes = 256ull << 20;

class RegularFile {
public:
    explicit RegularFile(const std::filesystem::path& file); // Failure{NotFound, Io} naming the file, as all below
    ~RegularFile();
    RegularFile(const RegularFile&) = delete;
    RegularFile& operator=(const RegularFile&) = delete;

    std::uint64_t size() const { return m_size; }                             // when it was opened; 0 of a file of /proc
    int descriptor() const { return m_descriptor; }
    std::size_t read(std::uint64_t offset, void* out, std::size_t count) const; // fewer at the end of the file

private:
    std::filesystem::path m_path;
    int m_descriptor = -1;
    std::uint64_t m_size = 0;
};

// All of it. Malformed above `most` bytes.
std::string readRegularFile(const std::filesystem::path& file, std::uint64_t most);

} // namespace linnet::core
