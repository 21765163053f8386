// The choice of a token from logits: greedy, or by temperature, top-k and top-p with a seed of its own.
#pragma once

#include "core/model/model_api.h"

#include <random>

namespace linnet::core {

class Sampler {
public:
    explicit Sampler(const GenerateOptions& options) : m_options(options), m_random(options.seed) {}

    // Greedy: the largest, the first of equals. Otherwise logits / temperature, then the top-k largest (ties of the k-th stay),
    // then the fewest whose probability reaches top-p, then one draw: Hugging Face's order. Not-a-number logits throw Internal.
    std::int64_t pick(const float* logits, std::int64_t count);

private:
    GenerateOptions m_options;
    std::mt19937_64 m_random;
};

} // namespace linnet::core
