#include "core/torch_pch.h"

#include "core/distill/trained_block.h"

#include "core/distill/repeatable_attention.h"

namespace linnet::core {

at::ScalarType distillType(const Model& teacher) {
    return teacher.device().is_cuda() ? teacher.dtype() : at::kFloat;
}

at::Tensor convertedBlock(const Model& teacher, const LayerWeights& weights, const MixerSpec& spec, const LinearLayer& masters,
                          const at::Tensor& hidden) {
    Mixer mixer{Mixer::Kind::Linear, &spec, {}};
    mixer.linear = mapped(masters, [type = distillType(teacher)](const std::string& name, const at::Tensor& t) {
        return name.ends_with("_proj.weight") ? t.to(type) : t;
    });
    return runBlock(teacher, weights, &mixer, hidden);
}

at::Tensor keptBlock(const Model& teacher, const LayerWeights& weights, const Mixer* mixer, const at::Tensor& hidden) {
    if (mixer || !hidden.is_cuda()) // torch's attention on the CPU is repeatable as it is
        return runBlock(teacher, weights, mixer, hidden);
    const QueryKeyValue qkv = queryKeyValue(teacher, weights, attentionInput(teacher, weights, hidden));
    const at::Tensor mixed = hidden + outputProjection(weights, repeatableAttention(qkv.q, qkv.k, qkv.v));
    return mixed + feedForward(teacher, weights, mixed);
}

} // namespace linnet::core
