#include "app/panels/dock_room.h"

#include <QDockWidget>
#include <QMainWindow>
#include <QTimer>
#include <algorithm>
#include <cmath>
#include <utility>

namespace linnet::app {
namespace {

constexpr int kSettledMs = 100, kNoDrag = 2; // pixels

} // namespace

DockRoom::DockRoom(QMainWindow* window, QDockWidget* dock) : QObject(dock), m_window(window), m_dock(dock) {
    connect(dock, &QDockWidget::visibilityChanged, this, &DockRoom::seen);
}

void DockRoom::seen(bool visible) {
    if (!visible) // the other tab gets its place first
        return QTimer::singleShot(0, this, &DockRoom::giveBack);
    m_before = m_made = 0;
    if (m_dock->isFloating() || !m_window->isVisible())
        return;
    for (auto* other : m_window->tabifiedDockWidgets(m_dock)) // the one that was in front has the height of the area
        if (!other->isHidden() && !other->isFloating())
            m_before = m_before == 0 ? other->height() : std::min(m_before, other->height());
    QTimer::singleShot(kSettledMs, this, [this] { m_made = m_dock->height(); });
}

void DockRoom::giveBack() {
    const int before = std::exchange(m_before, 0);
    if (before <= 0 || m_made <= before)
        return;
    for (auto* other : m_window->tabifiedDockWidgets(m_dock))
        if (!other->isHidden() && !other->visibleRegion().isEmpty() && std::abs(other->height() - m_made) <= kNoDrag)
            return m_window->resizeDocks({other}, {before}, Qt::Vertical);
}

} // namespace linnet::app
