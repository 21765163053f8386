// All parameters of a layer in one row of float32, several layers in one matrix: moments, gradients, clipping and update are then
// single passes, and the five projections of x one matrix product.
//     q, k, v rows | gate, a, b rows, zeros up to a multiple of 8 | taps of q, k, v | A_log | dt_bias || o_norm | o_proj
// Parts start at multiples of 8 floats, the row ends at a multiple of 64; what lies between is zero and stays so.
#pragma once

#include "core/mixers/gated_delta_net.h"

namespace linnet::core {

struct PackedLayout {
    explicit PackedLayout(const LinearShape& shape);

    std::int64_t heads, headDim, hidden;
    std::int64_t width;      // heads headDim
    std::int64_t rows;       // of the joined projection
    std::int64_t aRow, bRow; // first of the a and b rows
    std::int64_t taps, aLog, dtBias, oNorm, oProj, total; // offsets in floats
    std::int64_t firstCount() const { return 3 * width * hidden; }  // q, k, v: align.lr; the others: align.lr_new
    std::int64_t trainedCount(bool output) const { return output ? total : oNorm; }

    // Of all layers at once, for `packed` [L, total]:
    at::Tensor inputs(const at::Tensor& packed) const { return part(packed, 0, {rows, hidden}); }          // [L, rows, hidden]
    at::Tensor outputs(const at::Tensor& packed) const { return part(packed, oProj, {hidden, width}); }    // [L, hidden, width]
    at::Tensor part(const at::Tensor& packed, std::int64_t offset, std::vector<std::int64_t> sizes) const;

    LinearLayer views(const at::Tensor& row) const;             // of one row [total], live
    void write(const at::Tensor& row, const LinearLayer& layer) const;
    LinearLayer read(const at::Tensor& row, at::Device device) const; // views of one copy
};

} // namespace linnet::core
