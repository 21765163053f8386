#include "widgets/pattern_view.h"

#include "widgets/color_range.h"
#include "widgets/imgui_host.h"

#include <QCoreApplication>
#include <QPainter>
#include <algorithm>
#include <cmath>

namespace linnet::widgets {
namespace {

constexpr float kGap = 12, kGutter = 58, kBar = 7;
constexpr int kHatchImage = 100; // patterns have theirs from 0

ImU32 toImGui(QColor color, double alpha = 1) {
    return IM_COL32(color.red(), color.green(), color.blue(), int(255 * alpha));
}

void text(ImVec2 at, ImU32 color, const QString& what) {
    ImGui::GetWindowDrawList()->AddText(at, color, what.toUtf8().constData());
}

float widthOf(const QString& what) {
    return ImGui::CalcTextSize(what.toUtf8().constData()).x;
}

QString elided(QString what, float width) { // from the right
    if (widthOf(what) <= width)
        return what;
    while (!what.isEmpty() && widthOf(what + QChar(0x2026)) > width)
        what.chop(1);
    return what + QChar(0x2026);
}

QImage hatching(int pixels, int period, const PlotColors& colors) {
    QImage image(pixels, pixels, QImage::Format_RGB32);
    const QRgb line = colors.notMeasured.rgb(), base = colors.background.rgb();
    for (int y = 0; y < pixels; ++y) {
        auto* row = reinterpret_cast<QRgb*>(image.scanLine(y));
        for (int x = 0; x < pixels; ++x)
            row[x] = (x + y) % period < std::max(1, period / 6) ? line : base;
    }
    return image;
}

QString tr(const char* what) {
    return QCoreApplication::translate("linnet::widgets::PatternView", what);
}

} // namespace

void PatternView::setTokens(const QStringList& tokens) {
    const bool other = tokens.size() != m_tokens.size();
    m_tokens = tokens;
    m_row = std::min(m_row, length() - 1);
    if (other)
        fit();
}

void PatternView::fit() {
    m_window = {0, 0, double(std::max(1, length()))};
}

void PatternView::keepInside() {
    const double most = std::max(1, length());
    m_window.span = std::clamp(m_window.span, std::min(kLeastSpan, most), most);
    m_window.x = std::clamp(m_window.x, 0.0, most - m_window.span);
    m_window.y = std::clamp(m_window.y, 0.0, most - m_window.span);
}

void PatternView::zoom(double factor, double x, double y) {
    if (!(factor > 0) || length() == 0)
        return;
    const double before = m_window.span;
    m_window.span = std::clamp(before / factor, std::min(kLeastSpan, double(length())), double(length()));
    m_window.x = x - (x - m_window.x) * m_window.span / before;
    m_window.y = y - (y - m_window.y) * m_window.span / before;
    keepInside();
}

void PatternView::zoom(double factor) {
    const double middle = m_window.y + m_window.span / 2;
    zoom(factor, m_window.x + m_window.span / 2, m_row >= 0 ? m_row + 0.5 : middle);
}

void PatternView::pan(double columns, double rows) {
    m_window.x += columns;
    m_window.y += rows;
    keepInside();
}

void PatternView::moveRow(int by) {
    if (length() == 0)
        return;
    m_row = m_row < 0 ? (by > 0 ? 0 : length() - 1) : std::clamp(m_row + by, 0, length() - 1);
    if (m_row < m_window.y)
        pan(0, m_row - m_window.y);
    if (m_row + 1 > m_window.y + m_window.span)
        pan(0, m_row + 1 - m_window.y - m_window.span);
}

QString PatternView::tokenText(int index) const {
    return QStringLiteral("%1 \"%2\"").arg(index).arg(visibleToken(m_tokens.value(index)));
}

QString PatternView::rowText(const Pattern& pattern) const {
    if (!pattern.values || row() < 0)
        return {};
    const auto entry = [&](int column, float value) { return QStringLiteral("%1  %2").arg(tokenText(column), QString::number(double(value), 'g', 3)); };
    QStringList parts;
    for (const auto& [column, value] : topSources(*pattern.values, length(), row(), kSources, m_hidden))
        parts << entry(column, value);
    const auto top = tr("%1, %2:  most from  %3").arg(tokenText(row()), pattern.title, parts.isEmpty() ? QStringLiteral("–") : parts.join(QStringLiteral("  ·  ")));
    if (m_hoverColumn < m_hidden) // also: none
        return top;
    return top + tr("    here  %1").arg(entry(m_hoverColumn, (*pattern.values)[size_t(row()) * size_t(length()) + size_t(m_hoverColumn)]));
}

QRectF PatternView::square(int pattern) const {
    return pattern < int(m_drawn.size()) ? m_drawn[size_t(pattern)].square : QRectF();
}

QSize PatternView::imageSize(int pattern) const {
    return pattern < int(m_drawn.size()) ? m_drawn[size_t(pattern)].size : QSize();
}

ImVec2 PatternView::place(ImVec2 at, float side, double x, double y) const {
    return {at.x + float((x - m_window.x) / m_window.span * side), at.y + float((y - m_window.y) / m_window.span * side)};
}

void PatternView::draw(ImGuiHost& host, ImVec2 size, const PlotColors& colors, bool focused) {
    const int count = int(m_patterns.size());
    m_drawn.resize(m_patterns.size());
    if (count == 0 || length() == 0)
        return;
    const ImVec2 origin = ImGui::GetCursorScreenPos();
    const float line = ImGui::GetTextLineHeight();
    // Side by side or one below the other, whichever makes them larger.
    const float below = 2 * line + kBar + 8; // of each: its title and its colours
    const float across = std::min((size.x - kGutter - kGap * float(count - 1)) / float(count), size.y - below);
    const float down = std::min(size.x - kGutter, size.y / float(count) - below);
    const bool beside = across >= down;
    const float side = std::floor(std::max(across, down));
    if (side < 24)
        return text(origin, toImGui(colors.axis), elided(tr("Too small for a pattern: make the dock larger, or float it."), size.x));
    const auto place = [&](int i) {
        return ImVec2(std::floor(origin.x + kGutter + (beside ? float(i) * (side + kGap) : 0)), std::floor(origin.y + line + 2 + (beside ? 0 : float(i) * (side + below))));
    };
    m_hoverRow = m_hoverColumn = -1;
    for (int i = 0; i < count; ++i) { // the mouse first: all of them mark what it points at
        ImGui::SetCursorScreenPos(place(i));
        ImGui::PushID(i);
        ImGui::InvisibleButton("pattern", {side, side});
        ImGui::PopID();
        takeMouse(place(i), side);
    }
    for (int i = 0; i < count; ++i) {
        drawPattern(host, i, place(i), side, colors, focused);
        if (i == 0 || !beside)
            drawRows(place(i), side, kGutter, colors);
    }
    ImGui::SetCursorScreenPos({origin.x, origin.y + (side + below) * (beside ? 1 : float(count))});
}

void PatternView::takeMouse(ImVec2 at, float side) {
    const ImGuiIO& io = ImGui::GetIO();
    const auto cellX = [&] { return m_window.x + double((io.MousePos.x - at.x) / side) * m_window.span; };
    const auto cellY = [&] { return m_window.y + double((io.MousePos.y - at.y) / side) * m_window.span; };
    if (ImGui::IsItemActive() && ImGui::IsMouseDragging(ImGuiMouseButton_Left, 2)) {
        ImGui::SetMouseCursor(ImGuiMouseCursor_ResizeAll);
        pan(double(-io.MouseDelta.x / side) * m_window.span, double(-io.MouseDelta.y / side) * m_window.span);
    }
    if (!ImGui::IsItemHovered())
        return;
    if (io.MouseWheel != 0)
        zoom(std::pow(1.25, double(io.MouseWheel)), cellX(), cellY());
    if (ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left))
        fit();
    m_hoverRow = std::clamp(int(std::floor(cellY())), 0, length() - 1);
    const int column = std::clamp(int(std::floor(cellX())), 0, length() - 1);
    m_hoverColumn = column <= m_hoverRow ? column : -1;
}

