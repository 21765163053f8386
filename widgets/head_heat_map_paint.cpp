// What HeadHeatMap draws beside QCustomPlot's cells and axes.
#include "widgets/head_heat_map.h"
#include "widgets/pattern_picture.h"
#include "widgets/plot_paint.h"

#include <algorithm>
#include <cmath>

namespace linnet::widgets {
namespace {

constexpr int kBarWidth = 12;

void drawLock(QCPPainter& painter, const QRectF& box, const QColor& color) {
    const double s = std::min({box.width(), box.height(), 11.0});
    const QPointF c = box.center();
    painter.setPen(QPen(color, 1.2));
    painter.setBrush(Qt::NoBrush);
    painter.drawArc(QRectF(c.x() - 0.25 * s, c.y() - 0.5 * s, 0.5 * s, 0.6 * s), 0, 180 * 16);
    painter.fillRect(QRectF(c.x() - 0.38 * s, c.y() - 0.12 * s, 0.76 * s, 0.55 * s), color);
}

void drawTick(QCPPainter& painter, const QRectF& box, bool ticked, const PlotColors& colors) {
    painter.setPen(QPen(ticked ? colors.fill : colors.axis, 1));
    painter.setBrush(ticked ? QBrush(colors.fill) : QBrush(Qt::NoBrush));
    painter.drawRect(box.adjusted(0.5, 0.5, -0.5, -0.5));
    if (!ticked || box.width() < 8)
        return;
    const double x = box.left(), y = box.top(), s = box.width();
    painter.setPen(QPen(Qt::white, std::max(1.3, s / 7)));
    painter.drawPolyline(QPolygonF({{x + 0.22 * s, y + 0.52 * s}, {x + 0.42 * s, y + 0.72 * s}, {x + 0.79 * s, y + 0.28 * s}}));
}

void hatch(QCPPainter& painter, const QRectF& rect, const QColor& color) {
    painter.fillRect(rect, QBrush(color, Qt::BDiagPattern));
}

} // namespace

void HeadHeatMap::paintFrame(QCPPainter& painter) const {
    painter.setFont(font());
    painter.setPen(colors().text);
    const QFontMetrics metrics(font());
    const int left = m_gutter->rect().left() + 2;
    if (!m_data.title.isEmpty()) {
        const QRect area(left, m_titleArea->rect().top() + 2, plot().width() - left - 4, metrics.height());
        const QString title = m_data.unit.isEmpty() ? m_data.title : tr("%1 [%2]").arg(m_data.title, m_data.unit);
        painter.drawText(area, Qt::AlignLeft | Qt::AlignVCenter, metrics.elidedText(title, Qt::ElideRight, area.width()));
    }
    if (m_data.values.empty()) {
        painter.setPen(colors().axis);
        painter.drawText(plot().viewport().adjusted(12, 12, -12, -12), Qt::AlignCenter | Qt::TextWordWrap, m_emptyText);
        return;
    }
    paintMissing(painter);
    paintMargins(painter);
    paintGroups(painter);
    paintGutter(painter);
    paintColorBar(painter);
}

void HeadHeatMap::paintMissing(QCPPainter& painter) const {
    if (!m_range.hasMissing())
        return;
    const QColor line = colors().axis;
    for (int layer = 0; layer < m_data.layers; ++layer)
        for (int head = 0; head < m_data.heads; ++head)
            if (!std::isfinite(value(layer, head)))
                hatch(painter, cellRect(layer, head), line);
    const QFontMetrics metrics(font());
    const QString text = tr("not measured");
    const int top = plot().viewport().bottom() - metrics.height() - 1, right = plot().viewport().right() - 4;
    const QRect area(right - metrics.horizontalAdvance(text), top, metrics.horizontalAdvance(text) + 1, metrics.height());
    const QRect swatch(area.left() - 15, top + metrics.height() / 2 - 5, 11, 11);
    painter.fillRect(swatch, colors().notMeasured);
    hatch(painter, swatch, line);
    painter.setPen(colors().text);
    painter.drawText(area, Qt::AlignRight | Qt::AlignVCenter, text);
}

void HeadHeatMap::paintMargins(QCPPainter& painter) const {
    if (!marginsVisible())
        return;
    painter.setAntialiasing(false);
    const auto cell = [&](const QRectF& rect, const Margin& margin) {
        painter.fillRect(rect, std::isfinite(margin.position) ? mapColor(mapOn(colors(), m_map), margin.position) : colors().notMeasured);
        if (!std::isfinite(margin.mean))
            hatch(painter, rect, colors().axis);
    };
    for (int layer = 0; layer < m_data.layers; ++layer)
        cell(layerMeanRect(layer), m_layerMeans[size_t(layer)]);
    for (int head = 0; head < m_data.heads; ++head)
        cell(headMeanRect(head), m_headMeans[size_t(head)]);
    painter.setAntialiasing(true);
    const QRectF first = headMeanRect(0);
    QFont small = font();
    small.setPointSizeF(std::max(6.5, font().pointSizeF() * 0.85));
    painter.setFont(small);
    painter.setPen(colors().axis);
    painter.drawText(QRectF(first.left() - 64, first.top() - 4, 60, first.height() + 8), Qt::AlignRight | Qt::AlignVCenter, tr("mean"));
    painter.setFont(font());
}

void HeadHeatMap::paintGroups(QCPPainter& painter) const {
    if (m_groupSize < 2 || m_groupSize > m_data.heads)
        return;
    const QRectF area(plot().axisRect()->rect());
    const bool wide = cellRect(0, 0).width() >= 12;
    for (int first = 0; first < m_data.heads; first += m_groupSize) {
        const double left = cellRect(0, first).left(), right = cellRect(0, std::min(first + m_groupSize, m_data.heads) - 1).right();
        painter.setPen(QPen(colors().background, wide ? 2 : 1));
        if (first > 0)
            painter.drawLine(QPointF(left, area.top()), QPointF(left, area.bottom() + 1));
        painter.fillRect(QRectF(left + 1.5, area.top() - 4, right - left - 3, 2), colors().axis); // a bracket: one key/value head
    }
}

void HeadHeatMap::paintMarks(QCPPainter& painter) const {
    for (const HeadId id : m_marked) {
        if (!contains(id.layer, id.head))
            continue;
        const QRectF r = cellRect(id.layer, id.head);
        const double size = std::clamp(std::min(r.width(), r.height()) * 0.45, 2.5, 7.0);
        painter.setPen(QPen(Qt::black, 1));
        painter.setBrush(Qt::white);
        painter.drawEllipse(QRectF(r.left() + 1.5, r.bottom() - size - 1.5, size, size));
    }
    painter.setBrush(Qt::NoBrush);
}

void HeadHeatMap::paintPin(QCPPainter& painter) const {
    if (!m_pinned || !contains(m_pinned->layer, m_pinned->head))
        return;
    const QRectF r = cellRect(m_pinned->layer, m_pinned->head);
    const double side = std::clamp(std::min(r.width(), r.height()) * 0.6, 5.0, 12.0);
    painter.setPen(QPen(Qt::black, 1));
    painter.setBrush(Qt::white);
    painter.drawPolygon(QPolygonF({r.topRight(), r.topRight() - QPointF(side, 0), r.topRight() + QPointF(0, side)}));
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(Qt::black, 1));
    painter.drawRect(r.adjusted(0.5, 0.5, -0.5, -0.5));
    painter.setPen(QPen(Qt::white, 1, Qt::DashLine));
    painter.drawRect(r.adjusted(0.5, 0.5, -0.5, -0.5));
}

