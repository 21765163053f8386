// Softmax layers without QK-norm in a class that has one: the norm made a constant by its own eps. RMSNorm is q / sqrt(mean(q^2) + eps) w. Where
// mean(q^2) < 2^-24 eps for every input that there can be, the root is sqrt(eps) to float32's last bit; so rows of q and k are stored times a
// power of two, 2^-k, that small, and w = sqrt(eps) 2^k gives q back. Heads keep their size; a power of two costs no digit where exponents have
// 8 bits (float32, bfloat16; not float16 and what scales by it).
#pragma once

#include "core/torch_pch.h"

namespace linnet::core {

// k for heads of `headDim` rows: rows [n headDim, hidden] and their bias [n headDim] (or undefined) read RMSNorm(h) * inputNorm [hidden], whose
// length without inputNorm is at most sqrt(hidden).
int epsLiftShift(const at::Tensor& rows, const at::Tensor& bias, const at::Tensor& inputNorm, std::int64_t headDim, double eps);
double epsLiftNorm(int shift, double eps); // w: the same in every dim

} // namespace linnet::core
