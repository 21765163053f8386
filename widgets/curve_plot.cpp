#include "widgets/curve_plot_p.h"

#include <algorithm>
#include <cmath>

namespace linnet::widgets {
namespace {

constexpr float kBandOpacity = 0.22f;

} // namespace
CurvePlot::CurvePlot(QWidget* parent) : PlotWidget(parent), m_emptyText(tr("No curves yet")) {
    setAccessibleName(tr("Curves"));
    setFocusPolicy(Qt::StrongFocus);
    QCustomPlot& p = plot();
    p.setInteractions(QCP::iRangeDrag | QCP::iRangeZoom);
    p.setAutoAddPlottableToLegend(false);
    p.setNoAntialiasingOnDrag(true);
    p.addLayer("raw", p.layer("grid")); // every raw line lies behind every smoothed one
    new PaintStep(p, "grid", [this](QCPPainter& painter) { paintLegend(painter), paintMarks(painter); });
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
    connect(&p, &QCustomPlot::mousePress, this, [this] { setFocus(Qt::MouseFocusReason); });
    connect(&p, &QCustomPlot::mouseDoubleClick, this, [this] { resetByUser(); });
    for (QCPAxis* axis : {p.xAxis, p.yAxis})
        connect(axis, qOverload<const QCPRange&>(&QCPAxis::rangeChanged), this, [this, axis](const QCPRange& range) {
            if (m_refreshing)
                return;
            schedule();
            if (!m_setting && axis == plot().xAxis)
                Q_EMIT xViewChangedByUser(range.lower, range.upper);
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

void CurvePlot::addCurve(const QString& id, const QString& name, const QColor& color, Qt::PenStyle penStyle) {
    CurveLook look;
    look.color = color;
    look.style = penStyle;
    addCurve(id, name, look);
}

void CurvePlot::addCurve(const QString& id, const QString& name, const CurveLook& look) {
    Curve* curve = find(id);
    if (!curve) {
        curve = m_curves.emplace_back(std::make_unique<Curve>()).get();
        curve->id = id;
        curve->raw = plot().addGraph();
        curve->line = plot().addGraph();
        curve->raw->setLayer("raw");
        for (QCPGraph* graph : {curve->raw, curve->line})
            graph->setAdaptiveSampling(false); // the envelope did it already
    }
    curve->name = name;
    curve->look = look;
    curve->series.setSmoothing(look.smooth ? m_smoothing : 0);
    style(*curve);
    m_legendStale = true;
    schedule();
}

void CurvePlot::style(Curve& curve) const {
    curve.raw->setPen(QPen(fadedInto(curve.look.color, colors().background), 1));
    if (!curve.line->channelFillGraph())
        return;
    QColor tint = curve.look.color; // one polygon: here a translucent brush is cheap, and bands of several runs show through
    tint.setAlphaF(kBandOpacity);
    curve.line->setBrush(tint);
}

void CurvePlot::setBand(const QString& lowId, const QString& highId) {
    Curve *low = find(lowId), *high = find(highId);
    if (!low || !high)
        return;
    high->line->setChannelFillGraph(low->line);
    for (QCPGraph* edge : {low->line, high->line})
        edge->setLayer("raw"); // behind every line
    style(*high);
    schedule();
}

void CurvePlot::removeCurve(const QString& id) {
    Curve* curve = find(id);
    if (!curve)
        return;
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

void CurvePlot::setTitle(const QString& title) {
    m_title = title;
    m_legendStale = true;
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
    fitTicks();
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
        curve->series.setSmoothing(curve->look.smooth ? m_smoothing : 0);
    m_hover.reset();
    schedule();
}

void CurvePlot::setClipOutliers(bool clip) {
    m_clip = clip;
    m_follows = m_legendStale = true;
    schedule();
}

void CurvePlot::addMark(double x, const QString& label, bool small) {
    m_marks.push_back({x, label, small});
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
    m_follows = m_fitsY = false;
    m_setting = true;
    plot().xAxis->setRange(xFrom, xTo);
    plot().yAxis->setRange(yFrom, yTo);
    m_setting = false;
    schedule();
}

void CurvePlot::setXView(double from, double to) {
    m_follows = false;
    m_fitsY = m_setting = true;
    plot().xAxis->setRange(from, to);
    m_setting = false;
    schedule();
}

bool CurvePlot::reachesInto(double from, double to) const {
    return std::any_of(m_curves.begin(), m_curves.end(), [&](const auto& curve) {
        const auto& x = curve->series.x();
        return curve->visible && !x.empty() && x.front() <= to && x.back() >= from;
    });
}

void CurvePlot::resetByUser() {
    resetView();
    Q_EMIT viewResetByUser();
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
    m_follows = m_fitsY = false;
    endHover();
    Q_EMIT viewChangedByUser();
}

// ---- keyboard ----------------------------------------------------------------------------------------------------

void CurvePlot::keyPressEvent(QKeyEvent* event) {
    QCPAxis* x = plot().xAxis;
    const double width = x->range().size();
    switch (event->key()) {
    case Qt::Key_Left:
    case Qt::Key_Right: {
        const double direction = event->key() == Qt::Key_Left ? -1 : 1;
        if (event->modifiers() & Qt::ShiftModifier) {
            userMoved();
            return x->moveRange(direction * width / 8);
        }
        const double at = std::clamp(m_cursor.value_or(x->range().center()) + direction * width / 100, x->range().lower, x->range().upper);
        setCursor(at);
        Q_EMIT cursorMoved(at);
        return;
    }
    case Qt::Key_Plus:
    case Qt::Key_Equal:
    case Qt::Key_Minus:
        userMoved();
        return x->scaleRange(event->key() == Qt::Key_Minus ? 1.25 : 0.8, m_cursor.value_or(x->range().center()));
    case Qt::Key_0: return resetByUser();
    default: PlotWidget::keyPressEvent(event);
    }
}

void CurvePlot::focusInEvent(QFocusEvent* event) {
    PlotWidget::focusInEvent(event);
    m_overlay->replot();
}

void CurvePlot::focusOutEvent(QFocusEvent* event) {
    PlotWidget::focusOutEvent(event);
    m_overlay->replot();
}

} // namespace linnet::widgets
