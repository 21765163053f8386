#include "core/torch_pch.h"

#include "core/study/study_measure.h"

#include "core/evaluate/score_rows.h"

#include <chrono>

namespace linnet::core {
namespace {

Json orNull(double value) {
    return std::isfinite(value) ? Json(value) : Json();
}

} // namespace

StudyMeasure::StudyMeasure(const Model& teacher, const TokenWindows& windows, std::int64_t blockWindows, const Control& control)
    : m_teacher(teacher), m_control(control) {
    const auto reference = orFail(teacherReference(teacher, windows, control));
    for (std::int64_t from = 0; from < windows.sequences; from += blockWindows) {
        const auto count = std::min(blockWindows, windows.sequences - from);
        std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
        std::iota(rows.begin(), rows.end(), from);
        m_blocks.push_back({windows.rows(rows), {reference->hidden.narrow(0, from, count), reference->head, 0, {}}});
        m_blocks.back().teacherLoss = evaluateMixers(teacher, {}, m_blocks.back().windows, nullptr, control).loss;
    }
}

Json StudyMeasure::measure(const Mixers& mixers) const {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<double> weights, differences, divergences; // of blocks; the latter sums over their predictions
    double loss = 0, top1 = 0, predictions = 0;
    for (const auto& block : m_blocks) {
        const auto measured = evaluateMixers(m_teacher, mixers, block.windows, &block.reference, m_control);
        const auto weight = static_cast<double>(measured.tokens);
        weights.push_back(weight);
        differences.push_back(weight * (measured.loss - block.teacherLoss));
        divergences.push_back(weight * *measured.klToTeacher);
        loss += weight * measured.loss, top1 += weight * *measured.top1Agreement, predictions += weight;
    }
    const auto mean = [&](const std::vector<double>& sums) { return std::accumulate(sums.begin(), sums.end(), 0.0) / predictions; };
    const double difference = mean(differences);
    return {{"loss", orNull(loss / predictions)},
            {"perplexity", orNull(std::exp(loss / predictions))},
            {"ratio", orNull(std::exp(difference))},
            {"log_ratio", orNull(difference)},
            {"log_ratio_se", orNull(ratioStandardError(differences, weights))},
            {"kl", orNull(mean(divergences))},
            {"kl_se", orNull(ratioStandardError(divergences, weights))},
            {"top1", orNull(top1 / predictions)},
            {"predictions", static_cast<std::int64_t>(predictions)},
            {"seconds", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()}};
}

} // namespace linnet::core
