#include "app/models/run_library.h"

#include "app/guarded.h"
#include "app/models/settings.h"

#include <QCoreApplication>
#include <QDateTime>
#include <QDir>
#include <QFileInfo>
#include <QStandardPaths>
#include <algorithm>
#include <array>

namespace linnet::app {
namespace {

constexpr int kKeepMs = 300;  // many changes, one write
constexpr int kQuietMs = 500; // a job that was told to pause checks every 200 ms of work; silent for so long, it has stopped

} // namespace

RunLibrary::RunLibrary(Device device, QObject* parent) : QObject(parent), m_device(std::move(device)) {
    m_keep.setSingleShot(true);
    m_keep.setInterval(kKeepMs);
    connect(&m_keep, &QTimer::timeout, this, &RunLibrary::write);
    connect(&m_journal, &FileJournal::failed, this, [this] { Q_EMIT notice(tr("Names and colours of runs could not be written to %1").arg(m_file)); });
    m_file = QStandardPaths::writableLocation(QStandardPaths::AppDataLocation) + QStringLiteral("/runs.json");
    m_memory = readRunMemory(m_file);
    widgets::setRunColors(Settings().value(QStringLiteral("runs/colors")).toString() == QLatin1String("tol") ? widgets::RunColors::Tol : widgets::RunColors::OkabeIto);
    for (const auto& waiting : m_memory.queue) {
        const auto run = entryFor(waiting.folder);
        run->recipe = waiting.recipe;
        run->hash = QString::fromStdString(core::recipeHash(waiting.recipe));
        run->state = QStringLiteral("queued");
    }
    m_held = !m_memory.queue.isEmpty(); // nothing starts by itself because the window was opened
    sort();
    m_look.setSingleShot(true);
    connect(&m_look, &QTimer::timeout, this, &RunLibrary::lookNow);
    m_look.start(0);
    m_pausing.setSingleShot(true);
    m_pausing.setInterval(kQuietMs);
    connect(&m_pausing, &QTimer::timeout, this, [this] {
        if (m_running && m_running->state == QLatin1String("pausing"))
            setState(m_running, QStringLiteral("paused"));
    });
}

RunLibrary::~RunLibrary() {
    if (m_keep.isActive())
        write();
}

QString RunLibrary::runsFolder() const {
    const auto documents = QStandardPaths::writableLocation(QStandardPaths::DocumentsLocation) + QStringLiteral("/Linnet");
    return Settings().value(QStringLiteral("runs/folder"), documents).toString();
}

void RunLibrary::setRunsFolder(const QString& folder) {
    Settings().setValue(QStringLiteral("runs/folder"), folder);
    for (const auto& run : m_runs) // listed because they lay in the folder of before
        if (run->hasBegun() && !m_memory.added.contains(run->folder))
            m_memory.added.append(run->folder);
    keep();
    lookNow();
}

RunEntryPtr RunLibrary::find(const QString& folder) const {
    for (const auto& run : m_runs)
        if (run->folder == folder)
            return run;
    return nullptr;
}

int RunLibrary::freeLook() const { // the first that no run here has; of those in use the least used
    std::array<int, widgets::kRunLooks> used{};
    for (const auto& run : m_runs)
        ++used[static_cast<std::size_t>(run->look % widgets::kRunLooks)];
    return static_cast<int>(std::min_element(used.begin(), used.end()) - used.begin());
}

RunEntryPtr RunLibrary::entryFor(const QString& folder) {
    const auto path = QFileInfo(folder).absoluteFilePath();
    if (const auto known = find(path))
        return known;
    m_gone.remove(path);
    const auto run = std::make_shared<RunEntry>();
    run->folder = path;
    auto& remembered = m_memory.runs[path];
    if (remembered.look < 0) {
        remembered.look = freeLook();
        keep();
    }
    run->look = remembered.look;
    run->shown = remembered.shown;
    run->name = remembered.name.isEmpty() ? QFileInfo(path).fileName() : remembered.name;
    m_runs.append(run);
    sort();
    return run;
}

int RunLibrary::place(const RunEntry& run) const {
    for (int i = 0; i < m_memory.queue.size(); ++i)
        if (m_memory.queue[i].folder == run.folder)
            return i + 1;
    return 0;
}

void RunLibrary::sort() {
    std::stable_sort(m_runs.begin(), m_runs.end(), [this](const auto& a, const auto& b) {
        const int first = place(*a), second = place(*b);
        if (first > 0 || second > 0)
            return first > 0 && (second == 0 || first < second);
        return QFileInfo(a->folder).fileName() > QFileInfo(b->folder).fileName();
    });
}

void RunLibrary::write() {
    m_keep.stop();
    m_journal.write(m_file, runMemoryText(m_memory));
}

QList<RunEntryPtr> RunLibrary::drawn() const {
    QList<RunEntryPtr> list;
    for (const auto& run : m_runs)
        if (run->hasBegun() && (run->shown || run == m_current || run->folder == m_memory.baseline))
            list.append(run);
    return list;
}

void RunLibrary::setState(const RunEntryPtr& run, const QString& state) {
    if (run->state == state)
        return;
    run->state = state;
    Q_EMIT changed();
}

// ---- what a person asks for --------------------------------------------------------------------------------------------------

QString RunLibrary::enqueue(const core::Recipe& recipe) {
    const auto start = runsFolder() + QLatin1Char('/') + QDateTime::currentDateTime().toString(QStringLiteral("yyyyMMdd-HHmmss")) + QLatin1Char('-') + QString::fromStdString(recipe.preset);
    auto folder = QFileInfo(start).absoluteFilePath();
    for (int n = 2; find(folder) || QFileInfo::exists(folder); ++n) // two of one second
        folder = QFileInfo(start + QLatin1Char('-') + QString::number(n)).absoluteFilePath();
    m_memory.queue.append({folder, recipe});
    const auto run = entryFor(folder);
    run->recipe = recipe;
    run->hash = QString::fromStdString(core::recipeHash(recipe));
    run->state = QStringLiteral("queued");
    run->metricsWhole = true; // there are none
    sort();
    keep();
    Q_EMIT changed();
    startNext();
    return folder;
}

void RunLibrary::startNext() {
    if (!m_held && !m_memory.queue.isEmpty() && m_device.idle())
        start(find(m_memory.queue.front().folder));
}

void RunLibrary::start(const RunEntryPtr& run) {
    m_memory.queue.removeIf([&](const auto& waiting) { return waiting.folder == run->folder; });
    Job job;
    job.path = run->folder.toStdString();
    job.recipe = run->recipe.value_or(core::Recipe{}); // of a resumed one: here for what the measured layers were pinned to
    const bool begun = QFileInfo::exists(run->folder + QStringLiteral("/recipe.json"));
    job.kind = begun ? JobKind::Resume : JobKind::Convert;
    run->state = QStringLiteral("running");
    run->progress.clear();
    run->failure.clear();
    run->disk.ending = core::RunEnding::Unknown;
    run->report.reset();
    run->shown = true;
    m_followers.remove(run->folder); // from here on the job tells
    m_stale.insert(run->folder);
    m_current = m_running = run;
    m_clock.start();
    sort();
    keep();
    if (!run->metricsWhole)
        lookNow();
    Q_EMIT changed();
    Q_EMIT evaluationChanged(run->folder);
    m_device.submit(std::move(job), begun ? tr("Resuming %1").arg(run->name) : tr("Converting"));
}

void RunLibrary::runNow(const QString& folder) {
    const auto run = find(folder);
    const int at = run ? place(*run) : 0;
    if (at == 0)
        return;
    if (m_device.idle())
        start(run);
    else
        moveInQueue(folder, 1 - at);
}

void RunLibrary::setHeld(bool held) {
    if (held == m_held)
        return;
    m_held = held;
    Q_EMIT changed();
    startNext();
}

bool RunLibrary::resume(const QString& folder) {
    if (!m_device.idle())
        return false;
    if (!QFileInfo::exists(folder + QStringLiteral("/recipe.json"))) { // not to be taken for one that has yet to begin
        Q_EMIT failed(tr("Can't resume the run"), {core::ErrorCode::NotFound, "the run folder " + folder.toStdString() + " isn't there any more, or has lost its recipe.json", {}});
        return false;
    }
    const auto run = entryFor(folder);
    if (const auto process = core::runProcess(run->folder.toStdString())) {
        Q_EMIT failed(tr("Can't resume %1").arg(run->name), {core::ErrorCode::Usage, "run folder " + run->folder.toStdString() + " is executed by process " + std::to_string(process->pid) + " on " + process->host, {}});
        return false;
    }
    if (!run->recipe)
        if (const auto recipe = core::readRecipe((run->folder + QStringLiteral("/recipe.json")).toStdString()))
            run->recipe = *recipe;
    start(run);
    return true;
}

void RunLibrary::moveInQueue(const QString& folder, int by) {
    const auto run = find(folder);
    const int at = run ? place(*run) - 1 : -1, to = at + by;
    if (at < 0 || to < 0 || to >= m_memory.queue.size())
        return;
    m_memory.queue.move(at, to);
    sort();
    keep();
    Q_EMIT changed();
}

void RunLibrary::choose(const QString& folder) {
    const auto run = find(folder);
    if (run == m_current || !run)
        return;
    m_current = run;
    if (!run->metricsWhole)
        lookNow();
    Q_EMIT changed();
    Q_EMIT evaluationChanged(run->folder);
}

void RunLibrary::rename(const QString& folder, const QString& name) {
    const auto run = find(folder);
    if (!run)
        return;
    const auto kept = name.trimmed();
    run->name = kept.isEmpty() ? QFileInfo(run->folder).fileName() : kept;
    m_memory.runs[run->folder].name = kept == QFileInfo(run->folder).fileName() ? QString() : kept;
    keep();
    Q_EMIT changed();
}

void RunLibrary::setLook(const QString& folder, int look) {
    if (const auto run = find(folder)) {
        run->look = m_memory.runs[run->folder].look = look;
        keep();
        Q_EMIT changed();
    }
}

void RunLibrary::setBaseline(const QString& folder) {
    m_memory.baseline = folder;
    keep();
    if (const auto run = find(folder); run && !run->metricsWhole)
        lookNow();
    Q_EMIT changed();
    Q_EMIT evaluationChanged(folder);
}

void RunLibrary::setColors(widgets::RunColors set) {
    Settings().setValue(QStringLiteral("runs/colors"), set == widgets::RunColors::Tol ? QStringLiteral("tol") : QStringLiteral("okabe-ito"));
    if (set == widgets::runColors())
        return;
    widgets::setRunColors(set);
    Q_EMIT changed();
}

void RunLibrary::setShown(const QString& folder, bool shown) {
    const auto run = find(folder);
    if (!run || run->shown == shown)
        return;
    run->shown = m_memory.runs[run->folder].shown = shown;
    keep();
    if (shown && !run->metricsWhole)
        lookNow();
    Q_EMIT changed();
}

RunEntryPtr RunLibrary::adopt(const RunEntry& given) {
    const auto run = entryFor(given.folder);
    const auto look = run->look;
    *run = given;
    run->look = look;
    run->metricsWhole = true;
    m_current = run;
    Q_EMIT changed();
    Q_EMIT metricsReplaced(run->folder);
    Q_EMIT evaluationChanged(run->folder);
    return run;
}

// ---- an end ------------------------------------------------------------------------------------------------------------------

void RunLibrary::discard(const QString& folder) {
    const auto run = find(folder);
    if (!run || run != m_running)
        return remove(folder);
    run->toDiscard = true;
    if (run->state != QLatin1String("stopping"))
        m_device.stop();
    Q_EMIT changed();
}

void RunLibrary::remove(const QString& folder) {
    const auto run = find(folder);
    if (!run)
        return;
    const QFileInfo place(run->folder);
    const bool empty = !place.exists() || QDir(run->folder).isEmpty(QDir::AllEntries | QDir::NoDotAndDotDot);
    const bool isRun = QFileInfo::exists(run->folder + QStringLiteral("/recipe.json")) && QFileInfo::exists(run->folder + QStringLiteral("/checkpoints"));
    if (run == m_running || core::runProcess(run->folder.toStdString())) {
        Q_EMIT failed(tr("Can't delete %1").arg(run->name), {core::ErrorCode::Usage, run->folder.toStdString() + " is being executed; stop it first", {}});
        return;
    }
    if (!empty && (!isRun || place.isSymLink())) {
        Q_EMIT failed(tr("Can't delete %1").arg(run->name), {core::ErrorCode::Usage, run->folder.toStdString() + " does not look like a run folder; nothing was removed", {}});
        return;
    }
    forget(run);
    if (place.exists())
        removeFolder(run->folder);
}

void RunLibrary::forget(const RunEntryPtr& run) {
    m_memory.queue.removeIf([&](const auto& waiting) { return waiting.folder == run->folder; });
    m_memory.runs.remove(run->folder);
    m_memory.added.removeAll(run->folder);
    if (m_memory.baseline == run->folder)
        m_memory.baseline.clear();
    m_followers.remove(run->folder);
    m_stamps.remove(run->folder);
    m_gone.insert(run->folder);
    m_runs.removeOne(run);
    if (m_current == run)
        m_current.reset();
    keep();
    Q_EMIT changed();
    Q_EMIT evaluationChanged(run->folder);
}

void RunLibrary::removeFolder(const QString& folder) { // gigabytes take a while
    inBackground([folder, this, alive = std::weak_ptr<int>(m_alive)] {
        const bool done = QDir(folder).removeRecursively();
        QMetaObject::invokeMethod(QCoreApplication::instance(), [=, this] {
            if (alive.expired())
                return;
            Q_EMIT notice(done ? tr("Removed %1").arg(folder) : tr("Some files of %1 could not be removed").arg(folder));
        });
    });
}

} // namespace linnet::app
