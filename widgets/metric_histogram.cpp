#include "widgets/metric_histogram.h"

#include "widgets/pattern_picture.h"
#include "widgets/plot_paint.h"
#include "widgets/plurals.h"

#include <QToolTip>
#include <algorithm>
#include <cmath>
#include <limits>

namespace linnet::widgets {
namespace {

constexpr int kGrab = 5; // pixels about a handle
constexpr double kPadding = 0.02, kKeyStep = 0.02; // of the axis
constexpr int kFewest = 8, kMost = 60;             // bins

} // namespace

MetricHistogram::MetricHistogram(QWidget* parent) : PlotWidget(parent) {
    setAccessibleName(tr("Histogram of the map: its handles are the colour range"));
    setFocusPolicy(Qt::StrongFocus);
    setMouseTracking(true);
    setMinimumSize(140, 70);
    QCustomPlot& p = plot();
    p.setAttribute(Qt::WA_TransparentForMouseEvents);
    p.xAxis->setTicker(QSharedPointer<QCPAxisTickerText>::create());
    p.yAxis->setNumberFormat("f");
    p.yAxis->setNumberPrecision(0);
    for (QCPAxis* axis : {p.xAxis, p.yAxis}) {
        axis->setSubTicks(false);
        axis->setTickLength(0, 3);
        axis->setLabelPadding(1);
        axis->grid()->setVisible(false);
    }
    new PaintStep(p, "main", [this](QCPPainter& painter) { paint(painter); });
    m_handles = addBufferedLayer(p, "handles");
    new PaintStep(p, "handles", [this](QCPPainter& painter) { paintHandles(painter); });
    rebin();
    applyColors();
}

void MetricHistogram::setData(const MetricData& data) {
    m_data = data;
    m_dragged = NoHandle;
    m_brush.reset();
    rebin();
}

void MetricHistogram::setSelected(const std::vector<bool>& selected) {
    m_selected = selected;
    countSelected();
    plot().replot(QCustomPlot::rpQueuedReplot);
}

void MetricHistogram::setRange(std::optional<Range> range) {
    m_range = range;
    if (m_dragged == NoHandle) // an axis that grows under the pointer would run away with it
        updateAxes();
    plot().replot(QCustomPlot::rpQueuedReplot);
}

void MetricHistogram::setColorMap(ColorMap map) {
    m_map = map;
    plot().replot(QCustomPlot::rpQueuedReplot);
}

void MetricHistogram::setEmptyText(const QString& text) {
    m_emptyText = text;
    plot().replot(QCustomPlot::rpQueuedReplot);
}

// ---- bins and axes --------------------------------------------------------------------------------------------------

void MetricHistogram::rebin() {
    m_whole = ColorRange(m_data.values, 1, std::max<int>(1, int(m_data.values.size())), m_data.scale, {}, m_data.diverging);
    m_bins.clear();
    m_measured = m_outside = 0;
    for (const double v : m_data.values)
        if (std::isfinite(v))
            ++(m_whole.isEmpty() || m_whole.position(v, 0) < -1e-9 ? m_outside : m_measured);
    if (m_measured > 0) {
        const int count = std::clamp(int(2 * std::sqrt(double(m_measured))), kFewest, kMost);
        for (int i = 0; i < count; ++i)
            m_bins.push_back({m_whole.valueAt(double(i) / count), m_whole.valueAt(double(i + 1) / count)});
        for (const double v : m_data.values)
            if (const int bin = binAt(v); bin >= 0)
                ++m_bins[size_t(bin)].count;
    }
    countSelected();
    updateAxes();
    plot().replot(QCustomPlot::rpQueuedReplot);
}

int MetricHistogram::binAt(double value) const {
    const double at = m_whole.position(value, 0);
    if (!(at >= -1e-9 && at <= 1 + 1e-9) || m_bins.empty())
        return -1;
    const int count = int(m_bins.size());
    return std::clamp(int(std::floor(at * count)), 0, count - 1);
}

void MetricHistogram::countSelected() {
    for (Bin& bin : m_bins)
        bin.selected = 0;
    if (m_selected.size() != m_data.values.size())
        return;
    for (size_t i = 0; i < m_selected.size(); ++i)
        if (const int bin = m_selected[i] ? binAt(m_data.values[i]) : -1; bin >= 0)
            ++m_bins[size_t(bin)].selected;
}

void MetricHistogram::updateAxes() {
    QCustomPlot& p = plot();
    const bool shown = !m_bins.empty();
    for (QCPAxis* axis : p.axisRect()->axes({QCPAxis::atLeft | QCPAxis::atBottom}))
        axis->setVisible(shown);
    if (!shown)
        return;
    double low = 0, high = 1;
    if (m_range)
        low = std::min(low, m_whole.position(m_range->first, 0)), high = std::max(high, m_whole.position(m_range->second, 0));
    const double pad = kPadding * (high - low);
    p.xAxis->setRange(low - pad, high + pad);
    int highest = 1;
    for (const Bin& bin : m_bins)
        highest = std::max(highest, bin.count);
    p.yAxis->setRange(0, highest * 1.08);
    p.yAxis->ticker()->setTickCount(std::clamp(height() / 45, 1, 4));
    auto ticker = p.xAxis->ticker().dynamicCast<QCPAxisTickerText>();
    ticker->clear();
    const QFontMetrics metrics(font());
    for (const auto& tick : m_whole.ticks(std::clamp((width() - 60) / (metrics.horizontalAdvance("0000000") + 8), 1, 12)))
        ticker->addTick(tick.position, tick.label);
    p.xAxis->setLabel(m_data.unit.isEmpty() ? m_data.title : tr("%1 [%2]").arg(m_data.title, m_data.unit));
    p.yAxis->setLabel(tr("heads"));
}

QRect MetricHistogram::plotArea() const { return plot().axisRect()->rect(); }

double MetricHistogram::xOf(double value) const { return plot().xAxis->coordToPixel(m_whole.position(value, 0)); }

double MetricHistogram::valueAt(double x) const {
    const QCPRange axis = plot().xAxis->range();
    return m_whole.valueAt(std::clamp(plot().xAxis->pixelToCoord(x), axis.lower, axis.upper));
}

QString MetricHistogram::csv() const {
    QString text = QStringLiteral("from,to,heads,selected\n");
    for (const Bin& bin : m_bins)
        text += csvNumber(bin.low) + ',' + csvNumber(bin.high) + ',' + QString::number(bin.count) + ',' + QString::number(bin.selected) + '\n';
    return text;
}

// ---- mouse and keyboard ---------------------------------------------------------------------------------------------

MetricHistogram::Handle MetricHistogram::handleAt(double x) const {
    if (!m_range || m_bins.empty())
        return NoHandle;
    const double low = std::abs(x - xOf(m_range->first)), high = std::abs(x - xOf(m_range->second));
    if (std::min(low, high) > kGrab)
        return NoHandle;
    return low <= high ? Low : High;
}

void MetricHistogram::moveHandle(Handle handle, double value) {
    if (!m_range)
        return;
    Range range = *m_range;
    if (m_data.diverging) { // zero stays in the middle
        range = {-std::abs(value), std::abs(value)};
    } else {
        (handle == Low ? range.first : range.second) = value;
    }
    if (m_whole.position(range.second, 0) - m_whole.position(range.first, 0) < 1e-3)
        return; // a range has a width
    Q_EMIT rangeDragged(range.first, range.second);
}

void MetricHistogram::mousePressEvent(QMouseEvent* event) {
    if (event->button() != Qt::LeftButton || m_bins.empty() || !plotArea().adjusted(-kGrab, 0, kGrab, 0).contains(event->position().toPoint()))
        return;
    m_dragged = handleAt(event->position().x());
    if (m_dragged != NoHandle)
        m_active = m_dragged;
    else
        m_brush = {event->position().x(), event->position().x()};
    m_handles->replot();
}

void MetricHistogram::mouseMoveEvent(QMouseEvent* event) {
    const double x = event->position().x();
    if (m_dragged != NoHandle)
        return moveHandle(m_dragged, valueAt(x));
    if (m_brush) {
        m_brush->second = std::clamp(x, double(plotArea().left()), double(plotArea().right()));
        return m_handles->replot();
    }
    const bool handle = handleAt(x) != NoHandle;
    setCursor(handle ? Qt::SplitHCursor : Qt::ArrowCursor);
    const int bin = plotArea().contains(event->position().toPoint()) ? binAt(valueAt(x)) : -1;
    if (bin < 0 && !handle)
        return QToolTip::hideText();
    const Bin& b = m_bins[size_t(std::max(0, bin))];
    QToolTip::showText(event->globalPosition().toPoint(),
                       handle ? tr("end of the colour range: drag it, double click for the whole range")
                              : tr("%1 to %2: %n head(s), %3 selected\ndrag to select", nullptr, b.count).arg(tickLabel(b.low), tickLabel(b.high)).arg(b.selected),
                       this);
}

void MetricHistogram::mouseReleaseEvent(QMouseEvent* event) {
    if (event->button() != Qt::LeftButton)
        return;
    if (std::exchange(m_dragged, NoHandle) != NoHandle) {
        updateAxes();
        plot().replot(QCustomPlot::rpQueuedReplot);
    }
    if (!m_brush)
        return;
    const auto [from, to] = *std::exchange(m_brush, std::nullopt);
    m_handles->replot();
    if (std::abs(to - from) >= QApplication::startDragDistance()) {
        Q_EMIT brushed(valueAt(std::min(from, to)), valueAt(std::max(from, to)), event->modifiers());
    } else if (const int bin = binAt(valueAt(from)); bin >= 0) { // a click: its bar
        const Bin& b = m_bins[size_t(bin)];
        const bool last = bin + 1 == int(m_bins.size());
        Q_EMIT brushed(b.low, last ? b.high : std::nextafter(b.high, b.low), event->modifiers());
    }
}

void MetricHistogram::mouseDoubleClickEvent(QMouseEvent* event) {
    if (handleAt(event->position().x()) != NoHandle) {
        m_dragged = NoHandle;
        Q_EMIT rangeReset();
    }
}

void MetricHistogram::keyPressEvent(QKeyEvent* event) {
    const auto nudge = [this](double step) {
        if (!m_range)
            return;
        const double at = m_whole.position(m_active == Low ? m_range->first : m_range->second, 0);
        moveHandle(m_active, m_whole.valueAt(at + step * plot().xAxis->range().size()));
    };
    switch (event->key()) {
    case Qt::Key_Left: return nudge(-kKeyStep);
    case Qt::Key_Right: return nudge(kKeyStep);
    case Qt::Key_Up:
    case Qt::Key_Down:
        m_active = event->key() == Qt::Key_Up ? High : Low;
        return m_handles->replot();
    case Qt::Key_Delete:
    case Qt::Key_Backspace: Q_EMIT rangeReset(); return;
    case Qt::Key_Return:
    case Qt::Key_Enter:
        if (m_range)
            Q_EMIT brushed(m_range->first, m_range->second, event->modifiers());
        return;
    default: PlotWidget::keyPressEvent(event);
    }
}

bool MetricHistogram::event(QEvent* event) {
    if (event->type() == QEvent::ToolTip) // ours follows the pointer
        return true;
    return PlotWidget::event(event);
}

void MetricHistogram::resizeEvent(QResizeEvent* event) {
    PlotWidget::resizeEvent(event);
    updateAxes();
}

void MetricHistogram::focusInEvent(QFocusEvent* event) {
    PlotWidget::focusInEvent(event);
    m_handles->replot();
}

void MetricHistogram::focusOutEvent(QFocusEvent* event) {
    PlotWidget::focusOutEvent(event);
    m_handles->replot();
}

// ---- painting -------------------------------------------------------------------------------------------------------

void MetricHistogram::paint(QCPPainter& painter) const {
    painter.setFont(font());
    if (m_bins.empty()) {
        painter.setPen(colors().axis);
        painter.drawText(plot().viewport().adjusted(8, 4, -8, -4), Qt::AlignCenter | Qt::TextWordWrap, m_emptyText);
        return;
    }
    const QRectF area(plotArea());
    const double from = m_range ? m_whole.position(m_range->first, 0) : 0, to = m_range ? m_whole.position(m_range->second, 0) : 1;
    painter.setAntialiasing(false);
    for (size_t i = 0; i < m_bins.size(); ++i) {
        const Bin& bin = m_bins[i];
        if (bin.count == 0)
            continue;
        const double left = plot().xAxis->coordToPixel(double(i) / double(m_bins.size()));
        const double right = plot().xAxis->coordToPixel(double(i + 1) / double(m_bins.size()));
        const auto bar = [&](int count) {
            const double top = plot().yAxis->coordToPixel(count);
            return QRectF(left, top, std::max(1.0, right - left - 1), area.bottom() + 1 - top);
        };
        const double middle = ((double(i) + 0.5) / double(m_bins.size()) - from) / (to - from);
        painter.fillRect(bar(bin.count), m_range ? mapColor(mapOn(colors(), m_map), middle) : colors().fill);
        if (bin.selected > 0)
            painter.fillRect(bar(bin.selected).adjusted((right - left) * 0.25, 0, -(right - left) * 0.25, 0), colors().highlight);
    }
    painter.setAntialiasing(true);
}

void MetricHistogram::paintNote(QCPPainter& painter) const {
    const QRectF area(plotArea());
    painter.setFont(font());
    QStringList notes{tr("%n head(s)", nullptr, m_measured)};
    if (m_outside > 0)
        notes << tr("%1 not above 0").arg(m_outside);
    if (const int missing = int(m_data.values.size()) - m_measured - m_outside; missing > 0)
        notes << tr("%1 not measured").arg(missing);
    const QString note = notes.join(", ");
    const QFontMetrics metrics(font());
    const double width = metrics.horizontalAdvance(note) + 4, high = m_range ? xOf(m_range->second) - 4 : area.right();
    const double end = high - width > area.left() ? std::min(area.right() - 4, high) : area.right() - 4; // the handle stays in view
    const QRectF place(end - width, area.top() + 1, width, metrics.height());
    QColor glass = colors().background;
    glass.setAlpha(200);
    painter.fillRect(place, glass);
    painter.setPen(colors().text);
    painter.drawText(place, Qt::AlignCenter, note);
}

void MetricHistogram::paintHandles(QCPPainter& painter) const {
    if (m_bins.empty())
        return;
    if (!isExporting())
        paintRange(painter);
    paintNote(painter); // over the veil
}

void MetricHistogram::paintRange(QCPPainter& painter) const {
    const QRectF area(plotArea());
    if (m_brush) {
        QColor fill = colors().highlight;
        fill.setAlpha(60);
        painter.fillRect(QRectF(QPointF(m_brush->first, area.top()), QPointF(m_brush->second, area.bottom() + 1)).normalized(), fill);
    }
    if (!m_range)
        return;
    QColor veil = colors().background;
    veil.setAlpha(130); // beyond the range the map shows one colour
    const double low = xOf(m_range->first), high = xOf(m_range->second);
    painter.fillRect(QRectF(QPointF(area.left(), area.top()), QPointF(low, area.bottom() + 1)), veil);
    painter.fillRect(QRectF(QPointF(high, area.top()), QPointF(area.right() + 1, area.bottom() + 1)), veil);
    for (const Handle handle : {Low, High}) {
        const double x = handle == Low ? low : high, out = handle == Low ? -1 : 1;
        const bool active = hasFocus() && handle == m_active;
        painter.setPen(QPen(active ? colors().highlight : colors().text, active ? 2 : 1.2));
        painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom() + 1));
        painter.setBrush(painter.pen().color());
        painter.drawPolygon(QPolygonF({{x, area.top()}, {x + out * 6, area.top()}, {x, area.top() + 8}}));
        painter.setBrush(Qt::NoBrush);
    }
}

} // namespace linnet::widgets