QColor HeadHeatMap::kindColor(const QString& kind) const {
    // Stable within one model: the kinds in order of first appearance take the run colours, the first one stays plain.
    QStringList kinds;
    for (const LayerInfo& info : m_infos)
        if (!kinds.contains(info.kind))
            kinds << info.kind;
    const auto index = kinds.indexOf(kind);
    return index <= 0 ? colors().axis : runColor(int(index));
}

void HeadHeatMap::paintGutter(QCPPainter& painter) const {
    const int kindLeft = m_gutter->rect().left() + (m_ticks.empty() ? 2 : 19);
    QFont small = font();
    for (int layer = 0; layer < m_data.layers; ++layer) {
        const QRectF row = cellRect(layer, 0);
        const bool fixed = !m_infos.empty() && m_infos[size_t(layer)].fixed;
        if (fixed)
            hatch(painter, QRectF(kindLeft, row.top(), m_kindWidth, row.height()), colors().axis);
        else if (!m_ticks.empty())
            drawTick(painter, tickRect(layer), m_ticks[size_t(layer)], colors());
        if (m_infos.empty())
            continue;
        const LayerInfo& info = m_infos[size_t(layer)];
        if (row.height() >= 9) {
            small.setPixelSize(std::clamp(int(row.height()) - 1, 8, std::max(8, QFontInfo(font()).pixelSize())));
            painter.setFont(small);
            painter.setPen(info.kind == m_infos.front().kind ? colors().axis : colors().text);
            painter.drawText(QRectF(kindLeft, row.top(), m_kindWidth, row.height()), Qt::AlignLeft | Qt::AlignVCenter | Qt::TextDontClip,
                             info.kind);
        } else {
            painter.fillRect(QRectF(kindLeft, row.top() + 0.5, 5, std::max(1.0, row.height() - 1)), kindColor(info.kind));
        }
        if (const QRectF bar = costRect(layer); !bar.isEmpty()) { // the dearest fills its place
            painter.setAntialiasing(false);
            painter.fillRect(QRectF(bar.left(), bar.top() + 0.5, std::max(1.0, bar.width() * info.rank), std::max(1.0, bar.height() - 1)), colors().fill);
            painter.setAntialiasing(true);
        }
        if (info.locked)
            drawLock(painter, QRectF(kindLeft + m_kindWidth, row.top(), 12, row.height()), colors().text);
    }
    painter.setFont(font());
}

