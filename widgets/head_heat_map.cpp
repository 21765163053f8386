#include "widgets/head_heat_map.h"

#include "widgets/color_gradient.h"
#include "widgets/pattern_picture.h"
#include "widgets/plot_paint.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace linnet::widgets {
namespace {

constexpr int kStrip = 12, kStripGap = 3; // of the means, pixels
constexpr int kCost = 14, kLock = 13;     // of a layer's cost and lock in the gutter

} // namespace

HeadHeatMap::HeadHeatMap(QWidget* parent) : PlotWidget(parent), m_emptyText(tr("Nothing measured yet")) {
    setAccessibleName(tr("Heat map of layers and heads"));
    setFocusPolicy(Qt::StrongFocus);
    setMouseTracking(true);
    QCustomPlot& p = plot();
    p.setAttribute(Qt::WA_TransparentForMouseEvents);
    QCPAxisRect* cells = p.axisRect();
    p.plotLayout()->take(cells);
    p.plotLayout()->simplify();
    m_titleArea = addReserved(p, 0, 1);
    p.plotLayout()->addElement(1, 1, cells);
    m_gutter = addReserved(p, 1, 0);
    m_bar = addReserved(p, 1, 2);
    p.plotLayout()->setColumnSpacing(2);
    p.plotLayout()->setRowSpacing(0);

    m_cells = new QCPColorMap(p.xAxis, p.yAxis);
    m_cells->setInterpolate(false);
    m_cells->setTightBoundary(false); // whole cells at the border, not halves
    m_cells->setDataRange({0, 1});
    p.yAxis->setRangeReversed(true);
    p.yAxis->setLabel(tr("layer"));
    for (QCPAxis* axis : {p.xAxis, p.yAxis}) {
        auto ticker = QSharedPointer<QCPAxisTickerFixed>::create();
        ticker->setTickStep(1);
        ticker->setScaleStrategy(QCPAxisTickerFixed::ssMultiples);
        axis->setTicker(ticker);
        axis->setSubTicks(false);
        axis->grid()->setVisible(false);
        axis->setTickLength(0, 3);
        axis->setNumberFormat("f");
        axis->setNumberPrecision(0);
        axis->setLabelPadding(2);
    }
    new PaintStep(p, "axes", [this](QCPPainter& painter) { paintFrame(painter); });
    m_selectionLayer = addBufferedLayer(p, "selection");
    new PaintStep(p, "selection", [this](QCPPainter& painter) { paintSelection(painter); });
    m_hoverLayer = addBufferedLayer(p, "hover");
    new PaintStep(p, "hover", [this](QCPPainter& painter) { paintHover(painter); });
    refill();
    applyColors();
}

void HeadHeatMap::setData(const HeatMapData& data) {
    const bool sameShape = data.layers == m_data.layers && data.heads == m_data.heads;
    m_data = data;
    if (data.layers <= 0 || data.heads <= 0 || data.values.size() != size_t(data.layers) * size_t(data.heads))
        m_data = {};
    if (!sameShape) {
        m_hover.reset();
        m_press.reset();
        m_dragging = false;
        m_cursor = m_anchor = {};
        m_lastToggled = -1;
        if (int(m_ticks.size()) != m_data.layers)
            m_ticks.clear();
        if (int(m_infos.size()) != m_data.layers)
            m_infos.clear();
    }
    refill();
}

void HeadHeatMap::setScaleMode(ScaleMode mode) {
    m_mode = mode;
    refill();
}

void HeadHeatMap::setColorMap(ColorMap map) {
    m_map = map;
    restyle();
    refill();
}

void HeadHeatMap::setLayerInfos(const std::vector<LayerInfo>& infos) {
    m_infos = int(infos.size()) == m_data.layers ? infos : std::vector<LayerInfo>{};
    relayout();
}

void HeadHeatMap::setLayerTicks(const std::vector<bool>& ticks) {
    m_ticks = int(ticks.size()) == m_data.layers ? ticks : std::vector<bool>{};
    relayout();
}

void HeadHeatMap::setEmptyText(const QString& text) {
    m_emptyText = text;
    plot().replot(QCustomPlot::rpQueuedReplot);
}

void HeadHeatMap::setSelection(const QSet<HeadId>& heads, std::optional<HeadId> primary) {
    m_selection = heads;
    m_primary = primary;
    if (primary && contains(primary->layer, primary->head)) {
        m_cursor = *primary;
        if (heads.size() <= 1)
            m_anchor = *primary;
    }
    m_selectionLayer->replot();
}

