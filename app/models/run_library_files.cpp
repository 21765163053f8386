// Looking at run folders in the background: what is new, who executes them, and their metrics as they grow.
#include "app/models/run_library.h"

#include "app/guarded.h"

#include <QCoreApplication>
#include <QDateTime>
#include <QDir>
#include <QFileInfo>
#include <algorithm>

namespace linnet::app {
namespace {

constexpr int kOftenMs = 500, kSeldomMs = 3000; // with and without a run that grows elsewhere
constexpr int kMaxRuns = 500;

// Changes whenever something worth reading does.
QString stampOf(const QString& folder, bool executed) {
    QString stamp = executed ? QStringLiteral("+") : QStringLiteral("-");
    for (const char* name : {"/state.json", "/log.txt", "/metrics.jsonl", "/report.json"}) {
        const QFileInfo file(folder + QLatin1String(name));
        stamp += QString::number(file.size()) + QLatin1Char('/') + QString::number(file.lastModified().toMSecsSinceEpoch()) + QLatin1Char(';');
    }
    return stamp;
}

} // namespace

struct RunLibrary::Look {
    QString folder, stamp; // what was read last; "": nothing yet
    bool recipe = false, ours = false;
    std::shared_ptr<core::RunFollower> follower; // nullptr: its curves are not wanted
};

struct RunLibrary::Seen {
    QString folder, stamp;
    bool changed = false, missing = false, saved = true;
    core::RunOnDisk disk;
    std::optional<core::Report> report;
    std::optional<core::Recipe> recipe;
    core::RunFollower::News news;
    bool followed = false;
    static Seen look(const Look& look);
};

bool RunLibrary::hasCheckpoint(const QString& folder) {
    return !QDir(folder + QStringLiteral("/checkpoints")).isEmpty(QDir::AllEntries | QDir::NoDotAndDotDot);
}

RunLibrary::Seen RunLibrary::Seen::look(const Look& look) {
    Seen seen;
    seen.folder = look.folder;
    const std::filesystem::path path = look.folder.toStdString();
    seen.stamp = stampOf(look.folder, core::runProcess(path).has_value());
    seen.missing = !QFileInfo::exists(look.folder);
    seen.changed = seen.stamp != look.stamp && !look.ours && !seen.missing;
    if (seen.changed) {
        seen.disk = core::lookAtRun(path);
        seen.saved = hasCheckpoint(look.folder);
        if (auto report = core::readReport(path); report && seen.disk.finished)
            seen.report = std::move(*report);
    }
    if (look.recipe)
        if (auto recipe = core::readRecipe(path / "recipe.json"))
            seen.recipe = std::move(*recipe);
    if (look.follower) {
        seen.news = look.follower->poll();
        seen.followed = true;
    }
    return seen;
}

void RunLibrary::lookNow() {
    if (std::exchange(m_looking, true)) {
        m_lookAgain = true;
        return;
    }
    m_stale.clear(); // of looks before
    std::vector<Look> known;
    for (const auto& run : m_runs) {
        if (!run->hasBegun())
            continue;
        Look look{run->folder, m_stamps.value(run->folder), !run->recipe, run == m_running, nullptr};
        const bool wanted = run == m_running || run->shown || run == m_current || run->folder == m_memory.baseline;
        if (wanted && (!run->metricsWhole || run->state == QLatin1String("elsewhere"))) { // others don't grow, or their job tells
            auto& follower = m_followers[run->folder];
            if (!follower)
                follower = std::make_shared<core::RunFollower>(std::filesystem::path(run->folder.toStdString()));
            look.follower = follower;
        }
        known.push_back(std::move(look));
    }
    inBackground([this, known = std::move(known), added = m_memory.added, root = runsFolder(), alive = std::weak_ptr<int>(m_alive)] {
        auto seen = std::make_shared<std::vector<Seen>>();
        for (const auto& look : known)
            (void)core::guarded([&] { seen->push_back(Seen::look(look)); }); // one folder that can't be looked at leaves the others
        QStringList folders = added;
        for (const auto& entry : QDir(root).entryInfoList(QDir::Dirs | QDir::NoDotAndDotDot, QDir::Name | QDir::Reversed).mid(0, kMaxRuns))
            folders.append(entry.absoluteFilePath());
        for (const auto& folder : folders) {
            const auto here = [&](const auto& look) { return look.folder == folder; };
            if (std::none_of(known.begin(), known.end(), here) && QFileInfo::exists(folder + QStringLiteral("/state.json"))) // an export holds a recipe too
                (void)core::guarded([&] { seen->push_back(Seen::look({folder, {}, true, false, nullptr})); });
        }
        QMetaObject::invokeMethod(QCoreApplication::instance(), [this, seen, alive] { // in the window's thread, where this lives
            if (!alive.expired())
                take(*seen);
        });
    });
}

void RunLibrary::take(const std::vector<Seen>& all) {
    m_looking = false;
    m_lookAgain |= !m_stale.isEmpty();
    bool anything = false;
    for (const auto& seen : all) {
        const auto known = find(seen.folder);
        if (m_gone.contains(seen.folder) || m_stale.contains(seen.folder))
            continue;
        if (seen.missing && known && known != m_running && m_stamps.contains(seen.folder)) { // taken away by somebody else
            m_runs.removeOne(known);
            m_stamps.remove(seen.folder);
            if (m_current == known)
                m_current.reset();
            anything = true;
        } else if (!seen.missing) {
            anything |= !known;
            anything |= takeOne(entryFor(seen.folder), seen);
        }
    }
    m_stale.clear();
    if (anything)
        Q_EMIT changed();
    const bool grows = std::any_of(m_runs.begin(), m_runs.end(), [](const auto& run) { return run->state == QLatin1String("elsewhere"); });
    m_look.start(std::exchange(m_lookAgain, false) ? 0 : grows ? kOftenMs : kSeldomMs);
}

bool RunLibrary::takeOne(const RunEntryPtr& run, const Seen& seen) { // true: something that lists show
    bool anything = false;
    if (seen.recipe && !run->recipe) {
        run->recipe = seen.recipe;
        run->hash = QString::fromStdString(core::recipeHash(*seen.recipe));
        anything = true;
    }
    const bool ours = run == m_running;
    if (seen.changed && !ours && run->hasBegun() && m_stamps.value(run->folder) != seen.stamp) {
        m_stamps[run->folder] = seen.stamp;
        const auto before = run->state;
        run->disk = seen.disk;
        run->saved = seen.saved;
        run->report = seen.report;
        const auto& evaluation = seen.report ? seen.report->evaluation : seen.disk.evaluation;
        const bool measured = evaluation.size() != run->evaluation.size();
        run->evaluation = evaluation;
        run->state = seen.disk.process && !seen.disk.process->here ? QStringLiteral("elsewhere")
                     : seen.report                                 ? QStringLiteral("done")
                     : seen.disk.ending == core::RunEnding::Failed ? QStringLiteral("failed")
                                                                   : QStringLiteral("stopped");
        if (seen.disk.ending == core::RunEnding::Failed)
            run->failure = QString::fromStdString(seen.disk.endingText);
        if (!seen.followed && run->state != before) // another process went on with it
            run->metricsWhole = false;
        if (measured)
            Q_EMIT evaluationChanged(run->folder);
        anything = true;
    }
    if (!seen.followed || (ours && run->metricsWhole) || !m_followers.contains(run->folder))
        return anything;
    if (seen.news.anew) {
        auto rows = seen.news.rows;
        if (ours) // and what its job has told meanwhile
            appendRows(rows, run->metrics);
        run->metrics = std::move(rows);
        Q_EMIT metricsReplaced(run->folder);
    } else if (!seen.news.rows.empty()) {
        appendRows(run->metrics, seen.news.rows);
        Q_EMIT metricsAppended(run->folder, seen.news.rows);
    }
    run->metricsWhole = true;
    if (ours)
        m_followers.remove(run->folder);
    return anything;
}

RunEntryPtr RunLibrary::open(const QString& folder) {
    const auto run = entryFor(folder);
    m_current = run;
    run->shown = true;
    if (!run->folder.startsWith(QFileInfo(runsFolder()).absoluteFilePath() + QLatin1Char('/')) && !m_memory.added.contains(run->folder)) {
        m_memory.added.append(run->folder);
        keep();
    }
    if (run != m_running)
        takeOne(run, Seen::look({run->folder, {}, !run->recipe, false, nullptr}));
    Q_EMIT changed();
    Q_EMIT evaluationChanged(run->folder);
    lookNow();
    return run;
}

} // namespace linnet::app
