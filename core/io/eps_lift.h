// The lift: softmax layers of a teacher without QK-norm (Llama, Qwen2, SmolLM2) in a class that norms q and k over each head (Qwen3.5; llama.cpp's
// qwen35), the norm made a constant by its own eps. RMSNorm is q / sqrt(mean(q^2) + eps) w. Where mean(q^2) < 2^-24 eps for every input that there
// can be, the root is sqrt(eps) to float32's last bit; so rows of q and k are stored times a power of two, 2^-k, that small, and
// w = sqrt(eps) 2^k gives q back. Heads keep their size, and no bias is needed.
// - A power of two costs no digit where exponents have 8 bits (float32, bfloat16): typical q become 1e-8, their squares 1e-16. float16 ends at 6e-8.
// - bfloat16 rounds w by 2^-8 at most (5e-4 at eps = 1e-6, 1e-3 at 1e-5). Below 2^-9 a class that rounds the norm's result to bfloat16, as
//   transformers does, finds q's own digits again; a kernel that norms and turns in one go has scores that much off, below its own noise.
// Plain numbers in float32, row-major.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace linnet::core {

struct HeadRows {
    std::span<const float> rows;      // [heads headDim, hidden], reading RMSNorm(h) * inputNorm
    std::span<const float> bias;      // [heads headDim], or empty
    std::span<const float> inputNorm; // [hidden]
    std::size_t headDim = 0;
};
// The largest mean(q^2) of a head that any h gives, from above: RMSNorm(h) is no longer than sqrt(hidden).
double largestMeanSquare(const HeadRows& heads);

int epsLiftShift(double meanSquare, double eps);   // k; Failure{Malformed} where `meanSquare` is no finite number
double epsLiftNorm(int shift, double eps);         // w: the same in every dim
// k of a norm's w as it was stored in float32, or less one in bfloat16; nothing where it is no such norm.
std::optional<int> epsLiftShiftOf(std::span<const float> norm, double eps);

} // namespace linnet::core
