#include "core/torch_pch.h"

#include "core/mixers/chunk_kernels.h"

#include "core/base/result.h"
#include "core/mixers/kernel_call.h"
#include "core/mixers/recurrence_checks.h"

#include "linnet/kernels/gated_delta_rule.h"

#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>

namespace linnet::core {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor aligned(const at::Tensor& t) { // what the kernels can read: contiguous channels, strides in 16-byte steps
    const auto fits = [](std::int64_t stride) { return stride % 8 == 0; };
    const bool good = t.stride(3) == 1 && fits(t.stride(0)) && fits(t.stride(1)) && fits(t.stride(2)) && reinterpret_cast<std::uintptr_t>(t.const_data_ptr()) % 16 == 0;
    return good ? t : t.clone(at::MemoryFormat::Contiguous); // contiguous() would hand back one that starts at an odd element, or of one token
}

const float* floats(const at::Tensor& t) { return t.defined() ? t.const_data_ptr<float>() : nullptr; }

at::Tensor asFloat(const at::Tensor& t) { return t.defined() ? t.to(at::kFloat).contiguous() : t; }

struct Inputs {
    at::Tensor q, k, v, g, beta, state;
};

kernels::GatedDeltaRuleParams params(const Inputs& in) {
    kernels::GatedDeltaRuleParams p;
    p.q = in.q.const_data_ptr(), p.k = in.k.const_data_ptr(), p.v = in.v.const_data_ptr();
    p.g = floats(in.g), p.beta = floats(in.beta), p.initialState = floats(in.state);
    p.qStrides = tokenStrides(in.q), p.kStrides = tokenStrides(in.k), p.vStrides = tokenStrides(in.v);
    p.batch = in.q.size(0), p.tokens = in.q.size(1), p.heads = in.q.size(2), p.kvHeads = in.k.size(2), p.headDim = in.q.size(3);
    p.dataType = in.q.scalar_type() == at::kHalf ? kernels::DataType::Float16 : kernels::DataType::BFloat16;
    p.stream = currentStream(in.q.device());
    return p;
}

at::TensorOptions floatsLike(const at::Tensor& t) { return t.options().dtype(at::kFloat).requires_grad(false); }

// p with outputs of a forward pass; `state` [B, H, D, D].
at::Tensor withOutputs(kernels::GatedDeltaRuleParams& p, const at::Tensor& q, at::Tensor& state) {
    const at::Tensor o = at::empty(q.sizes(), q.options());
    state = at::empty({q.size(0), q.size(2), q.size(3), q.size(3)}, floatsLike(q));
    p.o = o.data_ptr(), p.oStrides = tokenStrides(o);
    p.finalState = state.data_ptr<float>();
    return o;
}

class KernelRule : public torch::autograd::Function<KernelRule> {
public:
    static variable_list forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& g, const at::Tensor& beta,
                                 const std::optional<at::Tensor>& state) {
        const c10::DeviceGuard guard(q.device()); // a launch wants its stream's device to be the current one
        const Inputs in{aligned(q), aligned(k), aligned(v), asFloat(g), asFloat(beta), asFloat(state.value_or(at::Tensor()))};
        auto p = params(in);
        const auto bytes = kernels::gatedDeltaRuleBytes(p);
        const bool train = q.requires_grad() || k.requires_grad() || v.requires_grad() || g.requires_grad() || beta.requires_grad() || (state && state->requires_grad());
        const Scratch workspace(bytes.forwardWorkspace, q.device());
        const Scratch saved = train ? Scratch(bytes.saved, q.device()) : Scratch();
        p.workspace = workspace.data(), p.saved = saved.data();
        at::Tensor finalState;
        const at::Tensor o = withOutputs(p, in.q, finalState);
        checkLaunch(kernels::gatedDeltaRuleForward(p), "gated delta rule");
        if (train)
            ctx->save_for_backward({in.q, in.k, in.v, in.g, in.beta, in.state, saved.tensor()});
        return {o, finalState};
    }

