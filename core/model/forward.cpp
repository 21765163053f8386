#include "core/torch_pch.h"

#include "core/model/model.h"

#include "core/model/block_steps.h"

namespace linnet::core {

const Mixer* mixerAt(const Mixers& mixers, std::int64_t layer) {
    const auto found = mixers.find(layer);
    return found == mixers.end() ? nullptr : &found->second;
}

const Mixer* mixerAt(const Model& model, const Mixers& mixers, std::int64_t layer) {
    const Mixer* const given = mixerAt(mixers, layer);
    return given ? given : mixerAt(model.mixers(), layer);
}

at::Tensor forwardHidden(const Model& model, const Mixers& mixers, const at::Tensor& ids, const Control& control, Cache* cache) {
    at::Tensor hidden = model.embed(ids);
    for (std::int64_t layer = 0; layer < model.config().layers; ++layer) {
        control.checkpoint();
        hidden = blockStep(model, *model.layer(layer), mixerAt(model, mixers, layer), hidden, {cache, layer, true});
    }
    if (cache)
        cache->advance(ids.size(1));
    return model.finalNorm(hidden);
}

} // namespace linnet::core
