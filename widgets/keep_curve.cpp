#include "widgets/keep_curve.h"

#include "widgets/plot_paint.h"

#include <QKeyEvent>
#include <QLocale>
#include <QMouseEvent>
#include <algorithm>
#include <cmath>

namespace linnet::widgets {
namespace {

constexpr double kLogarithmicFrom = 20; // largest / smallest value

class BytesTicker : public QCPAxisTicker {
    QString getTickLabel(double tick, const QLocale&, QChar, int) override {
        return tick < 0 ? QString() : QLocale::c().formattedDataSize(qRound64(tick), 1, QLocale::DataSizeIecFormat);
    }
};

} // namespace

KeepCurve::KeepCurve(QWidget* parent) : PlotWidget(parent), m_emptyText(tr("Nothing measured yet")) {
    setAccessibleName(tr("What is lost against the number of softmax layers kept"));
    setFocusPolicy(Qt::StrongFocus);
    setMouseTracking(true);
    QCustomPlot& p = plot();
    p.setAttribute(Qt::WA_TransparentForMouseEvents);
    m_line = p.addGraph();
    p.xAxis->setLabel(tr("softmax layers kept"));
    auto ticker = QSharedPointer<QCPAxisTickerFixed>::create();
    ticker->setTickStep(1);
    ticker->setScaleStrategy(QCPAxisTickerFixed::ssMultiples);
    p.xAxis->setTicker(ticker);
    for (QCPAxis* axis : {p.xAxis, p.yAxis}) {
        axis->setSubTicks(false);
        axis->setTickLength(0, 3);
        axis->setLabelPadding(2);
    }
    new PaintStep(p, "grid", [this](QCPPainter& painter) { paintLevel(painter); });
    m_choiceLayer = addBufferedLayer(p, "choice");
    new PaintStep(p, "choice", [this](QCPPainter& painter) { paintChoice(painter); });
    refill();
    applyColors();
}

void KeepCurve::setData(const KeepCurveData& data) {
    m_data = data;
    std::erase_if(m_data.points, [](const KeepPoint& point) { return !std::isfinite(point.value); });
    std::stable_sort(m_data.points.begin(), m_data.points.end(), [](const KeepPoint& a, const KeepPoint& b) { return a.kept < b.kept; });
    m_hover.reset();
    refill();
}

void KeepCurve::setChoice(std::optional<int> kept) {
    m_choice = kept;
    setAccessibleDescription(kept ? readout(*kept) : QString());
    m_choiceLayer->replot();
}

void KeepCurve::setEmptyText(const QString& text) {
    m_emptyText = text;
    plot().replot(QCustomPlot::rpQueuedReplot);
}

const KeepPoint* KeepCurve::find(int kept) const {
    const auto found = std::find_if(m_data.points.begin(), m_data.points.end(), [kept](const KeepPoint& point) { return point.kept == kept; });
    return found == m_data.points.end() ? nullptr : &*found;
}

QString KeepCurve::valueText(double value) const {
    if (m_data.bytes)
        return QLocale::c().formattedDataSize(qRound64(value), 1, QLocale::DataSizeIecFormat);
    return QString::number(value, 'g', 4) + (m_data.unit.isEmpty() ? QString() : ' ' + m_data.unit);
}

QString KeepCurve::ratioText(double value) const {
    if (!m_data.teacher || *m_data.teacher <= 0)
        return {};
    const double ratio = value / *m_data.teacher;
    return m_data.bytes ? tr("%1 % of the teacher's").arg(std::round(100 * ratio)) : tr("%1 x the teacher's").arg(QString::number(ratio, 'f', 3));
}

QString KeepCurve::readout(int kept) const {
    const auto* point = find(kept);
    if (!point)
        return {};
    const auto ratio = ratioText(point->value);
    return tr("%1 kept: %2 %3").arg(kept).arg(m_data.quantity, valueText(point->value)) + (ratio.isEmpty() ? ratio : QStringLiteral(", ") + ratio);
}

QPoint KeepCurve::pointPosition(int kept) const {
    const auto* point = find(kept);
    return point ? QPointF(plot().xAxis->coordToPixel(point->kept), plot().yAxis->coordToPixel(point->value)).toPoint() : QPoint();
}

// ---- picture -----------------------------------------------------------------------------------------------------

void KeepCurve::refill() {
    QCustomPlot& p = plot();
    QVector<QCPGraphData> line;
    double low = std::numeric_limits<double>::infinity(), high = -low;
    const auto include = [&](double value) {
        low = std::min(low, value);
        high = std::max(high, value);
    };
    for (const auto& point : m_data.points) {
        line << QCPGraphData(point.kept, point.value);
        include(point.value);
    }
    m_line->data()->set(line, true);
    for (QCPAxis* axis : {p.xAxis, p.yAxis})
        axis->setVisible(!isEmpty());
    m_log = !isEmpty() && !m_data.bytes && low > 0 && high > kLogarithmicFrom * low;
    if (!isEmpty()) {
        if (m_data.teacher && (!m_log || *m_data.teacher > 0))
            include(*m_data.teacher);
        p.xAxis->setRange(m_data.points.front().kept - 0.5, m_data.points.back().kept + 0.5);
        p.yAxis->setScaleType(m_log ? QCPAxis::stLogarithmic : QCPAxis::stLinear);
        p.yAxis->setTicker(m_log          ? QSharedPointer<QCPAxisTicker>(new QCPAxisTickerLog)
                           : m_data.bytes ? QSharedPointer<QCPAxisTicker>(new BytesTicker)
                                          : QSharedPointer<QCPAxisTicker>(new QCPAxisTicker));
        const double margin = m_log ? std::pow(high / low, 0.06) : high > low ? 0.06 * (high - low) : std::max(1e-9, 0.05 * std::abs(high));
        p.yAxis->setRange(m_log ? low / margin : low - margin, m_log ? high * margin : high + margin);
        p.yAxis->setLabel(m_data.unit.isEmpty() ? m_data.quantity : m_data.quantity + ", " + m_data.unit);
    }
    updateTicks();
    p.replot(QCustomPlot::rpQueuedReplot);
}

void KeepCurve::updateTicks() {
    plot().xAxis->ticker()->setTickCount(std::clamp(width() / (fontMetrics().horizontalAdvance("000") + 10), 2, 16));
    plot().yAxis->ticker()->setTickCount(std::clamp(height() / 45, 2, 8));
}

void KeepCurve::resizeEvent(QResizeEvent* event) {
    PlotWidget::resizeEvent(event);
    updateTicks();
}

void KeepCurve::restyle() {
    m_line->setPen(QPen(colors().fill, 1.5));
    m_line->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssDisc, colors().fill, colors().fill, 5));
    plot().xAxis->grid()->setVisible(false);
}

