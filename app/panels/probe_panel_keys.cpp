// The probe dock by keyboard: patterns first, then each slider.
#include "app/panels/probe_panel.h"

#include "widgets/imgui_host.h"

#include <QAction>
#include <QKeyEvent>

namespace linnet::app {

bool ProbePanel::stepFocus(bool next) {
    const int to = m_focus + (next ? 1 : -1);
    if (!m_patternPage->isChecked() || !m_model.view() || to < 0 || to > static_cast<int>(kTargetFields.size()))
        return false;
    m_model.release();
    m_focus = to;
    return true;
}

bool ProbePanel::eventFilter(QObject* watched, QEvent* event) {
    if (watched == m_host && event->type() == QEvent::FocusIn) {
        const auto reason = static_cast<QFocusEvent*>(event)->reason();
        if (reason == Qt::TabFocusReason || reason == Qt::BacktabFocusReason)
            m_focus = reason == Qt::TabFocusReason ? 0 : static_cast<int>(kTargetFields.size());
    }
    if (watched == m_host && event->type() == QEvent::FocusOut && m_views && m_releaseTimer.isActive()) { // steps by key end here
        m_releaseTimer.stop();
        m_model.release();
    }
    return QWidget::eventFilter(watched, event);
}

bool ProbePanel::key(const QKeyEvent& event, bool query) {
    if (!m_patternPage->isChecked() || !m_model.view() || (event.modifiers() & (Qt::ControlModifier | Qt::AltModifier)))
        return false;
    if (event.key() == Qt::Key_Escape) {
        const bool ours = m_model.dragging() || (m_focus == 0 && m_view.row() >= 0);
        if (query || !ours)
            return ours;
        m_releaseTimer.stop();
        if (m_model.dragging())
            m_sliders.escape();
        else
            m_view.clearRow();
        return true;
    }
    if (m_focus == 0)
        return patternKey(event.key(), query);
    if (event.key() == Qt::Key_Return || event.key() == Qt::Key_Enter) {
        if (!query)
            m_releaseTimer.stop(), m_model.release();
        return true;
    }
    const bool ours = m_sliders.step(kTargetFields[static_cast<std::size_t>(m_focus - 1)], event.key(), query);
    if (ours && !query && m_model.dragging())
        m_releaseTimer.start();
    return ours;
}

bool ProbePanel::patternKey(int key, bool query) {
    const auto act = [&](auto&& what) {
        if (!query)
            what();
        return true;
    };
    const double step = m_view.window().span / 8;
    switch (key) {
    case Qt::Key_Up: return act([&] { m_view.moveRow(-1); });
    case Qt::Key_Down: return act([&] { m_view.moveRow(1); });
    case Qt::Key_PageUp: return act([&] { m_view.moveRow(-16); });
    case Qt::Key_PageDown: return act([&] { m_view.moveRow(16); });
    case Qt::Key_Left: return act([&] { m_view.pan(-step, 0); });
    case Qt::Key_Right: return act([&] { m_view.pan(step, 0); });
    case Qt::Key_Plus:
    case Qt::Key_Equal: return act([&] { m_view.zoom(1.5); });
    case Qt::Key_Minus: return act([&] { m_view.zoom(1 / 1.5); });
    case Qt::Key_0:
    case Qt::Key_Home: return act([&] { m_view.fit(); });
    default: return false;
    }
}

} // namespace linnet::app