void PatternView::refreshImage(ImGuiHost& host, int index, int pixels, ColorMap map) {
    auto& drawn = m_drawn[size_t(index)];
    const auto& pattern = m_patterns[size_t(index)];
    const PatternStyle style{map, pattern.range, m_log, m_hidden};
    const auto same = [](const PatternWindow& a, const PatternWindow& b) { return a.x == b.x && a.y == b.y && a.span == b.span; };
    if (drawn.values == pattern.values && drawn.pixels == pixels && same(drawn.window, m_window) && drawn.style.map == style.map &&
        drawn.style.range == style.range && drawn.style.log == style.log && drawn.style.hiddenColumns == style.hiddenColumns)
        return;
    auto made = pattern.values ? patternImage(*pattern.values, length(), m_window, pixels, style) : PatternImage{};
    drawn = {pattern.values, m_window, style, pixels, made.image.size(), made.cells, drawn.square};
    if (!made.image.isNull())
        host.setImage(index, made.image);
}

void PatternView::drawPattern(ImGuiHost& host, int index, ImVec2 at, float side, const PlotColors& colors, bool focused) {
    auto* list = ImGui::GetWindowDrawList();
    auto& drawn = m_drawn[size_t(index)];
    const auto& pattern = m_patterns[size_t(index)];
    const double ratio = host.devicePixelRatioF();
    const int pixels = std::max(1, int(std::lround(double(side) * ratio)));
    drawn.square = QRectF(double(at.x), double(at.y), double(side), double(side));
    refreshImage(host, index, pixels, mapOn(colors, pattern.map));
    text({at.x, at.y - ImGui::GetTextLineHeight() - 2}, toImGui(colors.text), elided(pattern.title, side));
    const ImVec2 end(at.x + side, at.y + side);
    list->PushClipRect(at, end, true);
    if (m_hatchPixels != pixels || m_hatchLine != colors.notMeasured) { // masked, hidden or not known: hatched, below what is known
        m_hatchPixels = pixels;
        m_hatchLine = colors.notMeasured;
        host.setImage(kHatchImage, hatching(pixels, std::max(4, int(std::lround(7 * ratio))), colors));
    }
    list->AddImage(host.texture(kHatchImage), at, end);
    if (pattern.values && drawn.size.isValid() && !drawn.size.isEmpty()) {
        const auto& cells = drawn.cells;
        list->AddImage(host.texture(index), place(at, side, cells.left(), cells.top()), place(at, side, cells.right(), cells.bottom()));
    }
    drawMarks(index, at, side, colors);
    list->PopClipRect();
    list->AddRect({at.x - 1, at.y - 1}, {end.x + 1, end.y + 1}, toImGui(focused ? colors.fill : colors.grid), 0, 0, focused ? 2.F : 1.F);
    drawScale(host, index, {at.x, end.y + 4}, side, colors);
}