void HeadHeatMap::paintColorBar(QCPPainter& painter) const {
    if (m_range.isEmpty())
        return;
    const QRect cells = plot().axisRect()->rect();
    const double strip = marginsVisible() ? layerMeanRect(0).right() - cells.right() : 0;
    const QRectF bar(m_bar->rect().left() + 4 + strip, cells.top(), kBarWidth, cells.height());
    painter.setAntialiasing(false);
    for (int y = 0; y < int(bar.height()); ++y)
        painter.fillRect(QRectF(bar.left(), bar.top() + y, kBarWidth, 1), mapColor(mapOn(colors(), m_map), 1 - (y + 0.5) / bar.height()));
    painter.setAntialiasing(true);
    // Arrow ends: there are values beyond the range.
    painter.setPen(Qt::NoPen);
    if (m_range.clipsHigh()) {
        painter.setBrush(mapColor(mapOn(colors(), m_map), 1));
        painter.drawPolygon(QPolygonF({{bar.left(), bar.top()}, {bar.right(), bar.top()}, {bar.center().x(), bar.top() - 8}}));
    }
    if (m_range.clipsLow()) {
        painter.setBrush(mapColor(mapOn(colors(), m_map), 0));
        painter.drawPolygon(QPolygonF({{bar.left(), bar.bottom()}, {bar.right(), bar.bottom()}, {bar.center().x(), bar.bottom() + 8}}));
    }
    const QFontMetrics metrics(font());
    int widest = 0;
    for (const auto& tick : m_range.ticks(std::clamp(int(bar.height()) / (2 * metrics.height()), 1, 6))) {
        const double y = bar.bottom() - tick.position * bar.height();
        painter.setPen(colors().axis);
        painter.drawLine(QPointF(bar.right(), y), QPointF(bar.right() + 3, y));
        painter.setPen(colors().text);
        const double top = std::clamp(y - metrics.height() / 2.0, bar.top() - 2, bar.bottom() - metrics.height() + 2);
        const int textWidth = metrics.horizontalAdvance(tick.label);
        widest = std::max(widest, textWidth);
        painter.drawText(QRectF(bar.right() + 5, top, textWidth + 2, metrics.height()), Qt::AlignLeft | Qt::AlignVCenter, tick.label);
    }
    const QString label = tr("scale: %1").arg(m_range.modeText());
    const int beside = m_data.title.isEmpty() ? 0 : metrics.horizontalAdvance(m_data.title + m_data.unit) + 24;
    if (metrics.horizontalAdvance(label) > bar.height() && beside + metrics.horizontalAdvance(label) < plot().width()) { // a low bar: on the title's line
        painter.drawText(QRect(0, m_titleArea->rect().top() + 2, plot().width() - 6, metrics.height()), Qt::AlignRight | Qt::AlignVCenter, label);
        return;
    }
    painter.save();
    painter.translate(m_bar->rect().right() - 2, bar.center().y());
    painter.rotate(-90);
    const QRectF area(-bar.height() / 2, -metrics.height(), bar.height(), metrics.height());
    painter.drawText(area, Qt::AlignCenter, metrics.elidedText(label, Qt::ElideRight, int(bar.height())));
    painter.restore();
}

