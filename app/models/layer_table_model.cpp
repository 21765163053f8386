#include "app/models/layer_table_model.h"

#include "app/models/layer_choice.h"
#include "app/models/session.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace linnet::app {

LayerTableModel::LayerTableModel(Session* session, QObject* parent) : QAbstractTableModel(parent), m_session(session) {
    connect(session->recipe(), &RecipeModel::layersChanged, this, &LayerTableModel::rebuild);
    connect(session, &Session::rankingChanged, this, &LayerTableModel::rebuild);
    connect(session, &Session::teacherChanged, this, &LayerTableModel::rebuild);
    rebuild();
}

void LayerTableModel::rebuild() {
    const int layers = m_session->recipe()->layers();
    const bool reset = layers != m_layers; // the same layers: the view keeps its place
    if (reset)
        beginResetModel();
    m_layers = layers;
    m_ranks.assign(static_cast<std::size_t>(layers), {});
    if (const auto* ranking = m_session->ranking())
        for (std::size_t i = 0; i < ranking->ranking.size(); ++i)
            if (const auto& each = ranking->ranking[i]; each.layer >= 0 && each.layer < layers)
                m_ranks[static_cast<std::size_t>(each.layer)] = Rank{static_cast<int>(i) + 1, each.score};
    m_converted = convertedLayers(*m_session);
    if (reset)
        endResetModel();
    else if (layers > 0)
        Q_EMIT dataChanged(index(0, 0), index(layers - 1, ColumnCount - 1));
}

int LayerTableModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : m_layers;
}

int LayerTableModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : ColumnCount;
}

QString LayerTableModel::costText() const {
    const auto* ranking = m_session->ranking();
    if (ranking && ranking->method == "bypass")
        return tr("what leaving out its attention costs, no student made: %1");
    if (ranking && ranking->method == "score")
        return tr("how much of the stream its attention is: %1");
    if (ranking && ranking->method == "ga-s2")
        return tr("what the loss gains where it alone stays softmax: %1");
    return tr("what converting it costs: %1");
}

QVariant LayerTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal)
        return {};
    if (role == Qt::DisplayRole)
        return QStringList{tr("layer"), tr("order"), tr("cost"), tr("choice"), tr("never"), tr("always")}.value(section);
    if (role != Qt::ToolTipRole)
        return {};
    const auto* ranking = m_session->ranking();
    const auto unit = ranking ? tr("%1, by %2").arg(QString::fromStdString(ranking->unit), QString::fromStdString(ranking->method)) : tr("measured by a ranking");
    return QStringList{tr("from 0, the first after the embedding"), tr("1 is converted first"), costText().arg(unit),
                       tr("what the recipe does with it now"), tr("pin: stays softmax whatever the choice"), tr("pin: is converted whatever the choice")}.value(section);
}

QVariant LayerTableModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid() || index.row() >= m_layers)
        return {};
    const int layer = index.row();
    const auto& rank = m_ranks[static_cast<std::size_t>(layer)];
    const bool converted = m_converted && std::binary_search(m_converted->begin(), m_converted->end(), layer);
    const auto pin = m_session->recipe()->pin(layer);
    if (role == Qt::TextAlignmentRole)
        return static_cast<int>((index.column() <= Score ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
    if (role == Qt::CheckStateRole && index.column() >= Never && m_session->recipe()->convertedBefore(layer))
        return {};
    if (role == Qt::CheckStateRole && index.column() >= Never)
        return pin == (index.column() == Never ? Pin::Never : Pin::Always) ? Qt::Checked : Qt::Unchecked;
    if (role == Qt::AccessibleTextRole && index.column() >= Never)
        return index.column() == Never ? tr("never convert layer %1").arg(layer) : tr("always convert layer %1").arg(layer);
    if (role == kSortRole) {
        switch (index.column()) {
        case Order: return rank ? rank->order : std::numeric_limits<int>::max();
        case Score: return rank && !std::isnan(rank->score) ? rank->score : std::numeric_limits<double>::infinity();
        case Choice: return converted ? 1 : 0;
        case Never: return pin == Pin::Never ? 0 : 1;
        case Always: return pin == Pin::Always ? 0 : 1;
        default: return layer;
        }
    }
    if (role == Qt::ToolTipRole && index.column() == Score && rank)
        return tr("%1 %2").arg(QString::number(rank->score, 'g', 6), m_session->ranking() ? QString::fromStdString(m_session->ranking()->unit) : QString());
    if (role != Qt::DisplayRole)
        return {};
    const auto dash = QStringLiteral("–");
    switch (index.column()) {
    case Layer: return layer;
    case Order: return rank && !m_session->rankingPartial() ? QString::number(rank->order) : dash;
    case Score: return rank && std::isfinite(rank->score) ? QString::number(rank->score, 'g', 3) : rank ? tr("overflow") : dash;
    case Choice: return m_session->recipe()->convertedBefore(layer) ? tr("converted already") : !m_converted ? dash : converted ? tr("convert") : tr("softmax");
    default: return {};
    }
}

Qt::ItemFlags LayerTableModel::flags(const QModelIndex& index) const {
    const auto flags = QAbstractTableModel::flags(index);
    return index.column() >= Never && !m_session->recipe()->convertedBefore(index.row()) ? flags | Qt::ItemIsUserCheckable : flags;
}

bool LayerTableModel::setData(const QModelIndex& index, const QVariant& value, int role) {
    if (!index.isValid() || index.column() < Never || role != Qt::CheckStateRole || m_session->recipe()->convertedBefore(index.row()))
        return false;
    m_session->recipe()->setPins({index.row()}, value.toInt() != Qt::Checked ? Pin::None : index.column() == Never ? Pin::Never : Pin::Always);
    return true;
}

} // namespace linnet::app
