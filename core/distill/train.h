// The last stage: a hybrid student's converted layers learn end to end from their teacher (method.md section 7),
//     loss = klWeight T^2 mean KL(teacher || student at temperature T) + crossEntropyWeight mean -log p(next token)
// with the full vocabulary, means over tokens (a sequence's last token has no next). Everything else is the teacher's and stays
// as it is. AdamW (0.9, 0.95) on float32 masters, one gradient clip over all layers. On a GPU the projections are rounded to
// the teacher's dtype in each pass; gates, convolutions and norms, and all on the CPU, run in float32. Same seed, device and
// memoryBytes: same bits.
#pragma once

#include "core/data/text_data.h"
#include "core/model/model.h"
#include "core/recipe/recipe.h"

namespace linnet::core {

struct DistillState {                                              // enough to go on bit for bit
    std::map<std::int64_t, LinearLayer> parameters;                // float32 masters by layer
    std::map<std::int64_t, std::vector<at::Tensor>> first, second; // AdamW moments in the order of LinearLayer::names()
    std::int64_t step = 0;                                         // finished steps
    double lossFirst = 0, lossLast = 0;
};
DistillState freshDistillState(const Mixers& student);                    // copies its linear layers
Mixers distilledMixers(const DistillState& state, const MixerSpec& spec); // the same tensors, not copies

struct DistillRow {
    std::int64_t step = 0, tokens = 0;         // counted from 0; seen after this step
    double loss = 0, kl = 0, crossEntropy = 0; // kl with its T^2; both unweighted, also where a weight is 0
    double lr = 0, gradNorm = 0;               // of all layers, before the clip
    double tokensPerSecond = 0;
};

struct DistillJob {
    const Model& teacher;
    const MixerSpec& spec;
    const DistillSettings& settings;
    std::uint64_t seed;
    const TokenWindows& training; // rows drawn by counter, each once before one comes again
    // Called after each update without gradients, e.g. to restore locked rows.
    const std::map<std::int64_t, std::function<void(LinearLayer&)>>& afterStep;
    std::uint64_t memoryBytes; // above the teacher's weights, state included; 0: no limit known. See plan.h
    const Control& control;    // checked in each block; progress as stage "distill"
    std::function<void(const DistillRow&)> onRow;
    std::function<void(const DistillState&)> save; // every 15 s, and before Cancelled leaves; a state between two steps
};

// Runs to settings.steps. The state's tensors are trained in place where they are float32 on the teacher's device already, so
// that views of them stay good; others are replaced when it begins. Throws Failure: Cancelled; Usage where nothing can be
// trained; Internal naming distill.lr and the step where loss or gradient are no longer finite, with the state before that
// step.
void distillStudent(const DistillJob& job, DistillState& state);

// Share of the learning rate in a step counted from 0: linear warm-up times constant, cosine (to 10 %), linear (to 0) or wsd
// (the last 20 % linear to 0).
double distillScheduleFactor(const DistillSettings& settings, std::int64_t step);
std::vector<std::int64_t> distillRows(std::uint64_t seed, std::int64_t step, std::int64_t batch, std::int64_t windows);

} // namespace linnet::core
