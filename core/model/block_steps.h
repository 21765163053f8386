// One block that goes on from a cache: what mixerOutput and runBlock do, at a place in a longer sequence.
#pragma once

#include "core/model/cache.h"

namespace linnet::core {

struct StepPlace {
    Cache* cache = nullptr; // nullptr: x is a whole sequence
    std::int64_t layer = 0;
    bool mayOverwrite = false; // hidden belongs to the step: a GPU adds into it
};

at::Tensor mixerStep(const Model& model, const LayerWeights& layer, const Mixer* mixer, const at::Tensor& x, const StepPlace& place);
at::Tensor blockStep(const Model& model, const LayerWeights& layer, const Mixer* mixer, const at::Tensor& hidden,
                     const StepPlace& place);

} // namespace linnet::core
