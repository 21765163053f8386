#include "core/torch_pch.h"

#include "core/distill/repeatable_attention.h"

#include "core/model/attention.h"

namespace linnet::core {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kFlashHeadDim = 192; // some GPUs have no backward pass of wider heads

// Torch's deterministic mode, for the launch of one operator: for longer it would refuse others that give the same bits anyway.
class DeterministicLaunch {
public:
    DeterministicLaunch()
        : m_on(context().deterministicAlgorithms()), m_warnOnly(context().deterministicAlgorithmsWarnOnly()),
          m_fill(context().deterministicFillUninitializedMemory()) {
        context().setDeterministicFillUninitializedMemory(false);
        context().setDeterministicAlgorithms(true, false);
    }
    ~DeterministicLaunch() {
        context().setDeterministicAlgorithms(m_on, m_warnOnly);
        context().setDeterministicFillUninitializedMemory(m_fill);
    }
    DeterministicLaunch(const DeterministicLaunch&) = delete;
    DeterministicLaunch& operator=(const DeterministicLaunch&) = delete;

private:
    static at::Context& context() { return at::globalContext(); }
    bool m_on, m_warnOnly, m_fill;
};

class Flash : public torch::autograd::Function<Flash> {
public:
    static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
        const auto [out, logSumExp, startsQ, startsK, lengthQ, lengthK, seed, offset, mask] =
            at::_scaled_dot_product_flash_attention(q, k, v, 0.0, true);
        ctx->save_for_backward({q, k, v, out, logSumExp, seed, offset});
        return out;
    }
    static variable_list backward(AutogradContext* ctx, variable_list gradients) {
        const auto s = ctx->get_saved_variables();
        const DeterministicLaunch launch;
        auto [q, k, v] = at::_scaled_dot_product_flash_attention_backward(gradients[0], s[0], s[1], s[2], s[3], s[4], {}, {},
                                                                          s[0].size(2), s[1].size(2), 0.0, true, s[5], s[6]);
        return {q, k, v};
    }
};

// P = softmax(q k^T / sqrt(D)): dV = P^T dO, dP = dO V^T, dS = P (dP - sum P dP), dQ = dS K / sqrt(D), dK = dS^T Q / sqrt(D).
class Plain : public torch::autograd::Function<Plain> {
public:
    static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
        ctx->save_for_backward({q, k, v});
        return attend(q, k, v, {});
    }
    static variable_list backward(AutogradContext* ctx, variable_list gradients) {
        const auto saved = ctx->get_saved_variables();
        const at::Tensor &q = saved[0], &k = saved[1];
        const std::int64_t pairs = k.size(0) * k.size(1), tokens = k.size(2), dim = q.size(3), group = q.size(1) / k.size(1);
        const at::ScalarType type = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
        const auto perPair = [&](const at::Tensor& t) {
            return t.to(type).reshape({pairs, -1, dim});
        }; // a key/value head with its query heads
        const at::Tensor allQ = perPair(q), allK = perPair(k), allV = perPair(saved[2]);
        const at::Tensor allO = perPair(gradients[0].unflatten(2, {q.size(1), dim}).transpose(1, 2));
        const at::Tensor dQ = at::empty_like(allQ), dK = at::empty_like(allK), dV = at::empty_like(allV);
        const at::Tensor later = at::ones({tokens, tokens}, allQ.options().dtype(at::kBool)).triu(1);
        const double scale = 1 / std::sqrt(static_cast<double>(dim));
        const auto most =
            std::max<std::int64_t>(1, kRepeatableAttentionBytes / (4 * group * tokens * tokens * at::elementSize(type)));
        for (std::int64_t first = 0; first < pairs; first += most) {
            const auto count = std::min(most, pairs - first);
            const auto part = [&](const at::Tensor& t) { return t.narrow(0, first, count); };
            const at::Tensor qs = part(allQ) * scale, ks = part(allK), dO = part(allO);
            at::Tensor p = at::bmm(qs, ks.transpose(1, 2)).view({count, group, tokens, tokens});
            p = p.masked_fill_(later, -INFINITY).softmax(-1).view({count, group * tokens, tokens});
            part(dV).copy_(at::bmm(p.transpose(1, 2), dO));
            at::Tensor d = at::bmm(dO, part(allV).transpose(1, 2)).mul_(p); // P dP
            d.addcmul_(p, d.sum(-1, true), -1);
            part(dQ).copy_(at::bmm(d, ks).mul_(scale));
            part(dK).copy_(at::bmm(d.transpose(1, 2), qs));
        }
        const auto back = [](const at::Tensor& d, const at::Tensor& like) {
            return d.view(like.sizes()).to(like.scalar_type());
        };
        return {back(dQ, q), back(dK, k), back(dV, saved[2])};
    }
};

bool flashTakes(const at::Tensor& q) {
    const bool half = q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf;
    return q.is_cuda() && half && q.size(3) % 8 == 0 && q.size(3) <= kFlashHeadDim;
}

} // namespace

at::Tensor repeatableAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    return flashTakes(q) ? Flash::apply(q, k, v).transpose(1, 2).flatten(2) : Plain::apply(q, k, v);
}

} // namespace linnet::core
