// Private to widgets: free painting inside a QCustomPlot, so that exports contain it. Include it in .cpp files only.
#pragma once

#include <functional>
#include <qcustomplot.h>

namespace linnet::widgets {

// Calls back at its layer's turn, with the whole viewport to draw on.
class PaintStep : public QCPLayerable {
public:
    PaintStep(QCustomPlot& plot, const QString& layer, std::function<void(QCPPainter&)> paint)
        : QCPLayerable(&plot, layer), m_paint(std::move(paint)) {}

protected:
    void applyDefaultAntialiasingHint(QCPPainter* painter) const override { painter->setAntialiasing(true); }
    void draw(QCPPainter* painter) override { m_paint(*painter); }

private:
    std::function<void(QCPPainter&)> m_paint;
};

// A layer of its own buffer: it can be redrawn alone.
inline QCPLayer* addBufferedLayer(QCustomPlot& plot, const QString& name) {
    plot.addLayer(name);
    QCPLayer* layer = plot.layer(name);
    layer->setMode(QCPLayer::lmBuffered);
    return layer;
}

// A reserved cell of the layout that a PaintStep fills.
inline QCPLayoutElement* addReserved(QCustomPlot& plot, int row, int column) {
    auto* element = new QCPLayoutElement(&plot);
    element->setAutoMargins(QCP::msNone);
    element->setMargins({});
    element->setMinimumSize(0, 0);
    plot.plotLayout()->addElement(row, column, element);
    return element;
}

inline void fixWidth(QCPLayoutElement& element, int width) {
    element.setMinimumSize(width, 0);
    element.setMaximumSize(width, QWIDGETSIZE_MAX);
}

inline void fixHeight(QCPLayoutElement& element, int height) {
    element.setMinimumSize(0, height);
    element.setMaximumSize(QWIDGETSIZE_MAX, height);
}

} // namespace linnet::widgets
