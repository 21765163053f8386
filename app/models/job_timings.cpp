#include "app/models/job_timings.h"

#include "app/models/session.h"
#include "core/model/diagnose.h"
#include "widgets/plurals.h"

#include <QCoreApplication>
#include <QLocale>
#include <algorithm>

namespace linnet::app {
namespace {

QString tr(const char* what, const char* comment = nullptr, int count = -1) {
    return QCoreApplication::translate("linnet::app::JobTimings", what, comment, count);
}

QString evaluated(const std::string& name) {
    const std::pair<const char*, QString> names[] = {{"teacher", tr("teacher")}, {"student", tr("student")}, {"naive", tr("naive copy")}, {"zero_gate", tr("zero gate")}};
    for (const auto& [key, text] : names)
        if (name == key)
            return text;
    return QString::fromStdString(name);
}

std::optional<double> rate(std::int64_t count, double seconds) {
    return count > 0 && seconds > 0 ? std::optional(static_cast<double>(count) / seconds) : std::nullopt;
}

TimingRow stageRow(const core::StageReport& stage) {
    TimingRow row;
    row.what = RunText::stage(stage.name);
    if (stage.seconds > 0)
        row.milliseconds = stage.seconds * 1e3;
    if (stage.steps > 0 && stage.seconds > 0)
        row.perStep = stage.seconds * 1e3 / static_cast<double>(stage.steps);
    row.tokensPerSecond = rate(stage.tokens, stage.seconds);
    if (stage.steps > 0)
        row.note = tr("%n step(s)", nullptr, static_cast<int>(stage.steps));
    return row;
}

// Of a run that has no report yet: each stage's newest speed.
std::vector<TimingRow> rowsSoFar(const std::vector<core::MetricRow>& metrics) {
    std::vector<TimingRow> rows;
    std::vector<std::string> seen;
    for (auto row = metrics.rbegin(); row != metrics.rend(); ++row) {
        if (std::ranges::find(seen, row->stage) != seen.end())
            continue;
        seen.push_back(row->stage);
        TimingRow timing;
        timing.what = RunText::stage(row->stage);
        if (row->tokensPerSecond > 0)
            timing.tokensPerSecond = row->tokensPerSecond;
        timing.note = tr("newest step: %1").arg(row->step);
        rows.insert(rows.begin(), timing);
    }
    return rows;
}

TimingTable runTable(const RunEntry& run) {
    TimingTable table;
    table.title = tr("Run %1 (%2)").arg(run.name, RunText::state(run));
    table.empty = tr("Nothing of this run has been timed yet.");
    if (run.report) {
        for (const auto& stage : run.report->stages)
            table.rows.push_back(stageRow(stage));
        if (run.report->peakMemoryBytes > 0)
            table.facts << tr("peak memory %1").arg(QLocale(QLocale::English).formattedDataSize(static_cast<qint64>(run.report->peakMemoryBytes), 1, QLocale::DataSizeIecFormat));
    } else {
        table.rows = rowsSoFar(run.metrics);
    }
    for (const auto& [name, evaluation] : run.evaluation) {
        if (!(evaluation.seconds > 0))
            continue;
        TimingRow row;
        row.what = tr("evaluation: %1").arg(evaluated(name));
        row.milliseconds = evaluation.seconds * 1e3;
        row.tokensPerSecond = rate(evaluation.tokens, evaluation.seconds);
        row.note = tr("%n token(s) scored", nullptr, static_cast<int>(evaluation.tokens));
        table.rows.push_back(row);
    }
    return table;
}

TimingTable generationTable(Session& session) {
    TimingTable table;
    table.title = tr("Generation");
    table.empty = tr("Nothing has been generated yet (page Generate).");
    for (const auto index : {kTeacher, kStudent}) {
        const auto& side = session.generation()->side(index);
        const auto name = index == kTeacher ? tr("teacher") : tr("student");
        if (side.prefillSeconds > 0) {
            TimingRow row;
            row.what = tr("%1: prompt").arg(name);
            row.milliseconds = side.prefillSeconds * 1e3;
            table.rows.push_back(row);
        }
        if (side.tokensPerSecond > 0) {
            TimingRow row;
            row.what = tr("%1: token by token").arg(name);
            row.perStep = 1e3 / side.tokensPerSecond;
            row.tokensPerSecond = side.tokensPerSecond;
            row.note = tr("%n token(s)", nullptr, static_cast<int>(side.tokens.size()));
            if (index == kTeacher && session.teacher() && session.teacher()->weightBytes > 0) { // a token reads every weight once
                row.gigabytesPerSecond = static_cast<double>(session.teacher()->weightBytes) * side.tokensPerSecond / 1e9;
                row.note += tr("; GB/s of the weights alone");
            }
            table.rows.push_back(row);
        }
    }
    return table;
}

} // namespace

std::vector<TimingTable> jobTimings(Session& session) {
    std::vector<TimingTable> tables;
    if (const auto run = session.currentRun()) {
        tables.push_back(runTable(*run));
    } else {
        TimingTable none;
        none.title = tr("Run");
        none.empty = tr("No run yet: start a conversion to see what its stages take.");
        tables.push_back(none);
    }
    tables.push_back(generationTable(session));
    return tables;
}

QStringList deviceFacts(const QString& device) {
    QStringList facts;
    const auto machine = core::guarded([] { return core::diagnose("auto"); });
    if (!machine)
        return {QString::fromStdString(machine.error().message)};
    for (const auto& [key, value] : *machine)
        facts << QStringLiteral("%1: %2").arg(QString::fromStdString(key), key == "device" && !device.isEmpty() ? device : QString::fromStdString(value));
    return facts;
}

} // namespace linnet::app
