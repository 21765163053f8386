#pragma once

#include <QWidget>
#include <string>

class QLabel;
class QProgressBar;

namespace linnet::widgets {
class ElidedLabel;
class EmptyState;
class StepRail;
}

namespace linnet::app {

class Session;

// The teacher, the data, and how far the work is.
class ProjectPanel : public QWidget {
    Q_OBJECT
public:
    explicit ProjectPanel(Session* session, QWidget* parent = nullptr);

Q_SIGNALS:
    void stepRequested(const QString& id); // open, profile, layers, targets, run, evaluate, export

protected:
    void changeEvent(QEvent* event) override; // texts carry colours of the theme

private:
    QWidget* makeTeacher();
    QWidget* makeData();
    void showTeacher();
    void showData();
    void showSteps();
    void showOpenStep(bool busy);
    void showRunSteps();
    Session* m_session;
    widgets::EmptyState* m_empty;
    QWidget *m_loading, *m_teacher, *m_data;
    QLabel *m_loadingText, *m_summary, *m_facts, *m_warnings, *m_dataFacts;
    QProgressBar* m_loadingBar;
    widgets::ElidedLabel *m_name, *m_path;
    widgets::StepRail* m_rail;
    QString m_runFolder;
    std::string m_runHash; // recipe of the run of this session, to tell when it is out of date
    bool m_exported = false;
};

} // namespace linnet::app
