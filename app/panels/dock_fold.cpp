#include "app/panels/dock_fold.h"

#include <QDockWidget>
#include <QEvent>
#include <QMainWindow>
#include <QTimer>
#include <algorithm>
#include <utility>

namespace linnet::app {
namespace {

constexpr int kNarrow = 1000, kWide = 1200, kMargin = 30, kUsable = 285; // pixels; the last of a dock that comes back

}

DockFold::DockFold(QMainWindow* window, const QList<QDockWidget*>& folding, const QList<QDockWidget*>& staying)
    : QObject(window), m_window(window), m_folding(folding), m_staying(staying), m_enough(kNarrow) {
    window->installEventFilter(this);
    for (auto* dock : m_folding + m_staying)
        connect(dock, &QDockWidget::visibilityChanged, this, [this, dock](bool visible) {
            if (visible)
                shown(dock);
        });
}

bool DockFold::eventFilter(QObject* watched, QEvent* event) {
    if (watched == m_window && (event->type() == QEvent::Resize || event->type() == QEvent::Show))
        QTimer::singleShot(0, this, &DockFold::follow); // once the window has laid itself out
    return false;
}

void DockFold::follow() {
    // A window manager stops at the least width that the docks ask for: just before it they must fold, or they never do.
    if (!m_narrow) {
        m_least = m_window->minimumSizeHint().width();
        m_enough = std::clamp(m_least + kMargin, kNarrow, kWide);
    }
    const bool narrow = m_window->width() < m_enough;
    if (!m_window->isVisible() || narrow == m_narrow) {
        return remember();
    }
    m_narrow = narrow;
    if (!narrow)
        return unfold();
    fold(m_folding);
}

void DockFold::fold(const QList<QDockWidget*>& docks) {
    QStringList names;
    m_moving = true;
    for (auto* dock : docks)
        if (!dock->isHidden() && !dock->isFloating()) {
            if (!m_folded.contains(dock))
                m_folded << dock;
            dock->hide();
            names << dock->windowTitle();
        }
    m_moving = false;
    if (!names.isEmpty())
        Q_EMIT told(tr("%1 folded away: the window is narrow. View > %2 brings it back.").arg(names.join(tr(" and ")), names.front()));
}

void DockFold::shown(QDockWidget* dock) {
    if (!m_narrow || m_moving || dock->isFloating() || m_window->width() >= m_least)
        return;
    fold(m_folding.contains(dock) ? m_staying : m_folding);
    m_window->resizeDocks({dock}, {std::max(m_sizes.value(dock).width(), kUsable)}, Qt::Horizontal);
}

void DockFold::remember() {
    if (m_window->isVisible() && !m_narrow)
        for (auto* dock : m_folding + m_staying)
            if (dock->isVisible() && !dock->isFloating())
                m_sizes[dock] = dock->size();
}

void DockFold::unfold() {
    m_moving = true;
    for (const auto& dock : std::exchange(m_folded, {}))
        if (dock)
            dock->show();
    m_moving = false;
    QList<QDockWidget*> docks;
    QList<int> widths, heights;
    for (auto* dock : m_folding + m_staying)
        if (!dock->isHidden() && !dock->isFloating() && m_sizes.contains(dock)) {
            docks << dock;
            widths << m_sizes[dock].width();
            heights << m_sizes[dock].height();
        }
    if (docks.isEmpty())
        return;
    m_window->resizeDocks(docks, widths, Qt::Horizontal);
    m_window->resizeDocks(docks, heights, Qt::Vertical);
}

} // namespace linnet::app
