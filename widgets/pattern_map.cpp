#include "widgets/pattern_map.h"

#include "widgets/color_range.h"
#include "widgets/theme.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>

namespace linnet::widgets {
namespace {

constexpr int kMargin = 2, kScaleGap = 4, kBar = 8;
constexpr int kExportSide = 420; // pixels

int scaleHeight(const QFontMetrics& metrics) {
    return kScaleGap + kBar + metrics.height() + kMargin;
}

} // namespace

PatternMap::PatternMap(QWidget* parent) : ExportWidget(parent) {
    setFocusPolicy(Qt::StrongFocus);
    setMouseTracking(true);
    setAccessibleName(tr("Attention pattern"));
    setAccessibleDescription(tr("Up and Down choose the token that looks"));
    QSizePolicy policy(QSizePolicy::Preferred, QSizePolicy::Preferred);
    policy.setHeightForWidth(true);
    setSizePolicy(policy);
}

void PatternMap::setPattern(std::shared_ptr<const std::vector<float>> values, int length, ColorMap map) {
    const bool fits = values && length > 0 && values->size() == std::size_t(length) * std::size_t(length);
    m_values = fits ? std::move(values) : nullptr;
    const int before = row();
    if (m_length != (fits ? length : 0))
        m_row = m_hovered = -1;
    m_length = fits ? length : 0;
    m_map = map;
    restyle();
    if (row() != before)
        Q_EMIT rowChanged(row());
}

void PatternMap::setLog(bool log) {
    m_style.log = log;
    restyle();
}

void PatternMap::setHiddenColumns(int columns) {
    m_style.hiddenColumns = columns;
    restyle();
}

void PatternMap::setEmptyText(const QString& text) {
    m_emptyText = text;
    update();
}

void PatternMap::restyle() {
    const double range = m_values ? patternRange(*m_values, m_length, m_style.hiddenColumns) : 0;
    m_empty = range <= 0;
    m_style.map = mapOn(PlotColors::fromPalette(palette()), m_map);
    m_style.range = m_empty ? 1 : range;
    m_pixels = 0;
    update();
}

void PatternMap::changeEvent(QEvent* event) {
    ExportWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange)
        restyle();
}

PatternPage PatternMap::page() const {
    return {accessibleName(), {{tr("share of the row"), m_values, m_map, m_style.range}}, m_length, {}, {0, 0, double(std::max(1, m_length))}, m_style.log, m_style.hiddenColumns};
}

QSize PatternMap::pictureSize() const {
    return patternPageSize(page(), kExportSide, font());
}

void PatternMap::paintPicture(QPainter& painter, const PlotColors& colors) const {
    paintPatterns(painter, page(), kExportSide, colors);
}

int PatternMap::heightForWidth(int width) const {
    return width + scaleHeight(fontMetrics());
}

QRect PatternMap::square() const {
    const int side = std::max(0, std::min(width(), height() - scaleHeight(fontMetrics())) - 2 * kMargin);
    return {(width() - side) / 2, kMargin, side, side};
}

