#include "app/models/session.h"

#include "app/guarded.h"
#include "app/models/recents.h"
#include "app/models/recipe_teacher.h"
#include "app/models/run_results.h"
#include "app/models/settings.h"
#include "app/models/text_choice.h"
#include "core/base/json.h"
#include "core/convert/run_selection.h"
#include "core/model/diagnose.h"
#include "widgets/plurals.h"

#include <QDateTime>
#include <QFileInfo>
#include <QPointer>
#include <QStandardPaths>

namespace linnet::app {
namespace {

constexpr int kDrainMs = 33, kFitMs = 5000;
constexpr int kShortMs = 2000, kLongMs = 10'000; // of a stage, before the time that is left is told
constexpr double kEnough = 0.05;                 // of a stage: its pace is known
constexpr std::int64_t kProfileWindows = 16; // on the CPU: enough for a picture in a minute
constexpr qsizetype kMaxLog = 5000;
const QString kLastText = QStringLiteral("text/last"); // that a job could read

QString text(const std::filesystem::path& path) {
    return QString::fromStdString(path.string());
}

QString remaining(double seconds, bool ofStage) { // a run has several stages, and knows of the one that it is in
    if (seconds < 1.5)
        return ofStage ? Session::tr("this stage is almost done") : Session::tr("almost done");
    const auto time = seconds < 90 ? Session::tr("about %1 s").arg(std::lround(seconds)) : Session::tr("about %1 min").arg(std::lround(seconds / 60));
    return (ofStage ? Session::tr("%1 left of this stage") : Session::tr("%1 left")).arg(time);
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
    connect(&m_recipe, &RecipeModel::changed, this, &Session::lookForRunProblem);
    connect(this, &Session::teacherChanged, this, &Session::lookForRunProblem);
    m_fitTimer.setSingleShot(true);
    m_fitTimer.setInterval(kFitMs);
    connect(&m_fitTimer, &QTimer::timeout, &m_closedForm, &ClosedFormModel::reload);
    connect(this, &Session::runsChanged, &m_headViews, &HeadViewModel::refresh);
    connect(this, &Session::runsChanged, &m_closedForm, [this] { m_closedForm.show(currentRun() ? currentRun()->folder : QString()); });
    const auto showStudent = [this] {
        m_studentNumbers.show(currentRun() ? currentRun()->folder : QString(), m_teacher ? QString::fromStdString(m_teacher->hash) : QString());
    };
    connect(this, &Session::runsChanged, &m_studentNumbers, showStudent);
    connect(this, &Session::teacherChanged, &m_studentNumbers, showStudent);
    const auto ofCurrent = [this](const QString& folder) { return currentRun() && currentRun()->folder == folder; };
    connect(&m_library, &RunLibrary::changed, this, [this] {
        chooseNewest();
        Q_EMIT runsChanged();
    });
    connect(&m_library, &RunLibrary::failed, this, &Session::failed);
    connect(&m_library, &RunLibrary::notice, this, &Session::notice);
    connect(&m_library, &RunLibrary::evaluationChanged, this, &Session::evaluationChanged);
    connect(&m_library, &RunLibrary::metricsAppended, this, [this, ofCurrent](const QString& folder, const std::vector<core::MetricRow>& rows) {
        if (ofCurrent(folder))
            Q_EMIT metricsAppended(rows);
    });
    connect(&m_library, &RunLibrary::metricsReplaced, this, [this, ofCurrent](const QString& folder) {
        if (ofCurrent(folder))
            Q_EMIT metricsAppended(currentRun()->metrics);
    });
}

Session::~Session() = default;

void Session::chooseNewest(bool opened) {
    const auto own = [this](const auto& run) { return run->hasBegun() && isRunOf(*run, *m_teacher); };
    if (!m_teacher || (m_library.chosen() && (!opened || own(m_library.chosen()))))
        return;
    if (const auto newest = std::find_if(runs().begin(), runs().end(), own); newest != runs().end())
        m_library.choose((*newest)->folder);
}

QStringList Session::recentModels() const {
    return recents(Recent::Models);
}

void Session::adopt(const core::ModelInfo& teacher, std::shared_ptr<const core::Profile> profile) {
    m_teacher = teacher;
    m_generation.setTeacher(true, false);
    m_recipe.setTeacher(teacher.hash);
    m_recipe.setShape(static_cast<int>(teacher.config.layers), static_cast<int>(teacher.config.heads), teacher.layerKinds);
    Q_EMIT teacherChanged();
    setProfile(std::move(profile));
}

void Session::setProfile(std::shared_ptr<const core::Profile> profile) {
    m_profile = std::move(profile);
    m_headViews.setProfile(m_profile);
    m_automatic = m_profile ? core::automaticTargets(*m_profile, m_recipe.recipe().preset) : std::vector<std::vector<core::HeadTarget>>{};
    Q_EMIT profileChanged();
}

void Session::adoptRanking(const core::Selection& ranking, const Pins& pins, bool partial) {
    m_rankingPartial = partial;
    m_ranking = ranking;
    m_rankingPins = pins;
    m_rankingNote.clear();
    Q_EMIT rankingChanged();
}

void Session::adoptRun(const RunEntry& run) {
    m_library.adopt(run);
}

// ---- requests ---------------------------------------------------------------------------------------------------------------

void Session::submit(Job job, const QString& title) {
    m_jobKind = job.kind;
    m_jobPins = {job.recipe.never, job.recipe.always};
    m_jobRule = job.recipe.keep;
    const auto tag = m_worker.submit(std::move(job));
    if (m_jobKind == JobKind::Open)
        m_openTag = tag;
    m_jobTitle = m_jobWhat = title;
    m_jobAsked = std::chrono::steady_clock::now();
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
    m_pendingRecipe.reset();
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
    if (m_cpuOnly)
        job.run.device = "cpu";
    forgetTeacher();
    submit(std::move(job), tr("Opening %1").arg(QFileInfo(text(*source)).fileName()));
}

void Session::useRecipe(const core::Recipe& recipe, const QString& what) {
    if (!m_teacher)
        openFor(recipe, what);
    else if (isFor(recipe, *m_teacher) && (m_teacher->hash.empty() || (!recipe.teacherHash.empty() && !teacherPath(recipe).isEmpty())))
        m_recipe.replace(recipe, what);
    else if (isFor(recipe, *m_teacher))
        takeSettings(recipe, what);
    else
        Q_EMIT foreignRecipe(recipe, what);
}

void Session::takeSettings(const core::Recipe& recipe, const QString& what) {
    if (m_teacher)
        m_recipe.replace(settingsFor(recipe, *m_teacher), what);
}

void Session::openFor(const core::Recipe& recipe, const QString& what) {
    const auto path = teacherPath(recipe);
    if (path.isEmpty()) {
        Q_EMIT failed(tr("The recipe's model isn't there"), {core::ErrorCode::NotFound, "the recipe's teacher " + recipe.teacherSource + " isn't there: open its teacher, then the recipe", {}});
        return;
    }
    openTeacher(path);
    if (m_state != JobState::Idle && m_jobKind == JobKind::Open)
        m_pendingRecipe = std::pair(recipe, what);
}

void Session::closeTeacher() {
    if (!m_teacher || m_state != JobState::Idle)
        return;
    Job job;
    job.kind = JobKind::Close;
    forgetTeacher();
    submit(std::move(job), tr("Closing the teacher"));
}

void Session::forgetTeacher() {
    m_teacher.reset();
    m_generation.setTeacher(false, false);
    m_ranking.reset();
    m_rankingNote.clear();
    m_selection.reset();
    m_recipe.setTeacher({});
    m_recipe.setShape(0, 0);
    setProfile(nullptr);
    Q_EMIT teacherChanged();
}

void Session::profileTeacher() {
    if (m_teacher && m_state == JobState::Idle)
        submit(profileJob(JobKind::Profile), tr("Profiling"));
}

Job Session::profileJob(JobKind kind) const {
    Job job;
    job.kind = kind;
    job.recipe = m_recipe.recipe();
    if (m_teacher->device.starts_with("cpu"))
        job.recipe.calibrationTokens = std::min(job.recipe.calibrationTokens, kProfileWindows * job.recipe.seqLen);
    return job;
}

void Session::selectLayers(const core::KeepRule& rule, bool choose) {
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
    m_jobChooses = choose;
    submit(std::move(job), (choose ? tr("Choosing layers by %1") : tr("Measuring layers by %1")).arg(QString::fromStdString(rule.text())));
}

std::uint64_t Session::submitProbe(Job job) { // beside the jobs that a person sees: it is short, and gives way to them
    return m_teacher && m_state == JobState::Idle ? m_worker.submit(std::move(job)) : 0;
}

void Session::lookForRunProblem() {
    std::optional<core::Error> problem;
    if (m_teacher) {
        if (const auto problems = m_recipe.problems(); !problems.empty())
            problem = problems.front();
        else if (const auto look = lookAtText(m_recipe.recipe()); !look.problem.isEmpty())
            problem = core::Error{core::ErrorCode::NotFound, look.problem.toStdString(), {{"key", "data.text"}}};
    }
    const auto said = [](const auto& error) { return error ? error->message : std::string(); };
    const bool news = said(problem) != said(m_runProblem);
    m_runProblem = std::move(problem);
    if (news)
        Q_EMIT runProblemChanged();
}

void Session::startRun() {
    if (!m_teacher || m_state != JobState::Idle)
        return;
    lookForRunProblem(); // a text may have come or gone
    if (m_runProblem) {
        Q_EMIT failed(tr("The recipe has a problem"), *m_runProblem);
        return;
    }
    m_library.runNow(m_library.enqueue(m_recipe.recipe()));
}

void Session::resumeRun(const QString& folder) {
    m_library.resume(folder);
}

void Session::showRun(const QString& folder) {
    if (m_state == JobState::Idle)
        openRun(folder);
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

void Session::pauseOrResume() {
    if (m_state == JobState::Running) {
        m_worker.pause();
        setState(JobState::Paused);
    } else if (m_state == JobState::Paused) {
        m_worker.resume();
        setState(JobState::Running);
    }
    if (isRunJob())
        m_library.jobPaused(m_state == JobState::Paused);
}

void Session::stop() {
    if (m_state == JobState::Idle || m_state == JobState::Stopping)
        return;
    if (isRunJob())
        m_library.jobStopping();
    setState(JobState::Stopping); // said at once; the worker follows at its next check
    m_worker.stop();
}

// ---- events -----------------------------------------------------------------------------------------------------------------

void Session::setState(JobState state) {
    m_state = state;
    if (state == JobState::Idle) {
        m_probes.retry();
        m_headViews.retry();
        m_studentNumbers.retry();
    }
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
    m_fraction = progress.total > 0 && progress.done > 0 ? std::clamp(progress.done / progress.total, 0.0, 1.0) : -1; // the first step may take a while: busy, not 0 %
    const double seconds = std::chrono::duration<double>(now - m_jobBegin).count();
    const double part = progress.total > 0 ? (progress.done - m_etaFrom) / progress.total : 0;
    if (part > 0 && seconds > (part < kEnough ? kLongMs : kShortMs) * 1e-3) // from its first steps alone it would be a guess
        m_eta = remaining((progress.total - progress.done) * seconds / (progress.done - m_etaFrom), isRunJob());
    if (isRunJob())
        m_library.jobProgress(RunText::stage(progress.stage) + (progress.detail.empty() ? QString() : QStringLiteral(", ") + QString::fromStdString(progress.detail)), m_fraction);
    Q_EMIT jobChanged();
}

void Session::drain() {
    const auto mail = m_worker.drain();
    if (mail.memory) {
        m_memory = mail.memory;
        Q_EMIT memoryChanged();
    }
    for (const auto& line : mail.log)
        addLog(QString::fromStdString(line));
    for (const auto& stage : mail.stages) {
        addLog(tr("stage %1").arg(QString::fromStdString(stage)));
        if (m_state != JobState::Stopping) { // until its first progress
            m_jobTitle = RunText::stage(stage);
            if (isRunJob())
                m_library.jobProgress(m_jobTitle);
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
    if (!mail.metrics.empty() && isRunJob()) {
        if (!m_fitTimer.isActive())
            m_fitTimer.start();
        m_library.jobMetrics(mail.metrics);
    }
    for (const auto& [name, evaluation] : mail.evaluations)
        m_library.jobEvaluation(name, evaluation);
    m_generation.take(mail.spoken);
    for (const auto& result : mail.results)
        if (result.kind == JobKind::Probe)
            m_probes.take(result);
        else if (result.kind == JobKind::HeadView)
            m_headViews.take(result);
        else if (result.kind == JobKind::StudentNumbers)
            m_studentNumbers.take(result);
        else if (result.kind == JobKind::KnownProfile)
            takeKnownProfile(result);
        else
            finish(result);
    if (!mail.results.empty()) // what took the worker from it is done
        m_studentNumbers.retry();
    for (const auto& result : mail.results) // one that nobody waits for; others said so in finish()
        if (result.deviceLost && isBeside(result.kind) && m_state == JobState::Idle)
            return leaveDevice(*result.error);
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
    case JobKind::Close: break; // said when it was asked for
    case JobKind::Profile:
        if (result.profile)
            setProfile(result.profile);
        break;
    case JobKind::Select: finishSelection(result); break;
    case JobKind::Convert:
    case JobKind::Resume: finishRun(result); break;
    case JobKind::Generate: m_generation.finish(result); break;
    case JobKind::Export:
        if (result.exported)
            Q_EMIT exported(*result.exported);
        break;
    case JobKind::Probe:
    case JobKind::HeadView:
    case JobKind::StudentNumbers:
    case JobKind::KnownProfile: break; // no jobs of a person's
    }
    if (cancelled) {
        addLog(tr("stopped"));
        Q_EMIT notice(result.kind == JobKind::Convert || result.kind == JobKind::Resume ? tr("Stopped; saved in %1. Resume continues it").arg(text(result.path))
                      : result.kind == JobKind::Select                                 ? tr("Stopped; what was measured is kept. Measure continues it")
                                                                                       : tr("Stopped"));
    } else if (result.deviceLost) {
        return leaveDevice(*result.error);
    } else if (result.error) {
        addLog(tr("failed: %1").arg(QString::fromStdString(result.error->message)));
        Q_EMIT failed(title, *result.error);
    } else {
        logFinished(result);
    }
    m_library.startNext();
}

void Session::logFinished(const JobResult& result) {
    const auto took = RunText::duration(std::chrono::duration<double>(std::chrono::steady_clock::now() - m_jobAsked).count());
    addLog(tr("finished in %1: %2").arg(took, m_jobWhat));
    const bool readText = result.kind == JobKind::Profile || result.kind == JobKind::Select || result.kind == JobKind::Convert;
    if (const auto& text = m_recipe.recipe().dataText; readText && !text.empty() && !text.front().starts_with("self:"))
        Settings().setValue(kLastText, textToShow(text));
}

void Session::leaveDevice(const core::Error& error) {
    m_cpuOnly = true;
    addLog(tr("the GPU was lost: %1").arg(QString::fromStdString(error.message)));
    auto told = error;
    told.message = "The GPU doesn't answer any more (" + error.message + "). What was saved is unharmed. The teacher is opened again on the CPU; to use the GPU, start Linnet again, then Resume.";
    Q_EMIT failed(tr("The GPU was lost"), told);
    if (m_teacher)
        openTeacher(text(m_teacher->path));
}

void Session::finishOpen(const JobResult& result) {
    if (result.tag != m_openTag)
        return;
    if (!result.model) {
        m_pendingRecipe.reset();
        return;
    }
    m_teacher = result.model;
    m_generation.setTeacher(true, result.chatTemplate);
    const auto path = text(m_teacher->path);
    addRecent(Recent::Models, path);
    m_recipe.setTeacher(m_teacher->hash);
    m_recipe.setShape(static_cast<int>(m_teacher->config.layers), static_cast<int>(m_teacher->config.heads), m_teacher->layerKinds);
    loadStartingRecipe();
    if (!m_pendingRun.isEmpty()) {
        addRecent(Recent::Runs, m_pendingRun);
        if (const auto recipe = core::readRecipe((m_pendingRun + QStringLiteral("/recipe.json")).toStdString()))
            useRecipe(*recipe, tr("Open the recipe of %1").arg(QFileInfo(m_pendingRun).fileName())); // undo: what was edited before
        openRun(m_pendingRun);
        m_pendingRun.clear();
    }
    Q_EMIT teacherChanged();
    chooseNewest(true);
    if (const auto pending = std::exchange(m_pendingRecipe, std::nullopt))
        useRecipe(pending->first, pending->second);
    m_knownProfile = submitProbe(profileJob(JobKind::KnownProfile));
    if (!m_ranking)
        lookForRanking(m_recipe.recipe());
}

void Session::takeKnownProfile(const JobResult& result) {
    if (result.tag != m_knownProfile || !m_teacher || m_profile)
        return;
    if (result.profile && result.profile->modelHash == m_teacher->hash) {
        setProfile(result.profile);
        addLog(tr("the profile of last time is shown: %1 tokens").arg(result.profile->tokens));
    }
}

core::KeepRule Session::startingRule() const {
    if (!m_teacher)
        return {};
    const auto method = core::defaultRecipe(m_teacher->device).keep.method;
    return core::parseKeepRule(method + ":" + std::to_string((m_teacher->config.layers * 22 + 15) / 30));
}

void Session::loadStartingRecipe() { // of last time, else the default one
    if (!m_teacher->hash.empty() && m_recipe.recipe().teacherHash == m_teacher->hash)
        return; // the same teacher again: what is being edited, undo and all
    const auto saved = m_recipe.takeAutosave(m_teacher->hash);
    if (saved && *saved) {
        m_recipe.load(**saved);
        Q_EMIT notice(tr("The recipe of last time was restored"));
        return;
    }
    auto recipe = core::defaultRecipe(core::diagnoseDevice());
    recipe.keep = startingRule();
    recipe.teacherSource = m_teacher->path.string();
    recipe.teacherHash = m_teacher->hash;
    if (const auto last = textFromTyped(Settings().value(kLastText).toString()); !last.empty()) {
        auto with = recipe;
        with.dataText = last;
        if (lookAtText(with).problem.isEmpty())
            recipe = with;
    }
    m_recipe.load(recipe);
    if (!saved)
        Q_EMIT failed(tr("The autosaved recipe is damaged"), saved.error());
}

void Session::finishSelection(const JobResult& result) {
    if (!result.selection) { // stopped: what was measured of it is shown
        auto recipe = m_recipe.recipe();
        recipe.keep = m_jobRule;
        return lookForRanking(recipe);
    }
    if (!std::exchange(m_jobChooses, true)) {
        m_jobTitle = tr("Measured %n layer(s)", nullptr, static_cast<int>(result.selection->ranking.size()));
        return Q_EMIT jobChanged();
    }
    std::vector<std::int64_t> converted;
    for (std::int64_t l = 0; l < m_recipe.layers(); ++l)
        if (!std::binary_search(result.selection->kept.begin(), result.selection->kept.end(), l))
            converted.push_back(l);
    m_recipe.setConverted(converted, tr("Choose layers by %1").arg(QString::fromStdString(m_jobRule.text())));
    m_jobTitle = tr("Chose %n layer(s) to convert", nullptr, static_cast<int>(converted.size()));
    Q_EMIT jobChanged();
}

void Session::finishRun(const JobResult& result) {
    if (result.report) {
        m_jobTitle = tr("Converted %n layer(s)", nullptr, static_cast<int>(result.report->convertedLayers.size()));
        Q_EMIT jobChanged();
    }
    m_library.jobEnded(result);
    m_fitTimer.stop();
    m_closedForm.reload();
}

void Session::openRun(const QString& folder) {
    const auto run = m_library.open(folder);
    if (run->report && run->report->selection && run->recipe)
        return adoptRanking(*run->report->selection, {run->recipe->never, run->recipe->always});
    inBackground([session = QPointer(this), folder = run->folder] { // it may have been measured before the run
        auto found = std::make_shared<std::optional<core::RunSelection>>(core::selectionOfRun(folder.toStdString(), core::cacheFolder() / "banks"));
        QMetaObject::invokeMethod(QCoreApplication::instance(), [session, folder, found] {
            if (session)
                session->takeSelection(folder, *found);
        });
    });
}

// What was measured before for the recipe as it is, by this window or another: its costs are shown, nothing of the recipe changes.
void Session::lookForRanking(const core::Recipe& recipe) {
    if (!m_teacher)
        return;
    inBackground([session = QPointer(this), recipe, hash = m_teacher->hash] {
        auto found = std::make_shared<std::optional<core::RunSelection>>(core::knownSelection(recipe, core::cacheFolder() / "banks"));
        QMetaObject::invokeMethod(QCoreApplication::instance(), [session, hash, found] {
            if (session && *found && session->m_teacher && session->m_teacher->hash == hash && (!session->m_ranking || session->m_rankingPartial))
                session->adoptRanking((*found)->selection, {(*found)->never, (*found)->always}, (*found)->partial);
        });
    });
}

void Session::takeSelection(const QString& folder, const std::optional<core::RunSelection>& found) {
    const auto run = m_library.find(folder);
    if (!run || run != currentRun() || m_ranking)
        return;
    if (found)
        return adoptRanking(found->selection, {found->never, found->always});
    lookForRanking(m_recipe.recipe());
    m_rankingNote = run->recipe && run->recipe->keep.kind == core::KeepRule::Kind::Method
                        ? tr("%1 has not measured its layers yet.").arg(run->name)
                        : tr("No costs were measured for %1: its recipe names the layers itself.").arg(run->name);
    Q_EMIT rankingChanged();
}

} // namespace linnet::app
