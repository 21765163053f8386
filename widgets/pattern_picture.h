// Attention patterns of one text for paper: side by side with titles, tokens and colour bars, on any paint device; and as a table.
#pragma once

#include "widgets/pattern_image.h"
#include "widgets/theme.h"

#include <QSize>
#include <QString>
#include <QStringList>
#include <memory>

class QPainter;

namespace linnet::widgets {

struct Pattern {
    QString title;
    std::shared_ptr<const std::vector<float>> values; // [length, length] as pattern_image.h has them; null: is being computed
    ColorMap map = ColorMap::Viridis;
    double range = 1;
};

struct PatternPage {
    QString title; // of head and text
    std::vector<Pattern> patterns;
    int length = 0;       // tokens
    QStringList tokens;   // of them; empty: positions alone
    PatternWindow window; // what is seen of it
    bool log = false;
    int hiddenColumns = 0;
};

QSize patternPageSize(const PatternPage& page, int side, const QFont& font); // for squares of `side` pixels
void paintPatterns(QPainter& painter, const PatternPage& page, int side, const PlotColors& colors); // from (0, 0)
// Of the cells in view that a query sees: row, its token, column, its token, one column a pattern.
QString patternCsv(const PatternPage& page);

ColorMap mapOn(const PlotColors& colors, ColorMap map); // a diverging one as suits the background
QString visibleToken(QString token); // white space that would not be seen, or would take the whole line, as signs

} // namespace linnet::widgets