void HeadHeatMap::setHover(int layer, int head) {
    const std::optional<HeadId> hover = contains(layer, head) ? std::optional(HeadId{layer, head}) : std::nullopt;
    if (hover == m_hover)
        return;
    m_hover = hover;
    m_hoverLayer->replot();
}

void HeadHeatMap::setMarked(const QSet<HeadId>& heads, const QString& what) {
    m_markText = what;
    if (heads == m_marked)
        return;
    m_marked = heads;
    m_selectionLayer->replot();
}

void HeadHeatMap::setPinned(std::optional<HeadId> head) {
    m_pinned = head;
    m_selectionLayer->replot();
}

void HeadHeatMap::setGroupSize(int queryHeads) {
    m_groupSize = std::max(1, queryHeads);
    plot().replot(QCustomPlot::rpQueuedReplot);
}

void HeadHeatMap::setMarginsShown(bool shown) {
    m_marginsShown = shown;
    relayout();
}

bool HeadHeatMap::contains(int layer, int head) const {
    return layer >= 0 && layer < m_data.layers && head >= 0 && head < m_data.heads;
}

double HeadHeatMap::value(int layer, int head) const {
    return contains(layer, head) ? m_data.values[size_t(layer) * size_t(m_data.heads) + size_t(head)]
                                 : std::numeric_limits<double>::quiet_NaN();
}

QString HeadHeatMap::tooltipText(int layer, int head) const {
    const double v = value(layer, head);
    QString text = tr("Layer %1, head %2").arg(layer).arg(head) + '\n';
    if (!m_data.title.isEmpty())
        text += m_data.title + ": ";
    text += readout(v);
    if (std::isfinite(v) && !m_data.unit.isEmpty())
        text += ' ' + m_data.unit;
    if (m_marked.contains({layer, head}))
        text += '\n' + m_markText;
    if (layer >= 0 && layer < int(m_infos.size()) && !m_infos[size_t(layer)].note.isEmpty())
        text += '\n' + m_infos[size_t(layer)].note;
    if (m_pinned && contains(m_pinned->layer, m_pinned->head))
        text += '\n' + tr("reference, layer %1, head %2: %3").arg(m_pinned->layer).arg(m_pinned->head).arg(readout(value(m_pinned->layer, m_pinned->head)));
    return text;
}

double HeadHeatMap::layerMean(int layer) const {
    return layer >= 0 && layer < int(m_layerMeans.size()) ? m_layerMeans[size_t(layer)].mean : std::numeric_limits<double>::quiet_NaN();
}

double HeadHeatMap::headMean(int head) const {
    return head >= 0 && head < int(m_headMeans.size()) ? m_headMeans[size_t(head)].mean : std::numeric_limits<double>::quiet_NaN();
}

QString HeadHeatMap::csv() const {
    QString text = "layer,head," + csvText(m_data.title.isEmpty() ? QStringLiteral("value") : m_data.title) + '\n';
    for (int layer = 0; layer < m_data.layers; ++layer)
        for (int head = 0; head < m_data.heads; ++head)
            text += QString::number(layer) + ',' + QString::number(head) + ',' + csvNumber(value(layer, head)) + '\n';
    return text;
}

// ---- colours and layout ------------------------------------------------------------------------------------------

void HeadHeatMap::restyle() {
    m_cells->setGradient(colorGradient(mapOn(colors(), m_map), colors().notMeasured));
    relayout();
}

void HeadHeatMap::refill() {
    m_range = ColorRange(m_data.values, m_data.layers, m_data.heads, m_data.scale, m_mode, isDiverging(m_map));
    const bool shown = !m_data.values.empty();
    m_cells->setVisible(shown);
    for (QCPAxis* axis : plot().axisRect()->axes({QCPAxis::atLeft | QCPAxis::atBottom}))
        axis->setVisible(shown);
    if (shown) {
        QCPColorMapData* cells = m_cells->data();
        // QCustomPlot cannot size a single row or column: that one is drawn as two halves.
        const int columns = std::max(2, m_data.heads), rows = std::max(2, m_data.layers);
        const auto centres = [](int count) { return count > 1 ? QCPRange(0, count - 1) : QCPRange(-0.25, 0.25); };
        cells->setSize(columns, rows);
        cells->setRange(centres(m_data.heads), centres(m_data.layers));
        for (int row = 0; row < rows; ++row)
            for (int column = 0; column < columns; ++column) {
                const int layer = std::min(row, m_data.layers - 1), head = std::min(column, m_data.heads - 1);
                const double at = m_range.position(value(layer, head), layer);
                cells->setCell(column, row, std::isnan(at) ? at : std::clamp(at, 0.0, 1.0));
            }
        plot().xAxis->setRange(-0.5, m_data.heads - 0.5);
        plot().yAxis->setRange(-0.5, m_data.layers - 0.5);
    }
    refillMargins();
    relayout();
}

