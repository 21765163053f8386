// Colours that carry a meaning: maps for magnitudes and differences, and the fixed colours of runs.
// Sequential maps rise monotonically in CIELAB L*, so they keep their order in grey print and under every colour-vision deficiency.
// viridis: S. van der Walt, N. Smith (2015). cividis: Nunez, Anderton, Renslow, PLoS ONE 13(7) e0199239 (2018).
// Run colours: M. Okabe, K. Ito, "Color Universal Design" (2008); P. Tol, "Colour Schemes", SRON/EPS/TN/09-002 issue 3.2 (2021).
#pragma once

#include <QColor>
#include <QString>
#include <array>

namespace linnet::widgets {

enum class ColorMap { Viridis, Cividis, Grey, BlueOrange, BlueOrangeDark };

using ColorTable = std::array<QRgb, 256>;

// 256 entries from the lowest value to the highest, each within two 8-bit units of the published map.
const ColorTable& colorTable(ColorMap map);

// BlueOrange is for differences: its neutral middle belongs at 0, so its range must be symmetric.
bool isDiverging(ColorMap map);
ColorMap divergingMap(bool dark); // its neutral middle near the theme's background: what is nothing does not shine

QString colorMapName(ColorMap map);

// Relative position 0..1 in the map; values outside are clamped.
QColor mapColor(ColorMap map, double position);

// A run keeps its colour for life: index 0, 1, 2, ... of a set made for colour-blind eyes. OkabeIto: black is replaced by grey, visible in
// both themes. Tol: his bright scheme, with the red of his vibrant one as its eighth.
enum class RunColors { OkabeIto, Tol };
constexpr int kRunColorCount = 8;
QColor runColor(int index, RunColors set = RunColors::OkabeIto);

// A line style that changes each time the colours start over, so colour is never the only difference.
Qt::PenStyle runPenStyle(int index);

} // namespace linnet::widgets
