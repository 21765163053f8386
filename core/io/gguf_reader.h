// A GGUF file, version 2 or 3: metadata and tensor directory, checked whole when opened; data stays in the file.
// Format: ggml's docs/gguf.md; the limits are those of the reference parser and tighter where a real model never comes near.
#pragma once

#include "core/io/gguf_types.h"
#include "core/io/mapped_file.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace linnet::core {

// Integers of every width become int64 (a scalar above its range stays uint64), float32 becomes double unchanged; arrays
// likewise, booleans in arrays as 0 and 1.
using GgufValue = std::variant<bool, std::int64_t, std::uint64_t, double, std::string, std::vector<std::int64_t>,
                               std::vector<double>, std::vector<std::string>>;

struct GgufTensor {
    std::string name;               // as in the file: blk.3.attn_q.weight
    std::vector<std::int64_t> dims; // innermost first, as ggml has it: [in, out]
    GgufTypeInfo type;
    std::uint64_t offset = 0; // from the start of the file
    std::uint64_t bytes = 0;

    std::int64_t rowElements() const { return dims.empty() ? 1 : dims[0]; }
    std::int64_t rows() const; // the product of the other dimensions
};

class GgufFile {
public:
    explicit GgufFile(const std::filesystem::path& file); // Failure{NotFound, Io, Malformed, Unsupported}

    const std::filesystem::path& path() const { return m_data->path(); }
    std::uint32_t version() const { return m_version; }
    const std::map<std::string, GgufValue, std::less<>>& metadata() const { return m_metadata; }
    const std::vector<GgufTensor>& tensors() const { return m_tensors; } // file order
    const GgufTensor* findTensor(std::string_view name) const;
    const MappedFile& data() const { return *m_data; }

    // The value of a key, one of GgufValue's types: null where the key is absent, Malformed where it holds another type.
    template <class T> const T* find(std::string_view key) const {
        const auto entry = m_metadata.find(key);
        if (entry == m_metadata.end())
            return nullptr;
        if (const T* value = std::get_if<T>(&entry->second))
            return value;
        failType(key);
    }
    template <class T> const T& require(std::string_view key) const { // NotFound where the key is absent
        if (const T* value = find<T>(key))
            return *value;
        failMissing(key);
    }

private:
    [[noreturn]] void failType(std::string_view key) const;
    [[noreturn]] void failMissing(std::string_view key) const;

    std::unique_ptr<MappedFile> m_data;
    std::uint32_t m_version = 0;
    std::map<std::string, GgufValue, std::less<>> m_metadata;
    std::vector<GgufTensor> m_tensors;
    std::map<std::string, std::size_t, std::less<>> m_tensorByName;

    friend class GgufParser;
};

} // namespace linnet::core
