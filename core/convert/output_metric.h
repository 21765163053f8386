// The metric of the next layers: how much an error in a layer's attention output matters for what the model predicts.
// F_l = E[g g'], g the gradient of -log p(y) of a window with respect to the layer's attention output at one token, every y drawn from
// the teacher's own prediction (Fisher information). Loss "kl_metric" is |M e|^2 / hidden with M = ((1 - s) F / mean diagonal + s I)^(1/2),
// s = 0.1. Since M o_proj z - M y = M (o_proj z - y), alignment runs as it is with o_proj and the targets multiplied by M, and o_proj
// multiplied by M^-1 afterwards; the losses that it reports are those of the metric.
#pragma once

#include "core/data/text_data.h"
#include "core/model/model.h"

namespace linnet::core {

struct OutputMetric {
    at::Tensor root, inverse; // M and M^-1 [hidden, hidden] float32 on the model's device
};
// Of all layers in one backward pass over some windows (48 of 512 tokens are enough). Deterministic in `seed`.
std::vector<OutputMetric> outputMetrics(const Model& teacher, const TokenWindows& windows, std::uint64_t seed, const Control& control);

// Windows of a calibration set that are enough, spread evenly over it: 24k tokens on a GPU, 6k on a CPU, where they take a minute.
TokenWindows metricWindows(const TokenWindows& calibration, at::Device device);

} // namespace linnet::core
