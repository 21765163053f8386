#include "core/torch_pch.h"

#include "core/convert/closed_form_rows.h"

namespace linnet::core {
namespace {

constexpr double kLeastSquare = 1e-10, kLeastMass = 1e-6; // of values that never change; of a head that looks nowhere near

// work(first) once for each group of heads whose options agree, then place(result, i) for every head of the group.
template <class Work, class Place> void byVariant(const std::vector<HeadOption>& options, const Work& work, const Place& place) {
    std::vector<bool> done(options.size());
    for (std::size_t first = 0; first < options.size(); ++first) {
        if (done[first])
            continue;
        const auto& result = work(options[first]);
        for (std::size_t i = first; i < options.size(); ++i)
            if (sameVariant(options[i], options[first])) {
                place(result, i);
                done[i] = true;
            }
    }
}

} // namespace

bool sameVariant(const HeadOption& a, const HeadOption& b) {
    return a.foldRope == b.foldRope && a.foldBias == b.foldBias && a.foldQkNorm == b.foldQkNorm && a.centredKeys == b.centredKeys;
}

HeadRows::HeadRows(const LayerContext& context, at::Tensor distances) : m_context(context), m_distances(std::move(distances)) {
    m_unitRow = floatOn(context.teacher, context.moments.unitRow());
    m_mean = floatOn(context.teacher, context.moments.mean);
    m_second = floatOn(context.teacher, context.moments.second);
    at::Tensor taps = at::zeros({context.teacher.config().heads, kConvTaps}, at::kDouble); // tap 3 is the current token
    taps.select(1, kConvTaps - 1).fill_(1);
    m_taps[0] = floatOn(context.teacher, taps);
    if (distancesKnown()) {
        const auto near = std::min<std::int64_t>(kConvTaps, m_distances.size(1));
        const at::Tensor mass = m_distances.narrow(1, 0, near);
        taps.zero_().narrow(1, kConvTaps - near, near).copy_((mass / mass.sum(1, true).clamp_min(kLeastMass)).flip(1));
        m_taps[1] = floatOn(context.teacher, taps);
    }
}

double HeadRows::gateLevel(std::int64_t head) const {
    const auto& targets = m_context.recipe.targets;
    const auto layer = targets.find(m_context.layer);
    if (layer == targets.end())
        return 1;
    const auto target = layer->second.find(head);
    return target == layer->second.end() ? 1 : target->second.outputGate.value_or(1);
}

const Projections& HeadRows::variant(const HeadOption& option) const {
    const std::array key{option.foldRope, option.foldBias, option.foldQkNorm, option.centredKeys};
    if (const auto found = m_variants.find(key); found != m_variants.end())
        return found->second;
    const auto& config = m_context.teacher.config();
    auto rows = copiedProjections(m_context, {option.foldBias, option.foldQkNorm, option.foldRope}, m_distances);
    if (option.centredKeys)
        rows.k = rows.k - at::outer(rows.k.mv(m_mean), m_unitRow);
    // Query heads of a group share their values: one head of each group is measured.
    const at::Tensor shared = rows.v.view({config.kvHeads, config.groupSize(), config.headDim, -1}).select(1, 0).flatten(0, 1);
    const at::Tensor centred = shared - at::outer(shared.mv(m_mean), m_unitRow);
    const at::Tensor square = (centred.matmul(m_second) * centred).sum(-1).view({config.kvHeads, -1}).mean(-1);
    const at::Tensor scale = square.clamp_min(kLeastSquare).rsqrt().mul(m_context.recipe.closedForm.valueRms);
    rows.v = rows.v * scale.repeat_interleave(config.groupSize() * config.headDim).unsqueeze(-1);
    return m_variants[key] = std::move(rows);
}

Projections HeadRows::projections(const std::vector<std::int64_t>& heads, const std::vector<HeadOption>& options) const {
    const auto D = m_context.teacher.config().headDim;
    std::vector<at::Tensor> q(heads.size()), k = q, v = q;
    byVariant(options, [&](const HeadOption& option) -> const Projections& { return variant(option); }, [&](const Projections& rows, std::size_t i) {
        const auto of = [&](const at::Tensor& all) { return all.narrow(0, heads[i] * D, D); };
        q[i] = of(rows.q) * options[i].queryScale;
        k[i] = of(rows.k) * options[i].queryScale;
        v[i] = options[i].negatedValues ? -of(rows.v) : of(rows.v);
    });
    return {at::cat(q), at::cat(k), at::cat(v)};
}

at::Tensor HeadRows::priorRows(const std::vector<std::int64_t>& heads, const std::vector<HeadOption>& options) const {
    const auto D = m_context.teacher.config().headDim;
    std::vector<at::Tensor> rows(heads.size());
    byVariant(options, [&](const HeadOption& option) -> const Projections& { return variant(option); }, [&](const Projections& all, std::size_t i) {
        const auto of = [&](const at::Tensor& t) { return t.narrow(0, heads[i] * D, D); };
        const at::Tensor prior = of(all.k).t().mv(of(all.q).mv(m_mean)) / std::sqrt(static_cast<double>(D));
        rows[i] = prior - m_unitRow * prior.dot(m_mean);
    });
    return at::stack(rows);
}

at::Tensor HeadRows::valueTaps(std::int64_t head, bool histogram) const {
    return m_taps[histogram ? 1 : 0][head].expand({m_context.teacher.config().headDim, kConvTaps});
}

LinearLayer HeadRows::layer(const std::vector<HeadOption>& options) const {
    const auto heads = m_context.teacher.config().heads, D = m_context.teacher.config().headDim;
    std::vector<std::int64_t> all(options.size());
    std::iota(all.begin(), all.end(), 0);
    const auto rows = projections(all, options);
    const auto priors = priorRows(all, options);
    const auto zeros = [&](at::IntArrayRef sizes) { return at::zeros(sizes, m_unitRow.options()); };
    LinearLayer layer;
    layer.qProj = rows.q, layer.kProj = rows.k, layer.vProj = rows.v;
    layer.qConv = zeros({heads * D, kConvTaps});
    layer.qConv.select(1, kConvTaps - 1).fill_(1);
    layer.kConv = layer.qConv.clone();
    layer.aProj = zeros({heads, m_unitRow.size(0)}), layer.aLog = zeros({heads}), layer.dtBias = zeros({heads});
    layer.oNorm = zeros({D}).fill_(1);
    std::vector<at::Tensor> taps, write, gate;
    for (const auto head : all) {
        const auto& option = options[static_cast<std::size_t>(head)];
        setDecay(layer, head, decayRate(option.halfLife));
        taps.push_back(valueTaps(head, option.histogramTaps));
        write.push_back(m_unitRow * logit(option.beta) + priors[head] * option.keyPrior); // its mean logit is exact, with the least variance
        gate.push_back((m_unitRow * inverseSiLU(gateLevel(head))).expand({D, -1}));
    }
    layer.vConv = at::cat(taps), layer.bProj = at::stack(write), layer.gProj = at::cat(gate);
    return layer;
}

} // namespace linnet::core
