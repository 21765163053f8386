// A dock among the tabs of an area that makes itself more room while it is seen: what it took is given back when another tab comes to
// the front. A height that a person has set meanwhile stays.
#pragma once

#include <QObject>

class QDockWidget;
class QMainWindow;

namespace linnet::app {

class DockRoom : public QObject {
    Q_OBJECT
public:
    DockRoom(QMainWindow* window, QDockWidget* dock);

private:
    void seen(bool visible);
    void giveBack();
    QMainWindow* m_window;
    QDockWidget* m_dock;
    int m_before = 0, m_made = 0; // heights; 0: not known
};

} // namespace linnet::app
