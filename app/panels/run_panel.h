#pragma once

#include <QWidget>

class QComboBox;
class QHBoxLayout;
class QLabel;
class QLineEdit;
class QListWidget;
class QPushButton;

namespace linnet::widgets {
class Collapsible;
class ElidedLabel;
}

namespace linnet::app {

class MethodSection;
class RecipeForm;
class Session;

// The recipe's settings as a form, the buttons of the job, and the runs of this folder.
class RunPanel : public QWidget {
    Q_OBJECT
public:
    explicit RunPanel(Session* session, QWidget* parent = nullptr);

protected:
    void changeEvent(QEvent* event) override;

private:
    void makeForm();
    QHBoxLayout* makePlace();
    void showPlace();
    void showRecipe();
    void showJob();
    void showRuns();
    void startFrom(const QString& preset);
    QString selectedRun() const;

    Session* m_session;
    RecipeForm* m_form;
    MethodSection* m_method;
    widgets::Collapsible* m_section;
    QLineEdit* m_keep;
    QComboBox* m_preset;
    QLabel *m_presetHint, *m_problem, *m_keepProblem;
    QPushButton *m_run, *m_pause, *m_stop, *m_resume, *m_open, *m_export;
    QListWidget* m_runs;
    widgets::ElidedLabel* m_place = nullptr;
};

} // namespace linnet::app
