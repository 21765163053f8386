// What a decoder block needs between its products, in few launches: a GPU spends as long on a launch as on a small tensor. For
// inference: no autograd. Made of torch's operators, so the CPU can run (and test) them too.
#pragma once

#include "core/torch_pch.h"

namespace linnet::core {

// May these take `t`? It is on a GPU and no gradient is recorded.
bool onGpuForInference(const at::Tensor& t);

// x [.., D] -> x rsqrt(mean x^2 + eps) weight in one launch, rounded to the dtype once; differentiable.
at::Tensor rmsNormFused(const at::Tensor& x, const at::Tensor& weight, double eps);

// x [B, T, heads, D] rotated by cos, sin [T, D] of its dtype -> [B, T, heads, D], contiguous. Three launches for all heads.
at::Tensor rotatedRows(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

// residual [.., N] + x [.., K] weight [N, K]^T + bias (or undefined). The product's float32 sum takes the residual in before it is
// rounded. Overwrites `residual` where `mayOverwrite`.
at::Tensor projectedOnto(const at::Tensor& residual, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                         bool mayOverwrite);

} // namespace linnet::core
