#include "core/torch_pch.h"

#include "core/convert/align.h"

#include "core/convert/align_parts.h"

#include <chrono>

namespace linnet::core {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kSaveEvery = std::chrono::seconds(15);

struct Trained {
    std::size_t index;   // in LinearLayer::names()
    at::Tensor* tensor;
    bool projection;     // q, k, v: lr; the others: lrNew
};

std::vector<Trained> trainedParameters(LinearLayer& layer, const AlignSettings& settings) {
    std::vector<Trained> result;
    std::size_t index = 0;
    layer.forEach([&](const std::string& name, at::Tensor& tensor) {
        const bool output = name.starts_with("o_");
        if (!output || settings.trainOutput)
            result.push_back({index, &tensor, name == "q_proj.weight" || name == "k_proj.weight" || name == "v_proj.weight"});
        ++index;
    });
    return result;
}

struct Losses {
    double absolute = 0, relative = 0;
};

// [.., hidden] times M' where the loss has a metric.
at::Tensor inMetric(const AlignJob& job, const at::Tensor& target) {
    return job.metric ? target.matmul(job.metric->root.t()) : target;
}

Losses heldOutLosses(const AlignJob& job, const LinearLayer& layer, std::int64_t from, std::int64_t count) {
    const at::NoGradGuard noGradients;
    double error = 0, power = 0;
    for (std::int64_t n = from; n < from + count; n += 4) {
        const auto rows = std::min<std::int64_t>(4, from + count - n);
        const at::Tensor x = job.x.narrow(0, n, rows).to(at::kFloat), y = inMetric(job, job.target.narrow(0, n, rows).to(at::kFloat));
        const at::Tensor out = linearForward(mixerSpec(job.recipe.mixer), job.teacher.linearShape(), layer, x);
        error += (out - y).square().sum().item<double>();
        power += y.square().sum().item<double>();
    }
    const auto values = static_cast<double>(count * job.x.size(1) * job.x.size(2));
    return {error / values, error / std::max(power, 1e-30)};
}

} // namespace

AlignState freshAlignState(LinearLayer start) {
    AlignState state;
    const std::function<void(const std::string&, const at::Tensor&)> zeros = [&](const std::string&, const at::Tensor& tensor) {
        state.first.push_back(at::zeros_like(tensor));
        state.second.push_back(at::zeros_like(tensor));
    };
    std::as_const(start).forEach(zeros);
    state.best = start;
    state.parameters = std::move(start);
    return state;
}

