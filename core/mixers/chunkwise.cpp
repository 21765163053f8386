// The recurrence by chunks of C tokens: everything inside a chunk is a matrix product batched over all chunks and heads, and
// only the state is carried from chunk to chunk. (WY/UT form: arXiv 2406.06484 section 3, 2412.06464 section 3.3.)
//
// G = cumulative log decay inside the chunk, Gamma_ij = exp(G_i - G_j) for i >= j: exp only of non-positive differences.
//     A = tril(diag(beta) K K^T * Gamma, -1)
//     [U | W] = (I + A)^-1 [diag(beta) V | diag(beta exp G) K]      without the delta rule: U = diag(beta) V, W = 0
//     V' = U - W S ;  O = diag(exp G) Q S + tril(Q K^T * Gamma) V'
//     S <- exp(G_C) S + (diag(exp(G_C - G)) K)^T V'
//
// The backward pass is written by hand: it recomputes nothing, makes no C x C reductions (a row sum of X * (F K) is X . (F K))
// and needs one triangular solve. Layout: chunk-major [n, B*H, C, D], so that a chunk of the scan is one contiguous slice.
#include "core/torch_pch.h"

#include "core/mixers/recurrence.h"

#include "core/base/result.h"
#include "core/mixers/chunk_kernels.h"
#include "core/mixers/recurrence_checks.h"

