#include "core/torch_pch.h"

#include "core/model/model.h"

#include "core/model/attention.h"
#include "core/model/block_steps.h"
#include "core/model/cpu_rows.h"
#include "core/model/gpu_rows.h"
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

// SiLU(gate) up of the normed hidden states: what the MLP projects down. [B, T, I]
at::Tensor gatedInner(const Model& model, const LayerWeights& layer, const at::Tensor& hidden) {
    const at::Tensor x = rmsNorm(hidden, layer.postNorm, model.config().rmsNormEps);
    const std::int64_t width = model.config().intermediateSize;
    const at::Tensor gateUp = at::linear(x, layer.gateUp, layer.gateUpBias);
    at::Tensor gate = gateUp.narrow(-1, 0, width);
    const at::Tensor up = gateUp.narrow(-1, width, width);
    return wantsGradient(gateUp) ? at::silu(gate) * up : at::silu_(gate).mul_(up);
}

// hidden + MLP(norm(hidden)).
at::Tensor withFeedForward(const Model& model, const LayerWeights& layer, const at::Tensor& hidden, bool mayOverwrite) {
    if (!onGpuForInference(hidden))
        return plus(feedForward(model, layer, hidden), hidden);
    return projectedOnto(hidden, gatedInner(model, layer, hidden), layer.down, layer.downBias, mayOverwrite);
}

// A V of softmax attention or of its sliding window, before W_O. [B, T, H D]
at::Tensor attendedHeads(const Model& model, const LayerWeights& layer, const Mixer* window, const at::Tensor& x, const StepPlace& place) {
    Visibility visible;
    visible.queryStart = place.cache ? place.cache->length() : 0;
    if (window) {
        visible.window = window->window;
        visible.sinks = window->sinks;
    }
    QueryKeyValue qkv = queryKeyValue(model, layer, x, visible.queryStart);
    if (place.cache) {
        const Cache::KeysValues all = place.cache->append(place.layer, qkv.k, qkv.v, visible.window, visible.sinks);
        qkv.k = all.k;
        qkv.v = all.v;
        visible.dropped = all.dropped;
    }
    return attend(qkv.q, qkv.k, qkv.v, visible);
}

} // namespace

at::Tensor rmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps) {
    if (plainFloat(x) && plainFloat(weight))
        return rmsNormRows(x, weight, eps);
    if (x.is_cuda() && x.scalar_type() == weight.scalar_type())
        return rmsNormFused(x, weight, eps);
    const at::Tensor wide = x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
    const at::Tensor normed = wide * (wide.square().mean(-1, true) + eps).rsqrt();
    return weight * normed.to(x.scalar_type());
}

QueryKeyValue queryKeyValue(const Model& model, const LayerWeights& layer, const at::Tensor& x, std::int64_t position) {
    const ModelConfig& c = model.config();
    const AttentionWeights& a = layer.attention;
    const std::int64_t tokens = x.size(1);
    const at::Tensor fused = fusedProjection(layer, x);
    const auto heads = [&](std::int64_t first, std::int64_t count) {
        return fused.narrow(2, first * c.headDim, count * c.headDim).unflatten(2, {count, c.headDim});
    };
    const at::Tensor v = heads(c.heads + c.kvHeads, c.kvHeads).transpose(1, 2);
    const auto normed = [&](const at::Tensor& h, const at::Tensor& norm) { return norm.defined() ? rmsNorm(h, norm, c.rmsNormEps) : h; };
    if (onGpuForInference(fused) && fused.scalar_type() == model.dtype()) {
        const auto [cos, sin] = model.ropeRounded(position + tokens);
        const auto rotated = [&, cos = cos.narrow(0, position, tokens), sin = sin.narrow(0, position, tokens)](const at::Tensor& h) {
            return rotatedRows(h, cos, sin);
        };
        if (c.qkNorm)
            return {rotated(normed(heads(0, c.heads), a.qNorm)).transpose(1, 2),
                    rotated(normed(heads(c.heads, c.kvHeads), a.kNorm)).transpose(1, 2), v};
        const at::Tensor both = rotated(heads(0, c.heads + c.kvHeads));
        return {both.narrow(2, 0, c.heads).transpose(1, 2), both.narrow(2, c.heads, c.kvHeads).transpose(1, 2), v};
    }
    const at::Tensor cos = model.ropeCos(position + tokens), sin = model.ropeSin(position + tokens);
    const bool plainNorms = !c.qkNorm || (plainFloat(a.qNorm) && plainFloat(a.kNorm));
    if (plainFloat(fused) && plainNorms)
        return {rotatedHeads(fused, 0, c.heads, a.qNorm, c.rmsNormEps, cos, sin, position),
                rotatedHeads(fused, c.heads, c.kvHeads, a.kNorm, c.rmsNormEps, cos, sin, position), v};
    const auto rotated = [&](const at::Tensor& h) {
        return applyRope(h.transpose(1, 2), cos.narrow(0, position, tokens), sin.narrow(0, position, tokens));
    };
    return {rotated(normed(heads(0, c.heads), a.qNorm)), rotated(normed(heads(c.heads, c.kvHeads), a.kNorm)), v};
}

at::Tensor headOutputs(const Model& model, const LayerWeights& layer, const at::Tensor& x) {
    const QueryKeyValue qkv = queryKeyValue(model, layer, x);
    return attend(qkv.q, qkv.k, qkv.v, {});
}

at::Tensor outputProjection(const LayerWeights& layer, const at::Tensor& heads) {
    return at::linear(heads, layer.attention.o, layer.attention.oBias);
}

at::Tensor feedForward(const Model& model, const LayerWeights& layer, const at::Tensor& hidden) {
    return at::linear(gatedInner(model, layer, hidden), layer.down, layer.downBias);
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
        return linearForward(*mixer->spec, model.linearShape(*mixer), mixer->linear, x, state);
    }
    return outputProjection(layer, attendedHeads(model, layer, mixer, x, place));
}

at::Tensor blockStep(const Model& model, const LayerWeights& layer, const Mixer* mixer, const at::Tensor& hidden,
                     const StepPlace& place) {
    if (mixer && mixer->kind == Mixer::Kind::Bypass)
        return withFeedForward(model, layer, hidden, place.mayOverwrite);
    const at::Tensor x = attentionInput(model, layer, hidden);
    const bool softmax = !mixer || mixer->kind == Mixer::Kind::SlidingWindow;
    const at::Tensor mixed = softmax && onGpuForInference(hidden)
                                 ? projectedOnto(hidden, attendedHeads(model, layer, mixer, x, place), layer.attention.o,
                                                 layer.attention.oBias, place.mayOverwrite)
                                 : plus(mixerStep(model, layer, mixer, x, place), hidden);
    return withFeedForward(model, layer, mixed, true);
}

} // namespace linnet::core
