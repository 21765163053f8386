#include "core/torch_pch.h"

#include "core/model/model.h"

#include "core/model/attention.h"
#include "core/model/block_steps.h"
#include "core/model/cpu_rows.h"
#include "core/model/rope.h"

namespace linnet::core {
namespace {

bool wantsGradient(const at::Tensor& t) {
    return at::GradMode::is_enabled() && t.requires_grad();
}

// `fresh` belongs to the caller alone, so inference adds in place.
at::Tensor plus(at::Tensor fresh, const at::Tensor& other) {
    return at::GradMode::is_enabled() ? other + fresh : fresh.add_(other);
}

at::Tensor fusedProjection(const LayerWeights& layer, const at::Tensor& x) {
    return at::linear(x, layer.attention.qkv, layer.attention.qkvBias);
}

} // namespace

at::Tensor rmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps) {
    if (plainFloat(x) && plainFloat(weight))
        return rmsNormRows(x, weight, eps);
    const at::Tensor wide = x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
    const at::Tensor normed = wide * (wide.square().mean(-1, true) + eps).rsqrt();
    return weight * normed.to(x.scalar_type());
}

QueryKeyValue queryKeyValue(const Model& model, const LayerWeights& layer, const at::Tensor& x, std::int64_t position) {
    const ModelConfig& c = model.config();
    const AttentionWeights& a = layer.attention;
    const std::int64_t tokens = x.size(1);
    const at::Tensor fused = fusedProjection(layer, x), cos = model.ropeCos(position + tokens), sin = model.ropeSin(position + tokens);
    const auto heads = [&](std::int64_t first, std::int64_t count) {
        return fused.narrow(2, first * c.headDim, count * c.headDim).unflatten(2, {count, c.headDim});
    };
    const at::Tensor v = heads(c.heads + c.kvHeads, c.kvHeads).transpose(1, 2);
    const bool plainNorms = !c.qkNorm || (plainFloat(a.qNorm) && plainFloat(a.kNorm));
    if (plainFloat(fused) && plainNorms)
        return {rotatedHeads(fused, 0, c.heads, a.qNorm, c.rmsNormEps, cos, sin, position),
                rotatedHeads(fused, c.heads, c.kvHeads, a.kNorm, c.rmsNormEps, cos, sin, position), v};
    const auto rotated = [&](std::int64_t first, std::int64_t count, const at::Tensor& norm) {
        at::Tensor h = heads(first, count);
        if (norm.defined())
            h = rmsNorm(h, norm, c.rmsNormEps);
        return applyRope(h.transpose(1, 2), cos.narrow(0, position, tokens), sin.narrow(0, position, tokens));
    };
    return {rotated(0, c.heads, a.qNorm), rotated(c.heads, c.kvHeads, a.kNorm), v};
}

at::Tensor headOutputs(const Model& model, const LayerWeights& layer, const at::Tensor& x) {
    const QueryKeyValue qkv = queryKeyValue(model, layer, x);
    return attend(qkv.q, qkv.k, qkv.v, {});
}

at::Tensor outputProjection(const LayerWeights& layer, const at::Tensor& heads) {
    return at::linear(heads, layer.attention.o, layer.attention.oBias);
}

at::Tensor feedForward(const Model& model, const LayerWeights& layer, const at::Tensor& hidden) {
    const at::Tensor x = rmsNorm(hidden, layer.postNorm, model.config().rmsNormEps);
    const std::int64_t width = model.config().intermediateSize;
    const at::Tensor gateUp = at::linear(x, layer.gateUp, layer.gateUpBias);
    at::Tensor gate = gateUp.narrow(-1, 0, width);
    const at::Tensor up = gateUp.narrow(-1, width, width);
    gate = wantsGradient(gateUp) ? at::silu(gate) * up : at::silu_(gate).mul_(up);
    return at::linear(gate, layer.down, layer.downBias);
}

at::Tensor attentionInput(const Model& model, const LayerWeights& layer, const at::Tensor& hidden) {
    return rmsNorm(hidden, layer.inputNorm, model.config().rmsNormEps);
}

at::Tensor mixerOutput(const Model& model, const LayerWeights& layer, const Mixer* mixer, const at::Tensor& x) {
    return mixerStep(model, layer, mixer, x, {});
}

at::Tensor runBlock(const Model& model, const LayerWeights& layer, const Mixer* mixer, const at::Tensor& hidden) {
    return blockStep(model, layer, mixer, hidden, {});
}

at::Tensor mixerStep(const Model& model, const LayerWeights& layer, const Mixer* mixer, const at::Tensor& x, const StepPlace& place) {
    if (mixer && mixer->kind == Mixer::Kind::Bypass)
        return at::zeros_like(x);
    if (mixer && mixer->kind == Mixer::Kind::Linear) {
        LinearState* state = place.cache ? &place.cache->linear(place.layer) : nullptr;
        return linearForward(*mixer->spec, model.linearShape(), mixer->linear, x, state);
    }
    Visibility visible;
    visible.queryStart = place.cache ? place.cache->length() : 0;
    if (mixer) {
        visible.window = mixer->window;
        visible.sinks = mixer->sinks;
    }
    QueryKeyValue qkv = queryKeyValue(model, layer, x, visible.queryStart);
    if (place.cache) {
        const Cache::KeysValues all = place.cache->append(place.layer, qkv.k, qkv.v, visible.window, visible.sinks);
        qkv.k = all.k;
        qkv.v = all.v;
        visible.dropped = all.dropped;
    }
    return outputProjection(layer, attend(qkv.q, qkv.k, qkv.v, visible));
}

at::Tensor blockStep(const Model& model, const LayerWeights& layer, const Mixer* mixer, const at::Tensor& hidden,
                     const StepPlace& place) {
    if (mixer && mixer->kind == Mixer::Kind::Bypass)
        return plus(feedForward(model, layer, hidden), hidden);
    const at::Tensor mixed = plus(mixerStep(model, layer, mixer, attentionInput(model, layer, hidden), place), hidden);
    return plus(feedForward(model, layer, mixed), mixed);
}

} // namespace linnet::core
