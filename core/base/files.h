// Files: whole reads, atomic writes, hashes. All throw Failure{NotFound, Io or Disk} naming the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace linnet::core {

std::string readTextFile(const std::filesystem::path& file);

// Writes beside the target, syncs, renames: a reader sees the old file or the new one, never a part.
void writeFileAtomically(const std::filesystem::path& file, std::string_view bytes);

// 64-bit XXH3 as 16 hex digits. Not for security.
std::string hashBytes(std::string_view bytes);
// Of size, and of the first, middle and last 1 MiB: identifies a multi-gigabyte model file in milliseconds.
std::string hashFileSampled(const std::filesystem::path& file);

std::uint64_t freeDiskBytes(const std::filesystem::path& folder);
std::uint64_t availableMemoryBytes(); // MemAvailable, and the cgroup's limit where it is lower
std::uint64_t residentMemoryBytes();
std::uint64_t peakResidentMemoryBytes();

} // namespace linnet::core
