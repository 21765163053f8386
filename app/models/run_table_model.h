// The runs as a table: the first column's tick draws a run in Curves, its name can be edited.
#pragma once

#include "app/models/run_library.h"

#include <QAbstractTableModel>

namespace linnet::app {

class RunTableModel : public QAbstractTableModel {
    Q_OBJECT
public:
    enum Column { Name, State, Progress, Loss, Perplexity, Ratio, Kl, Preset, Keep, Duration, Seed, Hash, Columns };
    static constexpr int FolderRole = Qt::UserRole;

    explicit RunTableModel(RunLibrary* library, QObject* parent = nullptr);
    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override { return parent.isValid() ? 0 : Columns; }
    QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
    QVariant data(const QModelIndex& index, int role) const override;
    bool setData(const QModelIndex& index, const QVariant& value, int role) override;
    Qt::ItemFlags flags(const QModelIndex& index) const override;
    RunEntryPtr run(const QModelIndex& index) const;
    int row(const QString& folder) const; // -1: not there

private:
    void refresh();
    QString text(const RunEntry& run, int column) const;
    RunLibrary* m_library;
    QList<RunEntryPtr> m_rows; // as last told to views
};

} // namespace linnet::app
