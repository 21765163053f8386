// What CurvePlot paints beside the curves: marks, hover and cursor; and its export.
#include "widgets/curve_plot_p.h"

#include <QHelpEvent>
#include <algorithm>
#include <cmath>

namespace linnet::widgets {
namespace {

constexpr double kTick = 7, kLeastBetweenTicks = 5; // pixels
constexpr double kRawOpacity = 0.25;
constexpr double kHoverReach = 48; // pixels from the pointer to the nearest point

} // namespace

QColor fadedInto(const QColor& color, const QColor& paper) {
    const auto mix = [](float a, float b) { return float(kRawOpacity) * a + float(1 - kRawOpacity) * b; };
    return QColor::fromRgbF(mix(color.redF(), paper.redF()), mix(color.greenF(), paper.greenF()), mix(color.blueF(), paper.blueF()));
}

void CurvePlot::restyle() {
    m_small = font();
    m_small.setPointSizeF(std::max(7.0, font().pointSizeF() - 1));
    for (const auto& curve : m_curves)
        style(*curve);
    rebuildLegend();
}

bool CurvePlot::eventFilter(QObject* watched, QEvent* event) {
    if (event->type() == QEvent::Leave)
        endHover();
    if (event->type() == QEvent::ToolTip)
        tellLegend(*static_cast<QHelpEvent*>(event));
    return PlotWidget::eventFilter(watched, event);
}

void CurvePlot::endHover() {
    if (!m_hover)
        return;
    m_hover.reset();
    m_overlay->replot();
    Q_EMIT hoverLeft();
}

void CurvePlot::hoverAt(const QPointF& position) {
    const QCPAxis *xAxis = plot().xAxis, *yAxis = plot().yAxis;
    if (!plot().axisRect()->rect().contains(position.toPoint()))
        return endHover();
    const double at = xAxis->pixelToCoord(position.x());
    setCursor(at);
    Q_EMIT cursorMoved(at);
    const Curve* best = nullptr;
    size_t bestIndex = 0;
    double bestDistance = kHoverReach;
    for (const auto& curve : m_curves) {
        if (!curve->visible || curve->series.x().empty())
            continue;
        const size_t i = curve->series.nearest(at);
        const double value = curve->series.smoothed()[i];
        if (!std::isfinite(value) || (m_log && value <= 0))
            continue;
        const double distance = std::hypot(xAxis->coordToPixel(curve->series.x()[i]) - position.x(),
                                           yAxis->coordToPixel(value) - position.y());
        if (distance < bestDistance) {
            best = curve.get();
            bestIndex = i;
            bestDistance = distance;
        }
    }
    if (!best)
        return endHover();
    const CurveSeries& series = best->series;
    m_hover = Hover{best->name, series.x()[bestIndex], series.y()[bestIndex], series.smoothed()[bestIndex], best->look.color, best->look.smooth};
    m_overlay->replot();
    Q_EMIT pointHovered(best->id, m_hover->x, m_hover->y);
}

void CurvePlot::paintMarks(QCPPainter& painter) const {
    const QRectF area(plot().axisRect()->rect());
    painter.setFont(m_small);
    const QFontMetrics metrics(painter.font());
    if (m_curves.empty()) {
        painter.setPen(colors().axis);
        painter.drawText(area.adjusted(8, 8, -8, -8), Qt::AlignCenter | Qt::TextWordWrap, m_emptyText);
    }
    const auto shown = plot().xAxis->range();
    if (!m_curves.empty() && !m_follows && !reachesInto(shown.lower, shown.upper)) {
        painter.setPen(colors().axis);
        painter.drawText(area.adjusted(8, 8, -8, -8), Qt::AlignCenter | Qt::TextWordWrap, tr("Nothing lies in this range. A double click shows all."));
    }
    painter.setPen(QPen(colors().axis, 1.4));
    double last = -kLeastBetweenTicks;
    for (const Mark& mark : m_marks) {
        const double x = plot().xAxis->coordToPixel(mark.x);
        if (!mark.small || x < area.left() || x > area.right() || std::abs(x - last) < kLeastBetweenTicks)
            continue;
        painter.drawLine(QPointF(x, area.bottom() - kTick), QPointF(x, area.bottom()));
        last = x;
    }
    double freeFrom = area.left(); // labels that would overlap stay away, their lines remain
    for (const Mark& mark : m_marks) {
        const double x = plot().xAxis->coordToPixel(mark.x);
        if (mark.small || x < area.left() || x > area.right())
            continue;
        painter.setPen(QPen(colors().axis, 1, Qt::DashLine));
        painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()));
        const int width = metrics.horizontalAdvance(mark.label);
        const double left = x + 3 + width <= area.right() ? x + 3 : x - 3 - width;
        if (left < freeFrom)
            continue;
        painter.setPen(colors().text);
        painter.drawText(QRectF(left, area.top() + 2, width + 1, metrics.height()), Qt::AlignLeft, mark.label); // losses fall: there is room
        freeFrom = left + width + 6;
    }
}