namespace linnet::core {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Layout {
    int64_t B, T, H, C, n;
};

at::Tensor padded(const at::Tensor& t, const Layout& l) {
    const int64_t missing = l.n * l.C - l.T;
    if (missing == 0)
        return t;
    std::vector<int64_t> sizes = t.sizes().vec();
    sizes[1] = missing;
    return at::cat({t, at::zeros(sizes, t.options())}, 1);
}

at::Tensor toChunks(const at::Tensor& t, const Layout& l) { // [B, T, H, D] -> [n, B*H, C, D]; padding is 0: writes nothing
    return padded(t, l).view({l.B, l.n, l.C, l.H, t.size(3)}).permute({1, 0, 3, 2, 4}).reshape({l.n, l.B * l.H, l.C, t.size(3)});
}

at::Tensor fromChunks(const at::Tensor& t, const Layout& l) {
    const at::Tensor tokens = t.view({l.n, l.B, l.H, l.C, t.size(3)}).permute({1, 0, 3, 2, 4}); // [B, n, C, H, D]
    return tokens.reshape({l.B, l.n * l.C, l.H, t.size(3)}).narrow(1, 0, l.T);
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b) { // [n, N, ..] x [n, N, ..]
    return at::bmm(a.flatten(0, 1), b.flatten(0, 1)).view({a.size(0), a.size(1), a.size(2), b.size(3)});
}

void addProduct(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) { // sum += a b, in place
    sum.flatten(0, 1).baddbmm_(a.flatten(0, 1), b.flatten(0, 1));
}

at::Tensor transposed(const at::Tensor& t) {
    return t.transpose(-1, -2);
}

at::Tensor rowDot(const at::Tensor& a, const at::Tensor& b) { // [n, N, C, D] x 2 -> [n, N, C, 1]
    return (a * b).sum(-1, true);
}

// What the forward pass leaves behind; those that stay undefined stand for a decay or a write gate of 1.
struct Pass {
    at::Tensor q, k, v;     // [n, N, C, D]
    at::Tensor beta;        // [n, N, C, 1]
    at::Tensor kBeta;       // beta k
    at::Tensor expG;        // exp(G) [n, N, C, 1]
    at::Tensor tail;        // exp(G_C - G) [n, N, C, 1]
    at::Tensor gamma;       // [n, N, C, C], lower triangle with diagonal; a plain mask without decay
    at::Tensor A, U, W;     // delta rule
    at::Tensor P;           // tril(Q K^T * Gamma)
    at::Tensor written;     // V'
    at::Tensor states;      // before each chunk and after the last [n + 1, N, Dk, Dv]
};

// Autograd functions take absent tensors as nullopt, not as undefined ones.
std::optional<at::Tensor> given(const at::Tensor& t) {
    return t.defined() ? std::optional(t) : std::nullopt;
}

at::Tensor scaled(const at::Tensor& t, const at::Tensor& factor) {
    return factor.defined() ? t * factor : t;
}

void prepareDecay(Pass& p, const at::Tensor& logDecay, const Layout& l) {
    const at::Tensor mask = at::ones({l.C, l.C}, p.q.options()).tril();
    if (!logDecay.defined()) {
        p.gamma = mask;
        return;
    }
    // A token that forgets all: these are the first whole tens whose exp is 0. A smaller sum keeps the precision of the
    // other tokens' differences, and -infinity is taken too.
    const double least = logDecay.scalar_type() == at::kDouble ? -750 : -110;
    const at::Tensor G = toChunks(logDecay.unsqueeze(-1), l).clamp_min(least).cumsum(2);
    p.gamma = (G - transposed(G)).masked_fill_(mask.logical_not(), -INFINITY).exp_();
    p.expG = G.exp();
    p.tail = (G.narrow(2, l.C - 1, 1) - G).exp();
}

void scan(Pass& p, const at::Tensor& initial, const Layout& l) {
    const int64_t N = l.B * l.H, Dk = p.k.size(3), Dv = p.v.size(3);
    p.states = at::empty({l.n + 1, N, Dk, Dv}, p.q.options());
    if (initial.defined())
        p.states[0].copy_(initial.reshape({N, Dk, Dv}));
    else
        p.states[0].zero_();
    const at::Tensor kTail = scaled(p.k, p.tail);
    for (int64_t c = 0; c < l.n; ++c) {
        const at::Tensor S = p.states[c];
        at::Tensor next = p.states[c + 1];
        if (p.W.defined())
            p.written[c].baddbmm_(p.W[c], S, 1, -1);
        if (p.expG.defined())
            at::mul_out(next, S, p.expG[c].narrow(1, l.C - 1, 1));
        else
            next.copy_(S);
        next.baddbmm_(transposed(kTail[c]), p.written[c]);
    }
}

// q, k, v [B, T, H, D], logDecay and beta [B, T, H] or undefined, state [B, H, Dk, Dv] or undefined -> o in chunks.
at::Tensor forwardPass(Pass& p, const RecurrenceInputs& in, bool delta, const Layout& l) {
    p.q = toChunks(in.q, l);
    p.k = toChunks(in.k, l);
    p.v = toChunks(in.v, l);
    p.beta = in.write.defined() ? toChunks(in.write.unsqueeze(-1), l) : at::Tensor();
    prepareDecay(p, in.logDecay, l);
    const at::Tensor vBeta = scaled(p.v, p.beta);
    if (delta) {
        p.kBeta = scaled(p.k, p.beta);
        p.A = product(p.kBeta, transposed(p.k)).mul_(p.gamma).tril_(-1);
        const at::Tensor X =
            at::linalg_solve_triangular(p.A, at::cat({vBeta, scaled(p.kBeta, p.expG)}, -1), false, true, true);
        p.U = X.narrow(-1, 0, p.v.size(3)).contiguous();
        p.W = X.narrow(-1, p.v.size(3), p.k.size(3)).contiguous();
        p.written = p.U.clone();
    } else {
        p.written = vBeta;
    }
    scan(p, in.state, l);
    p.P = product(p.q, transposed(p.k)).mul_(p.gamma);
    at::Tensor o = product(p.P, p.written);
    addProduct(o, scaled(p.q, p.expG), p.states.narrow(0, 0, l.n));
    return o;
}

struct Gradients {
    at::Tensor q, k, v, logDecay, beta, state;
};

// Reverse scan. dWritten holds P^T dO on entry, the whole gradient of V' on return. Returns the gradients of all states.
at::Tensor reverseScan(const Pass& p, const at::Tensor& dO, const at::Tensor& dFinal, at::Tensor& dWritten, const Layout& l) {
    at::Tensor dStates = at::empty_like(p.states);
    dStates[l.n].copy_(dFinal.reshape_as(dStates[l.n]));
    const at::Tensor kTail = scaled(p.k, p.tail), qG = scaled(p.q, p.expG);
    for (int64_t c = l.n - 1; c >= 0; --c) {
        const at::Tensor dNext = dStates[c + 1];
        at::Tensor dS = dStates[c];
        dWritten[c].baddbmm_(kTail[c], dNext);
        if (p.expG.defined())
            at::mul_out(dS, dNext, p.expG[c].narrow(1, l.C - 1, 1));
        else
            dS.copy_(dNext);
        dS.baddbmm_(transposed(qG[c]), dO[c]);
        if (p.W.defined())
            dS.baddbmm_(transposed(p.W[c]), dWritten[c], 1, -1);
    }
    return dStates;
}

Gradients backwardPass(const Pass& p, const at::Tensor& dO, const at::Tensor& dFinal, const Layout& l) {
    Gradients d;
    at::Tensor dWritten = product(transposed(p.P), dO);
    const at::Tensor dStates = reverseScan(p, dO, dFinal, dWritten, l);
    const at::Tensor before = p.states.narrow(0, 0, l.n), dAfter = dStates.narrow(0, 1, l.n);
    d.state = dStates[0];

    const at::Tensor dQK = product(dO, transposed(p.written)).mul_(p.gamma); // of Q K^T
    d.q = scaled(product(dO, transposed(before)), p.expG);
    addProduct(d.q, dQK, p.k);
    const at::Tensor dTail = scaled(product(p.written, transposed(dAfter)), p.tail); // of k through the state
    at::Tensor dK = product(transposed(dQK), p.q).add_(dTail);                       // of k where G enters as exp(-G)
    at::Tensor dV = dWritten, dKBeta;
    if (p.A.defined()) {
        const at::Tensor dW = product(dWritten, transposed(before)).neg_();
        const at::Tensor dRhs =
            at::linalg_solve_triangular(transposed(p.A), at::cat({dWritten, dW}, -1), true, true, true);
        dV = dRhs.narrow(-1, 0, p.v.size(3)).contiguous();
        const at::Tensor dKG = dRhs.narrow(-1, p.v.size(3), p.k.size(3)).contiguous();
        at::Tensor dA = product(dV, transposed(p.U));
        addProduct(dA, dKG, transposed(p.W));
        dA = dA.neg_().mul_(p.gamma).tril_(-1);
        dKBeta = scaled(dKG, p.expG);
        addProduct(dKBeta, dA, p.k);
        addProduct(dK, transposed(dA), p.kBeta);
    }
    if (p.expG.defined()) {
        at::Tensor dG = rowDot(p.q, d.q).sub_(rowDot(p.k, dK));
        if (dKBeta.defined())
            dG.add_(rowDot(p.kBeta, dKBeta));
        const at::Tensor last = (before * dAfter).sum({2, 3}, true) * p.expG.narrow(2, l.C - 1, 1);
        dG.narrow(2, l.C - 1, 1).add_(last).add_(rowDot(p.k, dTail).sum(2, true));
        d.logDecay = dG.flip(2).cumsum(2).flip(2); // G_i is the sum of g up to i
    }
    if (p.beta.defined()) {
        d.beta = rowDot(p.v, dV);
        if (dKBeta.defined())
            d.beta.add_(rowDot(p.k, dKBeta));
    }
    if (dKBeta.defined())
        dK.add_(scaled(dKBeta, p.beta));
    d.k = dK;
    d.v = scaled(dV, p.beta);
    return d;
}

class ChunkedRule : public torch::autograd::Function<ChunkedRule> {
public:
    static variable_list forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const std::optional<at::Tensor>& logDecay, const std::optional<at::Tensor>& beta,
                                 const std::optional<at::Tensor>& state, bool delta, int64_t C) {
        const Layout l{q.size(0), q.size(1), q.size(2), C, (q.size(1) + C - 1) / C};
        RecurrenceInputs in;
        in.q = q;
        in.k = k;
        in.v = v;
        in.logDecay = logDecay.value_or(at::Tensor());
        in.write = beta.value_or(at::Tensor());
        in.state = state.value_or(at::Tensor());
        Pass p;
        const at::Tensor o = forwardPass(p, in, delta, l);
        ctx->save_for_backward({p.q, p.k, p.v, p.beta, p.kBeta, p.expG, p.tail, p.gamma, p.A, p.U, p.W, p.P, p.written, p.states});
        ctx->saved_data["layout"] = std::vector<int64_t>{l.B, l.T, l.H, l.C, l.n};
        ctx->saved_data["state"] = in.state.defined();
        return {fromChunks(o, l), p.states[l.n].view({l.B, l.H, k.size(3), v.size(3)}).clone()};
    }

