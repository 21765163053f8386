// y_t = sum_j taps_j u_{t-3+j} ;  a = SiLU(y) ;  z = scale r a with r = rsqrt(sum_head a^2 + eps).
// Backward of the norm: da = scale r (dz - z (z . dz) / scale^2), which needs z and r only.
// By hand because autograd would keep and pass over about three times as many tensors of [B, T, H*D], and those passes, not
// arithmetic, are the cost.
#include "core/torch_pch.h"

#include "core/mixers/short_convolution.h"

namespace linnet::core {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kTaps = 4;

// The overlap of `sequence` with itself `lag` tokens later, past the first `lag` tokens.
at::Tensor from(const at::Tensor& sequence, int64_t lag) {
    return sequence.narrow(1, lag, sequence.size(1) - lag);
}
at::Tensor upTo(const at::Tensor& sequence, int64_t lag) {
    return sequence.narrow(1, 0, sequence.size(1) - lag);
}

at::Tensor dotOverTokens(const at::Tensor& a, const at::Tensor& b) { // [B, T, W] x 2 -> [W]
    return at::sum(a * b, at::IntArrayRef{0, 1});
}

at::Tensor convolve(const at::Tensor& u, const at::Tensor& taps, const at::Tensor& past) {
    const int64_t T = u.size(1);
    at::Tensor y = u * taps.select(1, kTaps - 1);
    for (int64_t lag = 1; lag < kTaps; ++lag) {
        const at::Tensor tap = taps.select(1, kTaps - 1 - lag);
        if (lag < T)
            from(y, lag).addcmul_(upTo(u, lag), tap);
        if (past.defined()) { // tokens before `lag` read the past, whose last row is one token back
            const int64_t count = std::min(lag, T);
            y.narrow(1, 0, count).addcmul_(past.narrow(1, kTaps - 1 - lag, count), tap);
        }
    }
    return y;
}

struct Convolution : torch::autograd::Function<Convolution> {
    static at::Tensor forward(AutogradContext* ctx, const at::Tensor& u, const std::optional<at::Tensor>& tapsOfRows,
                              const std::optional<at::Tensor>& pastInputs, int64_t heads, double scale, double eps) {
        const int64_t B = u.size(0), T = u.size(1), width = u.size(2);
        const at::Tensor taps = tapsOfRows ? tapsOfRows->t().contiguous().t() : at::Tensor(); // each tap's row contiguous
        const at::Tensor past = pastInputs.value_or(at::Tensor());
        const at::Tensor y = taps.defined() ? convolve(u, taps, past) : u;
        at::Tensor z = at::silu(y).view({B, T, heads, width / heads}), r;
        if (scale != 0) {
            r = z.square().sum(-1, true).add_(eps).rsqrt_().mul_(scale); // scale r
            z.mul_(r);
        }
        ctx->saved_data["scale"] = scale;
        ctx->save_for_backward({u, taps, past, y, z, r});
        return z;
    }

    static variable_list backward(AutogradContext* ctx, variable_list grads) {
        const variable_list saved = ctx->get_saved_variables();
        const at::Tensor &u = saved[0], &taps = saved[1], &past = saved[2], &y = saved[3], &z = saved[4], &r = saved[5];
        const double scale = ctx->saved_data["scale"].toDouble();
        at::Tensor dA = grads[0];
        if (r.defined()) {
            const at::Tensor along = (z * dA).sum(-1, true).mul_(-1 / (scale * scale));
            dA = at::addcmul(dA, z, along).mul_(r);
        }
        const at::Tensor dY = at::silu_backward(dA.reshape_as(y), y);
        if (!taps.defined())
            return {dY, {}, {}, {}, {}, {}};
        std::vector<at::Tensor> dTaps(kTaps);
        at::Tensor dU = ctx->needs_input_grad(0) ? dY * taps.select(1, kTaps - 1) : at::Tensor();
        for (int64_t lag = 0; lag < kTaps; ++lag) {
            const int64_t tap = kTaps - 1 - lag;
            dTaps[tap] = lag < u.size(1) ? dotOverTokens(from(dY, lag), upTo(u, lag)) : at::zeros({u.size(2)}, u.options());
            if (lag > 0 && lag < u.size(1) && dU.defined())
                upTo(dU, lag).addcmul_(from(dY, lag), taps.select(1, tap));
            if (lag > 0 && past.defined()) {
                const int64_t count = std::min(lag, u.size(1));
                dTaps[tap].add_(dotOverTokens(dY.narrow(1, 0, count), past.narrow(1, tap, count)));
            }
        }
        return {dU, at::stack(dTaps, 1), {}, {}, {}, {}};
    }
};

} // namespace

at::Tensor shortConvolution(const at::Tensor& u, const at::Tensor& taps, const at::Tensor& past, const ShortConvolution& options) {
    const auto given = [](const at::Tensor& t) { return t.defined() ? std::optional(t) : std::nullopt; };
    return Convolution::apply(u, given(taps), given(past), options.heads, options.scale, options.eps);
}

} // namespace linnet::core
