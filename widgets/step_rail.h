// The steps of the work from top to bottom, a line each, with its state and the reason for it. A guide, not a wizard: every step can
// be clicked at any time.
#pragma once

#include <QList>
#include <QString>
#include <QWidget>

namespace linnet::widgets {

enum class StepState { Todo, Running, Done, Stale, Blocked };

struct Step {
    QString id;
    QString name;
    StepState state = StepState::Todo;
    QString reason; // "6 of 24 layers", "targets changed after calibration", ...
};

class StepRow;

class StepRail : public QWidget {
    Q_OBJECT

public:
    explicit StepRail(QWidget* parent = nullptr);

    void setSteps(const QList<Step>& steps);
    void setStep(const QString& id, StepState state, const QString& reason = {});
    void setCurrent(const QString& id); // an empty id marks none
    const QList<Step>& steps() const { return m_steps; }
    QWidget* row(const QString& id) const; // a button; null when there is no such step

Q_SIGNALS:
    void stepClicked(const QString& id);

protected:
    void changeEvent(QEvent* event) override;

private:
    void fitNames();
    QList<Step> m_steps;
    QList<StepRow*> m_rows;
};

} // namespace linnet::widgets
