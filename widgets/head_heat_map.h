// Layers (rows, 0 on top) x heads (columns) in colour, with a gutter that says which layers are converted.
// It shows what its owner sets and reports what a person asks for; selection and ticks change only through the setters.
// Keys: arrows, Home, End, PageUp, PageDown select (Shift: a rectangle, Ctrl: only move the cursor), Ctrl+Space takes the cursor's head in
// or out, Ctrl+A all heads, Space ticks the layer, P pins, Esc clears.
#pragma once

#include "widgets/color_maps.h"
#include "widgets/color_range.h"
#include "widgets/head_id.h"
#include "widgets/plot_widget.h"

#include <QList>
#include <QSet>
#include <optional>
#include <vector>

class QCPColorMap;
class QCPLayer;
class QCPLayoutElement;
class QCPPainter;

namespace linnet::widgets {

struct HeatMapData {
    int layers = 0;
    int heads = 0;
    std::vector<double> values; // [layers, heads] row-major; not-a-number = not measured
    QString title;              // of the metric: "attention distance"
    QString unit;               // "tokens"; empty for a plain number
    ColorScale scale = ColorScale::Linear;
};

class HeadHeatMap : public PlotWidget {
    Q_OBJECT

public:
    struct LayerInfo {
        QString kind;        // "soft", "GDN", ...: shown when the rows are tall enough, a coloured strip otherwise
        bool locked = false; // its targets are locked
        bool fixed = false;  // cannot be ticked: no box, hatched kind
        double rank = -1;    // of its cost, 0 the cheapest to 1 the dearest: a bar; below 0: not measured
        QString note = {};   // a line of the tooltips
    };

    explicit HeadHeatMap(QWidget* parent = nullptr);

    // values.size() must be layers * heads; anything else shows the empty state. Ticks and infos of another size are dropped.
    void setData(const HeatMapData& data);
    void setScaleMode(ScaleMode mode);
    void setColorMap(ColorMap map);
    void setLayerInfos(const std::vector<LayerInfo>& infos); // [layers], empty: no kinds shown
    void setLayerTicks(const std::vector<bool>& ticks);      // [layers], true = converted; empty: no tick boxes
    void setSelection(const QSet<HeadId>& heads, std::optional<HeadId> primary = {});
    void setHover(int layer, int head); // a light crosshair; -1, -1 removes it
    void setMarked(const QSet<HeadId>& heads, const QString& what); // a dot in a corner, and a line of the tooltip
    void setPinned(std::optional<HeadId> head); // the reference: a corner mark, and its value in every tooltip
    void setGroupSize(int queryHeads);          // that share one key/value head; 1: no marks
    void setMarginsShown(bool shown);           // mean of each layer at the right, of each head below
    void setEmptyText(const QString& text);

    const HeatMapData& data() const { return m_data; }
    const ColorRange& colorRange() const { return m_range; }
    double value(int layer, int head) const; // not-a-number outside
    double layerMean(int layer) const; // of what was measured; not-a-number: nothing was
    double headMean(int head) const;   // over the layers
    QString tooltipText(int layer, int head) const;
    QString csv() const override;

    // Geometry in widget pixels, after the first layout.
    QPoint cellCenter(int layer, int head) const;
    QRectF cellRect(int layer, int head) const;
    std::optional<HeadId> cellAt(const QPointF& position) const;
    QRect tickRect(int layer) const;
    QRectF costRect(int layer) const; // of the layer's bar; empty where no cost is known
    QString layerText(int layer) const; // tooltip of the gutter
    QRectF layerMeanRect(int layer) const; // empty without margins
    QRectF headMeanRect(int head) const;

    QSize sizeHint() const override { return {520, 460}; }

Q_SIGNALS:
    // A click or a plain arrow key. Ctrl in modifiers = add to or take from the selection.
    void headClicked(int layer, int head, Qt::KeyboardModifiers modifiers);
    // A rubber band, a Shift-click or Shift with an arrow: the whole rectangle; its last entry is the one to make primary.
    void headsSelected(const QList<linnet::widgets::HeadId>& heads, Qt::KeyboardModifiers modifiers);
    void selectionCleared(); // Esc
    void headHovered(int layer, int head);
    void hoverLeft();
    void pinRequested(int layer, int head);
    void layerTickToggled(int layer, bool ticked, Qt::KeyboardModifiers modifiers);
    void layersToggled(const QList<int>& layers, bool ticked); // Shift: from the last toggled box to this one

protected:
    void restyle() override;
    bool event(QEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void leaveEvent(QEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;

private:
    bool contains(int layer, int head) const;
    int layerAt(double y) const;
    int tickAt(const QPointF& position) const; // layer or -1
    void refill();                              // colours of the cells
    void refillMargins();
    bool marginsVisible() const { return m_marginsShown && !m_data.values.empty(); }
    QList<HeadId> marginHeadsAt(const QPointF& position) const; // of the strip's cell under the pointer
    QString marginTooltip(const QPointF& position) const;
    void relayout();                            // widths that depend on data, fonts and size
    QList<HeadId> rectangle(HeadId from, HeadId to) const;
    void hoverAt(const QPointF& position, const QPoint& globalPosition);
    void endHover();
    void moveCursor(int layers, int heads, Qt::KeyboardModifiers modifiers);
    bool commandKey(int key); // with Ctrl; true where it was one
    void requestToggle(int layer, Qt::KeyboardModifiers modifiers);

    void paintFrame(QCPPainter& painter) const; // title, gutter, hatching, colour bar
    void paintGutter(QCPPainter& painter) const;
    void paintColorBar(QCPPainter& painter) const;
    void paintMissing(QCPPainter& painter) const;
    void paintMargins(QCPPainter& painter) const;
    void paintGroups(QCPPainter& painter) const;
    void paintMarks(QCPPainter& painter) const;
    void paintPin(QCPPainter& painter) const;
    void paintSelection(QCPPainter& painter) const;
    void paintHover(QCPPainter& painter) const;
    QColor kindColor(const QString& kind) const;
    double rowHeight() const;

    HeatMapData m_data;
    ScaleMode m_mode;
    ColorMap m_map = ColorMap::Viridis;
    ColorRange m_range;
    std::vector<LayerInfo> m_infos;
    std::vector<bool> m_ticks;
    QString m_emptyText;

    QSet<HeadId> m_selection, m_marked;
    QString m_markText;
    std::optional<HeadId> m_primary, m_hover, m_pinned;
    HeadId m_cursor, m_anchor; // of the keyboard, and where a Shift range starts
    std::optional<QPointF> m_press;
    QPointF m_drag;
    bool m_dragging = false;
    int m_lastToggled = -1;

    QCPColorMap* m_cells = nullptr;
    QCPLayoutElement *m_titleArea = nullptr, *m_gutter = nullptr, *m_bar = nullptr;
    QCPLayer *m_selectionLayer = nullptr, *m_hoverLayer = nullptr;
    int m_kindWidth = 0, m_groupSize = 1;
    bool m_anyCost = false, m_anyLock = false;
    bool m_marginsShown = false;
    struct Margin {
        double mean, position; // 0..1 of the colour map
    };
    std::vector<Margin> m_layerMeans, m_headMeans;
};

} // namespace linnet::widgets
