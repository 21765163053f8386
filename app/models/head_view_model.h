// The primary head on a probe text, and how well its student can follow it: asked of the worker only while somebody shows it and the device
// is idle, 150 ms after the last change; of answers only the latest request's counts.
#pragma once

#include "app/models/recipe_model.h"
#include "app/models/worker_request.h"

#include <QHash>
#include <QObject>
#include <deque>

namespace linnet::app {

class HeadViewModel : public QObject {
    Q_OBJECT
public:
    enum class State { None, Waiting, Measuring, Known, Failed }; // None: no head, or nobody asks; Waiting: the device has other work
    enum Part { View = 1, Evidence = 2 };
    using Submit = WorkerRequest::Submit;
    using ViewPtr = std::shared_ptr<const core::HeadView>;
    using EvidencePtr = std::shared_ptr<const core::HeadEvidence>;

    HeadViewModel(RecipeModel* recipe, SelectionModel* selection, Submit submit, QObject* parent = nullptr);

    void want(QObject* who, int parts); // what `who` shows now: Parts, 0 = nothing more; one that is destroyed wants nothing
    QString text() const { return m_text; }
    void setText(const QString& text); // "": the first calibration window of the recipe's data
    QString run() const { return m_run; }
    void setRun(const QString& folder); // "": the start that the recipe gives the head; else the layer that this run has made
    void setProfile(std::shared_ptr<const core::Profile> profile);

    State state() const { return m_state; }
    QString stateText() const; // "measuring...", "not measured: ..."; "" for None and Known
    HeadId head() const { return m_head; }
    // Of head(), text and run; null: not measured. While isStale() they are of targets that hold no more.
    ViewPtr view() const { return m_view; }
    EvidencePtr evidence() const { return m_evidence; }
    bool isStale() const { return m_view && m_state != State::Known; }

    void take(const JobResult& result);                               // of any request
    void adopt(HeadId head, ViewPtr view, EvidencePtr evidence = {}); // as if asked and answered
    void retry();                                                     // what could not be asked before
    void refresh();                                                   // a run may have changed

Q_SIGNALS:
    void changed();

private:
    struct Known {
        std::string key;
        ViewPtr view;
        EvidencePtr evidence;
    };
    int wanted() const;
    std::string place() const; // head, text and run
    std::string keyOf() const; // all that the answer depends on
    void update();
    Job job();
    void set(State state);
    void remember();
    RecipeModel* m_recipe;
    SelectionModel* m_selection;
    WorkerRequest m_request;
    QHash<QObject*, int> m_wanted;
    std::shared_ptr<const core::Profile> m_profile;
    QString m_text, m_run, m_error;
    State m_state = State::None;
    HeadId m_head;
    std::string m_place, m_key;
    bool m_askedEvidence = false;
    ViewPtr m_view;
    EvidencePtr m_evidence;
    std::deque<Known> m_known; // newest first
};

} // namespace linnet::app
