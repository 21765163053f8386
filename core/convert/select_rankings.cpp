#include "core/torch_pch.h"

#include "core/convert/select_rankings.h"

#include <limits>

namespace linnet::core {
namespace {

// A student that overflows is the worst there is, and must not upset the order.
double finiteOrWorst(double value) {
    return std::isnan(value) ? std::numeric_limits<double>::infinity() : value;
}

bool cheaper(const LayerScore& a, const LayerScore& b) { // the lower layer where they cost the same
    return std::pair(finiteOrWorst(a.score), a.layer) < std::pair(finiteOrWorst(b.score), b.layer);
}

bool convertedBefore(const RankingTask& task, std::int64_t layer) { // in the teacher: there is nothing to rank
    return task.job.teacher.mixers().contains(layer);
}

Ranking sorted(const RankingTask& task, std::string unit, std::vector<LayerScore> scores) {
    std::erase_if(scores, [&](const LayerScore& entry) { return convertedBefore(task, entry.layer); });
    std::sort(scores.begin(), scores.end(), cheaper);
    Ranking ranking{std::move(unit), std::move(scores), {}};
    for (const auto& entry : ranking.scores)
        if (!task.job.never.contains(entry.layer) && !task.job.always.contains(entry.layer))
            ranking.convertFirst.push_back(entry.layer);
    return ranking;
}

LayerSet with(LayerSet set, std::int64_t layer) {
    set.insert(layer);
    return set;
}

LayerSet without(LayerSet set, std::int64_t layer) {
    set.erase(layer);
    return set;
}

LayerSet allConverted(const RankingTask& task) {
    LayerSet set = task.job.always;
    set.insert(task.free.begin(), task.free.end());
    return set;
}

std::string layerText(std::int64_t layer) {
    return "layer " + std::to_string(layer);
}

Ranking bypass(const RankingTask& task) {
    const double whole = task.meter.teacher().loss;
    std::vector<LayerScore> scores;
    for (std::int64_t l = 0; l < task.job.teacher.config().layers; ++l)
        if (!convertedBefore(task, l))
            scores.push_back({l, task.meter.withoutAttention(l) - whole});
    return sorted(task, "nats of loss", std::move(scores));
}

Ranking oneLayerKl(const RankingTask& task) {
    task.meter.teacher();
    std::vector<LayerScore> scores;
    for (std::int64_t l = 0; l < task.job.teacher.config().layers; ++l)
        if (!task.job.never.contains(l) && !convertedBefore(task, l))
            scores.push_back({l, task.meter.converted({l}, {}, layerText(l) + " converted").kl});
    return sorted(task, "nats of KL", std::move(scores));
}

Ranking greedy(const RankingTask& task) {
    auto remaining = oneLayerKl(task).convertFirst;
    Ranking ranking{"nats of KL", {}, {}};
    LayerSet converted = task.job.always;
    double kl = task.meter.converted(converted, converted, "the pinned layers converted").kl;
    for (std::int64_t step = 0; step < task.steps; ++step) {
        std::vector<std::int64_t> candidates(
            remaining.begin(), remaining.begin() + std::min<std::ptrdiff_t>(kGreedyCandidates, std::ssize(remaining)));
        std::sort(candidates.begin(), candidates.end()); // what the scorer likes
        LayerScore best{-1, 0};
        for (const auto l : candidates) {
            const auto text = layerText(l) + " after " + std::to_string(converted.size()) + " converted";
            const LayerScore found{l, task.meter.converted(with(converted, l), converted, text).kl};
            if (best.layer < 0 || cheaper(found, best))
                best = found;
        }
        converted.insert(best.layer);
        std::erase(remaining, best.layer);
        ranking.scores.push_back({best.layer, best.score - kl});
        ranking.convertFirst.push_back(best.layer);
        kl = best.score;
    }
    ranking.convertFirst.insert(ranking.convertFirst.end(), remaining.begin(), remaining.end());
    return ranking;
}

Ranking restore(const RankingTask& task) {
    task.meter.teacher();
    auto remaining = task.free; // converted still
    Ranking ranking{"nats of KL", {}, {}};
    LayerSet converted = allConverted(task);
    double kl = task.steps == 0 ? 0 : task.meter.converted(converted, converted, "all layers converted").kl;
    for (std::int64_t step = 0; step < task.steps; ++step) {
        LayerScore best{-1, 0};
        for (const auto l : remaining) {
            const auto text = layerText(l) + " restored of " + std::to_string(converted.size());
            const LayerScore found{l, task.meter.converted(without(converted, l), converted, text).kl};
            if (best.layer < 0 || cheaper(found, best))
                best = found;
        }
        converted.erase(best.layer);
        std::erase(remaining, best.layer);
        ranking.scores.insert(ranking.scores.begin(), {best.layer, kl - best.score});
        kl = best.score;
    }
    ranking.convertFirst = std::move(remaining);
    for (const auto& entry : ranking.scores)
        ranking.convertFirst.push_back(entry.layer);
    return ranking;
}

// The cost of a layer is what the loss would gain by keeping it alone.
Ranking gaS2(const RankingTask& task) {
    task.meter.teacher();
    const LayerSet converted = allConverted(task);
    const double none = task.meter.converted(converted, converted, "all layers converted").loss;
    std::vector<LayerScore> losses;
    for (const auto l : task.free)
        losses.push_back({l, task.meter.converted(without(converted, l), converted, "only " + layerText(l) + " kept").loss});
    std::sort(losses.begin(), losses.end(), [](const LayerScore& a, const LayerScore& b) {
        return std::pair(-finiteOrWorst(a.score), a.layer) < std::pair(-finiteOrWorst(b.score), b.layer);
    });
    Ranking ranking{"nats of loss", {}, {}};
    for (const auto& entry : losses) { // by the losses themselves: `none` may not be finite
        ranking.scores.push_back({entry.layer, none - entry.score});
        ranking.convertFirst.push_back(entry.layer);
    }
    return ranking;
}

} // namespace

Ranking rankLayers(const std::string& method, const RankingTask& task) {
    if (method == "score")
        return sorted(task, "share of the stream", profileScores(*task.job.profile));
    return method == "bypass"    ? bypass(task)
           : method == "kl"      ? oneLayerKl(task)
           : method == "greedy"  ? greedy(task)
           : method == "restore" ? restore(task)
                                 : gaS2(task);
}

std::int64_t plannedMeasurements(const std::string& method, const RankingTask& task) {
    const auto free = std::ssize(task.free), layers = task.job.teacher.config().layers - std::ssize(task.job.teacher.mixers()),
               single = layers - std::ssize(task.job.never);
    if (method == "score")
        return 0;
    if (method == "bypass")
        return 1 + layers;
    if (method == "kl")
        return 1 + single;
    if (method == "ga-s2")
        return 2 + free;
    std::int64_t planned = method == "greedy" ? 2 + single : 2;
    for (std::int64_t step = 0; step < task.steps; ++step)
        planned += method == "greedy" ? std::min<std::int64_t>(kGreedyCandidates, free - step) : free - step;
    return planned;
}

} // namespace linnet::core