void PatternMap::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    const auto colors = PlotColors::fromPalette(palette());
    const QRect area = square();
    painter.fillRect(area, colors.background);
    if (isEmpty()) {
        painter.setPen(colors.axis);
        painter.drawText(area.adjusted(10, 10, -10, -10), Qt::AlignCenter | Qt::TextWordWrap, m_emptyText);
        return;
    }
    const int pixels = std::max(1, int(area.width() * devicePixelRatioF()));
    if (pixels != m_pixels) {
        m_image = patternImage(*m_values, m_length, {0, 0, double(m_length)}, pixels, m_style);
        m_pixels = pixels;
    }
    painter.save();
    painter.setClipRect(area);
    const double cell = double(area.width()) / m_length;
    const auto place = [&](double column, double row) { return QPointF(area.left() + column * cell, area.top() + row * cell); };
    painter.setPen(Qt::NoPen);
    painter.setBrush(QBrush(colors.notMeasured, Qt::BDiagPattern)); // what a token can't see, and hidden columns
    painter.drawRect(area);
    painter.drawImage(QRectF(place(m_image.cells.left(), m_image.cells.top()), place(m_image.cells.right(), m_image.cells.bottom())), m_image.image);
    if (row() >= 0) {
        painter.setPen(QPen(colors.highlight, 1));
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(QRectF(place(0, row()), QSizeF((row() + 1) * cell, std::max(2.0, cell))));
    }
    painter.restore();
    const QString hint = tr("row: query\ncolumn: key");
    const QRect note(area.center().x(), area.top() + 4, area.width() / 2 - 4, area.height() / 2);
    const QRect needed = fontMetrics().boundingRect(note, Qt::AlignRight | Qt::AlignTop | Qt::TextWordWrap, hint);
    if (needed.height() < area.height() / 3) {
        painter.fillRect(needed.adjusted(-3, -2, 2, 2), colors.background);
        painter.setPen(colors.axis);
        painter.drawText(note, Qt::AlignRight | Qt::AlignTop | Qt::TextWordWrap, hint);
    }
    painter.setPen(hasFocus() ? palette().color(QPalette::Highlight) : colors.axis);
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(area.adjusted(-1, -1, 0, 0));
    paintScale(painter, {area.left(), area.bottom() + kScaleGap, area.width(), scaleHeight(fontMetrics())});
}

void PatternMap::paintScale(QPainter& painter, const QRect& below) const {
    const auto colors = PlotColors::fromPalette(palette());
    for (int x = 0; x < below.width(); ++x)
        painter.fillRect(below.left() + x, below.top(), 1, kBar, mapColor(m_style.map, double(x) / std::max(1, below.width() - 1)));
    painter.setPen(colors.text);
    const QRect text(below.left(), below.top() + kBar, below.width(), fontMetrics().height());
    const QString end = m_empty ? tr("all 0") : tickLabel(m_style.range);
    const bool signs = isDiverging(m_style.map);
    painter.drawText(text, Qt::AlignLeft, signs ? QStringLiteral("−") + end : m_style.log ? tickLabel(m_style.range * 1e-4) : QStringLiteral("0"));
    painter.drawText(text, Qt::AlignRight, QStringLiteral("≥ ") + end);
    if (m_style.log || signs)
        painter.drawText(text, Qt::AlignHCenter, signs ? QStringLiteral("0") : tr("log"));
}

int PatternMap::rowAt(const QPointF& position) const {
    const QRect area = square();
    if (isEmpty() || !QRectF(area).contains(position))
        return -1;
    return std::clamp(int((position.y() - area.top()) / area.height() * m_length), 0, m_length - 1);
}

void PatternMap::point(int hovered, int row) {
    const int before = this->row();
    m_hovered = hovered;
    m_row = row;
    if (this->row() == before)
        return;
    update();
    Q_EMIT rowChanged(this->row());
}

void PatternMap::mouseMoveEvent(QMouseEvent* event) {
    point(rowAt(event->position()), m_row);
}

void PatternMap::mousePressEvent(QMouseEvent* event) { // keeps the row when the mouse has left
    if (const int row = rowAt(event->position()); event->button() == Qt::LeftButton && row >= 0)
        point(row, row);
}

void PatternMap::leaveEvent(QEvent*) {
    point(-1, m_row);
}

void PatternMap::keyPressEvent(QKeyEvent* event) {
    const int page = std::max(1, m_length / 16), last = m_length - 1;
    const int from = row();
    int to = from;
    switch (event->key()) {
    case Qt::Key_Up: to = from < 0 ? last : from - 1; break;
    case Qt::Key_Down: to = from + 1; break;
    case Qt::Key_PageUp: to = from - page; break;
    case Qt::Key_PageDown: to = from + page; break;
    case Qt::Key_Home: to = 0; break;
    case Qt::Key_End: to = last; break;
    default: return QWidget::keyPressEvent(event);
    }
    if (!isEmpty())
        point(-1, std::clamp(to, 0, last));
}

} // namespace linnet::widgets
