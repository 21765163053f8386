#pragma once

#include <QWidget>
#include <vector>

namespace linnet::widgets {
class HeadHeatMap;
class MetricHistogram;
}

namespace linnet::app {

class MapControls;
class MapLink;
class Session;

// One metric as a large map, with the means at its borders, and its histogram below: handles are the colour range, a drag selects heads.
class SingleMap : public QWidget {
    Q_OBJECT
public:
    SingleMap(Session* session, MapControls* controls, QWidget* parent = nullptr);
    void showValues(); // of what the controls say

private:
    void showSelection();
    void brush(double low, double high, Qt::KeyboardModifiers modifiers);
    Session* m_session;
    MapControls* m_controls;
    widgets::HeadHeatMap* m_map;
    widgets::MetricHistogram* m_histogram;
    MapLink* m_link;
    std::vector<double> m_values; // [layers, heads]
};

} // namespace linnet::app
