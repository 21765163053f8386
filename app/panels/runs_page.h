#pragma once

#include "app/models/run_entry.h"

#include <QHash>
#include <QWidget>
#include <functional>

class QAction;
class QLabel;
class QMenu;
class QTableView;

namespace linnet::app {

class RunComparison;
class RunColumns;
class RunTableModel;
class Session;

// Queue and history: every run with its state and results, what can be done with it, and two of them compared.
class RunsPage : public QWidget {
    Q_OBJECT
public:
    explicit RunsPage(Session* session, QWidget* parent = nullptr);

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    QAction* action(const QString& id, const QString& text, const QString& hint, void (RunsPage::*slot)());
    void makeActions();
    void makeMenu();
    void refresh();
    void enableActions(const RunEntryPtr& run);
    QList<RunEntryPtr> selected() const;
    RunEntryPtr one() const; // the selected run where it is one
    void enqueue();
    void runNow();
    void pause();
    void stop();
    void resume();
    void discard();
    void remove();
    void duplicate();
    void baseline();
    void openFolder();
    void openRun();
    void exportRun();
    void followCurrent();
    void addFolder();
    void rename();
    void earlier();
    void later();
    void hold();
    void ask(const QString& name, const QString& title, const QString& text, const QString& button, std::function<void()> yes);

    Session* m_session;
    RunTableModel* m_model;
    QTableView* m_table;
    RunColumns* m_columns;
    QLabel *m_detail, *m_empty;
    RunComparison* m_comparison;
    QMenu *m_menu, *m_looks;
    QHash<QString, QAction*> m_actions;
    QString m_current; // the run that all views are about, as last seen
};

} // namespace linnet::app
