// One run as the window knows it: of this session, found on disk, waiting in the queue, or executed by another process.
#pragma once

#include "core/convert/run_watch.h"

#include <QColor>
#include <QCoreApplication>
#include <QString>
#include <memory>

namespace linnet::app {

struct RunEntry {
    QString name, folder;
    // queued, running, pausing, paused, stopping, stopped (saved: can be resumed), done, failed, elsewhere (another process's)
    QString state;
    std::vector<core::MetricRow> metrics; // all of them once metricsWhole; before, nothing or those of this session
    bool metricsWhole = false;
    std::map<std::string, core::Evaluation> evaluation;
    std::optional<core::Report> report;
    std::optional<core::Recipe> recipe; // nullopt: not read yet, or unreadable
    QString hash;                       // of the recipe, ""
    core::RunOnDisk disk;               // as last looked at
    QString progress;                   // "align: layer 3, step 12 of 300": of the running job
    double fraction = -1;               // of its stage; -1: not known
    QString failure;                    // why it failed
    int look = 0;                       // its colour, line style and marker for life (widgets/run_look.h)
    bool shown = false;                 // drawn in Curves
    bool toDiscard = false;             // removed once its job has ended
    bool hasBegun() const { return state != QLatin1String("queued"); }
    bool isOurs() const; // its job runs in this window
    bool saved = true;                  // a failed run: there is something on disk to go on from
    bool canResume() const { return state == QLatin1String("stopped") || (state == QLatin1String("failed") && saved); }
};
using RunEntryPtr = std::shared_ptr<RunEntry>;

// Appends rows to an entry. A row of a step that is there already starts its stage and layer over from there, as a resumed run does.
void appendRows(std::vector<core::MetricRow>& rows, const std::vector<core::MetricRow>& more);

class RunText { // what is said about a run; all translated
    Q_DECLARE_TR_FUNCTIONS(RunText)
public:
    static QString state(const RunEntry& run, int place = 0); // "stopped, saved", "queued (2)"; place in the queue, from 1
    // One sentence that says where it is and what comes next: "Stopped at step 412 of 3000, saved; Resume goes on from there."
    static QString detail(const RunEntry& run, int place = 0, bool held = false);
    static QString stage(const std::string& stage);
    static QString position(const core::MetricRow& row, const std::optional<core::Recipe>& recipe); // "alignment, layer 3, step 12 of 300"
    // In few words, for a column: "alignment 43 %", "step 412 of 3000"; a dash where it has yet to begin.
    static QString shortProgress(const RunEntry& run);
    static QString duration(double seconds); // "3 min 12 s"; a dash for none
    static QString number(double value, int decimals = 4); // a dash for what was not measured
};

} // namespace linnet::app