    static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
        const auto s = ctx->get_saved_variables();
        const Inputs in{s[0], s[1], s[2], s[3], s[4], s[5]};
        const c10::DeviceGuard guard(in.q.device());
        const Scratch saved(s[6]);
        auto p = params(in);
        const Scratch workspace(kernels::gatedDeltaRuleBytes(p).backwardWorkspace, in.q.device());
        p.workspace = workspace.data(), p.saved = saved.data();
        const at::Tensor dO = gradients[0].defined() ? aligned(gradients[0].to(in.q.scalar_type())) : at::zeros(in.q.sizes(), in.q.options());
        const at::Tensor dFinal = asFloat(gradients[1]);
        p.dO = dO.const_data_ptr(), p.doStrides = tokenStrides(dO), p.dFinalState = floats(dFinal);
        const auto like = [](const at::Tensor& t) { return at::empty(t.sizes(), t.options()); };
        const at::Tensor dq = like(in.q), dk = like(in.k), dv = like(in.v), dg = like(in.g), dbeta = like(in.beta), dState = in.state.defined() ? like(in.state) : at::Tensor();
        p.dq = dq.data_ptr(), p.dk = dk.data_ptr(), p.dv = dv.data_ptr(), p.dg = dg.data_ptr<float>(), p.dbeta = dbeta.data_ptr<float>();
        p.dInitialState = dState.defined() ? dState.data_ptr<float>() : nullptr;
        checkLaunch(kernels::gatedDeltaRuleBackward(p), "gated delta rule, backward");
        return {dq, dk, dv, dg, dbeta, dState};
    }
};

// Gates as [B, T, H]: what the spec leaves out is no decay and beta 1.
at::Tensor decayOf(const MixerSpec& spec, const RecurrenceInputs& in) {
    const at::Tensor g = expandedLogDecay(spec, in);
    return g.defined() ? g : at::zeros({in.q.size(0), in.q.size(1), in.q.size(2)}, floatsLike(in.q));
}
at::Tensor writeOf(const MixerSpec& spec, const RecurrenceInputs& in) {
    return spec.write == WriteGate::Beta && in.write.defined() ? in.write : at::ones({in.q.size(0), in.q.size(1), in.q.size(2)}, floatsLike(in.q));
}

} // namespace

bool chunkKernelsTake(const MixerSpec& spec, const RecurrenceInputs& in) {
    const auto type = in.q.scalar_type();
    const auto D = in.q.size(-1);
    return kernels::cudaKernelsBuilt() && in.q.is_cuda() && (type == at::kBFloat16 || type == at::kHalf) && in.k.scalar_type() == type && in.v.scalar_type() == type &&
           spec.deltaRule && spec.decay != Decay::ChannelPerToken && spec.write != WriteGate::ExponentialInput && spec.normaliser == Normaliser::None &&
           in.v.size(-1) == D && (D == 64 || D == 96 || D == 128 || D == 256);
}

RecurrenceOutputs chunkKernels(const MixerSpec& spec, const RecurrenceInputs& in) {
    const auto out = KernelRule::apply(in.q, in.k, in.v, decayOf(spec, in), writeOf(spec, in), in.state.defined() ? std::optional(in.state) : std::nullopt);
    RecurrenceOutputs result;
    result.o = out[0], result.state = out[1];
    return result;
}

RecurrenceOutputs stepKernel(const MixerSpec& spec, const RecurrenceInputs& in) {
    const c10::DeviceGuard guard(in.q.device());
    const Inputs inputs{aligned(in.q), aligned(in.k), aligned(in.v), asFloat(decayOf(spec, in)), asFloat(writeOf(spec, in)), asFloat(in.state)};
    auto p = params(inputs);
    RecurrenceOutputs result;
    result.o = withOutputs(p, inputs.q, result.state);
    checkLaunch(kernels::gatedDeltaRuleStep(p), "gated delta rule, one token");
    return result;
}

} // namespace linnet::core
