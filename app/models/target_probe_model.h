// What a person's half-life or beta costs the head that is looked at: the closed form's residual with it and without. Asked of the worker
// 150 ms after the last edit; of answers only the latest request's counts.
#pragma once

#include "app/models/recipe_model.h"
#include "app/models/worker_request.h"

#include <QObject>

namespace linnet::app {

class TargetProbeModel : public QObject {
    Q_OBJECT
public:
    enum class State { None, Measuring, Known, Failed };
    static constexpr double kCostly = 1.1; // times the automatic residual
    using Submit = WorkerRequest::Submit;

    TargetProbeModel(RecipeModel* recipe, SelectionModel* selection, Submit submit, QObject* parent = nullptr);
    State state() const { return m_state; }
    HeadId head() const { return m_head; } // whose residual it is; invalid where no selected head has a user value
    const core::ProbedHead& result() const { return m_result; } // state Known
    bool costly() const; // Known, and the person's value costs more than 10 %
    QString text() const; // "residual 0.412, automatic 0.398 (half-life 8, beta 0.2)", "" for None

    void take(const JobResult& result);                        // of any probe
    void adopt(HeadId head, const core::ProbedHead& result);   // as if asked and answered
    void retry();                                              // what could not be asked before

Q_SIGNALS:
    void changed();

private:
    void refresh();
    Job job() const;
    void set(State state);
    RecipeModel* m_recipe;
    SelectionModel* m_selection;
    WorkerRequest m_request;
    State m_state = State::None;
    bool m_waits = false; // for a job that has the worker
    HeadId m_head;
    std::string m_key; // all that the answer depends on
    core::ProbedHead m_result;
    QString m_error;
};

} // namespace linnet::app
