#include "widgets/color_gradient.h"

namespace linnet::widgets {

QCPColorGradient colorGradient(ColorMap map, const QColor& nanColor) {
    const ColorTable& table = colorTable(map);
    QMap<double, QColor> stops;
    for (int i = 0; i < 256; ++i)
        stops.insert(i / 255.0, QColor::fromRgb(table[size_t(i)]));
    QCPColorGradient gradient;
    gradient.setLevelCount(256);
    gradient.setColorInterpolation(QCPColorGradient::ciRGB);
    gradient.setColorStops(stops);
    gradient.setNanHandling(QCPColorGradient::nhNanColor);
    gradient.setNanColor(nanColor);
    return gradient;
}

} // namespace linnet::widgets
