// Speed of pieces on this machine, with the floor that the hardware sets: what `bench` prints.
#pragma once

#include "core/base/control.h"

#include <string>
#include <vector>

namespace linnet::core {

struct BenchmarkRow {
    std::string operation, shape;
    double milliseconds = 0, flop = 0, bytes = 0;
    // Our CUDA kernels: the larger of flop / the rate of a large bf16 product and bytes / the rate of a large copy, over the time.
    // Everything else: speed / that of a large float32 product. All rates are measured, on the same device.
    double shareOfFloor = 0;
};
// operation: matmul | attention_statistics | gated_delta_rule | alignment_step; "" = all. Throws Failure{Usage}.
std::vector<BenchmarkRow> benchmark(const std::string& operation, const std::string& device, const Control& control);

} // namespace linnet::core
