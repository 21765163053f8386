// The layers of the teacher: what the last ranking found, what the recipe does with each, and the pins, which are edited here.
#pragma once

#include <QAbstractTableModel>
#include <optional>
#include <vector>

namespace linnet::app {

class Session;

class LayerTableModel : public QAbstractTableModel {
    Q_OBJECT
public:
    enum Column { Layer, Order, Score, Choice, Never, Always, ColumnCount };
    static constexpr int kSortRole = Qt::UserRole; // numbers; what is not measured comes last

    explicit LayerTableModel(Session* session, QObject* parent = nullptr);

    int rowCount(const QModelIndex& parent = {}) const override; // row = layer
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    Qt::ItemFlags flags(const QModelIndex& index) const override;
    bool setData(const QModelIndex& index, const QVariant& value, int role = Qt::EditRole) override;

private:
    void rebuild();
    QString costText() const; // of the ranking's method; %1: unit
    struct Rank {
        int order = 0; // from 1, converted first
        double score = 0;
    };
    Session* m_session;
    int m_layers = 0;
    std::vector<std::optional<Rank>> m_ranks; // [layers]
    std::optional<std::vector<std::int64_t>> m_converted;
};

} // namespace linnet::app
