#include "core/torch_pch.h"

#include "core/mixers/gated_delta_net.h"

#include "core/base/result.h"
#include "core/mixers/chunk_kernels.h"
#include "core/mixers/short_convolution.h"

namespace linnet::core {
namespace {

template <class Layer, class Visit> void visitAll(Layer& layer, const Visit& visit) {
    visit("q_proj.weight", layer.qProj);
    visit("k_proj.weight", layer.kProj);
    visit("v_proj.weight", layer.vProj);
    visit("q_conv1d.weight", layer.qConv);
    visit("k_conv1d.weight", layer.kConv);
    visit("v_conv1d.weight", layer.vConv);
    visit("a_proj.weight", layer.aProj);
    visit("b_proj.weight", layer.bProj);
    visit("g_proj.weight", layer.gProj);
    visit("A_log", layer.aLog);
    visit("dt_bias", layer.dtBias);
    visit("o_norm.weight", layer.oNorm);
    visit("o_proj.weight", layer.oProj);
}

// Gates, norms and the recurrence never run below float32.
at::Tensor wide(const at::Tensor& t) {
    return t.scalar_type() == at::kDouble ? t : t.to(at::kFloat);
}

at::Tensor project(const at::Tensor& x, const at::Tensor& weight) {
    return wide(at::linear(x.to(weight.scalar_type()), weight));
}

// The last inputs of a convolution, zeros where the sequence is younger: [B, 3, W] from past [B, 3, W] and u [B, T, W].
at::Tensor lastInputs(const at::Tensor& past, const at::Tensor& u) {
    constexpr int64_t kept = kConvTaps - 1;
    if (u.size(1) >= kept)
        return u.narrow(1, u.size(1) - kept, kept);
    const at::Tensor before = past.defined() ? past : at::zeros({u.size(0), kept, u.size(2)}, u.options());
    return at::cat({before.narrow(1, u.size(1), kept - u.size(1)), u}, 1);
}

void convolvedProjections(RecurrenceInputs& in, const MixerSpec& spec, const LinearShape& shape, const LinearLayer& layer,
                          const at::Tensor& x, LinearState* state) {
    const int64_t width = shape.heads * shape.headDim;
    const double norm = spec.qkL2Norm ? 1.0 : 0.0, qScale = 1.0 / std::sqrt(static_cast<double>(shape.headDim));
    struct Stream {
        const at::Tensor &proj, &conv;
        at::Tensor& out;
        double scale;
    };
    std::vector<at::Tensor> kept;
    for (const Stream& s : {Stream{layer.qProj, layer.qConv, in.q, norm * qScale}, Stream{layer.kProj, layer.kConv, in.k, norm},
                            Stream{layer.vProj, layer.vConv, in.v, 0.0}}) {
        const at::Tensor u = project(x, s.proj);
        at::Tensor taps, past;
        if (spec.shortConvolution) {
            taps = wide(s.conv);
            if (state && state->conv.defined())
                past = state->conv.narrow(2, static_cast<int64_t>(kept.size()) * width, width);
            if (state)
                kept.push_back(lastInputs(past, u));
        }
        s.out = shortConvolution(u, taps, past, {shape.heads, s.scale, shape.qkEps});
    }
    if (!spec.qkL2Norm)
        in.q = in.q * qScale;
    if (!kept.empty())
        state->conv = at::cat(kept, 2);
}

at::Tensor logDecay(const MixerSpec& spec, const LinearLayer& layer, const at::Tensor& x) {
    if (spec.decay == Decay::None)
        return {};
    const at::Tensor rate = -wide(layer.aLog).exp(), bias = wide(layer.dtBias);
    if (spec.decay == Decay::ConstantPerHead)
        return rate * at::softplus(bias);
    return rate * at::softplus(project(x, layer.aProj) + bias);
}

void checkInput(const LinearShape& shape, const at::Tensor& x) {
    if (x.dim() == 3 && x.size(1) > 0 && x.size(2) == shape.hidden)
        return;
    std::string found;
    for (const int64_t size : x.sizes())
        found += (found.empty() ? "" : ", ") + std::to_string(size);
    const std::string expected = "B, T >= 1, " + std::to_string(shape.hidden);
    fail(ErrorCode::Usage, "input of a linear layer has shape [" + found + "], expected [" + expected + "]",
         {{"found", found}, {"expected", expected}});
}

} // namespace

void LinearLayer::forEach(const std::function<void(const std::string&, at::Tensor&)>& visit) {
    visitAll(*this, visit);
}

void LinearLayer::forEach(const std::function<void(const std::string&, const at::Tensor&)>& visit) const {
    visitAll(*this, visit);
}

std::vector<std::string> LinearLayer::names() {
    std::vector<std::string> all;
    const LinearLayer none;
    visitAll(none, [&](const char* name, const at::Tensor&) { all.emplace_back(name); });
    return all;
}

LinearLayer mapped(const LinearLayer& layer, const std::function<at::Tensor(const std::string&, const at::Tensor&)>& fn) {
    LinearLayer result = layer;
    visitAll(result, [&](const char* name, at::Tensor& tensor) {
        if (tensor.defined())
            tensor = fn(name, tensor);
    });
    return result;
}

LinearLayer mapped(const LinearLayer& layer, const std::function<at::Tensor(const at::Tensor&)>& fn) {
    return mapped(layer, [&](const std::string&, const at::Tensor& tensor) { return fn(tensor); });
}

Readout linearReadout(const MixerSpec& spec, const LinearShape& shape, const LinearLayer& layer, const at::Tensor& x,
                      LinearState* state, int64_t chunk, std::optional<at::ScalarType> ruleType) {
    checkInput(shape, x);
    RecurrenceInputs in;
    convolvedProjections(in, spec, shape, layer, x, state);
    in.logDecay = logDecay(spec, layer, x);
    if (spec.write != WriteGate::One)
        in.write = project(x, layer.bProj).sigmoid();
    if (state)
        in.state = state->recurrent;
    // A layer in 16 bits on a GPU: the kernels take 16-bit q, k and v and keep gates and state in float32.
    RecurrenceInputs narrow = in;
    for (at::Tensor* t : {&narrow.q, &narrow.k, &narrow.v})
        *t = t->is_cuda() && layer.qProj.scalar_type() != at::kDouble ? t->to(ruleType.value_or(layer.qProj.scalar_type())) : *t;
    const bool kernels = chunkKernelsTake(spec, narrow);
    const bool oneToken = x.size(1) == 1 && spec.decay != Decay::ChannelPerToken && spec.normaliser == Normaliser::None;
    RecurrenceOutputs out = oneToken ? step(spec, kernels ? narrow : in) : chunkwise(spec, kernels ? narrow : in, chunk);
    if (state)
        state->recurrent = out.state;
    out.o = wide(out.o);
    const at::Tensor size = out.o.square().mean(-1, true);
    return {out.o, out.o * (size + shape.normEps).rsqrt() * wide(layer.oNorm)};
}

at::Tensor outputGate(const LinearLayer& layer, const at::Tensor& x) {
    return at::silu(project(x, layer.gProj));
}

at::Tensor linearOutput(const LinearLayer& layer, const at::Tensor& normed, const at::Tensor& gate) {
    at::Tensor flat = normed.flatten(2);
    if (gate.defined())
        flat = flat * gate;
    return at::linear(flat.to(layer.oProj.scalar_type()), layer.oProj);
}

at::Tensor linearForward(const MixerSpec& spec, const LinearShape& shape, const LinearLayer& layer, const at::Tensor& x,
                         LinearState* state, int64_t chunk) {
    const at::Tensor normed = linearReadout(spec, shape, layer, x, state, chunk).normed;
    const at::Tensor gate = spec.outputGate ? outputGate(layer, x) : at::Tensor();
    return linearOutput(layer, normed, gate).to(x.scalar_type());
}

} // namespace linnet::core
