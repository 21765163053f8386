// What the window showed when it was last seen: teacher, run, page and selection (Settings "session/..."), written within
// two seconds of a change, so that a kill loses none of it either.
#pragma once

#include <QObject>
#include <QTimer>

class QTabWidget;

namespace linnet::app {

class Session;

class SessionRestore : public QObject {
    Q_OBJECT
public:
    SessionRestore(Session* session, QTabWidget* pages, QObject* parent = nullptr); // shows the page of last time
    static bool reopens();              // the teacher of last time at start; default yes
    static void setReopens(bool reopen);
    static QString lastModel();         // its path, empty: none
    // This process has a window, from markOpen() to markClosed(). markOpen() says whether one of last time ended without the latter.
    static bool markOpen();
    static void markClosed();
    void save();

private:
    void teacherChanged();
    Session* m_session;
    QTabWidget* m_pages;
    QTimer m_timer;
    bool m_restored = false; // once a start
};

} // namespace linnet::app
