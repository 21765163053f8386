#include "widgets/curve_plot.h"

#include "widgets/color_range.h"
#include "widgets/plot_paint.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace linnet::widgets {
namespace {

constexpr int kRefreshMs = 32;
constexpr size_t kDotted = 40; // so few points show as dots: one alone draws no line
constexpr double kRawOpacity = 0.25;
constexpr double kHoverReach = 48; // pixels from the pointer to the nearest point
constexpr double kLongestSmoothStroke = 30; // up and down, in heights of the curve
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Blended by hand: a translucent pen costs a hundred times more on dense zigzags and darkens where they overlap.
QColor faded(const QColor& color, const QColor& paper) {
    const auto mix = [](float a, float b) { return float(kRawOpacity) * a + float(1 - kRawOpacity) * b; };
    return QColor::fromRgbF(mix(color.redF(), paper.redF()), mix(color.greenF(), paper.greenF()),
                            mix(color.blueF(), paper.blueF()));
}

} // namespace

struct CurvePlot::Curve {
    QString id, name;
    QColor color;
    Qt::PenStyle style = Qt::SolidLine;
    bool visible = true;
    CurveSeries series;
    QCPGraph *line = nullptr, *raw = nullptr;
    double low = 0, high = 0; // of what is drawn
};

CurvePlot::CurvePlot(QWidget* parent) : PlotWidget(parent), m_emptyText(tr("No curves yet")) {
    setAccessibleName(tr("Curves"));
    QCustomPlot& p = plot();
    p.setInteractions(QCP::iRangeDrag | QCP::iRangeZoom);
    p.setAutoAddPlottableToLegend(false);
    p.setNoAntialiasingOnDrag(true);
    p.legend->setVisible(true);
    p.legend->setRowSpacing(0);
    p.legend->setMargins({6, 3, 6, 3});
    p.axisRect()->insetLayout()->setInsetAlignment(0, Qt::AlignTop | Qt::AlignRight);
    p.axisRect()->insetLayout()->setMargins({4, 4, 4, 4});
    p.addLayer("raw", p.layer("grid")); // every raw line lies behind every smoothed one
    new PaintStep(p, "grid", [this](QCPPainter& painter) { paintMarks(painter); });
    m_overlay = addBufferedLayer(p, "hover");
    new PaintStep(p, "hover", [this](QCPPainter& painter) { paintHover(painter); });
    p.installEventFilter(this);

    m_timer.setSingleShot(true);
    connect(&m_timer, &QTimer::timeout, this, &CurvePlot::refresh);
    connect(&p, &QCustomPlot::mouseWheel, this, [this](QWheelEvent* e) {
        if (plot().axisRect()->rect().contains(e->position().toPoint()))
            userMoved();
    });
    connect(&p, &QCustomPlot::mouseMove, this, [this](QMouseEvent* e) {
        if (e->buttons() & Qt::LeftButton)
            userMoved();
        else
            hoverAt(e->position());
    });
    connect(&p, &QCustomPlot::mouseDoubleClick, this, [this] { resetView(); });
    for (QCPAxis* axis : {p.xAxis, p.yAxis})
        connect(axis, qOverload<const QCPRange&>(&QCPAxis::rangeChanged), this, [this] {
            if (!m_refreshing)
                schedule();
        });
    refresh();
    applyColors();
}

CurvePlot::~CurvePlot() = default;

CurvePlot::Curve* CurvePlot::find(const QString& id) const {
    for (const auto& curve : m_curves)
        if (curve->id == id)
            return curve.get();
    return nullptr;
}

void CurvePlot::addCurve(const QString& id, const QString& name, const QColor& color, Qt::PenStyle style) {
    Curve* curve = find(id);
    if (!curve) {
        curve = m_curves.emplace_back(std::make_unique<Curve>()).get();
        curve->id = id;
        curve->series.setSmoothing(m_smoothing);
        curve->raw = plot().addGraph();
        curve->line = plot().addGraph();
        curve->raw->setLayer("raw");
        for (QCPGraph* graph : {curve->raw, curve->line})
            graph->setAdaptiveSampling(false); // the envelope did it already
    }
    curve->name = name;
    curve->color = color;
    curve->style = style;
    curve->raw->setPen(QPen(faded(color, colors().background), 1));
    m_legendStale = true;
    schedule();
}

