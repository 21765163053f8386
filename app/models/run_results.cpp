#include "app/models/run_results.h"

#include "core/model/model_api.h"

#include <algorithm>
#include <cmath>

namespace linnet::app {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
const QString kDash = QStringLiteral("–");

double lastLoss(const RunEntry& run, const char* stage, bool heldOut) { // mean over the layers of each one's last row
    std::map<std::int64_t, double> last;
    for (const auto& row : run.metrics)
        if (row.stage == stage)
            if (const double value = heldOut ? row.heldOutLoss.value_or(kUnknown) : row.loss; std::isfinite(value))
                last[row.layer] = value;
    double sum = 0;
    for (const auto& [layer, value] : last)
        sum += value;
    return last.empty() ? kUnknown : sum / static_cast<double>(last.size());
}

} // namespace

bool isRunOf(const RunEntry& run, const core::ModelInfo& teacher) {
    return !run.recipe || run.recipe->teacherHash.empty() || run.recipe->teacherHash == teacher.hash;
}

Measured difference(const Measured& left, const Measured& right) {
    return {right.value - left.value, std::hypot(left.error, right.error), std::min(left.n, right.n)};
}

Measured measured(const std::map<std::string, core::Evaluation>& evaluation, const std::string& model, Quantity quantity) {
    const auto found = evaluation.find(model);
    if (found == evaluation.end())
        return {};
    const auto& e = found->second;
    const auto teacher = evaluation.find("teacher");
    switch (quantity) {
    case Quantity::Perplexity: return {e.perplexity, e.perplexity * e.lossSe, e.sequences}; // d exp(loss) = exp(loss) d loss
    case Quantity::Ratio: {
        if (teacher == evaluation.end())
            return {};
        const double ratio = e.perplexity / teacher->second.perplexity;
        // Over the same windows the two losses go up and down together: what is left is the noise of their difference. Older runs don't have it.
        return {ratio, model == "teacher" ? kUnknown : ratio * e.lossDifferenceSe.value_or(std::hypot(e.lossSe, teacher->second.lossSe)), e.sequences};
    }
    case Quantity::Loss: return {e.loss, e.lossSe, e.sequences};
    case Quantity::Kl: return {e.klToTeacher.value_or(kUnknown), e.klSe.value_or(kUnknown), e.sequences};
    case Quantity::Agreement: return {e.top1Agreement.value_or(kUnknown), e.top1Se.value_or(kUnknown), e.sequences};
    }
    return {};
}

QString incomparable(const RunEntry& left, const RunEntry& right) {
    const auto a = left.evaluation.find("teacher"), b = right.evaluation.find("teacher");
    if (a == left.evaluation.end() || b == right.evaluation.end())
        return {};
    const auto &x = a->second, &y = b->second;
    if (x.convention != y.convention)
        return RunText::tr("%1 and %2 perplexity").arg(QString::fromStdString(x.convention), QString::fromStdString(y.convention));
    if (x.seqLen != y.seqLen)
        return RunText::tr("windows of %1 and %2 tokens").arg(x.seqLen).arg(y.seqLen);
    if (x.tokens != y.tokens)
        return RunText::tr("%1 and %2 predicted tokens").arg(x.tokens).arg(y.tokens);
    if (std::abs(x.loss - y.loss) > 1e-3 * std::abs(x.loss)) // one teacher on one text has one loss, but for the device's rounding
        return RunText::tr("their teachers' losses differ, %1 and %2: another text or another teacher").arg(x.loss, 0, 'f', 4).arg(y.loss, 0, 'f', 4);
    return {};
}

std::vector<ResultRow> compareResults(const RunEntry& left, const RunEntry& right) {
    std::vector<ResultRow> rows;
    const auto add = [&](const QString& name, const QString& unit, const Measured& a, const Measured& b, int decimals, bool lower) {
        if (std::isfinite(a.value) || std::isfinite(b.value))
            rows.push_back({name, unit, a, b, decimals, lower});
    };
    const auto student = [&](const QString& name, const QString& unit, Quantity quantity, int decimals, bool lower = true) {
        add(name, unit, measured(left.evaluation, "student", quantity), measured(right.evaluation, "student", quantity), decimals, lower);
    };
    student(RunText::tr("perplexity / teacher's"), {}, Quantity::Ratio, 4);
    student(RunText::tr("perplexity"), {}, Quantity::Perplexity, 3);
    student(RunText::tr("loss"), RunText::tr("nats a token"), Quantity::Loss, 4);
    student(RunText::tr("KL to the teacher"), RunText::tr("nats a token"), Quantity::Kl, 4);
    student(RunText::tr("top-1 agreement"), RunText::tr("share of tokens"), Quantity::Agreement, 4, false);
    const auto last = [&](const QString& name, const char* stage, bool heldOut) {
        add(name, RunText::tr("mean over layers"), {lastLoss(left, stage, heldOut), kUnknown, 0}, {lastLoss(right, stage, heldOut), kUnknown, 0}, 6, true);
    };
    last(RunText::tr("alignment, last loss"), "align", false);
    last(RunText::tr("alignment, last held-out loss"), "align", true);
    last(RunText::tr("distillation, last loss"), "distill", false);
    const auto seconds = [](const RunEntry& run) { return run.disk.seconds > 0 ? run.disk.seconds : kUnknown; };
    add(RunText::tr("time"), RunText::tr("s"), {seconds(left), kUnknown, 0}, {seconds(right), kUnknown, 0}, 1, true);
    return rows;
}

QString withNoise(const Measured& value, int decimals) {
    if (!std::isfinite(value.value))
        return kDash;
    const auto number = QString::number(value.value, 'f', decimals);
    return std::isfinite(value.error) ? number + QStringLiteral(" ± ") + QString::number(value.error, 'f', decimals) : number;
}

QString signedWithNoise(const Measured& d, int decimals) {
    return std::isfinite(d.value) && d.value >= 0 ? QLatin1Char('+') + withNoise(d, decimals) : withNoise(d, decimals);
}

} // namespace linnet::app
