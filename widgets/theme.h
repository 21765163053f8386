// Light and dark palettes of the window, and the colours that plots derive from a palette.
#pragma once

#include <QColor>
#include <QPalette>

class QApplication;

namespace linnet::widgets {

enum class Theme { Light, Dark };

QPalette themePalette(Theme theme);

// Fusion style with the palette of the theme. Open widgets follow through QEvent::PaletteChange.
void applyTheme(QApplication& application, Theme theme);

// Signal colours of states (not of data), readable on the window colour of the given palette.
struct StateColors {
    QColor good, warning, bad, running;
};
StateColors stateColors(const QPalette& palette);

struct PlotColors {
    QColor background;
    QColor text;
    QColor axis;
    QColor grid;
    QColor highlight;    // selection outlines, hover
    QColor notMeasured;  // cells without a value
    QColor fill;         // bars

    static PlotColors fromPalette(const QPalette& palette);
};

bool isDark(const QPalette& palette);

} // namespace linnet::widgets
