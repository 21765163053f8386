#include "app/panels/dock_room.h"

#include <QDockWidget>
#include <QMainWindow>
#include <QTimer>
#include <algorithm>
#include <cmath>
#include <utility>

namespace linnet::app {
namespace {

constexpr int kSettledMs = 400, kTabMs = 50; // docks move in a quarter of a second
constexpr int kNoDrag = 2;                    // pixels

} // namespace

DockRoom::DockRoom(QMainWindow* window, QDockWidget* dock) : QObject(dock), m_window(window), m_dock(dock) {
    connect(dock, &QDockWidget::visibilityChanged, this, &DockRoom::seen);
}

void DockRoom::seen(bool visible) {
    if (!visible) // the other tab gets its place first
        return QTimer::singleShot(kTabMs, this, &DockRoom::giveBack);
    m_before = m_made = 0;
    if (m_dock->isFloating() || !m_window->isVisible())
        return;
    for (auto* other : m_window->tabifiedDockWidgets(m_dock)) // the one that was in front has the height of the area
        if (!other->isHidden() && !other->isFloating())
            m_before = m_before == 0 ? other->height() : std::min(m_before, other->height());
    QTimer::singleShot(kSettledMs, this, [this] {
        if (!m_dock->visibleRegion().isEmpty())
            m_made = m_dock->height();
    });
}

void DockRoom::giveBack() {
    const int before = std::exchange(m_before, 0);
    if (before <= 0 || !m_dock->visibleRegion().isEmpty())
        return;
    for (auto* other : m_window->tabifiedDockWidgets(m_dock))
        if (!other->isHidden() && !other->visibleRegion().isEmpty() && (m_made == 0 || std::abs(other->height() - m_made) <= kNoDrag)) // 0: gone before it had settled
            return m_window->resizeDocks({other}, {before}, Qt::Vertical);
}

} // namespace linnet::app
