#include "core/torch_pch.h"

#include "core/convert/align_parts.h"

#include <numbers>

namespace linnet::core {
namespace {

constexpr std::int64_t kMaxHeldOut = 16; // windows: enough for a ranking of states, cheap beside the steps
constexpr std::int64_t kMeasurements = 8; // of a run
// AdamW's first steps move every weight by the whole learning rate. SmolLM2-135M, layers 5 and 20, lr 6e-3, held-out loss after 3 of 30 steps:
// .069 -> .105 and .78 -> 1.30 with the share's 2 steps of warm-up, .077 and .98 with 5.
constexpr std::int64_t kLeastWarmup = 5;

std::uint64_t mix(std::uint64_t value) { // splitmix64's finaliser
    value += 0x9e3779b97f4a7c15ULL;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
    return value ^ (value >> 31);
}

} // namespace

std::uint64_t layerSeed(const Recipe& recipe, std::int64_t layer) {
    return mix(recipe.seed) ^ static_cast<std::uint64_t>(layer);
}

std::vector<std::int64_t> drawBatch(std::uint64_t seed, std::int64_t step, std::int64_t batch, std::int64_t windows) {
    std::vector<std::int64_t> rows;
    for (std::int64_t i = 0; i < batch; ++i)
        rows.push_back(static_cast<std::int64_t>(mix(mix(seed) ^ static_cast<std::uint64_t>(step * batch + i)) % static_cast<std::uint64_t>(windows)));
    return rows;
}

std::int64_t warmupSteps(const AlignSettings& settings) {
    const auto share = std::llround(settings.warmup * static_cast<double>(settings.steps));
    return settings.warmup > 0 ? std::max<std::int64_t>(share, std::min(kLeastWarmup, settings.steps / 2)) : 0;
}

double scheduleFactor(const AlignSettings& settings, std::int64_t step) {
    const auto warmup = warmupSteps(settings);
    const double rise = step < warmup ? static_cast<double>(step + 1) / static_cast<double>(warmup) : 1.0;
    if (settings.schedule != "cosine")
        return rise;
    return rise * (0.05 + 0.475 * (1 + std::cos(std::numbers::pi * static_cast<double>(step) / static_cast<double>(settings.steps))));
}

std::int64_t heldOutWindows(const AlignSettings& settings, std::int64_t windows) {
    if (windows < 2)
        return 0;
    return std::clamp<std::int64_t>(std::llround(settings.heldOut * static_cast<double>(windows)), 1, std::min(kMaxHeldOut, windows - 1));
}

std::int64_t measureEvery(const AlignSettings& settings) {
    return std::max<std::int64_t>(settings.steps / kMeasurements, 1);
}

bool hasStopped(const AlignSettings& settings, std::int64_t steps, std::int64_t bestStep) {
    if (settings.earlyStop == 0 || steps == 0 || bestStep < 0)
        return false;
    const auto every = measureEvery(settings), last = (steps - 1) / every * every; // measurement
    return last - bestStep >= settings.earlyStop * every;
}

AlignLocks::AlignLocks(LinearLayer& layer, const Recipe& recipe, std::int64_t index, std::int64_t headDim, const at::Tensor& norms, const at::Tensor& inverse)
    : m_inverse(inverse) {
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
            const auto which = std::ssize(m_norms);
            m_norms.emplace_back(columns, norms.defined() && which < norms.size(0) ? norms[which].to(columns.device()) : normOf(columns));
        }
    }
}

void AlignLocks::restore() const {
    for (const auto& [live, value] : m_frozen)
        live.copy_(value);
    for (const auto& [columns, norm] : m_norms)
        columns.mul_(norm / normOf(columns).clamp_min(1e-12));
}

at::Tensor AlignLocks::norms() const {
    std::vector<at::Tensor> values;
    for (const auto& [columns, norm] : m_norms)
        values.push_back(norm);
    return values.empty() ? at::Tensor() : at::stack(values);
}

std::vector<at::Tensor> AlignLocks::touched() const {
    std::vector<at::Tensor> views;
    for (const auto* kind : {&m_frozen, &m_norms})
        for (const auto& [live, value] : *kind)
            views.push_back(live);
    return views;
}

} // namespace linnet::core
