// Colours that carry a meaning: maps for magnitudes and differences, and the fixed colours of runs.
// Sequential maps rise monotonically in CIELAB L*, so they keep their order in grey print and under every colour-vision deficiency.
// viridis: S. van der Walt, N. Smith (2015). cividis: Nunez, Anderton, Renslow, PLoS ONE 13(7) e0199239 (2018).
// Run colours: M. Okabe, K. Ito, "Color Universal Design" (2008).
#pragma once

#include <QColor>
#include <QString>
#include <array>

namespace linnet::widgets {

enum class ColorMap { Viridis, Cividis, Grey, BlueOrange };

using ColorTable = std::array<QRgb, 256>;

// 256 entries from the lowest value to the highest, each within two 8-bit units of the published map.
const ColorTable& colorTable(ColorMap map);

// BlueOrange is for differences: its neutral middle belongs at 0, so its range must be symmetric.
bool isDiverging(ColorMap map);

QString colorMapName(ColorMap map);

// Relative position 0..1 in the map; values outside are clamped.
QColor mapColor(ColorMap map, double position);

// A run keeps its colour for life: index 0, 1, 2, ... in Okabe-Ito order. Black is replaced by grey, visible in both themes.
constexpr int kRunColorCount = 8;
QColor runColor(int index);

// A line style that changes each time the colours start over, so colour is never the only difference.
Qt::PenStyle runPenStyle(int index);

} // namespace linnet::widgets
