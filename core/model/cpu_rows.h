// Passes over rows of float32 on the CPU, fused where torch would need several operators. For inference: no autograd.
#pragma once

#include "core/torch_pch.h"

namespace linnet::core {

// May these passes take `t`? Dense float32 on the CPU whose gradient nobody wants.
bool plainFloat(const at::Tensor& t);

// x [.., D] -> x rsqrt(mean x^2 + eps) weight.
at::Tensor rmsNormRows(const at::Tensor& x, const at::Tensor& weight, double eps);

// Heads [firstHead, firstHead + heads) of fused [B, T, any * D], optionally normed by `norm` [D] (undefined: not), rotated by
// cos, sin [>= position + T, D] -> [B, heads, T, D].
at::Tensor rotatedHeads(const at::Tensor& fused, std::int64_t firstHead, std::int64_t heads, const at::Tensor& norm, double eps,
                        const at::Tensor& cos, const at::Tensor& sin, std::int64_t position);

} // namespace linnet::core
