// What the library hears of the job that runs here: states, metrics, its end.
#include "app/models/run_library.h"

#include "app/models/error_text.h"

#include <utility>

namespace linnet::app {

void RunLibrary::jobPaused(bool paused) {
    if (!m_running || m_running->state == QLatin1String("stopping"))
        return;
    if (paused)
        m_pausing.start();
    setState(m_running, paused ? QStringLiteral("pausing") : QStringLiteral("running"));
}

void RunLibrary::jobStopping() {
    if (m_running)
        setState(m_running, QStringLiteral("stopping"));
}

void RunLibrary::jobProgress(const QString& text, double fraction) {
    if (!m_running)
        return;
    if (m_running->state == QLatin1String("pausing"))
        m_pausing.start(); // it still moves
    m_running->progress = text;
    m_running->fraction = fraction;
    Q_EMIT progressed(m_running->folder);
}

void RunLibrary::jobMetrics(const std::vector<core::MetricRow>& rows) {
    if (!m_running || rows.empty())
        return;
    appendRows(m_running->metrics, rows);
    m_running->disk.lastMetric = rows.back();
    m_running->disk.seconds = rows.back().time;
    Q_EMIT metricsAppended(m_running->folder, rows);
}

void RunLibrary::jobEvaluation(const std::string& name, const core::Evaluation& evaluation) {
    if (!m_running)
        return;
    m_running->evaluation[name] = evaluation;
    Q_EMIT evaluationChanged(m_running->folder);
}

void RunLibrary::jobEnded(const JobResult& result) {
    const auto run = std::exchange(m_running, nullptr);
    if (!run)
        return;
    run->progress.clear();
    m_pausing.stop();
    const bool stopped = result.error && result.error->code == core::ErrorCode::Cancelled;
    run->disk.ending = stopped ? core::RunEnding::Stopped : result.error ? core::RunEnding::Failed : core::RunEnding::Unknown;
    if (result.report) {
        run->report = result.report;
        run->evaluation = result.report->evaluation;
        run->disk.seconds = 0;
        for (const auto& stage : result.report->stages)
            run->disk.seconds += stage.seconds;
    } else if (result.error && !stopped) {
        run->failure = errorText(*result.error).message;
        run->saved = hasCheckpoint(run->folder);
    }
    m_held = m_held || stopped; // who stops wants the device back
    m_stamps.remove(run->folder);
    m_stale.insert(run->folder);
    run->state = result.report ? QStringLiteral("done") : stopped ? QStringLiteral("stopped") : QStringLiteral("failed");
    if (run->toDiscard) {
        run->toDiscard = false;
        remove(run->folder);
        return;
    }
    Q_EMIT changed();
    Q_EMIT evaluationChanged(run->folder);
    m_look.start(0);
}

} // namespace linnet::app
