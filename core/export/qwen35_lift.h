// Softmax heads as Qwen3.5 stores them, lifted (core/io/head_lift.h has the arithmetic) or as they are (noLift). d = lift.headDim and
// d' = lift.padded; weights are [rows, hidden], biases [rows]; all in the given tensor's type and on its device.
#pragma once

#include "core/torch_pch.h"

#include "core/io/head_lift.h"

namespace linnet::core {

// [n d, ..] -> [n d', ..]: rows of zeros after each head.
at::Tensor paddedHeads(const at::Tensor& rows, const HeadLift& lift);
// The same -> [n 2 d', ..]: after each head's queries the rows of its output gate, zeros; a gate of zero lets half pass.
at::Tensor gatedHeads(const at::Tensor& rows, const HeadLift& lift);
// o_proj [hidden, H d] -> [hidden, H d'] with columns of zeros, doubled for that half.
at::Tensor outputOfHeads(const at::Tensor& output, const HeadLift& lift);
// Bias [n d] -> [n d'] with `pads` in each head's dims from d on.
at::Tensor biasWithPads(const at::Tensor& bias, const std::vector<double>& pads, const HeadLift& lift);
// 1 + w [d'] float64 of q_norm and k_norm of a lifted layer: the scale on real dims, 0 on the others.
at::Tensor liftedNorm(const HeadLift& lift);

} // namespace linnet::core
