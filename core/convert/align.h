// Stage 2: one layer's mixer learns to give the teacher's attention output for the teacher's inputs (method.md section 5).
// With loss kl_metric everything below is in the metric (output_metric.h): o_proj of a state is M o_proj, losses are |M e|^2 / hidden. What
// alignLayer takes at first and returns is an ordinary layer.
#pragma once

#include "core/convert/calibration.h"
#include "core/convert/convert.h"
#include "core/convert/output_metric.h"

namespace linnet::core {

// Everything that a later step depends on: enough to go on bit for bit. Whether align.early_stop has stopped the layer follows from step
// and bestStep (hasStopped).
struct AlignState {
    LinearLayer parameters;    // float32 masters
    std::vector<at::Tensor> first, second; // AdamW moments in the order of LinearLayer::names()
    at::Tensor lockNorms;      // AlignLocks::norms(); undefined at the start and where nothing is locked
    std::int64_t step = 0;     // finished steps
    LinearLayer best;          // the state whose held-out loss was measured lowest
    std::int64_t bestStep = -1;
    double bestLoss = 0;
    double lossFirst = 0, lossLast = 0;
};
AlignState freshAlignState(LinearLayer start);

struct AlignJob {
    const Model& teacher;
    std::int64_t layer;
    const Recipe& recipe;
    const at::Tensor& x;      // [N, T, hidden]
    const at::Tensor& target; // [N, T, hidden]
    std::function<void(const MetricRow&)> onMetric;
    std::function<void(const AlignState&)> save;                  // called at times, and before Cancelled leaves
    std::function<void(std::int64_t step, double loss)> onStep;   // for progress; may throw Cancelled
    const OutputMetric* metric = nullptr;                         // of the layer, for loss kl_metric
};

// Runs to recipe.align.steps, or until align.early_stop measurements were no gain, and returns the best measured layer. The step of the
// measurement that stops a layer is its last.
LinearLayer alignLayer(const AlignJob& job, AlignState& state);

} // namespace linnet::core
