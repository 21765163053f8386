// The recurrence one token after another: the oracle of the faster forms, and the decoding step.
//
// A normaliser n_t = sum of decayed, written keys obeys the same recurrence as a column of S whose value is 1 at every token.
// So it is computed as one more column of v and S, with every kind of decay and with the delta rule alike.
//
// Max stabiliser (xLSTM, arXiv 2405.04517 eq. 15, 27): m_t = max(g_t + m_{t-1}, i_t, 0) and the state holds S exp(-m). Any m
// gives the same output, so m is a constant to autograd; the floor at 0 keeps exp(-m), the scaled 1 of max(|n^T q|, 1), <= 1.
#include "core/torch_pch.h"

#include "core/mixers/recurrence.h"

#include "core/base/result.h"
#include "core/mixers/chunk_kernels.h"
#include "core/mixers/recurrence_checks.h"

namespace linnet::core {
namespace {

constexpr double kDenominatorEps = 1e-10; // keeps an empty memory at 0 instead of 0/0

std::string shapeText(at::IntArrayRef sizes) {
    std::string text = "[";
    for (size_t i = 0; i < sizes.size(); ++i)
        text += (i ? ", " : "") + std::to_string(sizes[i]);
    return text + "]";
}

void expectShape(const MixerSpec& spec, const char* name, const at::Tensor& tensor, std::vector<int64_t> expected) {
    if (!tensor.defined() || tensor.sizes() == at::IntArrayRef(expected))
        return;
    const std::string want = shapeText(expected), have = shapeText(tensor.sizes());
    fail(ErrorCode::Usage, "mixer '" + spec.name + "': " + name + " has shape " + have + ", expected " + want,
         {{"tensor", name}, {"expected", want}, {"found", have}});
}

void requireDefined(const MixerSpec& spec, const char* name, const at::Tensor& tensor) {
    if (!tensor.defined())
        fail(ErrorCode::Usage, "mixer '" + spec.name + "' needs " + name + ", none given", {{"tensor", name}});
}

struct Scaled { // the factors of one token under the running maximum
    at::Tensor decay, write, maximum;
};

Scaled stabilised(const at::Tensor& logDecay, const at::Tensor& logWrite, const at::Tensor& maximum) { // each [B, H]
    const at::Tensor carried = logDecay.defined() ? logDecay + maximum : maximum;
    const at::Tensor next = at::maximum(carried, logWrite).clamp_min(0).detach();
    return {(carried - next).exp(), (logWrite - next).exp(), next};
}

} // namespace

void checkRecurrenceInputs(const MixerSpec& spec, const RecurrenceInputs& in) {
    for (const auto& [name, tensor] : {std::pair("q", in.q), std::pair("k", in.k), std::pair("v", in.v)}) {
        requireDefined(spec, name, tensor);
        if (tensor.dim() != 4 || tensor.size(1) < 1)
            fail(ErrorCode::Usage,
                 "mixer '" + spec.name + "': " + name + " has shape " + shapeText(tensor.sizes()) + ", expected [B, T >= 1, H, D]",
                 {{"tensor", name}, {"found", shapeText(tensor.sizes())}});
    }
    const int64_t B = in.q.size(0), T = in.q.size(1), H = in.q.size(2), Dk = in.q.size(3), Dv = in.v.size(3);
    expectShape(spec, "k", in.k, {B, T, H, Dk});
    expectShape(spec, "v", in.v, {B, T, H, Dv});
    if (spec.decay != Decay::None)
        requireDefined(spec, "logDecay", in.logDecay);
    if (spec.decay == Decay::ChannelPerToken)
        expectShape(spec, "logDecay", in.logDecay, {B, T, H, Dk});
    else if (spec.decay == Decay::ConstantPerHead && in.logDecay.dim() == 1)
        expectShape(spec, "logDecay", in.logDecay, {H});
    else if (spec.decay != Decay::None)
        expectShape(spec, "logDecay", in.logDecay, {B, T, H});
    if (spec.write != WriteGate::One)
        requireDefined(spec, "write", in.write);
    expectShape(spec, "write", in.write, {B, T, H});
    expectShape(spec, "state", in.state, {B, H, Dk, Dv});
    expectShape(spec, "normaliserState", in.normaliserState, {B, H, Dk});
    expectShape(spec, "maxState", in.maxState, {B, H});
}

at::Tensor expandedLogDecay(const MixerSpec& spec, const RecurrenceInputs& in) {
    if (spec.decay == Decay::None)
        return {};
    return in.logDecay.dim() == 1 ? in.logDecay.expand({in.q.size(0), in.q.size(1), in.q.size(2)}) : in.logDecay;
}

RecurrenceOutputs tokenRecurrence(const MixerSpec& spec, const RecurrenceInputs& in) {
    checkRecurrenceInputs(spec, in);
    const int64_t B = in.q.size(0), T = in.q.size(1), H = in.q.size(2), Dk = in.q.size(3), Dv = in.v.size(3);
    const bool normalised = spec.normaliser != Normaliser::None;
    const bool stabilise = spec.normaliser == Normaliser::MaxStabilised;
    const auto options = in.v.options();
    const at::Tensor logDecay = expandedLogDecay(spec, in);

    at::Tensor S = in.state.defined() ? in.state : at::zeros({B, H, Dk, Dv}, options);
    at::Tensor v = in.v;
    if (normalised) {
        const at::Tensor n = in.normaliserState.defined() ? in.normaliserState : at::zeros({B, H, Dk}, options);
        S = at::cat({S, n.unsqueeze(-1)}, -1);
        v = at::cat({v, at::ones({B, T, H, 1}, options)}, -1);
    }
    at::Tensor m = !stabilise ? at::Tensor() : in.maxState.defined() ? in.maxState : at::zeros({B, H}, options);

    std::vector<at::Tensor> outputs;
    for (int64_t t = 0; t < T; ++t) {
        const at::Tensor q = in.q.select(1, t).unsqueeze(-2), k = in.k.select(1, t).unsqueeze(-2); // [B, H, 1, Dk]
        at::Tensor decay = logDecay.defined() ? logDecay.select(1, t) : at::Tensor();
        at::Tensor write = spec.write == WriteGate::One ? at::Tensor() : in.write.select(1, t);
        if (stabilise) {
            const at::Tensor logWrite = spec.write == WriteGate::ExponentialInput ? write
                                        : write.defined()                        ? write.log()
                                                                                 : at::zeros({B, H}, options);
            const Scaled scaled = stabilised(decay, logWrite, m);
            decay = scaled.decay;
            write = scaled.write;
            m = scaled.maximum;
        } else {
            decay = decay.defined() ? decay.exp() : decay;
            write = spec.write == WriteGate::ExponentialInput ? write.exp() : write;
        }
        if (decay.defined()) // [B, H] or, per channel, [B, H, Dk]: rows of S
            S = S * (decay.dim() == 3 ? decay.unsqueeze(-1) : decay.unsqueeze(-1).unsqueeze(-1));
        at::Tensor value = v.select(1, t).unsqueeze(-2); // [B, H, 1, Dv (+ 1)]
        if (spec.deltaRule)
            value = value - at::matmul(k, S);
        if (write.defined())
            value = value * write.unsqueeze(-1).unsqueeze(-1);
        S = S + k.transpose(-1, -2) * value;
        at::Tensor o = at::matmul(q, S).squeeze(-2);
        if (normalised) {
            const at::Tensor n = o.narrow(-1, Dv, 1);
            o = o.narrow(-1, 0, Dv) / (stabilise ? at::maximum(n.abs(), (-m).exp().unsqueeze(-1)) : n + kDenominatorEps);
        }
        outputs.push_back(o);
    }
    RecurrenceOutputs out;
    out.o = at::stack(outputs, 1);
    out.state = S.narrow(-1, 0, Dv);
    if (normalised)
        out.normaliserState = S.select(-1, Dv);
    out.maxState = m;
    return out;
}

RecurrenceOutputs step(const MixerSpec& spec, const RecurrenceInputs& in) {
    if (in.q.defined() && in.q.dim() == 4 && in.q.size(1) != 1)
        fail(ErrorCode::Usage,
             "mixer '" + spec.name + "': a step takes one token, q has shape " + shapeText(in.q.sizes()) + ", expected [B, 1, H, D]",
             {{"tensor", "q"}, {"found", shapeText(in.q.sizes())}});
    if (in.q.defined() && in.q.is_cuda() && chunkKernelsTake(spec, in)) {
        checkRecurrenceInputs(spec, in);
        return at::GradMode::is_enabled() ? chunkKernels(spec, in) : stepKernel(spec, in);
    }
    return tokenRecurrence(spec, in);
}

} // namespace linnet::core
