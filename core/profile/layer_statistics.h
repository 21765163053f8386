// The statistics of one softmax layer over a few sequences: what a profile adds up, and what calibration may ask for alone.
#pragma once

#include "core/model/model.h"

#include <functional>

namespace linnet::core {

// Rows of LayerStatistics::values. Each entry is one sequence's mean over its positions (method.md section 1).
enum Statistic {
    kDistance,
    kDistanceNoSink,
    kEntropy,
    kEntropyRelative,
    kSinkMass,
    kPreviousMass,
    kSelfMass,
    kPreSquare,
    kPostSquare
};
inline constexpr std::int64_t kStatisticCount = 9;

struct LayerStatistics {
    at::Tensor values;                     // float64 [kStatisticCount, B, H]; NaN where no position counts
    at::Tensor histogram, histogramNoSink; // float64 [B, H, bins], each row sums to 1
    at::Tensor heads;                      // A V before W_O [B, T, H D]
};

// `qkv` as queryKeyValue gives it, on any device and in any float type. On a GPU everything is queued there, in qkv's type, and
// the results lie there (heads in that type): nothing waits. On the CPU, and for shapes that the GPU's kernel refuses, the
// statistics are taken in float32 on the host, where the results then lie.
// kPreSquare is the mean square of A V, kPostSquare that of W_O's columns of the head applied to it (bias left out).
// `onProgress` gets the share done at least every 100 ms of the host's work and may throw, which stops the work.
LayerStatistics layerStatistics(const ModelConfig& config, const LayerWeights& layer, const QueryKeyValue& qkv,
                                int binsPerOctave, const std::function<void(double)>& onProgress = {});

} // namespace linnet::core
