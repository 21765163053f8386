#include "app/models/run_entry.h"

#include <QDir>
#include <algorithm>
#include <cmath>

namespace linnet::app {
namespace {

std::int64_t stepsOf(const core::MetricRow& row, const std::optional<core::Recipe>& recipe) { // of its stage; 0 = not known
    return !recipe ? 0 : row.stage == "align" ? recipe->align.steps : row.stage == "distill" ? recipe->distill.steps : row.stage == "drift" ? recipe->align.driftSteps : 0;
}

} // namespace

bool RunEntry::isOurs() const {
    for (const char* ours : {"running", "pausing", "paused", "stopping"})
        if (state == QLatin1String(ours))
            return true;
    return false;
}

void appendRows(std::vector<core::MetricRow>& rows, const std::vector<core::MetricRow>& more) {
    for (const auto& row : more) {
        const auto same = [&](const core::MetricRow& other) { return other.stage == row.stage && other.layer == row.layer; };
        const auto before = std::find_if(rows.rbegin(), rows.rend(), same); // near the end: at most a step of the other layers away
        if (before != rows.rend() && before->step >= row.step)
            std::erase_if(rows, [&](const core::MetricRow& other) { return same(other) && other.step >= row.step; });
        rows.push_back(row);
    }
}

QString RunText::stage(const std::string& stage) {
    const std::pair<const char*, QString> names[] = {{"data", tr("reading the text")}, {"profile", tr("profiling")},       {"starts", tr("starts")},
                                                     {"align", tr("alignment")},       {"select", tr("choosing layers")},  {"drift", tr("drift correction")},
                                                     {"distill", tr("distillation")},  {"evaluate", tr("evaluation")}};
    for (const auto& [name, text] : names)
        if (stage == name)
            return text;
    return QString::fromStdString(stage);
}

QString RunText::position(const core::MetricRow& row, const std::optional<core::Recipe>& recipe) {
    QString text = stage(row.stage);
    if (row.layer >= 0)
        text += tr(", layer %1").arg(row.layer);
    const auto steps = stepsOf(row, recipe), done = row.step + (row.stage == "drift" ? 0 : 1); // the others' rows count from 0
    return text + (steps > 0 ? tr(", step %1 of %2").arg(std::min(done, steps)).arg(steps) : tr(", step %1").arg(done));
}

QString RunText::shortProgress(const RunEntry& run) {
    const auto* last = run.metrics.empty() ? (run.disk.lastMetric ? &*run.disk.lastMetric : nullptr) : &run.metrics.back();
    if (run.state == QLatin1String("done"))
        return tr("%1 %").arg(100);
    if (run.isOurs() && !run.progress.isEmpty()) {
        const auto stage = run.progress.section(QLatin1Char(','), 0, 0);
        return run.fraction >= 0 ? tr("%1 %2 %").arg(stage).arg(static_cast<int>(100 * run.fraction)) : stage;
    }
    if (!last)
        return run.hasBegun() && !run.disk.stage.empty() ? stage(run.disk.stage) : QStringLiteral("–");
    const auto steps = stepsOf(*last, run.recipe), done = last->step + (last->stage == "drift" ? 0 : 1);
    return steps > 0 ? tr("%1 %2/%3").arg(stage(last->stage)).arg(std::min(done, steps)).arg(steps) : stage(last->stage);
}

QString RunText::duration(double seconds) {
    if (!(seconds > 0))
        return QStringLiteral("–");
    const auto whole = std::llround(seconds);
    if (whole < 60)
        return tr("%1 s").arg(seconds, 0, 'f', seconds < 10 ? 1 : 0);
    if (whole < 3600)
        return tr("%1 min %2 s").arg(whole / 60).arg(whole % 60, 2, 10, QLatin1Char('0'));
    return tr("%1 h %2 min").arg(whole / 3600).arg(whole / 60 % 60, 2, 10, QLatin1Char('0'));
}

QString RunText::number(double value, int decimals) {
    return std::isfinite(value) ? QString::number(value, 'f', decimals) : QStringLiteral("–");
}

QString RunText::state(const RunEntry& run, int place) {
    const auto& s = run.state;
    if (s == QLatin1String("queued"))
        return place > 0 ? tr("queued (%1)").arg(place) : tr("queued");
    if (s == QLatin1String("running"))
        return tr("running");
    if (s == QLatin1String("pausing"))
        return tr("pausing");
    if (s == QLatin1String("paused"))
        return tr("paused");
    if (s == QLatin1String("stopping"))
        return tr("stopping");
    if (s == QLatin1String("stopped"))
        return run.disk.ending == core::RunEnding::Unknown && !run.disk.stage.empty() ? tr("interrupted") : tr("stopped, saved");
    if (s == QLatin1String("done"))
        return tr("done");
    if (s == QLatin1String("failed"))
        return tr("failed");
    return s == QLatin1String("elsewhere") ? tr("running elsewhere") : s;
}

QString RunText::detail(const RunEntry& run, int place, bool held) {
    const auto& s = run.state;
    const auto* last = run.metrics.empty() ? (run.disk.lastMetric ? &*run.disk.lastMetric : nullptr) : &run.metrics.back();
    const auto where = last ? position(*last, run.recipe) : run.disk.stage.empty() ? QString() : stage(run.disk.stage);
    const auto now = run.progress.isEmpty() ? where.isEmpty() ? tr("what it is at") : where : run.progress;
    const auto folder = QDir::toNativeSeparators(run.folder);
    if (s == QLatin1String("queued"))
        return held ? tr("Waiting as number %1; the queue is held, so it starts when Run now is pressed.").arg(place) : tr("Waiting as number %1; starts by itself.").arg(place);
    if (s == QLatin1String("running"))
        return tr("Running: %1.").arg(run.progress.isEmpty() && where.isEmpty() ? tr("beginning") : now);
    if (s == QLatin1String("pausing"))
        return tr("Pausing: finishing %1.").arg(now);
    if (s == QLatin1String("paused"))
        return tr("Paused at %1. Everything stays in memory; Continue goes on at once.").arg(now);
    if (s == QLatin1String("stopping"))
        return run.toDiscard ? tr("Stopping: finishing %1, then its folder is removed.").arg(now)
                             : tr("Stopping: finishing %1, then writing a checkpoint to %2.").arg(now, folder + QStringLiteral("/checkpoints"));
    if (s == QLatin1String("elsewhere")) {
        const auto who = run.disk.process && run.disk.process->pid > 0
                             ? tr("process %1 on %2").arg(run.disk.process->pid).arg(QString::fromStdString(run.disk.process->host))
                             : tr("another process");
        return tr("Executed by %1; followed from its files: %2. Stop it there (Ctrl+C saves).").arg(who, where.isEmpty() ? tr("beginning") : where);
    }
    if (s == QLatin1String("done")) {
        const auto student = run.evaluation.find("student"), teacher = run.evaluation.find("teacher");
        QString text = tr("Done in %1").arg(duration(run.disk.seconds));
        if (student != run.evaluation.end())
            text += tr(": perplexity %1").arg(number(student->second.perplexity, 3));
        if (student != run.evaluation.end() && teacher != run.evaluation.end())
            text += tr(", %1 times the teacher's").arg(number(student->second.perplexity / teacher->second.perplexity, 3));
        return text + QLatin1Char('.');
    }
    if (s == QLatin1String("failed"))
        return (run.saved ? tr("Failed%1 Resume tries again from the last checkpoint.") : tr("Failed%1 Nothing of it was saved: put that right and run again."))
            .arg(run.failure.isEmpty() ? QStringLiteral(".") : QStringLiteral(": ") + run.failure + (run.failure.endsWith(QLatin1Char('.')) ? QString() : QStringLiteral(".")));
    if (s == QLatin1String("stopped") && run.disk.ending == core::RunEnding::Unknown && !run.disk.stage.empty())
        return where.isEmpty() ? tr("Ended without a word in %1 (killed?). Resume continues from the last checkpoint.").arg(stage(run.disk.stage))
                               : tr("Ended without a word at %1 (killed?). Resume continues from the last checkpoint%2.")
                                     .arg(where, run.disk.savedStep ? tr(", step %1").arg(*run.disk.savedStep) : QString());
    return where.isEmpty() ? tr("Stopped, saved; Resume continues from there.") : tr("Stopped at %1, saved; Resume continues from there.").arg(where);
}

} // namespace linnet::app