void PatternView::drawMarks(int index, ImVec2 at, float side, const PlotColors& colors) const {
    const int marked = row();
    if (marked < 0)
        return;
    auto* list = ImGui::GetWindowDrawList();
    const auto outline = [&](ImVec2 from, ImVec2 to, ImU32 color) { // at least 3 pixels, so that a row of half a pixel is seen
        const float grow = std::max(0.F, (3 - (to.y - from.y)) / 2), wide = std::max(0.F, (3 - (to.x - from.x)) / 2);
        list->AddRect({std::floor(from.x - wide), std::floor(from.y - grow)}, {std::floor(to.x + wide), std::floor(to.y + grow)}, color); // sharp
    };
    if (m_hoverColumn >= 0) {
        const auto from = place(at, side, m_hoverColumn, m_hoverColumn), to = place(at, side, m_hoverColumn + 1, length());
        outline(from, to, toImGui(colors.axis, 0.7));
    }
    outline(place(at, side, 0, marked), place(at, side, marked + 1, marked + 1), toImGui(colors.highlight));
    const auto& values = m_patterns[size_t(index)].values;
    if (!values)
        return;
    for (const auto& source : topSources(*values, length(), marked, kSources, m_hidden)) {
        const auto from = place(at, side, source.column, marked), to = place(at, side, source.column + 1, marked + 1);
        const ImVec2 middle((from.x + to.x) / 2, (from.y + to.y) / 2);
        const float radius = std::max(3.F, (to.x - from.x) / 2);
        list->AddCircle(middle, radius + 1, IM_COL32(0, 0, 0, 160), 12, 2.5F);
        list->AddCircle(middle, radius, toImGui(colors.highlight), 12, 1.5F);
    }
}

void PatternView::drawScale(ImGuiHost&, int index, ImVec2 at, float side, const PlotColors& colors) const {
    auto* list = ImGui::GetWindowDrawList();
    const auto& pattern = m_patterns[size_t(index)];
    const int steps = std::max(1, std::min(64, int(side)));
    for (int i = 0; i < steps; ++i)
        list->AddRectFilled({at.x + side * float(i) / float(steps), at.y}, {at.x + side * float(i + 1) / float(steps), at.y + kBar},
                            toImGui(mapColor(mapOn(colors, pattern.map), (i + 0.5) / steps)));
    const float below = at.y + kBar + 1;
    const QString most = QString::number(pattern.range, 'g', 2);
    const QString high = QStringLiteral("≥ ") + most;
    const QString mode = m_log ? tr("log, 4 decades") : tr("linear");
    const bool diverging = isDiverging(pattern.map);
    const QString low = diverging ? QStringLiteral("≤ −") + most : m_log ? QStringLiteral("≤ ") + QString::number(pattern.range / 1e4, 'g', 2) : QStringLiteral("0");
    text({at.x, below}, toImGui(colors.axis), low);
    text({at.x + side - widthOf(high), below}, toImGui(colors.axis), high);
    const float space = side - widthOf(low) - widthOf(high) - 12;
    if (widthOf(mode) <= space)
        text({at.x + widthOf(low) + 6 + (space - widthOf(mode)) / 2, below}, toImGui(colors.axis), mode);
}

void PatternView::drawRows(ImVec2 at, float side, float gutter, const PlotColors& colors) const {
    const double cell = double(side) / m_window.span;
    const float line = ImGui::GetTextLineHeight();
    const bool tokens = cell >= double(line);
    int step = 1;
    while (step * cell < double(line) * 1.5 && !tokens)
        step *= 2;
    const int from = std::max(0, int(std::floor(m_window.y / step)) * step);
    for (int each = from; each < std::min<double>(length(), m_window.y + m_window.span); each += step) {
        const float y = place(at, side, 0, each + 0.5).y - line / 2;
        if (y < at.y - 2 || y + line > at.y + side + 4)
            continue;
        const auto label = elided(tokens ? visibleToken(m_tokens[each]).trimmed() : QString::number(each), gutter - 6);
        text({at.x - 4 - widthOf(label), y}, toImGui(each == row() ? colors.highlight : colors.axis), label);
    }
}

} // namespace linnet::widgets