void CurvePlot::removeCurve(const QString& id) {
    Curve* curve = find(id);
    if (!curve)
        return;
    plot().legend->clear(); // its entries point at the graphs
    plot().removeGraph(curve->raw);
    plot().removeGraph(curve->line);
    std::erase_if(m_curves, [curve](const auto& c) { return c.get() == curve; });
    m_hover.reset();
    m_legendStale = true;
    schedule();
}

void CurvePlot::append(const QString& id, double x, double y) {
    if (Curve* curve = find(id)) {
        curve->series.append(std::span(&x, 1), std::span(&y, 1));
        schedule();
    }
}

void CurvePlot::append(const QString& id, const std::vector<double>& x, const std::vector<double>& y) {
    if (Curve* curve = find(id)) {
        curve->series.append(x, y);
        schedule();
    }
}

void CurvePlot::clear() {
    plot().legend->clear();
    plot().clearGraphs();
    m_curves.clear();
    m_marks.clear();
    m_hover.reset();
    m_legendStale = true;
    m_follows = true;
    schedule();
}

void CurvePlot::clearPoints(const QString& id) {
    if (Curve* curve = find(id))
        curve->series.clear();
    m_hover.reset();
    schedule();
}

void CurvePlot::setCurveVisible(const QString& id, bool visible) {
    Curve* curve = find(id);
    if (!curve || curve->visible == visible)
        return;
    curve->visible = visible;
    m_legendStale = true;
    schedule();
}

size_t CurvePlot::pointCount(const QString& id) const {
    const Curve* curve = find(id);
    return curve ? curve->series.x().size() : 0;
}

void CurvePlot::setAxisLabels(const QString& x, const QString& y) {
    plot().xAxis->setLabel(x);
    plot().yAxis->setLabel(y);
    schedule();
}

void CurvePlot::setEmptyText(const QString& text) {
    m_emptyText = text;
    schedule();
}

void CurvePlot::setLogY(bool log) {
    m_log = log;
    QCPAxis* y = plot().yAxis;
    y->setScaleType(log ? QCPAxis::stLogarithmic : QCPAxis::stLinear);
    y->setTicker(log ? QSharedPointer<QCPAxisTicker>(new QCPAxisTickerLog) : QSharedPointer<QCPAxisTicker>(new QCPAxisTicker));
    m_follows = true;
    schedule();
}

void CurvePlot::setWholeX(bool whole) {
    const int ticks = plot().xAxis->ticker()->tickCount();
    QSharedPointer<QCPAxisTicker> ticker(new QCPAxisTicker);
    if (whole) {
        auto fixed = QSharedPointer<QCPAxisTickerFixed>::create();
        fixed->setTickStep(1);
        fixed->setScaleStrategy(QCPAxisTickerFixed::ssMultiples);
        ticker = fixed;
    }
    ticker->setTickCount(ticks);
    plot().xAxis->setTicker(ticker);
    plot().xAxis->setSubTicks(!whole);
    schedule();
}

void CurvePlot::setSmoothing(double weight) {
    m_smoothing = std::clamp(weight, 0.0, 0.9999);
    for (const auto& curve : m_curves)
        curve->series.setSmoothing(m_smoothing);
    m_hover.reset();
    schedule();
}

void CurvePlot::addMark(double x, const QString& label) {
    m_marks.push_back({x, label});
    schedule();
}

void CurvePlot::clearMarks() {
    m_marks.clear();
    schedule();
}

void CurvePlot::setCursor(std::optional<double> x) {
    if (x == m_cursor)
        return;
    m_cursor = x;
    m_overlay->replot();
}

void CurvePlot::setView(double xFrom, double xTo, double yFrom, double yTo) {
    m_follows = false;
    plot().xAxis->setRange(xFrom, xTo);
    plot().yAxis->setRange(yFrom, yTo);
    schedule();
}

void CurvePlot::resetView() {
    m_follows = true;
    schedule();
}

CurvePlot::View CurvePlot::view() const {
    const QCPRange x = plot().xAxis->range(), y = plot().yAxis->range();
    return {x.lower, x.upper, y.lower, y.upper};
}

void CurvePlot::userMoved() {
    m_follows = false;
    endHover();
    Q_EMIT viewChangedByUser();
}

// ---- redrawing ---------------------------------------------------------------------------------------------------

void CurvePlot::schedule() {
    // Counted from the start of the last redraw, so that its own work does not lower the rate.
    if (!m_timer.isActive())
        m_timer.start(int(m_sinceRefresh.isValid() ? std::max<qint64>(0, kRefreshMs - m_sinceRefresh.elapsed()) : 0));
}

