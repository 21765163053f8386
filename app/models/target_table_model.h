// The targets of the selected heads: one row a head and field; measured, automatic and user values side by side.
#pragma once

#include "app/models/recipe_model.h"

#include <QAbstractTableModel>

namespace linnet::app {

class Session;

// What the start uses where a person sets nothing; nullopt: no profile, or (preset linnet) a grid that has not run.
std::optional<double> automaticTarget(Session& session, HeadId head, TargetField field);
// What holds for a head now: the user's value, else the preset's automatic one, else nothing (no profile).
std::optional<double> currentTarget(Session& session, HeadId head, TargetField field);

class TargetTableModel : public QAbstractTableModel {
    Q_OBJECT
public:
    enum Column { Head, Field, Measured, Automatic, User, Locked, ColumnCount };
    enum class Check { Fine, Unusual, Invalid }; // Unusual: allowed, far from what heads do; Invalid: a run refuses it

    explicit TargetTableModel(Session* session, QObject* parent = nullptr);

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    Qt::ItemFlags flags(const QModelIndex& index) const override;
    bool setData(const QModelIndex& index, const QVariant& value, int role = Qt::EditRole) override;

    HeadId headAt(int row) const { return m_heads.value(row / 4); }
    TargetField fieldAt(int row) const { return static_cast<TargetField>(row % 4); }
    std::optional<double> measured(int row) const; // not finite or no profile: nullopt
    std::optional<double> automatic(int row) const;
    std::optional<double> user(int row) const;

    // Rows in order; a text is a number, "none" (half-life: no decay) or "" (automatic again). All or nothing, one undo step;
    // false after rejected() where a text does not fit.
    bool setTexts(const QList<int>& rows, const QStringList& texts);
    bool set(const QList<int>& rows, const QString& text); // one text for all of them
    bool paste(const QList<int>& rows, const QString& clipboard); // target_text.h
    void setLocked(const QList<int>& rows, bool locked);
    bool scale(const QList<int>& rows, double factor);
    void reset(const QList<int>& rows);
    QString text(const QList<int>& rows) const; // tab separated with a header line
    static Check check(TargetField field, double value);
    static std::optional<double> typed(const QString& text, TargetField field); // nullopt: no value that a run would take
    bool costly(int row) const; // the user's value is known to cost more than 10 % of the head's residual

Q_SIGNALS:
    void rejected(const QString& reason);

private:
    void rebuild();
    void refresh();
    QString measuredText(int row) const;
    QString tooltip(int row, int column) const;
    QString rowsText(const QList<int>& rows) const; // "beta of 3 head(s)": for the names of steps
    bool apply(const QList<int>& rows, const QList<std::optional<double>>& values, const QString& what);
    Session* m_session;
    QList<HeadId> m_heads;
};

} // namespace linnet::app
