// The non-linearities that the kernels fuse: decay and write strength from the raw projections.
#pragma once

#include "../cuda/device.h"

#include <type_traits>

namespace linnet::kernels::gdr {

constexpr float kLog2E = 1.4426950408889634F;
// What beta is raised to: dbeta = dX . V' / beta, and V' is proportional to beta, so a tiny one is as exact as any, unless V' falls below
// the smallest normal float16 on its way.
template <class T> __device__ inline float smallestBeta() { return std::is_same_v<T, Float16> ? 0x1p-14F : 1e-12F; }
// Log decay of one token, in log2 units, from here on counts as a reset: exp2(-160) is 0 in float32. Without the bound -inf would make
// (-inf) - (-inf), and one token of -1e4 would cost the differences of all later sums of the chunk their digits.
constexpr float kStrongestDecay = -160.0F;

__device__ inline float softplus(float x) { return x > 20.0F ? x : log1pf(expf(x)); }

// Log decay of a token in log2 units; aLog and dtBias may be null (GatedDeltaRuleParams). A NaN stays one.
__device__ inline float logDecay(float raw, const float* aLog, const float* dtBias, int head) {
    const float g = kLog2E * (aLog ? -expf(aLog[head]) * softplus(dtBias ? raw + dtBias[head] : raw) : raw);
    return g < kStrongestDecay ? kStrongestDecay : g;
}

__device__ inline float writeStrength(float raw, bool isLogit) { return isLogit ? 1.0F / (1.0F + expf(-raw)) : raw; }

} // namespace linnet::kernels::gdr
