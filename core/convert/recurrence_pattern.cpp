#include "core/torch_pch.h"

#include "core/convert/head_view.h"

#include "core/convert/calibration.h"

namespace linnet::core {
namespace {

at::Tensor wrapped(const std::vector<float>& values, at::IntArrayRef sizes) {
    return at::from_blob(const_cast<float*>(values.data()), sizes, at::kFloat);
}

// [T]: as the layer has it, or for another half-life.
at::Tensor logDecayOf(const HeadView& view, const std::optional<double>& halfLife) {
    if (!view.decays)
        return at::zeros({view.length}, at::kDouble);
    if (halfLife)
        return at::full({view.length}, -decayRate(*halfLife), at::kDouble);
    return wrapped(view.logDecay, {view.length}).to(at::kDouble);
}

at::Tensor betaOf(const HeadView& view, const std::optional<double>& beta) {
    const at::Tensor standing = wrapped(view.beta, {view.length});
    if (!beta || !view.writes)
        return standing;
    return (at::logit(standing, 1e-6) + wrapped(view.unit, {view.length}) * (logit(*beta) - logit(view.betaMean))).sigmoid();
}

} // namespace

std::vector<float> recurrencePattern(const HeadView& view, const HeadSliders& sliders) {
    const at::NoGradGuard noGradients;
    const auto T = view.length;
    std::vector<float> pattern(static_cast<std::size_t>(T * T));
    if (T == 0)
        return pattern;
    const at::Tensor q = wrapped(view.q, {T, view.headDim}), k = wrapped(view.k, {T, view.headDim});
    const at::Tensor sum = logDecayOf(view, sliders.halfLife).cumsum(0); // float64: small differences of large sums
    const at::Tensor left = (sum.unsqueeze(1) - sum.unsqueeze(0)).to(at::kFloat).clamp_max_(0).exp_().tril_(); // of what s wrote, at t
    const at::Tensor beta = betaOf(view, sliders.beta);
    at::Tensor W = q.matmul(k.t()).mul_(left);
    if (view.deltaRule) { // X (I + L) = P; the diagonal of ones is not read
        const at::Tensor erase = k.matmul(k.t()).mul_(left).mul_(beta.unsqueeze(1));
        W = at::linalg_solve_triangular(erase, W, /*upper=*/false, /*left=*/false, /*unitriangular=*/true);
    }
    const double level = sliders.outputGate && view.outputGate > 0 ? *sliders.outputGate / view.outputGate : sliders.outputGate.value_or(1);
    const at::Tensor rows = wrapped(view.gate, {T}) * (level * sliders.valueScale.value_or(view.valueScale));
    at::Tensor out = wrapped(pattern, {T, T});
    at::mul_out(out, W * beta, rows.unsqueeze(1));
    return pattern;
}

std::vector<float> rowShares(const std::vector<float>& pattern, std::int64_t length) {
    std::vector<float> shares(pattern);
    for (std::int64_t t = 0; t < length; ++t) {
        float* const row = shares.data() + t * length;
        double sum = 0;
        for (std::int64_t s = 0; s <= t; ++s)
            sum += std::abs(row[s]);
        for (std::int64_t s = 0; sum > 0 && s <= t; ++s)
            row[s] = static_cast<float>(row[s] / sum);
    }
    return shares;
}

} // namespace linnet::core
