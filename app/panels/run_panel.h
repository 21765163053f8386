#pragma once

#include "core/recipe/recipe.h"

#include <QWidget>
#include <functional>

class QComboBox;
class QDoubleSpinBox;
class QFormLayout;
class QLabel;
class QLineEdit;
class QListWidget;
class QPushButton;
class QSpinBox;

namespace linnet::app {

class Session;

// The recipe's settings as a form, the buttons of the job, and the runs of this folder.
class RunPanel : public QWidget {
    Q_OBJECT
public:
    explicit RunPanel(Session* session, QWidget* parent = nullptr);

private:
    QSpinBox* whole(const QString& label, const QString& name, int low, int high, std::function<std::int64_t&(core::Recipe&)> field);
    QLineEdit* real(const QString& label, const QString& name, double low, double high, std::function<double&(core::Recipe&)> field);
    void showRecipe();
    void showJob();
    void showRuns();
    void applyKeepRule();
    void edit(const QString& what, const std::function<void(core::Recipe&)>& change);
    QString selectedRun() const;

    Session* m_session;
    QFormLayout* m_form;
    QLineEdit* m_keep;
    QComboBox* m_preset;
    QLabel* m_problem;
    QPushButton *m_run, *m_pause, *m_stop, *m_resume, *m_open, *m_export;
    QListWidget* m_runs;
    std::vector<std::function<void(const core::Recipe&)>> m_show; // one for each field
};

} // namespace linnet::app
