// What CurvePlot puts into its graphs: as few points as the screen shows, and ranges that follow them.
#include "widgets/curve_plot_p.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace linnet::widgets {
namespace {

constexpr int kRefreshMs = 32;
constexpr size_t kDotted = 40; // so few points show as dots: one alone draws no line
constexpr int kMarkers = 12;   // along a longer line
constexpr double kClipped = 0.02; // at either end
constexpr double kRoomOfPoints = 0.03; // of the range, left and right
constexpr size_t kSample = 2000, kFewForQuantiles = 20;
constexpr double kLongestSmoothStroke = 30; // up and down, in heights of the curve
constexpr double kInfinity = std::numeric_limits<double>::infinity();

QCPScatterStyle::ScatterShape scatterShape(Marker marker) {
    switch (marker) {
    case Marker::Disc: return QCPScatterStyle::ssDisc;
    case Marker::Square: return QCPScatterStyle::ssSquare;
    case Marker::Triangle: return QCPScatterStyle::ssTriangle;
    case Marker::Diamond: return QCPScatterStyle::ssDiamond;
    case Marker::None: break;
    }
    return QCPScatterStyle::ssNone;
}

} // namespace

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
        bool points = false;
        for (const auto& curve : m_curves)
            if (curve->visible && !curve->series.x().empty()) {
                from = std::min(from, curve->series.x().front());
                to = std::max(to, curve->series.x().back());
                points = points || curve->look.style == Qt::NoPen;
            }
        if (const double room = points ? kRoomOfPoints * (to - from) : 0; room > 0) // one on the edge would be cut in half
            from -= room, to += room;
        if (from > to)
            plot().xAxis->setRange(0, 1);
        else
            plot().xAxis->setRange(from < to ? from : from - 0.5, from < to ? to : to + 0.5);
    }
    for (QCPAxis* axis : {plot().xAxis, plot().yAxis}) { // numbers of no curve would say nothing
        axis->setTicks(!m_curves.empty());
        axis->setTickLabels(!m_curves.empty());
    }
    const QCPRange shown = plot().xAxis->range();
    for (const auto& curve : m_curves)
        fill(*curve, shown.lower, shown.upper);
    if (m_follows || m_fitsY)
        follow();
    if (m_legendStale)
        rebuildLegend();
    m_refreshing = false;
    plot().replot(QCustomPlot::rpQueuedReplot);
}

// What lies between from and to (and one screen's half beside it, for dragging), as few points as the pixels need.
void CurvePlot::fill(Curve& curve, double from, double to) {
    const bool both = m_smoothing > 0 && curve.look.smooth && curve.look.width > 0;
    curve.line->setVisible(curve.visible);
    curve.raw->setVisible(curve.visible && both);
    curve.low = kInfinity;
    curve.high = -kInfinity;
    if (!curve.visible)
        return;
    draw(curve, curve.line, true, from, to);
    if (both)
        draw(curve, curve.raw, false, from, to);
}

void CurvePlot::draw(Curve& curve, QCPGraph* graph, bool smoothed, double from, double to) {
    const auto& series = curve.series;
    const auto& values = smoothed ? series.smoothed() : series.y();
    const double beside = m_follows ? 0 : 0.5 * (to - from);
    const auto [first, last] = series.indexRange(from - beside, to + beside);
    std::vector<double> fewX, fewY;
    if (last - first > kPointsShown)
        series.envelope(smoothed, first, last, std::min(kPointsShown / 3, size_t(width())), fewX, fewY);
    const std::span<const double> keys = fewX.empty() ? std::span(series.x()).subspan(first, last - first) : fewX;
    const std::span<const double> shown = fewX.empty() ? std::span(values).subspan(first, last - first) : fewY;
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
    if (graph != curve.line)
        return;
    const auto& look = curve.look;
    graph->setPen(look.width > 0 ? QPen(look.color, zigzag ? 1 : look.width, look.style) : Qt::NoPen);
    const bool few = keys.size() <= kDotted;
    graph->setScatterStyle(look.marker == Marker::None ? QCPScatterStyle() : QCPScatterStyle(scatterShape(look.marker), look.color, look.color, few ? 4 : 7));
    graph->setScatterSkip(few ? 0 : int(keys.size() / kMarkers));
}

// Where y ends with outliers clipped: of a sample, evenly taken, since an envelope holds nothing but extremes.
std::pair<double, double> CurvePlot::quantiles(double from, double to) const {
    std::vector<double> sample;
    for (const auto& curve : m_curves) {
        if (!curve->visible)
            continue;
        const auto [first, last] = curve->series.indexRange(from, to);
        const auto& values = curve->series.smoothed();
        for (size_t i = first, stride = std::max<size_t>(1, (last - first) / kSample); i < last; i += stride)
            if (std::isfinite(values[i]) && (!m_log || values[i] > 0))
                sample.push_back(values[i]);
    }
    if (sample.size() < kFewForQuantiles)
        return {kInfinity, -kInfinity};
    std::sort(sample.begin(), sample.end());
    const auto at = [&](double share) { return sample[size_t(std::lround(share * double(sample.size() - 1)))]; };
    return {at(kClipped), at(1 - kClipped)};
}

void CurvePlot::follow() {
    double low = kInfinity, high = -kInfinity;
    for (const auto& curve : m_curves) {
        low = std::min(low, curve->low);
        high = std::max(high, curve->high);
    }
    m_clipped = false;
    if (m_clip)
        if (const auto [from, to] = quantiles(plot().xAxis->range().lower, plot().xAxis->range().upper); from < to) {
            m_clipped = from > low || to < high;
            low = from, high = to;
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

void CurvePlot::fitTicks() { // labels of a low plot must not touch
    plot().yAxis->ticker()->setTickCount(std::clamp((height() - 50) / (2 * fontMetrics().height()), 1, 6));
}

void CurvePlot::resizeEvent(QResizeEvent* event) {
    PlotWidget::resizeEvent(event);
    m_legendStale = true;
    const int digits = fontMetrics().horizontalAdvance("000000") + 14;
    plot().xAxis->ticker()->setTickCount(std::clamp((width() - 70) / digits, 2, 8));
    fitTicks();
    schedule();
}

} // namespace linnet::widgets
