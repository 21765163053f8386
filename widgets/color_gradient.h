// Private to widgets: QCustomPlot's view of a colour table. Include it in .cpp files only.
#pragma once

#include "widgets/color_maps.h"

#include <qcustomplot.h>

namespace linnet::widgets {

// Positions 0..1; not-a-number becomes nanColor.
QCPColorGradient colorGradient(ColorMap map, const QColor& nanColor);

} // namespace linnet::widgets
