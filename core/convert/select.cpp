#include "core/torch_pch.h"

#include "core/convert/select.h"

#include "core/convert/select_rankings.h"

namespace linnet::core {
namespace {

constexpr std::int64_t kConvolutionInputs = 3; // a token's own is not carried

struct Range { // of kept layers that the pins allow
    std::int64_t least, most;
};

Range checkedRange(const SelectionJob& job) {
    const auto layers = job.teacher.config().layers;
    for (const auto* pins : {&job.never, &job.always})
        for (const auto layer : *pins)
            if (layer < 0 || layer >= layers)
                fail(ErrorCode::Usage,
                     "pins: found layer " + std::to_string(layer) + ", the teacher has layers 0 to " +
                         std::to_string(layers - 1),
                     {{"key", "pins"}, {"found", std::to_string(layer)}});
    for (const auto layer : job.always)
        if (job.never.contains(layer))
            fail(ErrorCode::Usage, "pins: layer " + std::to_string(layer) + " is pinned both to be kept and to be converted",
                 {{"key", "pins.always"}, {"found", std::to_string(layer)}});
    return {std::ssize(job.never), layers - std::ssize(job.always)};
}

void checkInputs(const KeepRule& rule, const SelectionJob& job, bool bankNeeded) {
    const auto layers = job.teacher.config().layers;
    if (rule.method == "score" && (!job.profile || std::ssize(job.profile->layers) != layers))
        fail(ErrorCode::Usage,
             "layer selection \"score\" needs the profile of the teacher's " + std::to_string(layers) + " layers, found " +
                 (job.profile ? std::to_string(job.profile->layers.size()) + " layers" : "none"),
             {{"value", rule.method}});
    if (bankNeeded && !job.bank)
        fail(ErrorCode::Usage,
             "layer selection \"" + rule.text() + "\" is measured over a bank of converted layers, and none was given",
             {{"value", rule.text()}});
    for (std::int64_t l = 0; l < layers && job.bank; ++l)
        if (!job.never.contains(l) && !job.bank->contains(l))
            fail(ErrorCode::Usage,
                 "layer selection \"" + rule.text() + "\": the bank of converted layers lacks layer " + std::to_string(l) +
                     ", which is not pinned to be kept",
                 {{"value", std::to_string(l)}});
}

std::string pinned(const std::set<std::int64_t>& never, const std::set<std::int64_t>& always) { // "pins.never 0,1 and pins.always 5"
    std::string text = never.empty() ? "" : "pins.never " + listed(never);
    if (!always.empty())
        text.append(text.empty() ? "" : " and ").append("pins.always ").append(listed(always));
    return text;
}

// The fewest kept layers whose student is good enough; it may be that more layers are not.
std::int64_t keptByPerplexity(const KeepRule& rule, const SelectionJob& job, const Selection& selection, double teacherLoss) {
    double best = INFINITY;
    for (auto point = selection.curve.rbegin(); point != selection.curve.rend(); ++point) {
        const double ratio = std::exp(point->loss - teacherLoss);
        if (ratio <= rule.limit) // 1 with all layers kept
            return point->kept;
        best = std::min(best, std::isnan(ratio) ? INFINITY : ratio);
    }
    fail(ErrorCode::Usage,
         "keep: " + rule.text() + ": the best student with " + pinned(job.never, job.always) + " has " + std::to_string(best) +
             " times the teacher's perplexity",
         {{"key", "pins.always"}, {"found", rule.text()}, {"expected", std::to_string(best)}});
}

LayerSet convertedWith(const std::vector<std::int64_t>& kept, std::int64_t layers) {
    LayerSet converted;
    for (std::int64_t l = 0; l < layers; ++l)
        if (!std::binary_search(kept.begin(), kept.end(), l))
            converted.insert(l);
    return converted;
}

std::vector<SelectionPoint> measuredCurve(const SelectionJob& job, SelectionMeter& meter,
                                          const std::vector<std::int64_t>& order, const Range& range,
                                          std::int64_t cacheLength) {
    const auto& config = job.teacher.config();
    std::vector<SelectionPoint> curve;
    for (auto kept = range.most; kept >= range.least; --kept) {
        const auto converted = convertedWith(keepByRanking(order, kept, job.never, job.always), config.layers);
        // Each builds on the one before.
        const auto score = meter.converted(converted, converted, std::to_string(kept) + " layers kept");
        const auto bytes =
            studentCacheBytes(config, kept, cacheLength, static_cast<std::int64_t>(at::elementSize(job.teacher.dtype())), job.window);
        curve.push_back({kept, score.loss, std::exp(score.loss), score.kl, bytes});
    }
    return curve;
}

} // namespace

std::int64_t keptByCache(const KeepRule& rule, const ModelConfig& config, std::int64_t cacheElementBytes, std::int64_t window,
                         const std::set<std::int64_t>& never, const std::set<std::int64_t>& always) {
    const Range range{std::ssize(never), config.layers - std::ssize(always)};
    const auto bytes = [&](std::int64_t kept) { return studentCacheBytes(config, kept, rule.length, cacheElementBytes, window); };
    const auto fits = [&](std::int64_t kept) { return static_cast<double>(bytes(kept)) <= rule.limit; };
    for (auto kept = range.most; kept >= range.least; --kept)
        if (fits(kept))
            return kept;
    const auto smallest = std::min(bytes(0), bytes(config.layers)), allowed = std::min(bytes(range.least), bytes(range.most));
    const bool blamePins = fits(0) || fits(config.layers);
    fail(ErrorCode::Usage,
         "keep: " + rule.text() + ": the smallest cache of " + std::to_string(rule.length) + " tokens is " +
             std::to_string(blamePins ? allowed : smallest) + " bytes" +
             (blamePins ? " with " + pinned(never, always) + " (" + std::to_string(smallest) + " without pins)" : ""),
         {{"key", blamePins ? "pins" : "keep"},
          {"found", rule.text()},
          {"expected", std::to_string(blamePins ? allowed : smallest)}});
}

BankKind bankFor(const std::string& method) {
    for (const char* plain : {"bypass", "score"})
        if (method == plain)
            return BankKind::None;
    for (const char* aligned : {"kl", "greedy", "restore"})
        if (method == aligned)
            return BankKind::Aligned;
    if (method == "ga-s2")
        return BankKind::Starts;
    fail(ErrorCode::Usage, "unknown layer selection \"" + method + "\"; known are bypass, kl, greedy, restore, ga-s2 and score",
         {{"value", method}});
}

std::uint64_t studentCacheBytes(const ModelConfig& config, std::int64_t keptLayers, std::int64_t tokens,
                                std::int64_t cacheElementBytes, std::int64_t window) {
    constexpr std::int64_t stateElementBytes = sizeof(float);
    const auto width = config.heads * config.headDim;
    const auto keys = [&](std::int64_t count) { return 2 * config.kvHeads * config.headDim * count * cacheElementBytes; };
    const auto kept = keys(tokens);
    if (window > 0)
        return static_cast<std::uint64_t>(kept * keptLayers + keys(std::min(tokens, window)) * (config.layers - keptLayers));
    const auto state =
        (width * config.headDim + kConvolutionInputs * 3 * width) * stateElementBytes; // q, k and v are convolved
    return static_cast<std::uint64_t>(kept * keptLayers + state * (config.layers - keptLayers));
}

Selection selectLayers(const KeepRule& rule, const SelectionJob& job) {
    if (rule.kind != KeepRule::Kind::Method)
        fail(ErrorCode::Usage, "keep: " + rule.text() + " names its layers; there is nothing to select",
             {{"key", "keep"}, {"found", rule.text()}});
    const auto layers = job.teacher.config().layers;
    const auto bank = bankFor(rule.method);
    const bool byPerplexity = rule.budget == KeepRule::Budget::Perplexity;
    const auto range = checkedRange(job);
    const bool choice = range.least < range.most; // else the pins leave none
    checkInputs(rule, job, choice && (bank != BankKind::None || byPerplexity));
    if (rule.budget == KeepRule::Budget::None && (rule.count < 0 || rule.count > layers))
        fail(ErrorCode::Usage,
             "can't keep " + std::to_string(rule.count) + " layers: the teacher has " + std::to_string(layers),
             {{"value", std::to_string(rule.count)}});
    const auto wanted = rule.budget == KeepRule::Budget::Cache  ? keptByCache(rule, job.teacher.config(), static_cast<std::int64_t>(at::elementSize(job.teacher.dtype())), job.window, job.never, job.always)
                        : rule.budget == KeepRule::Budget::None ? std::clamp(rule.count, range.least, range.most)
                                                                : 0; // what the curve says
    if (!choice) {
        Selection all;
        all.method = rule.method;
        all.kept.assign(job.never.begin(), job.never.end());
        return all;
    }
    const bool curve = byPerplexity || (job.curve && job.bank && job.windows.sequences > 0);

    std::vector<std::int64_t> freeLayers;
    for (std::int64_t l = 0; l < layers; ++l)
        if (!job.never.contains(l) && !job.always.contains(l))
            freeLayers.push_back(l);
    auto steps = std::ssize(freeLayers);
    if (!curve)
        steps = rule.method == "greedy" ? range.most - wanted : wanted - range.least;
    SelectionMeter meter(job, bank);
    const RankingTask task{job, meter, std::move(freeLayers), steps};
    meter.plan(plannedMeasurements(rule.method, task) + (curve ? range.most - range.least + 1 : 0));

    auto ranking = rankLayers(rule.method, task);
    auto order = ranking.convertFirst;
    order.insert(order.end(), job.never.begin(), job.never.end());
    Selection selection;
    selection.method = rule.method, selection.unit = ranking.unit;
    if (rule.budget == KeepRule::Budget::Cache)
        selection.cacheLength = rule.length; // the curve in the budget's terms
    selection.ranking = std::move(ranking.scores);
    if (curve)
        selection.curve = measuredCurve(job, meter, order, range, selection.cacheLength);
    if (curve || meter.measured())
        selection.teacherPerplexity = std::exp(meter.teacher().loss);
    const auto kept = byPerplexity ? keptByPerplexity(rule, job, selection, meter.teacher().loss) : wanted;
    selection.kept = keepByRanking(order, kept, job.never, job.always);
    return selection;
}

} // namespace linnet::core
