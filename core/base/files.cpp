#include "core/base/files.h"

#include "core/base/partial_file.h"
#include "core/base/regular_file.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <unistd.h>
#include <xxhash.h>

namespace linnet::core {
namespace {

std::string hex(XXH64_hash_t hash) {
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
    return text;
}

// A line "Key:   123 kB" of a /proc file, in bytes; 0 where it is missing.
std::uint64_t procKilobytes(const char* file, const std::string& key) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);)
        if (line.rfind(key, 0) == 0)
            return std::strtoull(line.c_str() + key.size(), nullptr, 10) * 1024;
    return 0;
}

} // namespace

std::string readTextFile(const std::filesystem::path& file) {
    return readRegularFile(file, kMostTextBytes);
}

void writeFileAtomically(const std::filesystem::path& file, std::string_view bytes) {
    PartialFile partial(file);
    partial.append(bytes.data(), bytes.size());
    partial.finish();
}

std::string hashBytes(std::string_view bytes) {
    return hex(XXH3_64bits(bytes.data(), bytes.size()));
}

std::string hashFileSampled(const std::filesystem::path& path) {
    constexpr std::uint64_t kPiece = 1 << 20;
    const RegularFile file(path);
    const auto size = file.size();
    std::string sample = std::to_string(size) + "\n";
    for (const std::uint64_t start : {std::uint64_t{0}, size / 2, size > kPiece ? size - kPiece : 0}) {
        std::string piece(std::min(kPiece, size - start), '\0');
        file.read(start, piece.data(), piece.size());
        sample += piece;
    }
    return hashBytes(sample);
}

std::uint64_t freeDiskBytes(const std::filesystem::path& folder) {
    auto existing = std::filesystem::absolute(folder);
    while (!std::filesystem::exists(existing) && existing.has_parent_path() && existing != existing.parent_path())
        existing = existing.parent_path();
    std::error_code failed;
    const auto space = std::filesystem::space(existing, failed);
    return failed ? 0 : space.available;
}

std::uint64_t availableMemoryBytes() {
    std::uint64_t available = procKilobytes("/proc/meminfo", "MemAvailable:");
    std::ifstream limitFile("/sys/fs/cgroup/memory.max"), usedFile("/sys/fs/cgroup/memory.current");
    std::uint64_t limit = 0, used = 0;
    if (limitFile >> limit && usedFile >> used && limit > used)
        available = std::min(available, limit - used);
    return available;
}

std::uint64_t residentMemoryBytes() {
    return procKilobytes("/proc/self/status", "VmRSS:");
}

std::uint64_t peakResidentMemoryBytes() {
    return procKilobytes("/proc/self/status", "VmHWM:");
}

} // namespace linnet::core
