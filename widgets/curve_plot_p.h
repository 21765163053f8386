// Private to CurvePlot's files.
#pragma once

#include "widgets/color_range.h"
#include "widgets/curve_plot.h"
#include "widgets/plot_paint.h"

namespace linnet::widgets {

struct CurvePlot::Curve {
    QString id, name;
    CurveLook look;
    bool visible = true;
    CurveSeries series;
    QCPGraph *line = nullptr, *raw = nullptr;
    double low = 0, high = 0; // of what is drawn
};

// Blended by hand: a translucent pen costs a hundred times more on dense zigzags and darkens where they overlap.
QColor fadedInto(const QColor& color, const QColor& paper);

} // namespace linnet::widgets
