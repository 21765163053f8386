// What a person expects of any window: theme, shortcuts, recent files, drag and drop, the session of last time, hints, help,
// about. Makes its menus in those of the main window; the main window stays what makes docks.
#pragma once

#include "app/models/recents.h"
#include "core/recipe/recipe.h"

#include <QObject>
#include <QPointer>

class QMainWindow;
class QMenu;
class QMimeData;
class QTabWidget;

namespace linnet::app {

class HelpWindow;
class HintBar;
class NoticeBar;
class Session;
class SessionRestore;
class ShortcutMap;
class ThemeKeeper;

class WindowHabits : public QObject {
    Q_OBJECT
public:
    WindowHabits(QMainWindow* window, Session* session);
    QWidget* wrapPages(QTabWidget* pages); // the hints above them; the central widget
    void fillRecent(QMenu* menu);
    void fillEdit(QMenu* menu); // shortcuts, what is reopened, reset of the settings
    void fillView(QMenu* menu); // theme, moving between panels
    void fillHelp(QMenu* menu);
    void finish();              // once all menus and panels are made: their keys are collected, and Tab leaves every table
    void start(const QString& path, bool open); // path empty: the teacher of last time, else the default one
    void tell(const QString& text);             // a message box beside the work
    NoticeBar* notices() { return m_notices; }
    ShortcutMap* shortcuts() { return m_shortcuts; }
    ThemeKeeper* theme() { return m_theme; }
    void showPage(int index); // and its keys work at once
    void save(); // before the window goes
    void commitEdits(); // what is typed in a field counts before a key of the menus acts on it
public Q_SLOTS:
    void open(const QString& path);       // whatever it is; says why where it is nothing
    void drop(const QMimeData* dropped);
    void loadRecipe(const QString& path);
    void showHelp(const QString& page);
    void showHelpOfFocus();
    void showShortcuts();
    void showAbout();
    void askReset();
Q_SIGNALS:
    void failed(const QString& title, const core::Error& error);
    void layoutResetRequested();

private:
    void refillRecent(QMenu* menu);
    void fillRunColors(QMenu* menu);
    void nextPanel(bool forward);
    void askAboutForeign(const core::Recipe& recipe, const QString& what);
    void followAutosave();
    void tellUnexpected(const QString& what);
    QMainWindow* m_window;
    Session* m_session;
    ThemeKeeper* m_theme;
    ShortcutMap* m_shortcuts;
    SessionRestore* m_restore = nullptr;
    HintBar* m_hints = nullptr;
    NoticeBar* m_notices = nullptr;
    QPointer<HelpWindow> m_help;
    QTabWidget* m_pages = nullptr;
};

} // namespace linnet::app
