// Writes a GGUF file, version 3, tensor by tensor and atomically. Format: ggml's docs/gguf.md; block layouts: gguf_types.h, gguf_dequant.h.
// The same calls give the same bytes.
#pragma once

#include "core/base/partial_file.h"
#include "core/io/gguf_types.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace linnet::core {

using GgufWrittenValue = std::variant<bool, std::uint32_t, float, std::string, std::vector<bool>, std::vector<std::int32_t>, std::vector<std::string>>;
using GgufMetadata = std::vector<std::pair<std::string, GgufWrittenValue>>; // in the order of the file

struct GgufTensorToWrite {
    std::string name;
    GgufType type;                   // F32, F16, BF16 or Q8_0
    std::vector<std::int64_t> shape; // outermost first, as torch has it; the last is a row, of whole blocks
};

// `elements` values in a type that is written, a whole number of its blocks, appended to `out`; true where each of them decodes to what it was.
// Rounding: to nearest even in 16 bits; Q8_0 has d = max|x| / 127 a block of 32, stored as f16, and round(x / d), halves away from zero (ggml's
// quantize_row_q8_0_ref). Unsupported where a value is not finite or a type of f16 range can't hold it.
bool encodeGguf(GgufType type, const float* values, std::size_t elements, std::vector<std::byte>& out);

class GgufWriter {
public:
    // Names, types and shapes are fixed first, then the data follows in that order. Failure{Internal} where they are not valid, Io and Disk.
    GgufWriter(const std::filesystem::path& file, const GgufMetadata& metadata, std::vector<GgufTensorToWrite> tensors);
    // Row-major, whole or piece by piece (of whole blocks). Returns whether every value is stored bit for bit; Unsupported naming the tensor as
    // encodeGguf.
    bool write(const std::string& name, const float* values, std::size_t elements);
    void finish(); // sync and rename; Internal if a tensor is missing

private:
    [[noreturn]] void misuse(const std::string& what) const;

    PartialFile m_file;
    std::vector<GgufTensorToWrite> m_tensors;
    std::size_t m_next = 0, m_written = 0; // the tensor that write expects, and its elements that came already
};

} // namespace linnet::core
