// Reads a matrix out of a mapped file row by row: guarded copies of about a megabyte, decoded from there, pages given back.
// Large matrices are decoded by several threads, whole rows each.
#pragma once

#include "core/io/mapped_file.h"
#include "core/io/weight_source.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace linnet::core {

struct StoredRows {
    const MappedFile& file;
    std::uint64_t offset; // of row 0; rows follow without gaps
    std::int64_t rows, rowElements;
    std::uint64_t rowBytes;
    std::optional<DType> plainType = {}; // stored as this: reading that type copies bytes
    std::function<void(std::int64_t row, const std::byte* stored, float* values)> decode = {}; // one row
    std::function<std::int64_t(std::int64_t row)> place = {}; // which row of the result a stored row is; empty: the same
};

void readRows(const StoredRows& stored, DType dtype, void* out); // out: [rows, rowElements] of dtype

} // namespace linnet::core
