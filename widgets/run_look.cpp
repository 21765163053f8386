#include "widgets/run_look.h"

#include <QCoreApplication>
#include <QPainter>
#include <algorithm>

namespace linnet::widgets {

namespace {

RunColors chosenColors = RunColors::OkabeIto;

} // namespace

void setRunColors(RunColors set) { chosenColors = set; }

RunColors runColors() { return chosenColors; }

RunLook runLook(int look) {
    static constexpr Marker markers[] = {Marker::Disc, Marker::Square, Marker::Triangle, Marker::Diamond};
    look = ((look % kRunLooks) + kRunLooks) % kRunLooks;
    return {runColor(look, chosenColors), runPenStyle(look), markers[look / kRunColorCount]};
}

QString runColorName(int look) {
    static const char* const okabeIto[kRunColorCount] = {QT_TRANSLATE_NOOP("RunLook", "blue"),     QT_TRANSLATE_NOOP("RunLook", "orange"),    QT_TRANSLATE_NOOP("RunLook", "green"),  QT_TRANSLATE_NOOP("RunLook", "pink"),
                                                         QT_TRANSLATE_NOOP("RunLook", "sky blue"), QT_TRANSLATE_NOOP("RunLook", "vermilion"), QT_TRANSLATE_NOOP("RunLook", "yellow"), QT_TRANSLATE_NOOP("RunLook", "grey")};
    static const char* const tol[kRunColorCount] = {QT_TRANSLATE_NOOP("RunLook", "blue"), QT_TRANSLATE_NOOP("RunLook", "light red"), QT_TRANSLATE_NOOP("RunLook", "green"),    QT_TRANSLATE_NOOP("RunLook", "yellow"),
                                                    QT_TRANSLATE_NOOP("RunLook", "cyan"), QT_TRANSLATE_NOOP("RunLook", "purple"),    QT_TRANSLATE_NOOP("RunLook", "dark red"), QT_TRANSLATE_NOOP("RunLook", "grey")};
    const auto& names = chosenColors == RunColors::Tol ? tol : okabeIto;
    return QCoreApplication::translate("RunLook", names[((look % kRunColorCount) + kRunColorCount) % kRunColorCount]);
}

void paintMarker(QPainter& painter, Marker marker, QPointF c, double size) {
    const double r = size / 2;
    switch (marker) {
    case Marker::None: break;
    case Marker::Disc: painter.drawEllipse(c, r, r); break;
    case Marker::Square: painter.drawRect(QRectF(c.x() - 0.9 * r, c.y() - 0.9 * r, 1.8 * r, 1.8 * r)); break;
    case Marker::Triangle: painter.drawPolygon(QPolygonF{{c.x(), c.y() - 1.1 * r}, {c.x() + 1.1 * r, c.y() + 0.9 * r}, {c.x() - 1.1 * r, c.y() + 0.9 * r}}); break;
    case Marker::Diamond: painter.drawPolygon(QPolygonF{{c.x(), c.y() - 1.2 * r}, {c.x() + 1.2 * r, c.y()}, {c.x(), c.y() + 1.2 * r}, {c.x() - 1.2 * r, c.y()}}); break;
    }
}

QIcon lookIcon(const RunLook& look, QSize size, double pixelRatio, const QColor& plate) {
    const auto swatch = lookSwatch(look, size, pixelRatio, plate);
    QIcon icon(swatch);
    icon.addPixmap(swatch, QIcon::Selected); // else the style tints it
    return icon;
}

QPixmap lookSwatch(const RunLook& look, QSize size, double pixelRatio, const QColor& plate) {
    QPixmap pixmap(size * pixelRatio);
    pixmap.setDevicePixelRatio(pixelRatio);
    pixmap.fill(Qt::transparent);
    QPainter painter(&pixmap);
    painter.setRenderHint(QPainter::Antialiasing);
    const double middle = size.height() / 2.0, edge = plate.alpha() > 0 ? 3 : 1;
    painter.setPen(Qt::NoPen);
    painter.setBrush(plate);
    painter.drawRoundedRect(QRectF({}, size), 3, 3);
    painter.setPen(QPen(look.color, 2, look.style));
    painter.drawLine(QPointF(edge, middle), QPointF(size.width() - edge, middle));
    painter.setPen(QPen(look.color, 1));
    painter.setBrush(look.color);
    paintMarker(painter, look.marker, {size.width() / 2.0, middle}, std::min(size.height() - 2.0, 9.0));
    return pixmap;
}

} // namespace linnet::widgets
