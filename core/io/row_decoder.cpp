#include "core/io/row_decoder.h"

#include "core/io/dtype_convert.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <thread>
#include <vector>

namespace linnet::core {
namespace {

constexpr std::uint64_t kChunkBytes = 1 << 20;
constexpr std::int64_t kElementsPerThread = 1 << 20; // below this a thread costs more than it saves

void readRange(const StoredRows& stored, std::int64_t first, std::int64_t last, DType dtype, std::byte* out) {
    const auto outBytes = static_cast<std::size_t>(stored.rowElements) * dtypeBytes(dtype);
    const auto rowsPerChunk = static_cast<std::int64_t>(std::max<std::uint64_t>(1, kChunkBytes / stored.rowBytes));
    const bool copy = stored.plainType == dtype;
    std::vector<std::byte> chunk(
        copy && !stored.place ? 0 : static_cast<std::size_t>(std::min(rowsPerChunk, last - first)) * stored.rowBytes);
    std::vector<float> values(copy || dtype == DType::F32 ? 0 : static_cast<std::size_t>(stored.rowElements));
    for (std::int64_t row = first; row < last;) {
        const auto count = std::min(rowsPerChunk, last - row);
        const auto offset = stored.offset + static_cast<std::uint64_t>(row) * stored.rowBytes;
        const auto bytes = static_cast<std::size_t>(count) * stored.rowBytes;
        const bool straight = copy && !stored.place;
        stored.file.copy(offset, bytes, straight ? out + static_cast<std::size_t>(row) * outBytes : chunk.data());
        stored.file.release(offset, bytes);
        const std::byte* in = chunk.data();
        for (const auto end = row + count; row < end; ++row, in += stored.rowBytes) {
            if (straight)
                continue;
            std::byte* target = out + static_cast<std::size_t>(stored.place ? stored.place(row) : row) * outBytes;
            if (copy) {
                std::memcpy(target, in, outBytes);
            } else if (dtype == DType::F32) {
                stored.decode(row, in, reinterpret_cast<float*>(target));
            } else {
                stored.decode(row, in, values.data());
                convertFloats(values.data(), values.size(), dtype, target);
            }
        }
    }
}

} // namespace

void readRows(const StoredRows& stored, DType dtype, void* out) {
    if (stored.rows == 0 || stored.rowElements == 0)
        return;
    auto* bytes = static_cast<std::byte*>(out);
    const auto wanted = std::min<std::int64_t>(stored.rows, stored.rows * stored.rowElements / kElementsPerThread);
    const auto threads =
        std::clamp<std::int64_t>(wanted, 1, std::clamp<std::int64_t>(std::thread::hardware_concurrency(), 1, 8));
    std::vector<std::exception_ptr> failures(static_cast<std::size_t>(threads));
    const auto work = [&](std::int64_t index) {
        try {
            readRange(stored, stored.rows * index / threads, stored.rows * (index + 1) / threads, dtype, bytes);
        } catch (...) {
            failures[static_cast<std::size_t>(index)] = std::current_exception();
        }
    };
    {
        std::vector<std::jthread> others;
        for (std::int64_t index = 1; index < threads; ++index)
            others.emplace_back(work, index);
        work(0);
    }
    for (const auto& failure : failures)
        if (failure)
            std::rethrow_exception(failure);
}

} // namespace linnet::core
