// What alignment by layer and alignment by group have in common: the draws, the schedule, the held-out slice and the locks.
#pragma once

#include "core/mixers/gated_delta_net.h"
#include "core/recipe/recipe.h"

namespace linnet::core {

std::uint64_t layerSeed(const Recipe& recipe, std::int64_t layer);
// Windows of one step, drawn by counter: a resumed run draws the same.
std::vector<std::int64_t> drawBatch(std::uint64_t seed, std::int64_t step, std::int64_t batch, std::int64_t windows);
// align.warmup of the steps; where that is above 0, at least 5 steps, or half of all of them: short runs don't begin at the full rate.
std::int64_t warmupSteps(const AlignSettings& settings);
// Share of the learning rate in a step counted from 0: linear warm-up, then constant or cosine to 5 %.
double scheduleFactor(const AlignSettings& settings, std::int64_t step);
// The last windows of the calibration set, never trained on: 0 only where there is one window.
std::int64_t heldOutWindows(const AlignSettings& settings, std::int64_t windows);
// Steps from one held-out measurement to the next: 8 a run, before steps 0, measureEvery, ...
std::int64_t measureEvery(const AlignSettings& settings);
// Whether a layer that finished `steps` steps and was measured best before `bestStep` has stopped: its last align.early_stop measurements
// were no gain. Once so it stays so, since what has stopped gets no new best; and so a resumed run knows it without a state of its own.
bool hasStopped(const AlignSettings& settings, std::int64_t steps, std::int64_t bestStep);

// Rows that a locked target freezes; a locked value scale keeps the norm of its o_proj columns.
class AlignLocks {
public:
    // Keeps views of `layer`. `norms`: what norms() gave when the alignment began, so that a resumed one keeps the very same; undefined then.
    // `inverse`: M^-1 where the layer's o_proj is held as M o_proj (loss kl_metric); the norms kept are those of o_proj.
    AlignLocks(LinearLayer& layer, const Recipe& recipe, std::int64_t index, std::int64_t headDim, const at::Tensor& norms = {}, const at::Tensor& inverse = {});
    void restore() const;
    at::Tensor norms() const; // of the columns with a locked norm; undefined where there are none
    std::vector<at::Tensor> touched() const; // views of what restore() writes

private:
    void freeze(const at::Tensor& live) { m_frozen.emplace_back(live.detach(), live.detach().clone()); }
    at::Tensor normOf(const at::Tensor& columns) const { return (m_inverse.defined() ? m_inverse.matmul(columns) : columns).norm(); }
    at::Tensor m_inverse;
    std::vector<std::pair<at::Tensor, at::Tensor>> m_frozen, m_norms;
};

} // namespace linnet::core