void CurvePlot::refresh() {
    m_refreshing = true;
    m_sinceRefresh.start();
    if (m_follows) {
        double from = kInfinity, to = -kInfinity;
        for (const auto& curve : m_curves)
            if (curve->visible && !curve->series.x().empty()) {
                from = std::min(from, curve->series.x().front());
                to = std::max(to, curve->series.x().back());
            }
        if (from > to)
            plot().xAxis->setRange(0, 1);
        else
            plot().xAxis->setRange(from < to ? from : from - 0.5, from < to ? to : to + 0.5);
    }
    const QCPRange shown = plot().xAxis->range();
    for (const auto& curve : m_curves)
        fill(*curve, shown.lower, shown.upper);
    if (m_follows)
        follow();
    if (m_legendStale)
        rebuildLegend();
    m_refreshing = false;
    plot().replot(QCustomPlot::rpQueuedReplot);
}

// What lies between from and to (and one screen's half beside it, for dragging), as few points as the pixels need.
void CurvePlot::fill(Curve& curve, double from, double to) {
    curve.line->setVisible(curve.visible);
    curve.raw->setVisible(curve.visible && m_smoothing > 0);
    curve.low = kInfinity;
    curve.high = -kInfinity;
    if (!curve.visible)
        return;
    const double beside = m_follows ? 0 : 0.5 * (to - from);
    const auto [first, last] = curve.series.indexRange(from - beside, to + beside);
    const auto draw = [&, first = first, last = last](QCPGraph* graph, const std::vector<double>& values) {
        const std::span<const double> x = std::span(curve.series.x()).subspan(first, last - first);
        const std::span<const double> y = std::span(values).subspan(first, last - first);
        std::vector<double> fewX, fewY;
        if (x.size() > kPointsShown)
            envelope(x, y, std::min(kPointsShown / 3, size_t(width())), fewX, fewY);
        const std::span<const double> keys = fewX.empty() ? x : fewX, shown = fewX.empty() ? y : fewY;
        QVector<QCPGraphData> points(qsizetype(keys.size()));
        double travel = 0, before = std::numeric_limits<double>::quiet_NaN();
        for (size_t i = 0; i < keys.size(); ++i) {
            const bool drawable = std::isfinite(shown[i]) && (!m_log || shown[i] > 0);
            if (drawable && keys[i] >= from && keys[i] <= to) {
                curve.low = std::min(curve.low, shown[i]);
                curve.high = std::max(curve.high, shown[i]);
            }
            if (const double step = std::abs(shown[i] - before); drawable && std::isfinite(step))
                travel += step;
            before = drawable ? shown[i] : before;
            points[qsizetype(i)] = {keys[i], drawable ? shown[i] : std::numeric_limits<double>::quiet_NaN()};
        }
        graph->data()->set(points, true);
        // Wide smooth strokes along a dense zigzag take most of a second; there they would be a solid band anyway.
        const bool zigzag = travel > kLongestSmoothStroke * (curve.high - curve.low);
        graph->setAntialiased(!zigzag);
        if (graph == curve.line) {
            graph->setPen(QPen(curve.color, zigzag ? 1 : 1.5, curve.style));
            graph->setScatterStyle(keys.size() <= kDotted ? QCPScatterStyle(QCPScatterStyle::ssDisc, curve.color, curve.color, 4) : QCPScatterStyle());
        }
    };
    draw(curve.line, curve.series.smoothed());
    if (m_smoothing > 0)
        draw(curve.raw, curve.series.y());
}

void CurvePlot::follow() {
    double low = kInfinity, high = -kInfinity;
    for (const auto& curve : m_curves) {
        low = std::min(low, curve->low);
        high = std::max(high, curve->high);
    }
    if (low > high) {
        low = m_log ? 0.1 : 0;
        high = 1;
    }
    if (m_log) {
        const double margin = std::max(1.02, std::pow(high / low, 0.05));
        plot().yAxis->setRange(low / margin, high * margin);
        return;
    }
    const double margin = high > low ? 0.05 * (high - low) : std::max(1e-9, 0.05 * std::abs(high));
    plot().yAxis->setRange(low - margin, high + margin);
}