void HeadHeatMap::refillMargins() {
    struct Sum {
        double values = 0, positions = 0;
        int count = 0;
    };
    std::vector<Sum> layers(size_t(m_data.layers)), heads(size_t(m_data.heads));
    for (int layer = 0; layer < m_data.layers; ++layer)
        for (int head = 0; head < m_data.heads; ++head)
            if (const double v = value(layer, head); std::isfinite(v))
                for (Sum* sum : {&layers[size_t(layer)], &heads[size_t(head)]}) {
                    sum->values += v, ++sum->count;
                    sum->positions += std::clamp(m_range.position(v, layer), 0.0, 1.0);
                }
    const bool relative = m_mode.kind == ScaleMode::PerLayer; // layers have no range in common: the mean place within them
    m_layerMeans.clear();
    m_headMeans.clear();
    for (size_t i = 0; i < layers.size(); ++i) {
        const double mean = layers[i].values / layers[i].count; // 0 / 0: not-a-number
        m_layerMeans.push_back({mean, m_range.position(mean, int(i))});
    }
    for (const Sum& sum : heads) {
        const double mean = sum.values / sum.count;
        m_headMeans.push_back({mean, relative ? sum.positions / sum.count : m_range.position(mean, 0)});
    }
}

double HeadHeatMap::rowHeight() const {
    const int around = 3 * fontMetrics().height() + 18; // title, tick labels, axis label
    return double(std::max(1, height() - around)) / std::max(1, m_data.layers);
}

void HeadHeatMap::relayout() {
    const QFontMetrics metrics(font());
    m_kindWidth = 0;
    m_anyLock = m_anyCost = false;
    for (const LayerInfo& info : m_infos) {
        m_anyCost = m_anyCost || info.rank >= 0;
        m_kindWidth = std::max(m_kindWidth, rowHeight() >= 9 ? metrics.horizontalAdvance(info.kind) + 4 : 7);
        m_anyLock = m_anyLock || info.locked;
    }
    fixHeight(*m_titleArea, metrics.height() + 4);
    fixWidth(*m_gutter, (m_ticks.empty() ? 0 : 18) + m_kindWidth + (m_anyLock ? kLock : 0) + (m_anyCost ? kCost : 0) + 2);
    plot().xAxis->setLabel(m_range.hasMissing() ? tr("head") + QStringLiteral("\n ") : tr("head")); // a line for its legend
    int tickWidth = 0;
    for (const auto& tick : m_range.ticks(6))
        tickWidth = std::max(tickWidth, metrics.horizontalAdvance(tick.label));
    const int strip = marginsVisible() ? kStripGap + kStrip : 0;
    plot().xAxis->setOffset(strip); // room between the cells and their numbers
    fixWidth(*m_bar, strip + (m_range.isEmpty() ? 8 : 4 + 12 + 6 + tickWidth + metrics.height() + 6));
    const auto setCount = [](QCPAxis* axis, int pixels, int each) { axis->ticker()->setTickCount(std::clamp(pixels / each, 1, 16)); };
    setCount(plot().xAxis, width() - 170, metrics.horizontalAdvance("00") + 16);
    setCount(plot().yAxis, height() - 70, metrics.height() + 6);
    plot().replot(QCustomPlot::rpQueuedReplot);
}

void HeadHeatMap::resizeEvent(QResizeEvent* event) {
    PlotWidget::resizeEvent(event);
    relayout();
}

// ---- geometry ----------------------------------------------------------------------------------------------------

QRectF HeadHeatMap::cellRect(int layer, int head) const {
    const QCPAxis *x = plot().xAxis, *y = plot().yAxis;
    return QRectF(QPointF(x->coordToPixel(head - 0.5), y->coordToPixel(layer - 0.5)),
                  QPointF(x->coordToPixel(head + 0.5), y->coordToPixel(layer + 0.5)));
}

QPoint HeadHeatMap::cellCenter(int layer, int head) const { return cellRect(layer, head).center().toPoint(); }

