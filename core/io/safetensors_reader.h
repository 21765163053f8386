// One safetensors file: the header, checked by every rule of the format and of its reference parser; data stays in the file.
// Format: 8 bytes N (little-endian), N bytes of JSON, data; formats section "Loader rules of the reference parsers".
#pragma once

#include "core/io/mapped_file.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace linnet::core {

struct SafetensorsEntry {
    std::string name;
    std::string dtype; // "F32", "BF16", "F8_E4M3", "I64", ...
    std::vector<std::int64_t> shape;
    std::uint64_t offset = 0; // from the start of the file
    std::uint64_t bytes = 0;
};

class SafetensorsFile {
public:
    explicit SafetensorsFile(const std::filesystem::path& file); // Failure{NotFound, Io, Malformed, Unsupported}

    const std::filesystem::path& path() const { return m_data->path(); }
    const std::vector<SafetensorsEntry>& entries() const { return m_entries; } // in the order of their data
    const std::map<std::string, std::string>& metadata() const { return m_metadata; }
    const MappedFile& data() const { return *m_data; }

private:
    std::unique_ptr<MappedFile> m_data;
    std::vector<SafetensorsEntry> m_entries;
    std::map<std::string, std::string> m_metadata;
};

} // namespace linnet::core
