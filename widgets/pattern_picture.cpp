#include "widgets/pattern_picture.h"

#include "widgets/color_range.h"

#include <QCoreApplication>
#include <QFontMetrics>
#include <QPainter>
#include <algorithm>
#include <charconv>
#include <cmath>

namespace linnet::widgets {
namespace {

constexpr int kMargin = 10, kGap = 14, kBar = 10, kLabelPadding = 5;

QString tr(const char* what) {
    return QCoreApplication::translate("linnet::widgets::PatternPicture", what);
}

int gutter(const PatternPage& page, const QFontMetrics& metrics) {
    return page.tokens.isEmpty() ? metrics.horizontalAdvance(QString::number(page.length)) + 2 * kLabelPadding : metrics.averageCharWidth() * 12;
}

int belowHeight(const QFontMetrics& metrics) { // of a square: column numbers, the bar and its ends
    return 2 * metrics.height() + kBar + 10;
}

void paintScale(QPainter& painter, const QRect& bar, const Pattern& pattern, ColorMap map, bool log, const PlotColors& colors) {
    for (int x = 0; x < bar.width(); ++x)
        painter.fillRect(bar.left() + x, bar.top(), 1, bar.height(), mapColor(map, double(x) / std::max(1, bar.width() - 1)));
    painter.setPen(colors.text);
    const QRect text(bar.left(), bar.bottom() + 1, bar.width(), painter.fontMetrics().height());
    const QString end = tickLabel(pattern.range);
    const bool signs = isDiverging(map);
    painter.drawText(text, Qt::AlignLeft, signs ? QStringLiteral("≤ −") + end : log ? QStringLiteral("≤ ") + tickLabel(pattern.range * std::pow(10, -kPatternDecades)) : QStringLiteral("0"));
    painter.drawText(text, Qt::AlignRight, QStringLiteral("≥ ") + end);
    painter.drawText(text, Qt::AlignHCenter, log ? tr("log") : signs ? QStringLiteral("0") : QString());
}

// Numbers of rows at the left, of columns below; tokens where there is room for each.
void paintLabels(QPainter& painter, const PatternPage& page, const QRect& square, int room, bool rows, const PlotColors& colors) {
    const auto metrics = painter.fontMetrics();
    const double cell = square.width() / page.window.span;
    painter.setPen(colors.axis);
    int step = 1;
    const double needed = rows ? metrics.height() * 1.2 : metrics.horizontalAdvance(QString::number(page.length)) + 8.0;
    const bool tokens = rows && !page.tokens.isEmpty() && cell >= metrics.height();
    while (!tokens && step * cell < needed)
        step *= 2;
    const double origin = rows ? page.window.y : page.window.x;
    const int first = int(std::ceil(origin / step)) * step, last = std::min(page.length - 1, int(std::ceil(origin + page.window.span)) - 1);
    for (int i = first; i <= last; i += step) {
        const double at = (i + 0.5 - origin) * cell;
        if (at < 0 || at > square.width())
            continue;
        const auto text = tokens ? metrics.elidedText(visibleToken(page.tokens.value(i)).trimmed(), Qt::ElideRight, room - kLabelPadding) : QString::number(i);
        if (rows)
            painter.drawText(QRectF(square.left() - room, square.top() + at - metrics.height() / 2.0, room - kLabelPadding, metrics.height()), Qt::AlignRight | Qt::AlignVCenter, text);
        else
            painter.drawText(QRectF(square.left() + at - needed / 2, square.bottom() + 3, needed, metrics.height()), Qt::AlignHCenter, text);
    }
}

void paintPattern(QPainter& painter, const PatternPage& page, const Pattern& pattern, const QRect& square, const PlotColors& colors) {
    const auto map = mapOn(colors, pattern.map);
    painter.setPen(Qt::NoPen);
    painter.setBrush(QBrush(colors.notMeasured, Qt::BDiagPattern)); // what a token can't see, hidden columns, what is not known
    painter.drawRect(square);
    if (pattern.values && pattern.values->size() == std::size_t(page.length) * std::size_t(page.length)) {
        const auto made = patternImage(*pattern.values, page.length, page.window, 2 * square.width(), {map, pattern.range, page.log, page.hiddenColumns});
        const double cell = square.width() / page.window.span;
        painter.save();
        painter.setClipRect(square);
        painter.drawImage(QRectF(square.left() + (made.cells.left() - page.window.x) * cell, square.top() + (made.cells.top() - page.window.y) * cell, made.cells.width() * cell,
                                 made.cells.height() * cell),
                          made.image);
        painter.restore();
    }
    painter.setPen(colors.axis);
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(square.adjusted(-1, -1, 0, 0));
    const auto line = painter.fontMetrics().height();
    painter.setPen(colors.text);
    painter.drawText(QRect(square.left(), square.top() - line - 3, square.width(), line), Qt::AlignLeft, painter.fontMetrics().elidedText(pattern.title, Qt::ElideRight, square.width()));
    paintLabels(painter, page, square, 0, false, colors);
    paintScale(painter, {square.left(), square.bottom() + line + 6, square.width(), kBar}, pattern, map, page.log, colors);
}

} // namespace

ColorMap mapOn(const PlotColors& colors, ColorMap map) {
    return isDiverging(map) ? divergingMap(colors.background.lightness() < 128) : map;
}

QString visibleToken(QString token) {
    for (qsizetype from = 0, to; (from = token.indexOf(QLatin1String("   "), from)) >= 0;) {
        for (to = from; to < token.size() && token[to] == QLatin1Char(' ');)
            ++to;
        token.replace(from, to - from, QStringLiteral("\u2423×%1").arg(to - from));
    }
    return token.replace(QLatin1Char('\n'), QChar(0xb6)).replace(QLatin1Char('\t'), QChar(0xbb)).replace(QLatin1Char('\r'), QString());
}

QSize patternPageSize(const PatternPage& page, int side, const QFont& font) {
    const QFontMetrics metrics(font);
    const int count = std::max(1, int(page.patterns.size()));
    return {2 * kMargin + gutter(page, metrics) + count * side + (count - 1) * kGap, 2 * kMargin + 2 * metrics.height() + 8 + side + belowHeight(metrics)};
}

void paintPatterns(QPainter& painter, const PatternPage& page, int side, const PlotColors& colors) {
    const auto metrics = painter.fontMetrics();
    const int left = kMargin + gutter(page, metrics), top = kMargin + 2 * metrics.height() + 8;
    painter.setPen(colors.text);
    painter.drawText(QPoint(kMargin, kMargin + metrics.ascent()), page.title);
    for (int i = 0; i < int(page.patterns.size()); ++i)
        paintPattern(painter, page, page.patterns[std::size_t(i)], {left + i * (side + kGap), top, side, side}, colors);
    if (!page.patterns.empty())
        paintLabels(painter, page, {left, top, side, side}, gutter(page, metrics), true, colors);
}

QString patternCsv(const PatternPage& page) {
    const auto quoted = [](const QString& text) {
        const bool plain = !text.contains(QLatin1Char(',')) && !text.contains(QLatin1Char('"')) && !text.contains(QLatin1Char('\n')) && !text.contains(QLatin1Char('\r'));
        return (plain ? text : QLatin1Char('"') + QString(text).replace(QLatin1Char('"'), QLatin1String("\"\"")) + QLatin1Char('"')).toStdString();
    };
    std::vector<std::string> tokens;
    for (const auto& token : page.tokens)
        tokens.push_back(quoted(token));
    tokens.resize(std::size_t(std::max(0, page.length)));
    std::string text = "row,row_token,column,column_token";
    for (const auto& pattern : page.patterns)
        text += ',' + quoted(pattern.title);
    text += '\n';
    const auto length = std::size_t(page.length);
    const auto clamped = [&](double at) { return std::size_t(std::clamp(at, 0.0, double(page.length))); };
    const auto firstRow = clamped(std::floor(page.window.y)), rows = clamped(std::ceil(page.window.y + page.window.span));
    const auto firstColumn = std::max(clamped(std::floor(page.window.x)), std::size_t(page.hiddenColumns)), columns = clamped(std::ceil(page.window.x + page.window.span));
    char digits[32];
    const auto append = [&](auto value) { text.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr); };
    for (auto row = firstRow; row < rows; ++row)
        for (auto column = firstColumn; column < std::min(columns, row + 1); ++column) {
            append(row);
            text += ',' + tokens[row] + ',';
            append(column);
            text += ',' + tokens[column];
            for (const auto& pattern : page.patterns) {
                text += ',';
                if (pattern.values && pattern.values->size() == length * length)
                    append((*pattern.values)[row * length + column]);
            }
            text += '\n';
        }
    return QString::fromStdString(text);
}

} // namespace linnet::widgets