LinearLayer alignLayer(const AlignJob& job, AlignState& state) {
    const auto& settings = job.recipe.align;
    const auto windows = job.x.size(0);
    const auto heldOut = heldOutWindows(settings, windows);
    const auto training = windows - heldOut;
    const auto every = measureEvery(settings);
    const auto shape = job.teacher.linearShape();
    const std::uint64_t seed = layerSeed(job.recipe, job.layer);

    if ((settings.loss == "kl_metric") != (job.metric != nullptr))
        fail(ErrorCode::Internal, "alignment of layer " + std::to_string(job.layer) + ": loss " + settings.loss + (job.metric ? " takes no metric" : " needs a metric"));
    if (job.metric && state.bestStep < 0) { // an ordinary layer, nothing measured yet
        const at::NoGradGuard noGradients;
        state.parameters.oProj = state.best.oProj = job.metric->root.matmul(state.parameters.oProj);
    }
    state.parameters = mapped(state.parameters, [](const at::Tensor& t) { return t.detach().clone().requires_grad_(); });
    const auto trained = trainedParameters(state.parameters, settings);
    const AlignLocks locks(state.parameters, job.recipe, job.layer, shape.headDim, state.lockNorms, job.metric ? job.metric->inverse : at::Tensor());
    state.lockNorms = locks.norms();
    const auto tokens = settings.batch * job.x.size(1);
    auto lastSave = Clock::now();

    // A state is measured before the step that leaves it, so the best one kept is the one whose loss was seen.
    const auto measure = [&](MetricRow& row) {
        if (heldOut == 0) {
            state.best = mapped(state.parameters, [](const at::Tensor& t) { return t.detach().clone(); });
            state.bestStep = state.step;
            return;
        }
        const auto losses = heldOutLosses(job, state.parameters, training, heldOut);
        row.heldOutLoss = losses.absolute;
        row.relativeLoss = losses.relative;
        if (state.bestStep < 0 || losses.absolute < state.bestLoss) {
            state.best = mapped(state.parameters, [](const at::Tensor& t) { return t.detach().clone(); });
            state.bestStep = state.step;
            state.bestLoss = losses.absolute;
        }
    };

    try {
        while (state.step < settings.steps && !hasStopped(settings, state.step, state.bestStep)) {
            const auto begin = Clock::now();
            MetricRow row;
            row.layer = job.layer;
            row.step = state.step;
            row.tokens = (state.step + 1) * tokens;
            if (state.step % every == 0)
                measure(row);
            const at::Tensor batch = at::tensor(drawBatch(seed, state.step, settings.batch, training), at::kLong).to(job.x.device());
            const at::Tensor x = job.x.index_select(0, batch).to(at::kFloat), y = inMetric(job, job.target.index_select(0, batch).to(at::kFloat));
            const at::Tensor error = (linearForward(mixerSpec(job.recipe.mixer), shape, state.parameters, x) - y).square().mean();
            const at::Tensor loss = settings.loss == "relative_mse" ? error / y.square().mean().clamp_min(1e-30) : error;
            loss.backward();

            const at::NoGradGuard noGradients;
            at::Tensor square = at::zeros({}, x.options());
            for (const auto& p : trained)
                square += p.tensor->grad().square().sum();
            const at::Tensor norm = square.sqrt();
            const at::Tensor scale = (settings.clip / (norm + 1e-6)).clamp_max(1.0);
            const double factor = scheduleFactor(settings, state.step);
            row.lr = settings.lr * factor;
            for (const bool projection : {true, false}) {
                std::vector<at::Tensor> parameters, gradients, first, second, steps;
                for (const auto& p : trained)
                    if (p.projection == projection) {
                        parameters.push_back(p.tensor->detach());
                        gradients.push_back(p.tensor->grad().mul_(scale));
                        first.push_back(state.first[p.index]);
                        second.push_back(state.second[p.index]);
                        steps.push_back(at::full({}, static_cast<double>(state.step + 1), x.options()));
                    }
                at::_fused_adamw_(parameters, gradients, first, second, {}, steps, (projection ? settings.lr : settings.lrNew) * factor, 0.9, 0.999,
                                  settings.weightDecay, 1e-8, false, false);
            }
            locks.restore();
            for (const auto& p : trained)
                p.tensor->mutable_grad().reset();
            row.loss = error.item<double>();
            row.gradNorm = norm.item<double>();
            if (!std::isfinite(row.loss))
                fail(ErrorCode::Internal, "alignment of layer " + std::to_string(job.layer) + " diverged in step " + std::to_string(state.step) +
                                              ": the loss is not finite; try a lower align.lr", {{"key", "align.lr"}});
            if (state.step == 0)
                state.lossFirst = row.loss;
            state.lossLast = row.loss;
            ++state.step;
            row.tokensPerSecond = static_cast<double>(tokens) / std::chrono::duration<double>(Clock::now() - begin).count();
            job.onMetric(row);
            if (Clock::now() - lastSave > kSaveEvery) {
                job.save(state);
                lastSave = Clock::now();
            }
            job.onStep(state.step, row.loss);
        }
    } catch (const Failure& failure) {
        if (failure.error.code == ErrorCode::Cancelled)
            job.save(state);
        throw;
    }
    if (!hasStopped(settings, state.step, state.bestStep)) {
        MetricRow last;
        measure(last); // the state after the last step competes too
    }
    LinearLayer best = state.best;
    if (job.metric) {
        const at::NoGradGuard noGradients;
        best.oProj = job.metric->inverse.matmul(best.oProj);
    }
    return best;
}

} // namespace linnet::core
