#pragma once

#include <QObject>

namespace linnet::widgets {
class HeadHeatMap;
}

namespace linnet::app {

class Session;

// Ties one heat map to the session: selection, hover and pin both ways, key/value groups, and where wanted the ticks of the layers.
class MapLink : public QObject {
    Q_OBJECT
public:
    enum class Layers { Without, With };
    MapLink(widgets::HeadHeatMap* map, Session* session, Layers layers); // lives as long as the map
    void refresh();                                                      // after the map got its data

private:
    void connectMap();
    void showLayers();
    void showMarks();
    void showSelection();
    void toggle(const QList<int>& layers, bool convertThem);
    widgets::HeadHeatMap* m_map;
    Session* m_session;
    Layers m_layers;
};

} // namespace linnet::app
