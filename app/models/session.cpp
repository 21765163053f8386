#include "app/models/session.h"

#include "core/base/json.h"
#include "core/model/diagnose.h"

#include <QDateTime>
#include <QDir>
#include <QFileInfo>
#include <QSettings>
#include <QStandardPaths>

namespace linnet::app {
namespace {

constexpr int kDrainMs = 33, kFitMs = 5000;
constexpr std::int64_t kProfileWindows = 16; // on the CPU: enough for a picture in a minute
constexpr qsizetype kMaxLog = 5000;
constexpr int kMaxRecent = 10, kMaxRuns = 20;

QString text(const std::filesystem::path& path) {
    return QString::fromStdString(path.string());
}

QString remaining(double seconds) {
    if (seconds < 1.5)
        return Session::tr("almost done");
    if (seconds < 90)
        return Session::tr("about %1 s left").arg(std::lround(seconds));
    return Session::tr("about %1 min left").arg(std::lround(seconds / 60));
}

QString stageText(const std::string& stage) {
    const std::pair<const char*, QString> names[] = {{"data", Session::tr("reading the text")},     {"profile", Session::tr("profiling")},
                                                     {"starts", Session::tr("starts")},             {"align", Session::tr("alignment")},
                                                     {"select", Session::tr("choosing layers")},    {"drift", Session::tr("drift correction")},
                                                     {"distill", Session::tr("distillation")},      {"evaluate", Session::tr("evaluation")}};
    for (const auto& [name, text] : names)
        if (stage == name)
            return text;
    return QString::fromStdString(stage);
}

} // namespace

Session::Session(QObject* parent) : QObject(parent) {
    m_drainTimer.setInterval(kDrainMs);
    connect(&m_drainTimer, &QTimer::timeout, this, &Session::drain);
    m_drainTimer.start();
    connect(&m_recipe, &RecipeModel::targetsChanged, this, [this] {
        if (m_profile)
            m_automatic = core::automaticTargets(*m_profile, m_recipe.recipe().preset);
    });
    m_fitTimer.setSingleShot(true);
    m_fitTimer.setInterval(kFitMs);
    connect(&m_fitTimer, &QTimer::timeout, &m_closedForm, &ClosedFormModel::reload);
    connect(this, &Session::runsChanged, &m_closedForm, [this] { m_closedForm.show(currentRun() ? currentRun()->folder : QString()); });
}

Session::~Session() = default;

std::shared_ptr<RunEntry> Session::currentRun() const {
    return m_current ? m_current : m_runs.isEmpty() ? nullptr : m_runs.front();
}

QString Session::runsFolder() const {
    const auto documents = QStandardPaths::writableLocation(QStandardPaths::DocumentsLocation) + QStringLiteral("/Linnet");
    return QSettings().value(QStringLiteral("runs/folder"), documents).toString();
}

QStringList Session::recentModels() const {
    return QSettings().value(QStringLiteral("recent/models")).toStringList();
}

void Session::adopt(const core::ModelInfo& teacher, std::shared_ptr<const core::Profile> profile) {
    m_teacher = teacher;
    m_recipe.setShape(static_cast<int>(teacher.config.layers), static_cast<int>(teacher.config.heads));
    Q_EMIT teacherChanged();
    setProfile(std::move(profile));
}

void Session::setProfile(std::shared_ptr<const core::Profile> profile) {
    m_profile = std::move(profile);
    m_automatic = m_profile ? core::automaticTargets(*m_profile, m_recipe.recipe().preset) : std::vector<std::vector<core::HeadTarget>>{};
    Q_EMIT profileChanged();
}

void Session::adoptRanking(const core::Selection& ranking, const Pins& pins) {
    m_ranking = ranking;
    m_rankingPins = pins;
    Q_EMIT rankingChanged();
}

void Session::adoptRun(const RunEntry& run) {
    m_current = entryFor(run.folder);
    *m_current = run;
    Q_EMIT runsChanged();
    Q_EMIT metricsAppended(m_current->metrics);
    Q_EMIT evaluationChanged();
}

// ---- requests ---------------------------------------------------------------------------------------------------------------

void Session::submit(Job job, const QString& title) {
    m_jobKind = job.kind;
    m_jobPins = {job.recipe.never, job.recipe.always};
    m_jobRule = job.recipe.keep;
    const auto tag = m_worker.submit(std::move(job));
    if (m_jobKind == JobKind::Open)
        m_openTag = tag;
    m_jobTitle = title;
    m_fraction = -1;
    m_eta.clear();
    m_etaStage.clear();
    setState(JobState::Running);
    addLog(title);
}

void Session::openTeacher(const QString& path) {
    if (m_state != JobState::Idle) {
        Q_EMIT failed(tr("A job is running"), {core::ErrorCode::Usage, "Stop the running job before opening another model.", {}});
        return;
    }
    Job job;
    job.kind = JobKind::Open;
    m_pendingRun.clear();
    const auto source = core::guarded([&]() -> std::filesystem::path {
        if (path.isEmpty() || path == QLatin1String("default"))
            return core::defaultTeacher();
        const std::filesystem::path given = path.toStdString();
        if (!std::filesystem::exists(given / "state.json") || !std::filesystem::exists(given / "recipe.json"))
            return given;
        m_pendingRun = path; // a run: its teacher, then what it measured
        return core::orFail(core::readRecipe(given / "recipe.json")).teacherSource;
    });
    if (!source) {
        Q_EMIT failed(tr("Can't open %1").arg(path), source.error());
        return;
    }
    job.path = *source;
    m_teacher.reset();
    m_ranking.reset();
    m_selection.clear();
    m_recipe.setShape(0, 0);
    setProfile(nullptr);
    Q_EMIT teacherChanged();
    submit(std::move(job), tr("Opening %1").arg(QFileInfo(text(*source)).fileName()));
}

void Session::profileTeacher() {
    if (!m_teacher || m_state != JobState::Idle)
        return;
    Job job;
    job.kind = JobKind::Profile;
    job.recipe = m_recipe.recipe();
    if (m_teacher->device.starts_with("cpu"))
        job.recipe.calibrationTokens = std::min(job.recipe.calibrationTokens, kProfileWindows * job.recipe.seqLen);
    submit(std::move(job), tr("Profiling"));
}

void Session::selectLayers(const core::KeepRule& rule) {
    if (!m_teacher || m_state != JobState::Idle)
        return;
    Job job;
    job.kind = JobKind::Select;
    job.recipe = m_recipe.recipe();
    job.recipe.keep = rule;
    if (const auto problems = core::validateRecipe(job.recipe, m_recipe.layers(), m_recipe.heads()); !problems.empty()) {
        Q_EMIT failed(tr("The layers can't be chosen"), problems.front());
        return;
    }
    submit(std::move(job), tr("Choosing layers by %1").arg(QString::fromStdString(rule.text())));
}

std::uint64_t Session::submitProbe(Job job) { // beside the jobs that a person sees: it is short, and gives way to them
    return m_teacher && m_state == JobState::Idle ? m_worker.submit(std::move(job)) : 0;
}

void Session::startRun() {
    if (!m_teacher || m_state != JobState::Idle)
        return;
    if (const auto problems = m_recipe.problems(); !problems.empty()) {
        Q_EMIT failed(tr("The recipe has a problem"), problems.front());
        return;
    }
    Job job;
    job.kind = JobKind::Convert;
    job.recipe = m_recipe.recipe();
    const auto name = QDateTime::currentDateTime().toString(QStringLiteral("yyyyMMdd-HHmmss")) + QLatin1Char('-') + QString::fromStdString(job.recipe.preset);
    const auto folder = runsFolder() + QLatin1Char('/') + name;
    job.path = folder.toStdString();
    m_current = entryFor(folder);
    m_current->state = QStringLiteral("running");
    Q_EMIT runsChanged();
    Q_EMIT evaluationChanged();
    submit(std::move(job), tr("Converting"));
}

void Session::resumeRun(const QString& folder) {
    if (m_state != JobState::Idle)
        return;
    Job job;
    job.kind = JobKind::Resume;
    job.path = folder.toStdString();
    if (const auto recipe = core::readRecipe((folder + QStringLiteral("/recipe.json")).toStdString()))
        job.recipe = *recipe; // its own; here for what the measured layers were pinned to
    loadRun(folder, true);
    m_current->state = QStringLiteral("running");
    Q_EMIT runsChanged();
    submit(std::move(job), tr("Resuming %1").arg(QFileInfo(folder).fileName()));
}

void Session::exportRun(const QString& folder, const QString& out, const core::ExportOptions& options) {
    if (m_state != JobState::Idle)
        return;
    Job job;
    job.kind = JobKind::Export;
    job.path = folder.toStdString();
    job.out = out.toStdString();
    job.exporting = options;
    submit(std::move(job), tr("Exporting to %1").arg(QFileInfo(out).fileName()));
}

void Session::generate(const QString& prompt) {
    if (!m_teacher || m_state != JobState::Idle || prompt.isEmpty())
        return;
    Job job;
    job.kind = JobKind::Generate;
    job.prompt = prompt.toStdString();
    submit(std::move(job), tr("Generating"));
}

void Session::pauseOrResume() {
    if (m_state == JobState::Running) {
        m_worker.pause();
        setState(JobState::Paused);
    } else if (m_state == JobState::Paused) {
        m_worker.resume();
        setState(JobState::Running);
    }
    if (m_current && (m_current->state == QLatin1String("running") || m_current->state == QLatin1String("paused"))) {
        m_current->state = m_state == JobState::Paused ? QStringLiteral("paused") : QStringLiteral("running");
        Q_EMIT runsChanged();
    }
}

void Session::stop() {
    if (m_state == JobState::Idle || m_state == JobState::Stopping)
        return;
    setState(JobState::Stopping); // said at once; the worker follows at its next check
    m_worker.stop();
}

// ---- events -----------------------------------------------------------------------------------------------------------------

void Session::setState(JobState state) {
    m_state = state;
    if (state == JobState::Idle)
        m_probes.retry();
    Q_EMIT jobChanged();
}

void Session::addLog(const QString& line) {
    const auto stamped = QDateTime::currentDateTime().toString(QStringLiteral("HH:mm:ss  ")) + line;
    m_log.append(stamped);
    if (m_log.size() > kMaxLog)
        m_log.removeFirst();
    Q_EMIT logAppended(stamped);
}

void Session::showProgress(const core::Progress& progress) {
    const auto now = std::chrono::steady_clock::now();
    if (progress.stage != m_etaStage || progress.done <= m_etaFrom) { // a stage may count anew, model by model
        m_etaStage = progress.stage;
        m_etaFrom = progress.done;
        m_jobBegin = now;
        m_eta.clear();
    }
    m_jobTitle = QString::fromStdString(progress.stage) + (progress.detail.empty() ? QString() : QStringLiteral(": ") + QString::fromStdString(progress.detail));
    m_fraction = progress.total > 0 ? std::clamp(progress.done / progress.total, 0.0, 1.0) : -1;
    const double seconds = std::chrono::duration<double>(now - m_jobBegin).count();
    if (seconds > 2 && progress.done > m_etaFrom && progress.total > 0)
        m_eta = remaining((progress.total - progress.done) * seconds / (progress.done - m_etaFrom));
    Q_EMIT jobChanged();
}

void Session::drain() {
    const auto mail = m_worker.drain();
    for (const auto& line : mail.log)
        addLog(QString::fromStdString(line));
    for (const auto& stage : mail.stages) {
        addLog(tr("stage %1").arg(QString::fromStdString(stage)));
        if (m_state != JobState::Stopping) { // until its first progress
            m_jobTitle = stageText(stage);
            m_fraction = -1;
            m_eta.clear();
            Q_EMIT jobChanged();
        }
        if (isRunJob())
            Q_EMIT stageStarted(QString::fromStdString(stage));
    }
    if (mail.progress && m_state != JobState::Stopping)
        showProgress(*mail.progress);
    if (mail.selection)
        adoptRanking(*mail.selection, m_jobPins);
    if (!mail.metrics.empty() && m_current && isRunJob()) {
        if (!m_fitTimer.isActive())
            m_fitTimer.start();
        m_current->metrics.insert(m_current->metrics.end(), mail.metrics.begin(), mail.metrics.end());
        Q_EMIT metricsAppended(mail.metrics);
    }
    for (const auto& [name, evaluation] : mail.evaluations)
        if (m_current)
            m_current->evaluation[name] = evaluation;
    if (!mail.evaluations.empty())
        Q_EMIT evaluationChanged();
    for (const auto& result : mail.results)
        if (result.kind == JobKind::Probe)
            m_probes.take(result);
        else
            finish(result);
}

void Session::finish(const JobResult& result) {
    m_fraction = -1;
    m_eta.clear();
    const bool cancelled = result.error && result.error->code == core::ErrorCode::Cancelled;
    const auto title = m_jobTitle;
    m_jobTitle = cancelled ? tr("Stopped") : result.error ? tr("Failed") : tr("Done");
    m_worker.resume(); // a pause that came too late is not the next job's
    setState(JobState::Idle);
    switch (result.kind) {
    case JobKind::Open: finishOpen(result); break;
    case JobKind::Profile:
        if (result.profile)
            setProfile(result.profile);
        break;
    case JobKind::Select: finishSelection(result); break;
    case JobKind::Convert:
    case JobKind::Resume: finishRun(result); break;
    case JobKind::Generate:
        if (result.generation)
            Q_EMIT generated(*result.generation);
        break;
    case JobKind::Export:
        if (result.exported)
            Q_EMIT exported(*result.exported);
        break;
    case JobKind::Probe: break; // not a job of a person's
    }
    if (cancelled) {
        addLog(tr("stopped"));
        Q_EMIT notice(result.kind == JobKind::Convert || result.kind == JobKind::Resume ? tr("Stopped; saved in %1, Resume goes on").arg(text(result.path))
                      : result.kind == JobKind::Select                                 ? tr("Stopped; what was measured is kept, Measure goes on")
                                                                                       : tr("Stopped"));
    } else if (result.error) {
        addLog(tr("failed: %1").arg(QString::fromStdString(result.error->message)));
        Q_EMIT failed(title, *result.error);
    }
}

void Session::finishOpen(const JobResult& result) {
    if (!result.model || result.tag != m_openTag)
        return;
    m_teacher = result.model;
    const auto path = text(m_teacher->path);
    QStringList recent = recentModels();
    recent.removeAll(path);
    recent.prepend(path);
    QSettings().setValue(QStringLiteral("recent/models"), QStringList(recent.mid(0, kMaxRecent)));
    const auto layers = m_teacher->config.layers;
    m_recipe.setShape(static_cast<int>(layers), static_cast<int>(m_teacher->config.heads));
    if (!m_pendingRun.isEmpty()) {
        if (const auto recipe = core::readRecipe((m_pendingRun + QStringLiteral("/recipe.json")).toStdString()))
            m_recipe.load(*recipe);
        loadRun(m_pendingRun, true);
        m_pendingRun.clear();
    } else {
        const auto saved = core::readRecipe(m_recipe.autosaveFile().toStdString());
        if (saved && saved->teacherHash == m_teacher->hash && core::validateRecipe(*saved, layers, m_teacher->config.heads).empty()) {
            m_recipe.load(*saved);
            Q_EMIT notice(tr("The recipe of last time was restored"));
        } else {
            auto recipe = core::defaultRecipe(core::diagnoseDevice());
            recipe.keep = core::parseKeepRule(recipe.keep.method + ":" + std::to_string((layers * 22 + 15) / 30));
            recipe.teacherSource = m_teacher->path.string();
            recipe.teacherHash = m_teacher->hash;
            m_recipe.load(recipe);
        }
    }
    Q_EMIT teacherChanged();
    if (m_runs.isEmpty()) { // earlier runs: small files, newest first
        const auto entries = QDir(runsFolder()).entryInfoList(QDir::Dirs | QDir::NoDotAndDotDot, QDir::Name | QDir::Reversed);
        for (const auto& entry : entries.mid(0, kMaxRuns))
            if (QFileInfo::exists(entry.filePath() + QStringLiteral("/state.json"))) // an export holds a recipe too
                loadRun(entry.filePath(), false);
        Q_EMIT runsChanged();
    }
}

void Session::finishSelection(const JobResult& result) {
    if (!result.selection)
        return;
    std::vector<std::int64_t> converted;
    for (std::int64_t l = 0; l < m_recipe.layers(); ++l)
        if (!std::binary_search(result.selection->kept.begin(), result.selection->kept.end(), l))
            converted.push_back(l);
    m_recipe.setConverted(converted, tr("Choose layers by %1").arg(QString::fromStdString(m_jobRule.text())));
    m_jobTitle = tr("Chose %1 layers to convert").arg(converted.size());
    Q_EMIT jobChanged();
}

void Session::finishRun(const JobResult& result) {
    if (!m_current)
        return;
    if (result.report) {
        m_current->report = result.report;
        m_current->evaluation = result.report->evaluation;
        m_current->state = QStringLiteral("done");
        m_jobTitle = tr("Converted %1 layers").arg(result.report->convertedLayers.size());
        Q_EMIT evaluationChanged();
        Q_EMIT jobChanged();
    } else {
        m_current->state = result.error && result.error->code == core::ErrorCode::Cancelled ? QStringLiteral("stopped") : QStringLiteral("failed");
    }
    Q_EMIT runsChanged();
    m_fitTimer.stop();
    m_closedForm.reload();
}

// ---- runs -------------------------------------------------------------------------------------------------------------------

std::shared_ptr<RunEntry> Session::entryFor(const QString& folder) {
    const auto path = QFileInfo(folder).absoluteFilePath();
    for (const auto& entry : m_runs)
        if (entry->folder == path)
            return entry;
    auto entry = std::make_shared<RunEntry>();
    entry->folder = path;
    entry->name = QFileInfo(path).fileName();
    m_runs.append(entry);
    std::sort(m_runs.begin(), m_runs.end(), [](const auto& a, const auto& b) { return a->name > b->name; });
    return entry;
}

void Session::loadRun(const QString& folder, bool select) {
    const auto entry = entryFor(folder);
    const std::filesystem::path path = entry->folder.toStdString();
    entry->report.reset();
    entry->evaluation.clear();
    if (auto report = core::readReport(path)) {
        entry->evaluation = report->evaluation;
        entry->report = std::move(*report);
    } else if (const auto state = core::guarded([&] { return core::readJsonFile(path / "state.json"); })) {
        if (const auto found = state->find("evaluation"); found != state->end() && found->is_object())
            for (const auto& [name, value] : found->items())
                if (auto e = core::guarded([&] { return core::evaluationFromJson(value); }))
                    entry->evaluation[name] = *e;
    }
    entry->state = entry->report ? QStringLiteral("done") : QStringLiteral("stopped");
    if (select) {
        entry->metrics = core::readMetrics(path).value_or(std::vector<core::MetricRow>{});
        m_current = entry;
        if (entry->report && entry->report->selection)
            if (const auto recipe = core::readRecipe(path / "recipe.json"))
                adoptRanking(*entry->report->selection, {recipe->never, recipe->always});
        Q_EMIT metricsAppended(entry->metrics);
        Q_EMIT evaluationChanged();
    }
    Q_EMIT runsChanged();
}

} // namespace linnet::app
