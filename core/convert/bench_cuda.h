// The rows of `bench` that only a GPU has: its ceilings and our CUDA kernels against them.
#pragma once

#include "core/convert/bench.h"
#include "core/model/device.h"

namespace linnet::core {

// Milliseconds of one call, by CUDA events around calls that are queued back to back: the median of ten groups, after a
// warm-up. A group holds as many calls as fill about 5 ms, so that the queue never runs dry; calls too short for the host to
// keep up show the time of their launch.
double deviceMilliseconds(const at::Device& device, const std::function<void()>& call, const Control& control);

// What the device reaches: a large bf16 product, and a large copy with the bytes read and written counted.
struct Ceilings {
    BenchmarkRow product, copy;
    double floor(double flop, double bytes) const; // milliseconds
};
Ceilings measureCeilings(const at::Device& device, const Control& control);

// Floating-point operations of the rule's chunk form (64 tokens) for `rows` tokens x heads: full tiles, no masks.
constexpr double ruleForwardFlop(std::int64_t rows, std::int64_t headDim) {
    const double C = 64, D = static_cast<double>(headDim);
    return 2.0 * static_cast<double>(rows) * (5 * C * D + C * C / 3 + 3 * D * D);
}

std::vector<BenchmarkRow> cudaStatisticsRows(const at::Device& device, const Ceilings& ceilings, const Control& control);
std::vector<BenchmarkRow> cudaRuleRows(const at::Device& device, const Ceilings& ceilings,
                                       const Control& control); // forward, + backward, step

} // namespace linnet::core
