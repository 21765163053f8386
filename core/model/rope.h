// Rotary position embedding (arXiv 2104.09864) with Hugging Face's conventions: the two halves of a head are rotated together,
// scalings default, linear, llama3 (as formula or as GGUF's divisors).
#pragma once

#include "core/torch_pch.h"

#include "core/io/model_config.h"

namespace linnet::core {

at::Tensor inverseFrequencies(const ModelConfig& config); // [D / 2] float32 on the CPU

struct RopeTables {
    at::Tensor cos, sin; // [length, D] float32 on the CPU, second half equal to the first
};
// Position times frequency is rounded to float32 before the cosine, as Hugging Face does: at position 8000 that is a difference
// of 1e-4 from the exact angle, and it is what the teachers were trained with.
RopeTables ropeTables(const ModelConfig& config, std::int64_t length);

// x [.., T, D] rotated by tables [T, D]; tables are rounded to x's dtype first. Differentiable in x.
at::Tensor applyRope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

} // namespace linnet::core
