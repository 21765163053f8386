// An attention pattern as a picture that is no larger than what shows it. Plain values in; no widget.
#pragma once

#include "widgets/color_maps.h"

#include <QImage>
#include <QRectF>
#include <vector>

namespace linnet::widgets {

// Values [length, length] row-major, the query's row first; those above the diagonal (column > row) are masked: a query sees no later key.
struct PatternStyle {
    ColorMap map = ColorMap::Viridis; // a diverging one shows signs, others magnitudes
    double range = 1;                 // magnitude at the end of the map, above 0
    bool log = false;                 // by decades: kPatternDecades from the end of the map to its zero
    int hiddenColumns = 0;            // the first ones: left out
};
constexpr int kPatternDecades = 4;

// The part of a pattern that is looked at: a square of cells.
struct PatternWindow {
    double x = 0, y = 0, span = 1; // cells
};

struct PatternImage {
    QImage image; // RGBA8888, masked and hidden cells transparent; at most (pixels + 2) x (pixels + 2)
    QRectF cells; // that it covers
};
// Where cells are smaller than one of `pixels`, a pixel shows the largest magnitude among its cells; else a cell is one texel.
PatternImage patternImage(const std::vector<float>& values, int length, PatternWindow window, int pixels, const PatternStyle& style);

// Position 0..1 in the style's map.
double patternPosition(double value, const PatternStyle& style);

// The magnitude below which this share of the shown cells lies: an end of the map that one cell of full mass does not set. 0: none above 0.
double patternRange(const std::vector<float>& values, int length, int hiddenColumns, double share = 0.995);

struct PatternSource {
    int column;
    float value;
};
std::vector<PatternSource> topSources(const std::vector<float>& values, int length, int row, int count, int hiddenColumns); // largest magnitude first

} // namespace linnet::widgets
