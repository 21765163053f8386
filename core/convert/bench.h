// Speed of pieces on this machine, with the floor that the hardware sets: what `bench` prints.
#pragma once

#include "core/base/control.h"

#include <string>
#include <vector>

namespace linnet::core {

struct BenchmarkRow {
    std::string operation, shape;
    double milliseconds = 0, flop = 0, bytes = 0;
    double shareOfFloor = 0; // speed / that of a large float32 product on the same device
};
// operation: matmul | attention_statistics | gated_delta_rule | alignment_step; "" = all. Throws Failure{Usage}.
std::vector<BenchmarkRow> benchmark(const std::string& operation, const std::string& device, const Control& control);

} // namespace linnet::core
