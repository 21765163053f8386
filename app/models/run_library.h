// Runs: the queue, the one that runs here, those that another process executes, and the history on disk. Names, looks, baseline and
// queue are kept in the app's data folder (run_store.h). Files are read in the background; the window's thread never waits for one.
#pragma once

#include "app/jobs/worker.h"
#include "app/models/file_journal.h"
#include "app/models/run_entry.h"
#include "app/models/run_store.h"
#include "widgets/run_look.h"

#include <QElapsedTimer>
#include <QHash>
#include <QObject>
#include <QTimer>
#include <functional>

namespace linnet::app {

class RunLibrary : public QObject {
    Q_OBJECT
public:
    struct Device { // what the library asks of the session
        std::function<bool()> idle;
        std::function<void(Job, const QString& title)> submit; // only when idle
        std::function<void()> stop;                            // the running job, after a checkpoint
    };
    explicit RunLibrary(Device device, QObject* parent = nullptr);
    ~RunLibrary() override;

    const QList<RunEntryPtr>& runs() const { return m_runs; } // queue first, in its order; then by folder name, newest first
    RunEntryPtr find(const QString& folder) const;
    RunEntryPtr chosen() const { return m_current; } // opened, started or clicked last; may be nullptr
    RunEntryPtr running() const { return m_running; } // here, nullptr: none
    QString baseline() const { return m_memory.baseline; }
    int place(const RunEntry& run) const; // in the queue, from 1; 0 = not queued
    bool isHeld() const { return m_held; } // waiting runs start only when asked for: after a stop, and after the window was closed
    void setHeld(bool held);
    QList<RunEntryPtr> drawn() const;     // ticked ones, the chosen one and the baseline: what Curves shows
    QString runsFolder() const;           // Settings "runs/folder", default Documents/Linnet
    void setRunsFolder(const QString& folder); // of new runs; its runs are listed too

    QString enqueue(const core::Recipe& recipe); // its folder-to-be; starts at once where nothing runs or is held
    void runNow(const QString& folder);          // a waiting run: at once, or next where something runs; held or not
    bool resume(const QString& folder);          // false: something runs
    void moveInQueue(const QString& folder, int by);
    void choose(const QString& folder);          // shown by Evaluation and Inspector
    RunEntryPtr open(const QString& folder);     // adds and chooses it; its small files are read at once
    void rename(const QString& folder, const QString& name); // "" = as its folder
    void setLook(const QString& folder, int look);
    void setBaseline(const QString& folder);     // "" = none
    void setColors(widgets::RunColors set);      // of all runs, kept in Settings "runs/colors"
    void setShown(const QString& folder, bool shown);
    void remove(const QString& folder);  // a waiting or ended run, with its folder; refuses what is executed and what is no run
    void discard(const QString& folder); // of a running one: stops, then removes
    RunEntryPtr adopt(const RunEntry& run); // as if it had just run
    void lookNow();                      // at folders, without waiting for the next round

    // What the session hears of the running job
    void jobPaused(bool paused);
    void jobStopping();
    void jobProgress(const QString& text, double fraction = -1); // of its stage, 0..1; -1: not known
    void jobMetrics(const std::vector<core::MetricRow>& rows);
    void jobEvaluation(const std::string& name, const core::Evaluation& evaluation);
    void jobEnded(const JobResult& result);
    void startNext(); // when the device is idle and nothing is held

Q_SIGNALS:
    void changed();                           // list, states, names, looks, baseline, what is drawn
    void progressed(const QString& folder);   // text of a running one
    void metricsAppended(const QString& folder, const std::vector<core::MetricRow>& rows);
    void metricsReplaced(const QString& folder); // read anew
    void evaluationChanged(const QString& folder);
    void failed(const QString& title, const core::Error& error);
    void notice(const QString& text);

private:
    struct Look;   // at folders, done in the background
    struct Seen;
    static bool hasCheckpoint(const QString& folder); // anything that a resumed run would not do again
    RunEntryPtr entryFor(const QString& folder);
    void start(const RunEntryPtr& run);
    void setState(const RunEntryPtr& run, const QString& state);
    void take(const std::vector<Seen>& seen);
    bool takeOne(const RunEntryPtr& run, const Seen& seen);
    void forget(const RunEntryPtr& run);
    void removeFolder(const QString& folder);
    void sort();
    int freeLook() const;
    void keep() { m_keep.start(); }
    void write(); // the memory

    Device m_device;
    QString m_file;
    RunMemory m_memory;
    FileJournal m_journal; // of m_memory
    QList<RunEntryPtr> m_runs;
    RunEntryPtr m_current, m_running;
    bool m_held = false, m_looking = false, m_lookAgain = false;
    QTimer m_look, m_pausing, m_keep;
    QElapsedTimer m_clock; // of the running job
    QHash<QString, std::shared_ptr<core::RunFollower>> m_followers;
    QHash<QString, QString> m_stamps; // of files that were looked at
    QSet<QString> m_gone;             // removed in this session: not found again while their files go
    QSet<QString> m_stale;            // a job began or ended while the look under way was taken
    std::shared_ptr<int> m_alive = std::make_shared<int>(0);
};

} // namespace linnet::app