void CurvePlot::paintHover(QCPPainter& painter) const {
    if (isExporting())
        return;
    const QRectF area(plot().axisRect()->rect());
    if (hasFocus()) {
        painter.setPen(QPen(colors().highlight, 1));
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(area.adjusted(0, 0, -1, -1));
    }
    if (m_cursor) {
        const double x = plot().xAxis->coordToPixel(*m_cursor);
        painter.setPen(QPen(colors().axis, 1));
        if (x >= area.left() && x <= area.right())
            painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()));
    }
    if (!m_hover)
        return;
    const QPointF point(plot().xAxis->coordToPixel(m_hover->x), plot().yAxis->coordToPixel(m_hover->shown));
    painter.setPen(QPen(colors().background, 1.5));
    painter.setBrush(m_hover->color);
    painter.drawEllipse(point, 4.5, 4.5);
    painter.setFont(m_small);
    const QFontMetrics metrics(painter.font());
    QStringList lines{metrics.elidedText(m_hover->name, Qt::ElideMiddle, int(area.width() * 0.6)),
                      (plot().xAxis->label().isEmpty() ? tr("x") : plot().xAxis->label()) + ' ' + readout(m_hover->x) + ": " +
                          readout(m_hover->y)};
    if (m_smoothing > 0 && m_hover->smooth)
        lines << tr("smoothed %1").arg(readout(m_hover->shown));
    int width = 0;
    for (const QString& line : lines)
        width = std::max(width, metrics.horizontalAdvance(line));
    QRectF box(point.x() + 10, point.y() - 10 - metrics.height() * lines.size(), width + 12, metrics.height() * lines.size() + 6);
    if (box.right() > area.right())
        box.moveRight(point.x() - 10);
    box.moveLeft(std::max(box.left(), area.left() + 2));
    box.moveTop(std::max(box.top(), area.top() + 2));
    QColor glass = colors().background;
    glass.setAlpha(230);
    painter.setPen(QPen(m_hover->color, 1));
    painter.setBrush(glass);
    painter.drawRoundedRect(box, 3, 3);
    painter.setPen(colors().text);
    painter.drawText(box.adjusted(6, 3, -6, -3), Qt::AlignLeft, lines.join('\n'));
}

std::vector<CurveValue> CurvePlot::valuesAt(double x) const {
    std::vector<CurveValue> values;
    for (const auto& curve : m_curves) {
        const auto& series = curve->series;
        if (!curve->visible || series.x().empty() || x < series.x().front() || x > series.x().back())
            continue; // between the ends only: nothing is measured beyond
        const size_t i = series.nearest(x);
        values.push_back({curve->id, curve->name, curve->look, series.x()[i], series.y()[i], series.smoothed()[i]});
    }
    return values;
}

QString CurvePlot::csv() const {
    const QCPRange shown = plot().xAxis->range();
    QString text = QStringLiteral("curve,x,value,smoothed\n");
    for (const auto& curve : m_curves) {
        if (!curve->visible)
            continue;
        const CurveSeries& series = curve->series;
        const QString name = csvText(curve->name);
        for (size_t i = 0; i < series.x().size(); ++i)
            if (series.x()[i] >= shown.lower && series.x()[i] <= shown.upper)
                text += name + ',' + csvNumber(series.x()[i]) + ',' + csvNumber(series.y()[i]) + ',' +
                        csvNumber(series.smoothed()[i]) + '\n';
    }
    return text;
}

} // namespace linnet::widgets