int HeadHeatMap::layerAt(double y) const {
    const QRect area = plot().axisRect()->rect();
    if (y < area.top() || y >= area.bottom() + 1 || m_data.layers == 0)
        return -1;
    return std::clamp(int(std::floor(plot().yAxis->pixelToCoord(y) + 0.5)), 0, m_data.layers - 1);
}

std::optional<HeadId> HeadHeatMap::cellAt(const QPointF& position) const {
    const QRect area = plot().axisRect()->rect();
    const int layer = layerAt(position.y());
    if (layer < 0 || position.x() < area.left() || position.x() >= area.right() + 1)
        return {};
    const int head = int(std::floor(plot().xAxis->pixelToCoord(position.x()) + 0.5));
    return HeadId{layer, std::clamp(head, 0, m_data.heads - 1)};
}

QRect HeadHeatMap::tickRect(int layer) const {
    const QRectF row = cellRect(layer, 0);
    const int size = std::clamp(int(row.height()) - 2, 4, 13);
    return QRect(m_gutter->rect().left() + 2 + (13 - size) / 2, int(std::lround(row.center().y() - size / 2.0)), size, size);
}

QRectF HeadHeatMap::costRect(int layer) const {
    if (layer < 0 || layer >= int(m_infos.size()) || m_infos[size_t(layer)].rank < 0)
        return {};
    const QRectF row = cellRect(layer, 0);
    return QRectF(m_gutter->rect().right() - kCost, row.top(), kCost - 2, row.height());
}

QString HeadHeatMap::layerText(int layer) const {
    if (layer < 0 || layer >= m_data.layers)
        return {};
    const LayerInfo info = m_infos.empty() ? LayerInfo() : m_infos[size_t(layer)];
    QStringList parts;
    if (!info.kind.isEmpty())
        parts << info.kind;
    if (info.fixed)
        parts << tr("converted already");
    else if (!m_ticks.empty())
        parts << (m_ticks[size_t(layer)] ? tr("converted") : tr("kept"));
    if (info.locked)
        parts << tr("targets locked");
    const auto text = tr("Layer %1: %2").arg(layer).arg(parts.join(QStringLiteral(", ")));
    return info.note.isEmpty() ? text : text + '\n' + info.note;
}

QRectF HeadHeatMap::layerMeanRect(int layer) const {
    if (!marginsVisible())
        return {};
    const QRectF row = cellRect(layer, m_data.heads - 1);
    return QRectF(row.right() + kStripGap, row.top(), kStrip, row.height());
}

QRectF HeadHeatMap::headMeanRect(int head) const {
    if (!marginsVisible())
        return {};
    const QRectF column = cellRect(m_data.layers - 1, head);
    return QRectF(column.left(), column.bottom() + kStripGap, column.width(), kStrip);
}

QList<HeadId> HeadHeatMap::marginHeadsAt(const QPointF& position) const {
    QList<HeadId> heads;
    if (!marginsVisible())
        return heads;
    const QRectF right = layerMeanRect(0) | layerMeanRect(m_data.layers - 1), below = headMeanRect(0) | headMeanRect(m_data.heads - 1);
    if (right.contains(position)) {
        for (int head = 0, layer = layerAt(position.y()); layer >= 0 && head < m_data.heads; ++head)
            heads << HeadId{layer, head};
    } else if (below.contains(position)) {
        const int head = std::clamp(int(std::floor(plot().xAxis->pixelToCoord(position.x()) + 0.5)), 0, m_data.heads - 1);
        for (int layer = 0; layer < m_data.layers; ++layer)
            heads << HeadId{layer, head};
    }
    return heads;
}

QString HeadHeatMap::marginTooltip(const QPointF& position) const {
    const auto heads = marginHeadsAt(position);
    if (heads.isEmpty())
        return {};
    const HeadId first = heads.front();
    const bool ofLayer = position.x() > plot().axisRect()->rect().right();
    return (ofLayer ? tr("Layer %1, mean of its heads: %2").arg(first.layer).arg(readout(layerMean(first.layer)))
                    : tr("Head %1, mean over layers: %2").arg(first.head).arg(readout(headMean(first.head)))) +
           '\n' + tr("click selects them");
}

int HeadHeatMap::tickAt(const QPointF& position) const {
    if (m_ticks.empty() || position.x() < m_gutter->rect().left() || position.x() > m_gutter->rect().left() + 17)
        return -1;
    return layerAt(position.y());
}

} // namespace linnet::widgets
