// What tells runs apart: colour, line style and marker together, so that colour is never alone. A look is one number for life.
#pragma once

#include "widgets/color_maps.h"

#include <QIcon>
#include <QPixmap>

class QPainter;

namespace linnet::widgets {

enum class Marker { None, Disc, Square, Triangle, Diamond };

struct RunLook {
    QColor color;
    Qt::PenStyle style = Qt::SolidLine;
    Marker marker = Marker::Disc;
};
constexpr int kRunLooks = kRunColorCount * 4; // colour = look % 8; line style and marker = look / 8
RunLook runLook(int look);      // in the colours of the set that was chosen last
QString runColorName(int look); // "blue": for menus and screen readers
void setRunColors(RunColors set); // of all runs; line and marker of a look stay
RunColors runColors();

void paintMarker(QPainter& painter, Marker marker, QPointF centre, double size); // in the painter's pen and brush
QPixmap lookSwatch(const RunLook& look, QSize size, double pixelRatio, const QColor& plate = Qt::transparent); // a piece of its line with its marker on it
// In a table: on a plate of its ground, the same on a selected row, whose colour would swallow it.
QIcon lookIcon(const RunLook& look, QSize size, double pixelRatio, const QColor& plate);

} // namespace linnet::widgets