void KeepCurve::paintLevel(QCPPainter& painter) const {
    const QRectF area(plot().axisRect()->rect());
    QFont small = font();
    small.setPointSizeF(std::max(7.0, font().pointSizeF() - 1));
    painter.setFont(small);
    if (isEmpty()) {
        painter.setPen(colors().axis);
        painter.drawText(plot().viewport().adjusted(16, 16, -16, -16), Qt::AlignCenter | Qt::TextWordWrap, m_emptyText);
        return;
    }
    if (!m_data.teacher || (m_log && *m_data.teacher <= 0))
        return;
    const double y = plot().yAxis->coordToPixel(*m_data.teacher);
    if (y < area.top() || y > area.bottom())
        return;
    painter.setPen(QPen(colors().text, 1, Qt::DashLine));
    painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y));
    const QFontMetrics metrics(small);
    const auto text = tr("teacher %1").arg(valueText(*m_data.teacher));
    const bool above = y - metrics.height() - 2 > area.top();
    painter.drawText(QRectF(area.left() + 4, above ? y - metrics.height() - 1 : y + 1, metrics.horizontalAdvance(text) + 2, metrics.height()), Qt::AlignLeft, text);
}

void KeepCurve::paintChoice(QCPPainter& painter) const {
    if (isEmpty())
        return;
    const QRectF area(plot().axisRect()->rect());
    QFont small = font();
    small.setPointSizeF(std::max(7.0, font().pointSizeF() - 1));
    painter.setFont(small);
    const QFontMetrics metrics(small);
    QColor glass = colors().background;
    glass.setAlpha(220);
    QList<std::pair<QString, QColor>> lines; // what is lost falls to the right, a cache rises: that corner is free
    const auto say = [&](const KeepPoint& point, const QColor& color) {
        for (const auto& text : {tr("%1 kept: %2").arg(point.kept).arg(valueText(point.value)), ratioText(point.value)})
            if (!text.isEmpty())
                lines << std::pair{text, color};
    };
    if (m_choice && *m_choice >= plot().xAxis->range().lower && *m_choice <= plot().xAxis->range().upper) {
        const double x = plot().xAxis->coordToPixel(*m_choice);
        painter.setPen(QPen(colors().highlight, 1.4));
        painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()));
        if (const auto* point = find(*m_choice)) {
            painter.setPen(QPen(colors().background, 1.5));
            painter.setBrush(colors().highlight);
            painter.drawEllipse(QPointF(x, plot().yAxis->coordToPixel(point->value)), 5.5, 5.5);
            say(*point, colors().highlight);
        }
    }
    if (const auto* point = !isExporting() && m_hover && m_hover != m_choice ? find(*m_hover) : nullptr) {
        painter.setPen(QPen(colors().text, 1.4));
        painter.setBrush(Qt::NoBrush);
        painter.drawEllipse(QPointF(plot().xAxis->coordToPixel(point->kept), plot().yAxis->coordToPixel(point->value)), 5.5, 5.5);
        say(*point, colors().text);
    }
    const double step = metrics.height() + 1;
    double top = m_data.bytes ? area.bottom() - 3 - static_cast<double>(lines.size()) * step : area.top() + 3;
    for (const auto& [text, color] : lines) {
        const int width = metrics.horizontalAdvance(text);
        const QRectF box(std::max(area.left() + 2, area.right() - width - 6), top, width + 4, metrics.height());
        painter.fillRect(box, glass);
        painter.setPen(color);
        painter.drawText(box, Qt::AlignRight, text);
        top += step;
    }
}

