// The lift: softmax layers of a teacher without QK-norm (Llama, Qwen2, SmolLM2) in a class that always norms q and k over head_dim
// (Qwen3.5). Plain numbers; core/export/qwen35_lift makes tensors of them, core/io/qwen35_source takes them back.
//
// A head of d dims becomes one of d' > d; the projection's bias fills dims from d on with constants (pads), its weights are zero there.
// The class computes, with sum = that of the pads' squares,
//     norm(q) = q (1 + w) / sqrt((|q|^2 + sum) / d' + eps)  ->  q (1 + w) sqrt(d' / sum)   where sum is far above |q|^2,
// with 1 + w = 0 on the pads, so that they add nothing to a score, and 1 + w = s on the real dims. Scores are scaled by d'^-1/2 there and by
// d^-1/2 in the teacher, hence q is to come out times sqrt(d' / d) and k as it is:
//     queries: sum = d s^2,   keys: sum = d' s^2.
// With s a power of two and the pads s times whole numbers (each number is a sum of at most four squares) all of it is exact in float32
// and bfloat16. What is left out is |q|^2 / (2 sum): half of (root mean square of the head's q / s)^2, 5e-11 at s = 2^20 and a mean square of 100.
// In 16 bits q is rounded once more, after the factor sqrt(d' / d).
// RoPE turns the first d dims only: partial_rotary_factor = d / d'. v is padded with zeros, o_proj with columns of zeros.
#pragma once

#include <cstdint>
#include <vector>

namespace linnet::core {

struct HeadLift {
    std::int64_t headDim = 0, padded = 0;   // d, d'; equal: no lift
    std::vector<double> queryPads, keyPads; // of dims d, d + 1, ..; the dims after them are 0
    double scale = 1;                       // s
    bool lifted() const { return padded != headDim; }
    double rotaryPart() const; // the smallest double f >= d / d' of which int(d' f) is d, as every runtime computes it
};

// d' for a head of `headDim` (even): the next multiple of 32 with room for the pads, a size that attention kernels are made for.
std::int64_t liftedHeadDim(std::int64_t headDim);
// `half`: constants that float16 can hold (s = 2^11); else s = 2^20.
HeadLift headLift(std::int64_t headDim, bool half);
HeadLift noLift(std::int64_t headDim);

} // namespace linnet::core
