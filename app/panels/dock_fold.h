// A window that gets narrow: the docks at its right fold away, and come back with their widths when there is room again. One that a person
// brings back in a narrow window takes the place of those at the other side.
#pragma once

#include <QHash>
#include <QList>
#include <QObject>
#include <QPointer>
#include <QSize>

class QDockWidget;
class QMainWindow;

namespace linnet::app {

class DockFold : public QObject {
    Q_OBJECT
public:
    DockFold(QMainWindow* window, const QList<QDockWidget*>& folding, const QList<QDockWidget*>& staying);
    void unfold(); // whatever the width: before a layout is saved or set

Q_SIGNALS:
    void told(const QString& text); // what went, and the way back

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    void follow();
    void remember();
    void fold(const QList<QDockWidget*>& docks);
    void shown(QDockWidget* dock);
    QMainWindow* m_window;
    QList<QDockWidget*> m_folding, m_staying;
    QList<QPointer<QDockWidget>> m_folded;
    QHash<QDockWidget*, QSize> m_sizes;
    bool m_narrow = false;
    int m_enough; // pixels of the window with all its docks
    int m_least = 0; // that they ask for
    bool m_moving = false; // docks are folded or unfolded by this
};

} // namespace linnet::app
