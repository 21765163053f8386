#include "core/torch_pch.h"

#include "core/convert/calibration.h"

#include "core/convert/closed_form.h"
#include "core/profile/layer_statistics.h"

#include <ATen/CPUGeneratorImpl.h>
#include <numbers>

namespace linnet::core {
namespace {

constexpr double kMinMeanLogit = 1e-3;      // a random row's mean is not divided by less
constexpr double kPaperMinRate = 1e-3, kPaperMaxRate = 5;
constexpr double kOutputGateShare = 0.01;   // lambda of the paper's output gate

void setNewParameters(LinearLayer& layer, const LayerContext& context) {
    const auto& config = context.teacher.config();
    const NewParameters drawn = context.drawn ? *context.drawn : drawNewParameters(config, context.recipe.seed, context.layer);
    layer.aProj = floatOn(context.teacher, drawn.aProj);
    layer.bProj = floatOn(context.teacher, drawn.bProj);
    layer.gProj = floatOn(context.teacher, drawn.gProj);
    layer.aLog = floatOn(context.teacher, drawn.aLog);
    layer.dtBias = floatOn(context.teacher, drawn.dtBias);
    layer.oNorm = floatOn(context.teacher, at::ones({config.headDim}));
}

void copyTeacher(LinearLayer& layer, const LayerContext& context, bool scrambled) {
    const auto& config = context.teacher.config();
    const auto treatments = treatmentsOf(context.recipe);
    const auto projections = copiedProjections(context, treatments, treatments.foldRope ? attentionDistances(context) : at::Tensor(), scrambled);
    layer.qProj = projections.q, layer.kProj = projections.k, layer.vProj = projections.v;
    layer.oProj = floatOn(context.teacher, context.weights.attention.o).clone();
    at::Tensor identity = at::zeros({config.heads * config.headDim, kConvTaps});
    identity.select(1, kConvTaps - 1).fill_(1);
    layer.qConv = floatOn(context.teacher, identity);
    layer.kConv = layer.qConv.clone();
    layer.vConv = layer.qConv.clone();
}

// What the stages of [TC] section 3 read of one layer, from the profile or (bug for bug) from four short sequences.
struct PaperStatistics {
    std::vector<double> distance, concentration; // [H]
    at::Tensor x, heads;                         // the tokens that sigma and alpha are measured on
};

PaperStatistics fromProfile(const LayerContext& context) {
    if (!context.profile)
        fail(ErrorCode::Usage, "preset paper needs the profile of the calibration windows");
    PaperStatistics result{{}, {}, context.capture.x, context.capture.heads};
    for (const auto& head : context.profile->layers[static_cast<std::size_t>(context.layer)]) {
        result.distance.push_back(head.distance.mean);
        result.concentration.push_back(head.concentrationLayer);
    }
    return result;
}

// The released code: four sequences of 256 tokens, and a token's distance to itself counted as one half.
PaperStatistics asReleased(const LayerContext& context) {
    const auto& config = context.teacher.config();
    const auto sequences = std::min<std::int64_t>(4, context.capture.x.size(0)), tokens = std::min<std::int64_t>(256, context.capture.x.size(1));
    const auto cut = [&](const at::Tensor& t) { return t.narrow(0, 0, sequences).narrow(1, 0, tokens); };
    PaperStatistics result{{}, {}, cut(context.capture.x), cut(context.capture.heads)};
    const auto statistics = layerStatistics(config, context.weights, queryKeyValue(context.teacher, context.weights, result.x), 2);
    const at::Tensor distance = statistics.values[kDistance], self = statistics.values[kSelfMass], entropy = statistics.values[kEntropy];
    const at::Tensor d = (distance + 0.5 * self).mean(0).clamp_min(0.5), e = entropy.mean(0);
    const at::Tensor c = 1 - (e - e.min()) / (e.max() - e.min()).clamp_min(1e-3);
    for (std::int64_t h = 0; h < config.heads; ++h) {
        result.distance.push_back(d[h].item<double>());
        result.concentration.push_back(c[h].item<double>());
    }
    return result;
}

// sigma* = sum(y_T y_S) / sum(y_S^2) per head, y_S the student's readout before the norm. [H]
at::Tensor valueScale(const LinearLayer& layer, const LayerContext& context, const PaperStatistics& statistics, double readoutScale) {
    const auto shape = context.teacher.linearShape();
    at::Tensor cross = at::zeros({shape.heads}, at::kDouble), square = cross.clone();
    for (std::int64_t n = 0; n < statistics.x.size(0); n += 8) {
        const auto count = std::min<std::int64_t>(8, statistics.x.size(0) - n);
        const at::Tensor x = statistics.x.narrow(0, n, count).to(at::kFloat);
        const at::Tensor student = linearReadout(mixerSpec(context.recipe.mixer), shape, layer, x).raw * readoutScale;
        const at::Tensor teacher = statistics.heads.narrow(0, n, count).to(at::kFloat).view(student.sizes());
        cross += (student * teacher).sum(at::IntArrayRef{0, 1, 3}).to(at::kCPU, at::kDouble);
        square += student.square().sum(at::IntArrayRef{0, 1, 3}).to(at::kCPU, at::kDouble);
    }
    return (cross / square.clamp_min(1e-8)).clamp(0.1, 10);
}

void applyPaper(LinearLayer& layer, const LayerContext& context, bool released) {
    const auto& config = context.teacher.config();
    const auto statistics = released ? asReleased(context) : fromProfile(context);
    const at::Tensor releasedDecayRow = layer.aProj.clone();
    for (std::int64_t h = 0; h < config.heads; ++h) {
        setDecay(layer, h, std::clamp(std::numbers::ln2 / statistics.distance[static_cast<std::size_t>(h)], kPaperMinRate, kPaperMaxRate));
        const double target = logit(0.3 + 0.4 * statistics.concentration[static_cast<std::size_t>(h)]);
        at::Tensor row = layer.bProj[h];
        if (released) {
            const double meanAbs = std::max(row.abs().mean().item<double>(), 1e-8);
            row.mul_(target / (meanAbs * std::sqrt(static_cast<double>(config.hiddenSize))));
        } else {
            double mean = row.to(at::kDouble).dot(context.moments.mean).item<double>();
            if (std::abs(mean) < kMinMeanLogit)
                mean = kMinMeanLogit;
            row.mul_(target / mean);
        }
    }
    if (released)
        layer.aProj = releasedDecayRow; // left random there
    // the released code forgets the readout's D^-0.5
    const double readoutScale = released ? std::sqrt(static_cast<double>(config.headDim)) : 1.0;
    const at::Tensor sigma = floatOn(context.teacher, valueScale(layer, context, statistics, readoutScale));
    layer.vProj = layer.vProj * sigma.repeat_interleave(config.headDim).unsqueeze(-1);
    const at::Tensor value = at::silu(statistics.x.to(at::kFloat).matmul(layer.vProj.t()));
    const double alpha = kOutputGateShare * std::sqrt(statistics.heads.to(at::kFloat).square().mean().item<double>()) /
                         std::max(std::sqrt(value.square().mean().item<double>()), 1e-8);
    layer.gProj = layer.vProj * alpha;
}

// A person's values, over whatever the preset made.
void applyTargets(LinearLayer& layer, const LayerContext& context) {
    const auto found = context.recipe.targets.find(context.layer);
    if (found == context.recipe.targets.end())
        return;
    const auto D = context.teacher.config().headDim;
    const at::Tensor unit = floatOn(context.teacher, context.moments.unitRow());
    for (const auto& [head, target] : found->second) {
        if (target.halfLife)
            setDecay(layer, head, decayRate(*target.halfLife));
        if (target.beta)
            layer.bProj[head].copy_(unit * logit(*target.beta));
        if (target.outputGate)
            layer.gProj.narrow(0, head * D, D).copy_((unit * inverseSiLU(*target.outputGate)).expand({D, -1}));
        if (target.valueScale)
            layer.oProj.narrow(1, head * D, D).mul_(*target.valueScale);
    }
}

} // namespace

at::Tensor streamWeights(const at::Tensor& stream) {
    return stream.to(at::kFloat).square().mean(-1).clamp_min(1e-12).reciprocal();
}

at::Tensor InputMoments::solve(const at::Tensor& rhs) const { // Cholesky: symmetric, and the addition to the diagonal keeps it positive
    return at::cholesky_solve(rhs.unsqueeze(-1), at::linalg_cholesky(second)).squeeze(-1);
}

at::Tensor InputMoments::unitRow() const {
    const at::Tensor row = solve(mean);
    return row / mean.dot(row);
}

InputMoments inputMoments(const at::Tensor& x) {
    const auto hidden = x.size(-1);
    const auto options = x.options().dtype(at::kDouble);
    at::Tensor mean = at::zeros({hidden}, options), second = at::zeros({hidden, hidden}, options);
    for (std::int64_t n = 0; n < x.size(0); ++n) { // float32 products of one sequence, summed in float64
        const at::Tensor rows = x[n].to(at::kFloat);
        mean += rows.sum(0).to(at::kDouble);
        second += rows.t().matmul(rows).to(at::kDouble);
    }
    const auto count = static_cast<double>(x.size(0) * x.size(1));
    second = second / count;
    second.diagonal().add_(1e-5 * second.diagonal().mean().item<double>());
    return {mean / count, second};
}

// The order of the draws is part of the seed.
NewParameters drawNewParameters(const ModelConfig& config, std::uint64_t seed, std::int64_t layer) {
    at::Generator generator = at::detail::createCPUGenerator(1000 * seed + static_cast<std::uint64_t>(layer));
    const auto uniform = [&](double low, double high) { return at::rand({config.heads}, generator) * (high - low) + low; };
    const auto normal = [&](std::int64_t rows) { return at::randn({rows, config.hiddenSize}, generator) * 0.02; };
    NewParameters drawn;
    const at::Tensor dt = uniform(std::log(1e-3), std::log(1e-1)).exp().clamp_min(1e-4);
    drawn.aProj = normal(config.heads);
    drawn.bProj = normal(config.heads);
    drawn.gProj = normal(config.heads * config.headDim);
    drawn.aLog = uniform(1e-4, 16).log();
    drawn.dtBias = dt + at::log(-at::expm1(-dt));
    return drawn;
}

LinearLayer initialLayer(const LayerContext& context, const std::string& preset) {
    const at::NoGradGuard noGradients;
    LinearLayer layer;
    if (preset == "linnet") {
        auto fit = closedForm(context, context.control ? *context.control : Control());
        layer = fit.layer;
        if (context.fit)
            *context.fit = std::move(fit);
        return layer;
    }
    const bool reference = preset == "reference";
    copyTeacher(layer, context, reference);
    setNewParameters(layer, context);
    if (preset == "zero-gate")
        layer.gProj.zero_();
    else if (preset == "small-gate")
        layer.gProj.mul_(0.02);
    else if (preset == "paper" || reference)
        applyPaper(layer, context, reference);
    else if (preset != "naive" && preset != "alignment-only")
        fail(ErrorCode::Usage, "preset " + preset + " has no start of its own", {{"key", "preset"}, {"found", preset}});
    applyTargets(layer, context);
    return mapped(layer, [](const at::Tensor& t) { return t.contiguous(); });
}

double inverseSoftplus(double y) {
    return y + std::log(-std::expm1(-y));
}

double inverseSiLU(double y) {
    if (y <= 0)
        return 0;
    double u = y + 1; // Newton on a convex, rising function from above
    for (int i = 0; i < 100; ++i) {
        const double s = 1 / (1 + std::exp(-u));
        u -= (u * s - y) / (s * (1 + u * (1 - s)));
    }
    return u;
}

double logit(double p) {
    return std::log(p / (1 - p));
}

double decayRate(double halfLife) {
    return std::max(std::numbers::ln2 / halfLife, 1e-4);
}

} // namespace linnet::core
