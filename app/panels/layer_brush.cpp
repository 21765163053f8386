#include "app/panels/layer_brush.h"

#include "app/models/session.h"

#include <QItemSelection>
#include <QTableView>
#include <algorithm>

namespace linnet::app {

LayerBrush::LayerBrush(QTableView* table, int layerColumn, Session* session) : QObject(table), m_table(table), m_column(layerColumn), m_session(session) {
    connect(table->selectionModel(), &QItemSelectionModel::selectionChanged, this, &LayerBrush::toSelection);
    connect(session->selection(), &SelectionModel::changed, this, &LayerBrush::toTable);
}

QList<int> LayerBrush::tableLayers() const {
    QList<int> layers;
    for (const auto& index : m_table->selectionModel()->selectedRows(m_column))
        layers << index.data().toInt();
    std::sort(layers.begin(), layers.end());
    return layers;
}

void LayerBrush::toSelection() {
    if (m_following)
        return;
    m_following = true; // the answer is what the table shows already
    m_session->selection()->selectLayers(tableLayers(), m_session->recipe()->heads());
    m_following = false;
}

void LayerBrush::toTable() {
    if (m_following)
        return;
    QSet<int> layers;
    for (const auto& head : m_session->selection()->selected())
        layers.insert(head.layer);
    const auto* model = m_table->model();
    QItemSelection rows;
    for (int row = 0; row < model->rowCount(); ++row)
        if (const auto index = model->index(row, m_column); layers.contains(index.data().toInt()))
            rows.select(index, model->index(row, model->columnCount() - 1));
    m_following = true;
    m_table->selectionModel()->select(rows, QItemSelectionModel::ClearAndSelect | QItemSelectionModel::Rows);
    m_following = false;
}

} // namespace linnet::app
