// What a person's half-life or beta costs the head that is looked at: the closed form's residual with it and without. Asked of the worker
// 150 ms after the last edit; of answers only the latest request's counts.
#pragma once

#include "app/jobs/worker.h"
#include "app/models/recipe_model.h"

#include <QObject>
#include <QTimer>
#include <functional>

namespace linnet::app {

class TargetProbeModel : public QObject {
    Q_OBJECT
public:
    enum class State { None, Measuring, Known, Failed };
    static constexpr double kCostly = 1.1; // times the automatic residual
    using Submit = std::function<std::uint64_t(Job)>; // 0: not now, retry() follows

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
    void ask();
    void set(State state);
    RecipeModel* m_recipe;
    SelectionModel* m_selection;
    Submit m_submit;
    QTimer m_timer;
    State m_state = State::None;
    HeadId m_head;
    std::string m_key; // all that the answer depends on
    std::uint64_t m_tag = 0; // of the open request; 0: none
    core::ProbedHead m_result;
    QString m_error;
};

} // namespace linnet::app