void CurvePlot::rebuildLegend() {
    m_legendStale = false;
    QCPLegend* legend = plot().legend;
    legend->clear();
    legend->simplify();
    const QFontMetrics metrics(legend->font());
    const int fitting = height() / 3 / (metrics.height() + 2);
    std::vector<Curve*> shown;
    for (const auto& curve : m_curves)
        if (curve->visible)
            shown.push_back(curve.get());
    const size_t most = size_t(std::clamp(fitting, 1, kLegendEntries));
    const size_t listed = shown.size() <= most ? shown.size() : most;
    for (size_t i = 0; i < listed; ++i) {
        shown[i]->line->setName(metrics.elidedText(shown[i]->name, Qt::ElideMiddle, std::max(60, width() / 3)));
        legend->addItem(new QCPPlottableLegendItem(legend, shown[i]->line));
    }
    if (listed < shown.size()) {
        auto* more = new QCPTextElement(&plot(), tr("… and %1 more").arg(shown.size() - listed), legend->font());
        more->setTextColor(colors().text);
        more->setTextFlags(Qt::AlignLeft | Qt::AlignVCenter);
        more->setMargins({});
        more->setLayer(legend->layer());
        legend->addElement(more);
    }
    legend->setVisible(!shown.empty());
}

void CurvePlot::restyle() {
    QCPLegend* legend = plot().legend;
    QColor glass = colors().background;
    glass.setAlpha(205);
    legend->setBrush(glass);
    legend->setBorderPen(QPen(colors().grid));
    QFont small = font();
    small.setPointSizeF(std::max(7.0, font().pointSizeF() - 1));
    legend->setFont(small);
    legend->setTextColor(colors().text);
    legend->setIconSize(18, 8);
    for (const auto& curve : m_curves)
        curve->raw->setPen(QPen(faded(curve->color, colors().background), 1));
    rebuildLegend();
}

void CurvePlot::resizeEvent(QResizeEvent* event) {
    PlotWidget::resizeEvent(event);
    m_legendStale = true;
    const int digits = fontMetrics().horizontalAdvance("000000") + 14;
    plot().xAxis->ticker()->setTickCount(std::clamp((width() - 70) / digits, 2, 8));
    schedule();
}

// ---- hover, marks, export --------------------------------------------------------------------------------------------

bool CurvePlot::eventFilter(QObject* watched, QEvent* event) {
    if (event->type() == QEvent::Leave)
        endHover();
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
    m_hover = Hover{best->name, series.x()[bestIndex], series.y()[bestIndex], series.smoothed()[bestIndex], best->color};
    m_overlay->replot();
    Q_EMIT pointHovered(best->id, m_hover->x, m_hover->y);
}

void CurvePlot::paintMarks(QCPPainter& painter) const {
    const QRectF area(plot().axisRect()->rect());
    painter.setFont(plot().legend->font());
    const QFontMetrics metrics(painter.font());
    if (m_curves.empty()) {
        painter.setPen(colors().axis);
        painter.drawText(area.adjusted(8, 8, -8, -8), Qt::AlignCenter | Qt::TextWordWrap, m_emptyText);
    }
    double freeFrom = area.left(); // labels that would overlap stay away, their lines remain
    for (const Mark& mark : m_marks) {
        const double x = plot().xAxis->coordToPixel(mark.x);
        if (x < area.left() || x > area.right())
            continue;
        painter.setPen(QPen(colors().axis, 1, Qt::DashLine));
        painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()));
        const int width = metrics.horizontalAdvance(mark.label);
        const double left = x + 3 + width <= area.right() ? x + 3 : x - 3 - width;
        if (left < freeFrom)
            continue;
        painter.setPen(colors().text);
        painter.drawText(QRectF(left, area.bottom() - metrics.height() - 2, width + 1, metrics.height()), Qt::AlignLeft, mark.label);
        freeFrom = left + width + 6;
    }
}

void CurvePlot::paintHover(QCPPainter& painter) const {
    if (isExporting())
        return;
    const QRectF area(plot().axisRect()->rect());
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
    painter.setFont(plot().legend->font());
    const QFontMetrics metrics(painter.font());
    QStringList lines{metrics.elidedText(m_hover->name, Qt::ElideMiddle, int(area.width() * 0.6)),
                      (plot().xAxis->label().isEmpty() ? tr("x") : plot().xAxis->label()) + ' ' + readout(m_hover->x) + ": " +
                          readout(m_hover->y)};
    if (m_smoothing > 0)
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