void HeadHeatMap::paintSelection(QCPPainter& painter) const {
    if (m_data.values.empty())
        return;
    // Only edges between selected and not selected cells: one outline around a block.
    QList<QLineF> edges;
    const auto selected = [this](int layer, int head) { return contains(layer, head) && m_selection.contains({layer, head}); };
    for (const HeadId id : m_selection) {
        if (!contains(id.layer, id.head))
            continue;
        const QRectF r = cellRect(id.layer, id.head);
        if (!selected(id.layer - 1, id.head))
            edges << QLineF(r.topLeft(), r.topRight());
        if (!selected(id.layer + 1, id.head))
            edges << QLineF(r.bottomLeft(), r.bottomRight());
        if (!selected(id.layer, id.head - 1))
            edges << QLineF(r.topLeft(), r.bottomLeft());
        if (!selected(id.layer, id.head + 1))
            edges << QLineF(r.topRight(), r.bottomRight());
    }
    // Dark under light: seen on every colour of every map.
    painter.setPen(QPen(Qt::black, 3, Qt::SolidLine, Qt::SquareCap));
    painter.drawLines(edges);
    painter.setPen(QPen(Qt::white, 1.4, Qt::SolidLine, Qt::SquareCap));
    painter.drawLines(edges);
    painter.setBrush(Qt::NoBrush);
    paintMarks(painter);
    if (m_primary && contains(m_primary->layer, m_primary->head)) {
        const QRectF r = cellRect(m_primary->layer, m_primary->head);
        painter.setPen(QPen(Qt::white, 5, Qt::SolidLine, Qt::SquareCap, Qt::MiterJoin));
        painter.drawRect(r);
        painter.setPen(QPen(colors().highlight, 2.6, Qt::SolidLine, Qt::SquareCap, Qt::MiterJoin));
        painter.drawRect(r);
    }
    paintPin(painter);
    if (hasFocus() && !isExporting() && contains(m_cursor.layer, m_cursor.head)) {
        painter.setPen(QPen(colors().fill, 1.5, Qt::DotLine));
        painter.drawRect(QRectF(plot().axisRect()->rect()).adjusted(-1, -1, 1, 1));
    }
}

void HeadHeatMap::paintHover(QCPPainter& painter) const {
    if (isExporting())
        return;
    const QRectF area(plot().axisRect()->rect());
    painter.setBrush(Qt::NoBrush);
    if (m_hover && !m_data.values.empty()) {
        const QRectF r = cellRect(m_hover->layer, m_hover->head);
        const QColor veil = isDark(palette()) ? QColor(255, 255, 255, 46) : QColor(0, 0, 0, 38);
        painter.fillRect(QRectF(area.left(), r.top(), r.left() - area.left(), r.height()), veil);
        painter.fillRect(QRectF(r.right(), r.top(), area.right() + 1 - r.right(), r.height()), veil);
        painter.fillRect(QRectF(r.left(), area.top(), r.width(), r.top() - area.top()), veil);
        painter.fillRect(QRectF(r.left(), r.bottom(), r.width(), area.bottom() + 1 - r.bottom()), veil);
        painter.setPen(QPen(Qt::white, 1));
        painter.drawRect(r);
    }
    if (m_dragging && m_press) {
        const QRectF band = QRectF(*m_press, m_drag).normalized() & area;
        QColor fill = colors().fill;
        painter.setPen(QPen(Qt::white, 1, Qt::DashLine));
        fill.setAlpha(70);
        painter.setBrush(fill);
        painter.drawRect(band);
    }
}

} // namespace linnet::widgets