    static variable_list backward(AutogradContext* ctx, variable_list grads) {
        const variable_list s = ctx->get_saved_variables();
        const std::vector<int64_t> sizes = ctx->saved_data["layout"].toIntVector();
        const Layout l{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]};
        const Pass p{s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11], s[12], s[13]};
        const Gradients d = backwardPass(p, toChunks(grads[0], l), grads[1], l);
        const auto perToken = [&](const at::Tensor& t) { return t.defined() ? fromChunks(t, l).squeeze(-1) : t; };
        const at::Tensor dState =
            ctx->saved_data["state"].toBool() ? d.state.view({l.B, l.H, d.state.size(1), d.state.size(2)}) : at::Tensor();
        return {fromChunks(d.q, l), fromChunks(d.k, l), fromChunks(d.v, l), perToken(d.logDecay),
                perToken(d.beta),   dState,             at::Tensor(),       at::Tensor()};
    }
};

} // namespace

RecurrenceOutputs chunkwise(const MixerSpec& spec, const RecurrenceInputs& in, int64_t chunk) {
    if (spec.decay == Decay::ChannelPerToken || spec.write == WriteGate::ExponentialInput || spec.normaliser != Normaliser::None)
        fail(ErrorCode::Unsupported,
             "mixer '" + spec.name + "' has no chunkwise form: only no or scalar decay, write gates 1 and beta, no normaliser",
             {{"mixer", spec.name}});
    checkRecurrenceInputs(spec, in);
    if (chunk < 1)
        fail(ErrorCode::Usage, "mixer '" + spec.name + "': chunk is " + std::to_string(chunk) + ", expected at least 1 token");
    if (chunkKernelsTake(spec, in))
        return chunkKernels(spec, in);
    const at::Tensor write = spec.write == WriteGate::One ? at::Tensor() : in.write;
    const variable_list out =
        ChunkedRule::apply(in.q, in.k, in.v, given(expandedLogDecay(spec, in)), given(write), given(in.state), spec.deltaRule,
                           std::min(chunk, in.q.size(1)));
    RecurrenceOutputs result;
    result.o = out[0];
    result.state = out[1];
    return result;
}

} // namespace linnet::core
