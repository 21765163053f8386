#pragma once

#include <QObject>

class QTableView;

namespace linnet::app {

class Session;

// Ties the rows of a table of layers to the selection: rows that a person selects select all heads of their layers, and layers with a
// selected head have their rows selected.
class LayerBrush : public QObject {
    Q_OBJECT
public:
    LayerBrush(QTableView* table, int layerColumn, Session* session); // lives as long as the table; the column's text is the layer

private:
    QList<int> tableLayers() const;
    void toSelection();
    void toTable();
    QTableView* m_table;
    int m_column;
    Session* m_session;
    bool m_following = false; // the table is being set
};

} // namespace linnet::app
