#include "widgets/distance_histogram.h"

#include "widgets/color_maps.h"
#include "widgets/color_range.h"
#include "widgets/plot_paint.h"

#include <algorithm>
#include <cmath>

namespace linnet::widgets {

std::vector<double> decayKernelMass(const std::vector<double>& edges, double halfLife) {
    std::vector<double> mass;
    const auto survival = [halfLife](double edge) { return std::exp2(-std::ceil(std::max(0.0, edge)) / halfLife); };
    for (size_t i = 0; i + 1 < edges.size() && halfLife > 0; ++i)
        mass.push_back(survival(edges[i]) - survival(edges[i + 1]));
    return mass;
}

DistanceHistogram::DistanceHistogram(QWidget* parent) : PlotWidget(parent), m_emptyText(tr("Select a measured head")) {
    setAccessibleName(tr("Attention mass by distance"));
    QCustomPlot& p = plot();
    m_bars = p.addGraph();
    m_decay = p.addGraph();
    m_cumulative = p.addGraph(p.xAxis, p.yAxis2);
    for (QCPGraph* steps : {m_bars, m_decay}) {
        steps->setLineStyle(QCPGraph::lsStepLeft);
        steps->setAdaptiveSampling(false);
    }
    p.xAxis->setLabel(tr("distance [tokens]"));
    p.yAxis->setLabel(tr("mass"));
    p.yAxis2->setVisible(true);
    p.yAxis2->setRange(0, 1.02);
    p.yAxis2->setLabel(tr("cumulative"));
    p.yAxis2->ticker()->setTickCount(3);
    p.xAxis->setTicker(QSharedPointer<QCPAxisTickerText>::create());
    for (QCPAxis* axis : {p.xAxis, p.yAxis, p.yAxis2}) {
        axis->setSubTicks(false);
        axis->setTickLength(0, 3);
        axis->setLabelPadding(2);
    }
    new PaintStep(p, "axes", [this](QCPPainter& painter) { paint(painter); });
    refill();
    applyColors();
}

void DistanceHistogram::setData(const DistanceData& data) {
    m_data = data;
    const bool fits = !data.mass.empty() && data.edges.size() == data.mass.size() + 1 && data.edges.front() >= 0 &&
                      std::is_sorted(data.edges.begin(), data.edges.end());
    if (!fits)
        m_data = {};
    refill();
}

void DistanceHistogram::setDecayHalfLife(std::optional<double> tokens) {
    m_halfLife = tokens;
    refill();
}

void DistanceHistogram::setTarget(std::optional<double> distance, bool automatic) {
    m_automatic = automatic;
    m_target = distance;
    refill();
}

void DistanceHistogram::setEmptyText(const QString& text) {
    m_emptyText = text;
    refill();
}

double DistanceHistogram::position(double distance) const {
    // [0, 1) is one bin as wide as an octave: the mass on the token itself.
    return distance >= 1 ? std::log2(distance) : distance - 1;
}

void DistanceHistogram::refill() {
    const bool shown = !isEmpty();
    m_kernel = shown && m_halfLife ? decayKernelMass(m_data.edges, *m_halfLife) : std::vector<double>{};
    const auto steps = [this](QCPGraph* graph, const std::vector<double>& mass) {
        QVector<QCPGraphData> points;
        for (size_t i = 0; i < mass.size(); ++i)
            points << QCPGraphData(position(m_data.edges[i]), mass[i]);
        if (!mass.empty())
            points << QCPGraphData(position(m_data.edges.back()), mass.back());
        graph->data()->set(points, true);
    };
    steps(m_bars, m_data.mass);
    steps(m_decay, m_kernel);
    QVector<QCPGraphData> cumulative;
    double sum = 0, highest = 0;
    if (shown)
        cumulative << QCPGraphData(position(m_data.edges.front()), 0);
    for (size_t i = 0; i < m_data.mass.size(); ++i) {
        sum += m_data.mass[i];
        highest = std::max({highest, m_data.mass[i], m_kernel.empty() ? 0 : m_kernel[i]});
        cumulative << QCPGraphData(position(m_data.edges[i + 1]), sum);
    }
    m_cumulative->data()->set(cumulative, true);
    QCustomPlot& p = plot();
    for (QCPAxis* axis : {p.xAxis, p.yAxis, p.yAxis2})
        axis->setVisible(shown);
    if (shown)
        p.xAxis->setRange(position(m_data.edges.front()), position(m_data.edges.back()));
    p.yAxis->setRange(0, highest > 0 ? highest * 1.12 : 1);
    updateTicks();
    p.replot(QCustomPlot::rpQueuedReplot);
}

void DistanceHistogram::updateTicks() {
    if (isEmpty())
        return;
    auto ticker = plot().xAxis->ticker().dynamicCast<QCPAxisTickerText>();
    ticker->clear();
    if (m_data.edges.front() < 1)
        ticker->addTick(-1, "0");
    const double octaves = std::max(1.0, position(m_data.edges.back()));
    const int fitting = std::max(1, (width() - 110) / (fontMetrics().horizontalAdvance("0000") + 8));
    const int step = std::max(1, int(std::ceil(octaves / fitting)));
    for (int k = 0; k <= int(octaves + 1e-9); k += step)
        ticker->addTick(k, QString::number(qlonglong(1) << k));
    plot().yAxis->ticker()->setTickCount(std::clamp(height() / 50, 2, 6));
}

void DistanceHistogram::resizeEvent(QResizeEvent* event) {
    PlotWidget::resizeEvent(event);
    updateTicks();
}

void DistanceHistogram::restyle() {
    QColor fill = colors().fill;
    m_bars->setPen(QPen(fill, 1));
    fill.setAlpha(95);
    m_bars->setBrush(fill);
    m_decay->setPen(QPen(runColor(1), 1.8, Qt::DashLine));
    m_cumulative->setPen(QPen(colors().text, 1.2));
    plot().yAxis2->grid()->setVisible(false);
    plot().xAxis->grid()->setVisible(false);
}

void DistanceHistogram::paint(QCPPainter& painter) const {
    QFont small = font();
    small.setPointSizeF(std::max(7.0, font().pointSizeF() - 1));
    painter.setFont(small);
    const QFontMetrics metrics(small);
    if (isEmpty()) {
        painter.setPen(colors().axis);
        painter.drawText(plot().viewport().adjusted(12, 12, -12, -12), Qt::AlignCenter | Qt::TextWordWrap, m_emptyText);
        return;
    }
    const QRectF area(plot().axisRect()->rect());
    QColor glass = colors().background;
    glass.setAlpha(190);
    const auto drawOnGlass = [&](const QRectF& box, const QString& text) {
        painter.fillRect(box, glass);
        painter.drawText(box, Qt::AlignLeft, text);
    };
    double freeFrom = area.left() - 4;
    const auto mark = [&](double distance, const QString& label, const QPen& pen, int row) {
        if (!std::isfinite(distance))
            return;
        const double x = plot().xAxis->coordToPixel(position(distance));
        if (x < area.left() - 1 || x > area.right() + 1)
            return;
        painter.setPen(pen);
        painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()));
        const int width = metrics.horizontalAdvance(label);
        double left = std::min(x + 3, area.right() - width - 1);
        if (row == 0 && left < freeFrom)
            return;
        painter.setPen(pen.color());
        drawOnGlass(QRectF(left, area.top() + 1 + row * metrics.height(), width + 1, metrics.height()), label);
        freeFrom = row == 0 ? left + width + 4 : freeFrom;
    };
    const QPen quantile(colors().text, 1, Qt::DotLine);
    mark(m_data.p10, "p10", quantile, 0);
    mark(m_data.p50, "p50", quantile, 0);
    mark(m_data.p90, "p90", quantile, 0);
    if (m_target)
        mark(*m_target, (m_automatic ? tr("automatic %1") : tr("target %1")).arg(tickLabel(*m_target)), QPen(colors().highlight, 1.6), 1);
    if (m_halfLife && !m_kernel.empty()) {
        const QString text = tr("- - decay, half-life %1").arg(tickLabel(*m_halfLife));
        painter.setPen(isDark(palette()) && colors().background != Qt::white ? runColor(1) : runColor(1).darker(140));
        drawOnGlass(QRectF(area.right() - 3 - metrics.horizontalAdvance(text), area.top() + 1 + 2 * metrics.height(),
                           metrics.horizontalAdvance(text) + 1, metrics.height()), text);
    }
}

QString DistanceHistogram::csv() const {
    QString text = QStringLiteral("from,to,mass,cumulative,decay\n");
    double sum = 0;
    for (size_t i = 0; i < m_data.mass.size(); ++i) {
        sum += m_data.mass[i];
        text += csvNumber(m_data.edges[i]) + ',' + csvNumber(m_data.edges[i + 1]) + ',' + csvNumber(m_data.mass[i]) + ',' +
                csvNumber(sum) + ',' + (m_kernel.empty() ? QString() : csvNumber(m_kernel[i])) + '\n';
    }
    return text;
}

} // namespace linnet::widgets
