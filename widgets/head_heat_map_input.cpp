// The heat map's mouse and keyboard: what a person asks for, told as signals.
#include "widgets/head_heat_map.h"

#include "widgets/plot_paint.h"

#include <QToolTip>
#include <algorithm>

namespace linnet::widgets {

QList<HeadId> HeadHeatMap::rectangle(HeadId from, HeadId to) const {
    QList<HeadId> heads;
    for (int layer = std::min(from.layer, to.layer); layer <= std::max(from.layer, to.layer); ++layer)
        for (int head = std::min(from.head, to.head); head <= std::max(from.head, to.head); ++head)
            if (HeadId{layer, head} != to)
                heads << HeadId{layer, head};
    return heads << to;
}

void HeadHeatMap::requestToggle(int layer, Qt::KeyboardModifiers modifiers) {
    if (layer < 0 || layer >= int(m_ticks.size()))
        return;
    const bool ticked = !m_ticks[size_t(layer)];
    if ((modifiers & Qt::ShiftModifier) && m_lastToggled >= 0 && m_lastToggled != layer) {
        QList<int> layers;
        for (int l = std::min(layer, m_lastToggled); l <= std::max(layer, m_lastToggled); ++l)
            layers << l;
        // The range takes the state that the box at its start has now.
        Q_EMIT layersToggled(layers, m_ticks[size_t(m_lastToggled)]);
    } else {
        Q_EMIT layerTickToggled(layer, ticked, modifiers);
    }
    m_lastToggled = layer;
}

void HeadHeatMap::mousePressEvent(QMouseEvent* event) {
    if (event->button() == Qt::LeftButton) {
        if (const int layer = tickAt(event->position()); layer >= 0)
            requestToggle(layer, event->modifiers());
        else if (cellAt(event->position()))
            m_press = event->position();
        else if (const auto heads = marginHeadsAt(event->position()); !heads.isEmpty())
            Q_EMIT headsSelected(heads, event->modifiers());
    }
}

void HeadHeatMap::mouseMoveEvent(QMouseEvent* event) {
    hoverAt(event->position(), event->globalPosition().toPoint());
    if (!m_press || !(event->buttons() & Qt::LeftButton))
        return;
    m_drag = event->position();
    m_dragging = m_dragging || (m_drag - *m_press).manhattanLength() >= QApplication::startDragDistance();
    if (m_dragging)
        m_hoverLayer->replot();
}

void HeadHeatMap::mouseReleaseEvent(QMouseEvent* event) {
    if (event->button() != Qt::LeftButton || !m_press)
        return;
    const QPointF start = *m_press;
    const bool dragged = std::exchange(m_dragging, false);
    m_press.reset();
    m_hoverLayer->replot();
    const QRectF area(plot().axisRect()->rect());
    const QPointF inside(std::clamp(event->position().x(), area.left(), area.right() - 1),
                         std::clamp(event->position().y(), area.top(), area.bottom() - 1));
    const auto from = cellAt(start), to = dragged ? cellAt(inside) : cellAt(event->position());
    if (!from || !to)
        return;
    m_cursor = *to;
    if (dragged && *from != *to) {
        m_anchor = *from;
        Q_EMIT headsSelected(rectangle(*from, *to), event->modifiers());
    } else if (event->modifiers() & Qt::ShiftModifier) {
        Q_EMIT headsSelected(rectangle(m_anchor, *to), event->modifiers());
    } else {
        m_anchor = *to;
        Q_EMIT headClicked(to->layer, to->head, event->modifiers());
    }
}

void HeadHeatMap::hoverAt(const QPointF& position, const QPoint& globalPosition) {
    if (const auto cell = cellAt(position)) {
        QToolTip::showText(globalPosition, tooltipText(cell->layer, cell->head), this, cellRect(cell->layer, cell->head).toRect());
        if (cell != m_hover) {
            setHover(cell->layer, cell->head);
            Q_EMIT headHovered(cell->layer, cell->head);
        }
        return;
    }
    endHover();
    if (const QString text = marginTooltip(position); !text.isEmpty())
        return QToolTip::showText(globalPosition, text, this);
    const int layer = m_gutter->rect().contains(position.toPoint()) ? layerAt(position.y()) : -1;
    if (layer < 0)
        return QToolTip::hideText();
    QToolTip::showText(globalPosition, layerText(layer), this);
}

void HeadHeatMap::endHover() {
    if (!m_hover)
        return;
    setHover(-1, -1);
    Q_EMIT hoverLeft();
}

void HeadHeatMap::leaveEvent(QEvent* event) {
    endHover();
    QToolTip::hideText();
    PlotWidget::leaveEvent(event);
}

bool HeadHeatMap::event(QEvent* event) {
    if (event->type() == QEvent::ToolTip) // ours follows the pointer; the default one would hide it
        return true;
    return PlotWidget::event(event);
}

void HeadHeatMap::moveCursor(int layers, int heads, Qt::KeyboardModifiers modifiers) {
    if (m_data.values.empty())
        return;
    m_cursor.layer = std::clamp(m_cursor.layer + layers, 0, m_data.layers - 1);
    m_cursor.head = std::clamp(m_cursor.head + heads, 0, m_data.heads - 1);
    if (modifiers & Qt::ShiftModifier) {
        Q_EMIT headsSelected(rectangle(m_anchor, m_cursor), modifiers);
    } else if (modifiers & Qt::ControlModifier) { // looks, selects nothing: as the pointer does
        m_anchor = m_cursor;
        setHover(m_cursor.layer, m_cursor.head);
        Q_EMIT headHovered(m_cursor.layer, m_cursor.head);
    } else {
        m_anchor = m_cursor;
        Q_EMIT headClicked(m_cursor.layer, m_cursor.head, Qt::NoModifier);
    }
    m_selectionLayer->replot();
}

bool HeadHeatMap::commandKey(int key) {
    if (m_data.values.empty())
        return false;
    if (key == Qt::Key_Space)
        Q_EMIT headClicked(m_cursor.layer, m_cursor.head, Qt::ControlModifier);
    else if (key == Qt::Key_A)
        Q_EMIT headsSelected(rectangle({m_data.layers - 1, m_data.heads - 1}, {0, 0}), Qt::NoModifier);
    else
        return false;
    return true;
}

void HeadHeatMap::keyPressEvent(QKeyEvent* event) {
    const Qt::KeyboardModifiers modifiers = event->modifiers() & (Qt::ShiftModifier | Qt::ControlModifier);
    if ((modifiers & Qt::ControlModifier) && commandKey(event->key()))
        return;
    switch (event->key()) {
    case Qt::Key_Left: return moveCursor(0, -1, modifiers);
    case Qt::Key_Right: return moveCursor(0, 1, modifiers);
    case Qt::Key_Up: return moveCursor(-1, 0, modifiers);
    case Qt::Key_Down: return moveCursor(1, 0, modifiers);
    case Qt::Key_Home: return moveCursor(0, -m_data.heads, modifiers);
    case Qt::Key_End: return moveCursor(0, m_data.heads, modifiers);
    case Qt::Key_PageUp: return moveCursor(-m_data.layers, 0, modifiers);
    case Qt::Key_PageDown: return moveCursor(m_data.layers, 0, modifiers);
    case Qt::Key_Space: return requestToggle(m_cursor.layer, modifiers);
    case Qt::Key_P:
        if (modifiers == Qt::NoModifier && !m_data.values.empty()) {
            Q_EMIT pinRequested(m_cursor.layer, m_cursor.head);
            return;
        }
        break;
    case Qt::Key_Escape: Q_EMIT selectionCleared(); return;
    default: break;
    }
    PlotWidget::keyPressEvent(event);
}

void HeadHeatMap::focusInEvent(QFocusEvent* event) {
    PlotWidget::focusInEvent(event);
    m_selectionLayer->replot();
}

void HeadHeatMap::focusOutEvent(QFocusEvent* event) {
    PlotWidget::focusOutEvent(event);
    if (!underMouse())
        endHover(); // the cursor's
    m_selectionLayer->replot();
}

} // namespace linnet::widgets