// ---- mouse and keys ----------------------------------------------------------------------------------------------

const KeepPoint* KeepCurve::nearest(const QPointF& position) const {
    if (isEmpty())
        return nullptr;
    const double at = plot().xAxis->pixelToCoord(position.x());
    return &*std::min_element(m_data.points.begin(), m_data.points.end(),
                              [at](const KeepPoint& a, const KeepPoint& b) { return std::abs(a.kept - at) < std::abs(b.kept - at); });
}

void KeepCurve::pick(int kept) {
    if (kept != m_choice)
        Q_EMIT picked(kept);
}

void KeepCurve::setHover(std::optional<int> kept) {
    if (kept == m_hover)
        return;
    m_hover = kept;
    m_choiceLayer->replot();
}

void KeepCurve::mousePressEvent(QMouseEvent* event) {
    const auto* point = nearest(event->position());
    if (event->button() != Qt::LeftButton || !point || !plot().axisRect()->rect().contains(event->position().toPoint()))
        return PlotWidget::mousePressEvent(event);
    pick(point->kept);
}

void KeepCurve::mouseMoveEvent(QMouseEvent* event) {
    const auto* point = nearest(event->position());
    if (!point)
        return;
    if (event->buttons() & Qt::LeftButton)
        pick(point->kept);
    else
        setHover(plot().axisRect()->rect().contains(event->position().toPoint()) ? std::optional(point->kept) : std::nullopt);
}

void KeepCurve::leaveEvent(QEvent* event) {
    PlotWidget::leaveEvent(event);
    setHover({});
}

void KeepCurve::keyPressEvent(QKeyEvent* event) {
    const auto& points = m_data.points;
    const auto at = [&](const KeepPoint& point) { return point.kept; };
    const int key = event->key();
    const bool back = key == Qt::Key_Left || key == Qt::Key_Down, on = key == Qt::Key_Right || key == Qt::Key_Up;
    if (points.empty() || !(back || on || key == Qt::Key_Home || key == Qt::Key_End))
        return PlotWidget::keyPressEvent(event);
    if (key == Qt::Key_Home || key == Qt::Key_End || !m_choice)
        return pick(key == Qt::Key_End ? at(points.back()) : at(points.front()));
    if (back) {
        const auto lower = std::find_if(points.rbegin(), points.rend(), [&](const KeepPoint& point) { return point.kept < *m_choice; });
        if (lower != points.rend())
            pick(lower->kept);
        return;
    }
    const auto upper = std::find_if(points.begin(), points.end(), [&](const KeepPoint& point) { return point.kept > *m_choice; });
    if (upper != points.end())
        pick(upper->kept);
}

void KeepCurve::focusInEvent(QFocusEvent* event) {
    PlotWidget::focusInEvent(event);
    m_choiceLayer->replot();
}

void KeepCurve::focusOutEvent(QFocusEvent* event) {
    PlotWidget::focusOutEvent(event);
    m_choiceLayer->replot();
}

QString KeepCurve::csv() const {
    const auto name = m_data.quantity.isEmpty() ? QStringLiteral("value") : m_data.unit.isEmpty() ? m_data.quantity : m_data.quantity + QStringLiteral(", ") + m_data.unit;
    QString text = QStringLiteral("kept,") + csvText(name) + QStringLiteral(",teacher\n");
    for (const auto& point : m_data.points)
        text += QString::number(point.kept) + ',' + csvNumber(point.value) + ',' + (m_data.teacher ? csvNumber(*m_data.teacher) : QString()) + '\n';
    return text;
}

} // namespace linnet::widgets
