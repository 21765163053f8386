// How the values of one map are spread over its heads. Its two handles are the ends of the map's colour range; a drag between them brushes.
// Keys: Left and Right move a handle (Up: the high one, Down: the low one), Delete the whole range, Enter brushes what lies inside.
#pragma once

#include "widgets/color_maps.h"
#include "widgets/color_range.h"
#include "widgets/plot_widget.h"

#include <optional>
#include <utility>
#include <vector>

class QCPLayer;
class QCPPainter;

namespace linnet::widgets {

struct MetricData {
    std::vector<double> values; // not-a-number = not measured
    QString title, unit;
    ColorScale scale = ColorScale::Linear;
    bool diverging = false; // linear and symmetric about 0
};

class MetricHistogram : public PlotWidget {
    Q_OBJECT

public:
    using Range = std::pair<double, double>; // of values
    struct Bin {
        double low = 0, high = 0; // values in [low, high); the last bin has its high end too
        int count = 0, selected = 0;
    };

    explicit MetricHistogram(QWidget* parent = nullptr);

    void setData(const MetricData& data);
    void setSelected(const std::vector<bool>& selected); // a flag for each value; another size: none
    void setRange(std::optional<Range> range);           // nullopt: the map has no single range, so no handles
    void setColorMap(ColorMap map);
    void setEmptyText(const QString& text);

    const QString& title() const { return m_data.title; }
    ColorScale scale() const { return m_data.scale; }
    const std::vector<Bin>& bins() const { return m_bins; }
    std::optional<Range> range() const { return m_range; }
    double xOf(double value) const;   // widget pixels, after the first layout
    double valueAt(double x) const;   // its inverse, inside the axis
    QRect plotArea() const;
    QString csv() const override; // from,to,heads,selected

    QSize sizeHint() const override { return {420, 110}; }

Q_SIGNALS:
    void rangeDragged(double low, double high); // while the handle moves; the owner answers with setRange()
    void rangeReset();                          // a double click on a handle, or Delete
    void brushed(double low, double high, Qt::KeyboardModifiers modifiers); // both ends included

protected:
    void restyle() override {}
    bool event(QEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void mouseDoubleClickEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;

private:
    enum Handle { NoHandle, Low, High };
    Handle handleAt(double x) const;
    int binAt(double value) const; // -1: none
    void rebin();
    void countSelected();
    void updateAxes();
    void moveHandle(Handle handle, double value);
    void paint(QCPPainter& painter) const;
    void paintHandles(QCPPainter& painter) const;
    void paintRange(QCPPainter& painter) const;
    void paintNote(QCPPainter& painter) const;

    MetricData m_data;
    std::vector<bool> m_selected;
    ColorRange m_whole; // of all values: the axis
    std::vector<Bin> m_bins;
    std::optional<Range> m_range;
    ColorMap m_map = ColorMap::Viridis;
    QString m_emptyText;
    int m_measured = 0, m_outside = 0; // on a log axis: not above 0
    Handle m_active = Low, m_dragged = NoHandle;
    std::optional<std::pair<double, double>> m_brush; // pixels, from and to
    QCPLayer* m_handles = nullptr;
};

} // namespace linnet::widgets
