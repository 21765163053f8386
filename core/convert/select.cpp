#include "core/torch_pch.h"

#include "core/convert/select.h"

#include "core/evaluate/evaluate_model.h"
#include "core/evaluate/score_rows.h"

namespace linnet::core {
namespace {

double lossSum(const Model& model, const at::Tensor& normed, const at::Tensor& ids, const Control& control) {
    double sum = 0;
    const auto predictions = ids.size(1) - 1;
    for (std::int64_t n = 0; n < ids.size(0); ++n)
        sum += scoreRows(model, normed[n].narrow(0, 0, predictions), ids[n].narrow(0, 1, predictions), {}, {}, control).loss.sum().item<double>();
    return sum;
}

} // namespace

void checkMethod(const std::string& method) {
    if (method == "bypass")
        return;
    for (const char* later : {"kl", "greedy", "restore", "ga-s2", "score"})
        if (method == later)
            fail(ErrorCode::Unsupported, "layer selection \"" + method + "\" is not in this release; bypass is", {{"value", method}});
    fail(ErrorCode::Usage, "unknown layer selection \"" + method + "\"; bypass is known", {{"value", method}});
}

std::vector<LayerScore> bypassRanking(const Model& teacher, const TokenWindows& windows, std::map<std::int64_t, double>& finished,
                                      const std::function<void()>& save, const Control& control) {
    const c10::InferenceMode inference;
    const auto layers = teacher.config().layers;
    const at::Tensor ids = windowTensor(windows, teacher.device());
    constexpr std::int64_t kBatch = 4; // sequences at a time
    std::vector<double> sums(static_cast<std::size_t>(layers) + 1, 0); // last: nothing bypassed

    // The unchanged prefix is walked once: prefix = the stream before layer l; from it the rest runs without l's attention.
    const auto finishFrom = [&](at::Tensor hidden, std::int64_t from) {
        for (std::int64_t l = from; l < layers; ++l) {
            control.checkpoint();
            hidden = runBlock(teacher, *teacher.layer(l), nullptr, hidden);
        }
        return teacher.finalNorm(hidden);
    };
    Mixer bypass;
    bypass.kind = Mixer::Kind::Bypass;
    std::vector<at::Tensor> prefix;
    for (std::int64_t n = 0; n < ids.size(0); n += kBatch)
        prefix.push_back(teacher.embed(ids.narrow(0, n, std::min(kBatch, ids.size(0) - n))));
    for (std::int64_t l = 0; l < layers; ++l) {
        const auto weights = teacher.layer(l);
        const bool known = finished.contains(l);
        for (std::size_t b = 0; b < prefix.size(); ++b) {
            control.report("select", static_cast<double>(l) + static_cast<double>(b) / static_cast<double>(prefix.size()), static_cast<double>(layers),
                           "layer " + std::to_string(l) + " removed");
            const auto first = static_cast<std::int64_t>(b) * kBatch;
            if (!known)
                sums[static_cast<std::size_t>(l)] += lossSum(teacher, finishFrom(runBlock(teacher, *weights, &bypass, prefix[b]), l + 1),
                                                             ids.narrow(0, first, prefix[b].size(0)), control);
            prefix[b] = runBlock(teacher, *weights, nullptr, prefix[b]);
        }
        if (!known) {
            finished[l] = sums[static_cast<std::size_t>(l)] / static_cast<double>(windows.sequences * (windows.seqLen - 1));
            save();
        }
    }
    double whole = 0;
    for (std::size_t b = 0; b < prefix.size(); ++b)
        whole += lossSum(teacher, teacher.finalNorm(prefix[b]), ids.narrow(0, static_cast<std::int64_t>(b) * kBatch, prefix[b].size(0)), control);
    whole /= static_cast<double>(windows.sequences * (windows.seqLen - 1));

    std::vector<LayerScore> ranking;
    for (const auto& [layer, loss] : finished)
        ranking.push_back({layer, loss - whole});
    std::stable_sort(ranking.begin(), ranking.end(), [](const auto& a, const auto& b) { return a.score < b.score; });
    return ranking;
}

Selection selectionOf(const Model& teacher, const std::string& method, const std::vector<LayerScore>& ranking, std::int64_t keep,
                      const std::set<std::int64_t>& never, const std::set<std::int64_t>& always) {
    if (keep < 0 || keep > teacher.config().layers)
        fail(ErrorCode::Usage, "can't keep " + std::to_string(keep) + " layers: the teacher has " + std::to_string(teacher.config().layers),
             {{"value", std::to_string(keep)}});
    std::vector<std::int64_t> order;
    for (const auto& entry : ranking)
        order.push_back(entry.layer);
    return {method, "nats a token", ranking, keepByRanking(order, keep, never, always)};
}

Result<Selection> selectLayers(const Model& teacher, const std::string& method, std::int64_t keep, const TokenWindows& windows, const Control& control) {
    return guarded([&] {
        checkMethod(method);
        std::map<std::int64_t, double> scores;
        return selectionOf(teacher, method, bypassRanking(teacher, windows, scores, [] {}, control), keep, {}, {});
    });
}

} // namespace linnet::core
