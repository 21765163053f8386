#include "core/torch_pch.h"

#include "core/convert/align.h"

#include <chrono>
#include <numbers>

namespace linnet::core {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::int64_t kMaxHeldOut = 16;  // windows: enough for a ranking of states, cheap beside the steps
constexpr auto kSaveEvery = std::chrono::seconds(15);

std::uint64_t mix(std::uint64_t value) { // splitmix64's finaliser: a counter-based draw, so that a resumed run draws the same
    value += 0x9e3779b97f4a7c15ULL;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
    return value ^ (value >> 31);
}

at::Tensor drawBatch(std::uint64_t seed, std::int64_t step, std::int64_t batch, std::int64_t windows) {
    std::vector<std::int64_t> rows;
    for (std::int64_t i = 0; i < batch; ++i)
        rows.push_back(static_cast<std::int64_t>(mix(mix(seed) ^ static_cast<std::uint64_t>(step * batch + i)) % static_cast<std::uint64_t>(windows)));
    return at::tensor(rows, at::kLong);
}

// Share of the learning rate in a step counted from 0: linear warm-up, then constant or cosine to 5 %.
double scheduleFactor(const AlignSettings& settings, std::int64_t step) {
    const auto warmup = std::llround(settings.warmup * static_cast<double>(settings.steps));
    const double rise = step < warmup ? static_cast<double>(step + 1) / static_cast<double>(warmup) : 1.0;
    if (settings.schedule != "cosine")
        return rise;
    return rise * (0.05 + 0.475 * (1 + std::cos(std::numbers::pi * static_cast<double>(step) / static_cast<double>(settings.steps))));
}

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

// Rows that a locked target freezes, as (live view, value to keep); a locked value scale keeps the norm of its o_proj columns.
class Locks {
public:
    Locks(LinearLayer& layer, const Recipe& recipe, std::int64_t index, std::int64_t headDim) {
        const auto found = recipe.targets.find(index);
        if (found == recipe.targets.end())
            return;
        for (const auto& [head, target] : found->second) {
            if (target.locked.contains("half_life"))
                for (const at::Tensor& row : {layer.aProj[head], layer.aLog[head], layer.dtBias[head]})
                    freeze(row);
            if (target.locked.contains("beta"))
                freeze(layer.bProj[head]);
            if (target.locked.contains("output_gate"))
                freeze(layer.gProj.narrow(0, head * headDim, headDim));
            if (target.locked.contains("value_scale")) {
                const at::Tensor columns = layer.oProj.detach().narrow(1, head * headDim, headDim);
                m_norms.emplace_back(columns, columns.norm());
            }
        }
    }
    void restore() const {
        for (const auto& [live, value] : m_frozen)
            live.copy_(value);
        for (const auto& [columns, norm] : m_norms)
            columns.mul_(norm / columns.norm().clamp_min(1e-12));
    }

private:
    void freeze(const at::Tensor& live) { m_frozen.emplace_back(live.detach(), live.detach().clone()); }
    std::vector<std::pair<at::Tensor, at::Tensor>> m_frozen, m_norms;
};

struct Losses {
    double absolute = 0, relative = 0;
};

Losses heldOutLosses(const AlignJob& job, const LinearLayer& layer, std::int64_t from, std::int64_t count) {
    const at::NoGradGuard noGradients;
    double error = 0, power = 0;
    for (std::int64_t n = from; n < from + count; n += 4) {
        const auto rows = std::min<std::int64_t>(4, from + count - n);
        const at::Tensor x = job.x.narrow(0, n, rows).to(at::kFloat), y = job.target.narrow(0, n, rows).to(at::kFloat);
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
    const auto heldOut = windows < 2 ? 0 : std::clamp<std::int64_t>(std::llround(settings.heldOut * static_cast<double>(windows)), 1, std::min(kMaxHeldOut, windows - 1));
    const auto training = windows - heldOut;
    const auto measureEvery = std::max<std::int64_t>(settings.steps / 8, 1);
    const auto shape = job.teacher.linearShape();
    const std::uint64_t seed = mix(job.recipe.seed) ^ static_cast<std::uint64_t>(job.layer);

    state.parameters = mapped(state.parameters, [](const at::Tensor& t) { return t.detach().clone().requires_grad_(); });
    const auto trained = trainedParameters(state.parameters, settings);
    const Locks locks(state.parameters, job.recipe, job.layer, shape.headDim);
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
        while (state.step < settings.steps) {
            const auto begin = Clock::now();
            MetricRow row;
            row.layer = job.layer;
            row.step = state.step;
            row.tokens = (state.step + 1) * tokens;
            if (state.step % measureEvery == 0)
                measure(row);
            const at::Tensor batch = drawBatch(seed, state.step, settings.batch, training).to(job.x.device());
            const at::Tensor x = job.x.index_select(0, batch).to(at::kFloat), y = job.target.index_select(0, batch).to(at::kFloat);
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
    MetricRow last;
    measure(last); // the state after the last step competes too
    return state.best;
}

} // namespace linnet::core
