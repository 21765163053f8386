// What the window is about: one teacher, its profile, the recipe, the selection, the running job and the runs. Panels read it,
// listen to its signals and call its slots; none talks to the worker or to another panel.
#pragma once

#include "app/jobs/worker.h"
#include "app/models/closed_form_model.h"
#include "app/models/generate_model.h"
#include "app/models/head_view_model.h"
#include "app/models/recipe_model.h"
#include "app/models/run_library.h"
#include "app/models/selection_model.h"
#include "app/models/student_numbers_model.h"
#include "app/models/target_probe_model.h"

#include <QObject>
#include <QTimer>

namespace linnet::core {
struct RunSelection;
}

namespace linnet::app {

enum class JobState { Idle, Running, Paused, Stopping };

struct Pins {
    std::set<std::int64_t> never, always;
    bool operator==(const Pins&) const = default;
};

class Session : public QObject {
    Q_OBJECT
public:
    explicit Session(QObject* parent = nullptr);
    ~Session() override;

    RecipeModel* recipe() { return &m_recipe; }
    SelectionModel* selection() { return &m_selection; }
    const std::optional<core::ModelInfo>& teacher() const { return m_teacher; }
    const core::Profile* profile() const { return m_profile.get(); } // nullptr = not measured
    const std::vector<std::vector<core::HeadTarget>>& automaticTargets() const { return m_automatic; }
    // The last measured layer choice (of a job, of a run or of a run that was opened), and the pins that it was measured with.
    const core::Selection* ranking() const { return m_ranking ? &*m_ranking : nullptr; }
    const Pins& rankingPins() const { return m_rankingPins; }
    bool rankingPartial() const { return m_rankingPartial; } // measuring was stopped: a choice would be made of some layers only
    QString rankingNote() const { return m_rankingNote; } // why an opened run has none, "" where that is not so
    bool rankingPinsHold() const { return m_rankingPins == Pins{m_recipe.recipe().never, m_recipe.recipe().always}; }
    TargetProbeModel* probes() { return &m_probes; }
    HeadViewModel* headViews() { return &m_headViews; }
    ClosedFormModel* closedForm() { return &m_closedForm; } // of the current run
    StudentNumbersModel* studentNumbers() { return &m_studentNumbers; } // of the current run
    RunLibrary* library() { return &m_library; }
    GenerateModel* generation() { return &m_generation; }
    const QList<RunEntryPtr>& runs() const { return m_library.runs(); }
    RunEntryPtr currentRun() const { return m_library.chosen(); } // opened, started or clicked last; of a fresh session the newest
    JobState jobState() const { return m_state; }
    const std::optional<core::DeviceMemory>& memory() const { return m_memory; } // of the teacher's device
    bool isRunning(JobKind kind) const { return m_state != JobState::Idle && m_jobKind == kind; }
    QString jobTitle() const { return m_jobTitle; } // "Converting: layer 12, step 40 of 100"
    double jobFraction() const { return m_fraction; } // 0..1, -1 = unknown
    QString jobEta() const { return m_eta; }          // "about 2 min left", ""
    QStringList logLines() const { return m_log; }
    void addLog(const QString& line);
    void adopt(const core::ModelInfo& teacher, std::shared_ptr<const core::Profile> profile); // as if opened and profiled
    void adoptRanking(const core::Selection& ranking, const Pins& pins, bool partial = false); // as if measured
    void adoptRun(const RunEntry& run);                                  // as if it had just run
    QString runsFolder() const { return m_library.runsFolder(); }
    QStringList recentModels() const;
    const std::optional<core::Error>& runProblem() const { return m_runProblem; } // why no run of this recipe can start; nullopt: it can, or no teacher is open
    core::KeepRule startingRule() const; // of the opened teacher, where nothing was chosen yet
    void failNextJob(const core::Error& error) { m_worker.failNext(error); } // as if the device had

public Q_SLOTS:
    void openTeacher(const QString& path); // "default" or a folder or .gguf; a run folder opens its teacher and its results
    void closeTeacher(); // its memory goes back
    // A recipe from elsewhere: one step of undo where it is for the opened teacher, else foreignRecipe(). Without a teacher its own is opened first.
    void useRecipe(const core::Recipe& recipe, const QString& what);
    void takeSettings(const core::Recipe& recipe, const QString& what); // of a recipe of any teacher, for the opened one
    void openFor(const core::Recipe& recipe, const QString& what);      // its teacher, then the recipe
    void profileTeacher();
    void selectLayers(const core::KeepRule& rule, bool choose = true); // measures, then sets the layers that it chose
    void startRun();
    void resumeRun(const QString& folder);
    void showRun(const QString& folder); // a run on disk becomes the current one
    void pauseOrResume();
    void stop(); // first: stop and save
    void exportRun(const QString& folder, const QString& out, const core::ExportOptions& options);

Q_SIGNALS:
    void teacherChanged();
    void runProblemChanged();
    void profileChanged();
    void memoryChanged();
    void jobChanged();      // state, title, fraction, eta
    void metricsAppended(const std::vector<core::MetricRow>& rows);
    void stageStarted(const QString& stage);
    void evaluationChanged(); // of the current run
    void rankingChanged();
    void runsChanged();
    void logAppended(const QString& line);
    void exported(const core::ExportReport& report);
    void foreignRecipe(const core::Recipe& recipe, const QString& what); // of another teacher: the window asks what to do with it
    void failed(const QString& title, const core::Error& error); // shown by the window, with what to do
    void notice(const QString& text);                             // status line

private:
    void drain();
    void lookForRunProblem();
    void finish(const JobResult& result);
    void finishOpen(const JobResult& result);
    void loadStartingRecipe();
    void logFinished(const JobResult& result);
    void leaveDevice(const core::Error& error); // the GPU is gone for this process: on with the CPU
    void finishRun(const JobResult& result);
    void finishSelection(const JobResult& result);
    std::uint64_t submitProbe(Job job);
    Job profileJob(JobKind kind) const;
    void takeKnownProfile(const JobResult& result); // of the cache, when a teacher was opened
    bool isRunJob() const { return m_jobKind == JobKind::Convert || m_jobKind == JobKind::Resume; }
    void setState(JobState state);
    void submit(Job job, const QString& title);
    void showProgress(const core::Progress& progress);
    void setProfile(std::shared_ptr<const core::Profile> profile);
    void openRun(const QString& folder);
    void forgetTeacher();
    void takeSelection(const QString& folder, const std::optional<core::RunSelection>& found); // of an opened run
    void lookForRanking(const core::Recipe& recipe); // where none is shown
    void chooseNewest(bool opened = false); // run of this teacher, where none is chosen; a model was opened: or one of another teacher
    RecipeModel m_recipe;
    SelectionModel m_selection;
    ClosedFormModel m_closedForm;
    TargetProbeModel m_probes{&m_recipe, &m_selection, [this](Job job) { return submitProbe(std::move(job)); }};
    HeadViewModel m_headViews{&m_recipe, &m_selection, [this](Job job) { return submitProbe(std::move(job)); }};
    StudentNumbersModel m_studentNumbers{[this](Job job) { return submitProbe(std::move(job)); }};
    Worker m_worker;
    QTimer m_drainTimer;
    std::optional<core::ModelInfo> m_teacher;
    std::optional<core::DeviceMemory> m_memory;
    std::shared_ptr<const core::Profile> m_profile;
    std::vector<std::vector<core::HeadTarget>> m_automatic;
    std::optional<core::Selection> m_ranking;
    Pins m_rankingPins, m_jobPins;
    QString m_rankingNote;
    bool m_rankingPartial = false, m_jobChooses = true; // the second of a selection
    core::KeepRule m_jobRule; // of a selection
    RunLibrary m_library{{[this] { return m_state == JobState::Idle; }, [this](Job job, const QString& title) { submit(std::move(job), title); }, [this] { stop(); }}};
    GenerateModel m_generation{[this](Job job, const QString& title) { return m_teacher && m_state == JobState::Idle && (submit(std::move(job), title), true); }};
    JobState m_state = JobState::Idle;
    JobKind m_jobKind = JobKind::Open; // of the running job, or of the last one
    std::optional<core::Error> m_runProblem;
    QString m_jobTitle, m_jobWhat, m_eta; // m_jobWhat: as it was asked for
    double m_fraction = -1;
    QStringList m_log;
    std::uint64_t m_openTag = 0, m_knownProfile = 0;
    bool m_cpuOnly = false; // the GPU was lost
    QTimer m_fitTimer; // reads what the closed form of the running conversion has found so far
    QString m_pendingRun; // a run folder whose teacher is being opened
    std::optional<std::pair<core::Recipe, QString>> m_pendingRecipe; // likewise: recipe and name of the step
    std::chrono::steady_clock::time_point m_jobBegin, m_jobAsked; // of the stage; of the job
    std::string m_etaStage;
    double m_etaFrom = 0;
};

} // namespace linnet::app
