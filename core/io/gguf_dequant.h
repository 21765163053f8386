// GGUF's block formats to float32, value for value what gguf-py's dequantize gives (same operations in the same order).
// Layouts: ggml-common.h; formats section "GGUF v2/v3".
#pragma once

#include "core/io/gguf_reader.h"
#include "core/io/weight_source.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace linnet::core {

// `elements` is a multiple of the type's block; stored bytes need no alignment. Only for types marked decodable.
void dequantize(GgufType type, const std::byte* stored, std::int64_t elements, float* out);

std::optional<DType> plainDType(GgufType type); // of F32, F16 and BF16

// Decodes a whole tensor of a file, row-major [rows, rowElements]; `placeRow` gives the row that a stored row becomes.
// Failure{Unsupported} names a type that can't be decoded.
void readGgufTensor(const GgufFile& file, const GgufTensor& tensor, DType dtype, void* out,
                    std::function<std::int64_t(std::int64_t)> placeRow = {});

} // namespace linnet::core
