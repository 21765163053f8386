// The window: makes docks, menus and the status strip, and wires them to the session. Nothing else.
#pragma once

#include "app/models/session.h"

#include <QMainWindow>

class QDockWidget;
class QLabel;
class QMenu;
class QTabWidget;

namespace linnet::widgets {
class ProgressStrip;
}

namespace linnet::app {

class DockFold;
class WindowHabits;

class MainWindow : public QMainWindow {
    Q_OBJECT
public:
    explicit MainWindow(QWidget* parent = nullptr);
    ~MainWindow() override;
    Session* session() { return &m_session; }
    WindowHabits* habits() { return m_habits; }

protected:
    void dragEnterEvent(QDragEnterEvent* event) override;
    void dropEvent(QDropEvent* event) override;
    void closeEvent(QCloseEvent* event) override;

private:
    void makePages();
    void showStep(const QString& id);
    void makeMenus();
    void makeStatusBar();
    void resetLayout();
    void updateActions();
    void openFolder();
    void openFile();
    void saveRecipe();
    void say(const QString& text); // in the status line, for a while
    void exportCurrent();
    RunEntryPtr exportable() const;
    bool asksBeforeClosing();
    void compareRecipes();
    void showError(const QString& title, const core::Error& error);
    QDockWidget* addDock(const QString& name, const QString& title, QWidget* content, Qt::DockWidgetArea area);

    Session m_session;
    WindowHabits* m_habits = nullptr;
    QTabWidget* m_pages = nullptr;
    QWidget *m_heads = nullptr, *m_layers = nullptr, *m_curves = nullptr, *m_evaluation = nullptr; // its pages
    widgets::ProgressStrip* m_strip = nullptr;
    QString m_ended; // how the last job ended, as the strip said it
    bool m_closing = false;
    QLabel *m_cursor = nullptr, *m_saved = nullptr;
    QMenu *m_recent = nullptr, *m_view = nullptr, *m_open = nullptr;
    DockFold* m_fold = nullptr;
    QHash<QString, QDockWidget*> m_docks;
    QHash<QString, QAction*> m_actions;
};

} // namespace linnet::app
