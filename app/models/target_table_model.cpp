#include "app/models/target_table_model.h"

#include "app/models/session.h"
#include "app/models/target_text.h"
#include "widgets/plurals.h"
#include "widgets/theme.h"

#include <QApplication>
#include <QPalette>
#include <QStyle>
#include <cmath>
#include <limits>
#include <utility>

namespace linnet::app {
namespace {

constexpr int kFields = 4;
constexpr int kShownDigits = 3; // of measured and automatic values: the columns are narrow
constexpr double kNone = std::numeric_limits<double>::infinity();

QString fieldText(TargetField field) {
    return QString::fromLatin1(targetKey(field)).replace(QLatin1Char('_'), QLatin1Char(' '));
}

double known(const std::optional<double>& value) { // not-a-number where there is none
    return value.value_or(std::numeric_limits<double>::quiet_NaN());
}

QString numberText(double value, int digits = 6) {
    if (std::isnan(value))
        return QStringLiteral("–");
    return std::isinf(value) ? QStringLiteral("none") : QString::number(value, 'g', digits);
}

// "none" and "" are no numbers: an outer nullopt is a text that can't be read.
std::optional<std::optional<double>> parsed(const QString& text, TargetField field) {
    const auto trimmed = text.trimmed();
    if (trimmed.isEmpty() || trimmed == QStringLiteral("–"))
        return std::optional<double>();
    if (field == TargetField::HalfLife && trimmed.compare(QLatin1String("none"), Qt::CaseInsensitive) == 0)
        return std::optional<double>(kNone);
    bool ok = false;
    const double value = QLocale::c().toDouble(trimmed, &ok);
    if (!ok || !std::isfinite(value))
        return std::nullopt;
    return std::optional<double>(value);
}

QString allowedText(TargetField field) {
    switch (field) {
    case TargetField::HalfLife: return TargetTableModel::tr("a half-life is a number of tokens above 0, or \"none\" for no decay");
    case TargetField::Beta: return TargetTableModel::tr("beta is a number between 0 and 1, both excluded");
    case TargetField::ValueScale: return TargetTableModel::tr("a value scale is a number above 0");
    case TargetField::OutputGate: break;
    }
    return TargetTableModel::tr("an output gate is a number from 0 up");
}

// What the closed form's grid takes where `field` is left to it, given the other value of a person's: of the probe, else of the chosen run where its
// recipe left the same to the grid, else of the picture that Probe draws.
std::optional<double> gridChoice(Session& session, HeadId head, TargetField field) {
    const bool decay = field == TargetField::HalfLife;
    const auto target = session.recipe()->target(head);
    const auto other = decay ? TargetField::Beta : TargetField::HalfLife;
    const bool free = !targetValue(target, field);
    if (const auto* probes = session.probes(); probes->head() == head && probes->state() == TargetProbeModel::State::Known) {
        const auto& option = free ? probes->result().chosen : probes->result().automatic;
        return decay ? option.halfLife : option.beta;
    }
    if (const auto* fit = session.closedForm()->head(head.layer, head.head)) {
        core::HeadTarget then;
        if (const auto run = session.currentRun(); run && run->recipe)
            if (const auto layer = run->recipe->targets.find(head.layer); layer != run->recipe->targets.end())
                if (const auto found = layer->second.find(head.head); found != layer->second.end())
                    then = found->second;
        const double value = decay ? fit->chosen.halfLife : fit->chosen.beta;
        if (!targetValue(then, field) && targetValue(then, other) == targetValue(target, other) && !std::isnan(value))
            return value;
    }
    const auto view = session.headViews()->view();
    if (!view || view->layer != head.layer || view->head != head.head || target.halfLife || target.beta)
        return {};
    const double value = decay ? view->halfLife : view->betaMean;
    return std::isnan(value) ? std::nullopt : std::optional(value);
}

} // namespace

std::optional<double> automaticTarget(Session& session, HeadId head, TargetField field) {
    if (session.recipe()->recipe().preset == "linnet" && (field == TargetField::HalfLife || field == TargetField::Beta)) { // its grid's choice
        return gridChoice(session, head, field);
    }
    const auto& all = session.automaticTargets();
    if (!head.valid() || head.layer >= static_cast<int>(all.size()) || head.head >= static_cast<int>(all[static_cast<std::size_t>(head.layer)].size()))
        return {};
    const auto value = targetValue(all[static_cast<std::size_t>(head.layer)][static_cast<std::size_t>(head.head)], field);
    return value && !std::isnan(*value) ? value : std::nullopt;
}

std::optional<double> currentTarget(Session& session, HeadId head, TargetField field) {
    const auto user = targetValue(session.recipe()->target(head), field);
    return user ? user : automaticTarget(session, head, field);
}

TargetTableModel::TargetTableModel(Session* session, QObject* parent) : QAbstractTableModel(parent), m_session(session) {
    connect(session->selection(), &SelectionModel::changed, this, &TargetTableModel::rebuild);
    connect(session->recipe(), &RecipeModel::targetsChanged, this, &TargetTableModel::refresh);
    connect(session, &Session::profileChanged, this, &TargetTableModel::refresh);
    connect(session->probes(), &TargetProbeModel::changed, this, &TargetTableModel::refresh);
    connect(session->closedForm(), &ClosedFormModel::changed, this, &TargetTableModel::refresh);
    connect(session->headViews(), &HeadViewModel::changed, this, &TargetTableModel::refresh);
    m_heads = session->selection()->sorted();
}

void TargetTableModel::rebuild() {
    const auto heads = m_session->selection()->sorted();
    if (heads == m_heads)
        return; // another primary head: the rows stay, and so does what is selected in the table
    beginResetModel();
    m_heads = heads;
    endResetModel();
}

void TargetTableModel::refresh() { // the rows stay, so the view keeps its place
    if (!m_heads.isEmpty())
        Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, ColumnCount - 1));
}

int TargetTableModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(m_heads.size()) * kFields;
}

int TargetTableModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : ColumnCount;
}

std::optional<double> TargetTableModel::measured(int row) const {
    const auto* profile = m_session->profile();
    const auto id = headAt(row);
    if (!profile || !id.valid() || id.layer >= static_cast<int>(profile->layers.size()) ||
        id.head >= static_cast<int>(profile->layers[static_cast<std::size_t>(id.layer)].size()))
        return {};
    const auto& head = profile->layers[static_cast<std::size_t>(id.layer)][static_cast<std::size_t>(id.head)];
    double value = std::numeric_limits<double>::quiet_NaN();
    switch (fieldAt(row)) {
    case TargetField::HalfLife: value = head.distance.mean; break;
    case TargetField::Beta: value = head.concentrationLayer; break;
    case TargetField::ValueScale: value = head.rmsPostO; break;
    case TargetField::OutputGate: break; // a softmax head has none
    }
    return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<double> TargetTableModel::automatic(int row) const {
    return automaticTarget(*m_session, headAt(row), fieldAt(row));
}

std::optional<double> TargetTableModel::user(int row) const {
    return targetValue(m_session->recipe()->target(headAt(row)), fieldAt(row));
}

QString TargetTableModel::measuredText(int row) const { // no half-life, no beta: what was measured has its own name
    const auto value = measured(row);
    const auto text = numberText(known(value), kShownDigits);
    if (!value)
        return text;
    switch (fieldAt(row)) {
    case TargetField::HalfLife: return tr("dist. %1").arg(text);
    case TargetField::Beta: return tr("conc. %1").arg(text);
    case TargetField::ValueScale: return tr("RMS %1").arg(text);
    case TargetField::OutputGate: break;
    }
    return text;
}

TargetTableModel::Check TargetTableModel::check(TargetField field, double value) {
    const auto within = [value](double low, double high) { return value >= low && value <= high ? Check::Fine : Check::Unusual; };
    if (std::isnan(value))
        return Check::Invalid;
    switch (field) {
    case TargetField::HalfLife: return value <= 0 ? Check::Invalid : std::isinf(value) ? Check::Fine : within(0.1, 1e5);
    case TargetField::Beta: return value <= 0 || value >= 1 ? Check::Invalid : within(0.005, 0.995);
    case TargetField::ValueScale: return value <= 0 || std::isinf(value) ? Check::Invalid : within(1.0 / 32, 32);
    case TargetField::OutputGate: break;
    }
    return value < 0 || std::isinf(value) ? Check::Invalid : within(0, 32);
}

std::optional<double> TargetTableModel::typed(const QString& text, TargetField field) {
    const auto value = parsed(text, field);
    return value && *value && check(field, **value) != Check::Invalid ? *value : std::nullopt;
}

bool TargetTableModel::costly(int row) const {
    const auto field = fieldAt(row);
    const auto* probes = m_session->probes();
    return (field == TargetField::HalfLife || field == TargetField::Beta) && probes->head() == headAt(row) && probes->costly() && user(row).has_value();
}

QVariant TargetTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || (role != Qt::DisplayRole && role != Qt::ToolTipRole))
        return {};
    const QStringList names = role == Qt::DisplayRole ? QStringList{tr("head"), tr("field"), tr("teacher's"), tr("auto"), tr("user"), tr("lock")}
                                                      : QStringList{tr("layer and head"), tr("what is set"), tr("what the profile measured that comes nearest: mean distance, concentration, output RMS"), tr("automatic value of the start"),
                                                                    tr("your value; empty = automatic"), tr("kept through alignment")};
    return names.value(section);
}

QVariant TargetTableModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid() || index.row() >= rowCount())
        return {};
    const int row = index.row();
    const double value = known(index.column() == User ? user(row) : std::nullopt);
    const bool hasValue = !std::isnan(value);
    switch (role) {
    case Qt::DisplayRole:
        switch (index.column()) {
        case Head: return tr("L%1 H%2").arg(headAt(row).layer).arg(headAt(row).head);
        case Field: return fieldText(fieldAt(row));
        case Measured: return measuredText(row);
        case Automatic: return numberText(known(automatic(row)), kShownDigits);
        case User: return hasValue ? numberText(value) : QString();
        default: return {};
        }
    case Qt::EditRole: return hasValue ? numberText(value) : QString();
    case Qt::ToolTipRole: return tooltip(row, index.column());
    case Qt::TextAlignmentRole: return static_cast<int>(index.column() >= Measured && index.column() <= User ? Qt::AlignRight | Qt::AlignVCenter : Qt::AlignLeft | Qt::AlignVCenter);
    case Qt::CheckStateRole:
        if (index.column() == Locked)
            return m_session->recipe()->target(headAt(row)).locked.count(targetKey(fieldAt(row))) ? Qt::Checked : Qt::Unchecked;
        return {};
    case Qt::ForegroundRole:
        if (hasValue && (check(fieldAt(row), value) != Check::Fine || (index.column() == User && costly(row)))) {
            const auto colors = widgets::stateColors(QApplication::palette());
            return check(fieldAt(row), value) == Check::Invalid ? colors.bad : colors.warning;
        }
        return {};
    case Qt::DecorationRole: // not by colour alone
        if (index.column() == User && hasValue && (check(fieldAt(row), value) != Check::Fine || costly(row)))
            return QApplication::style()->standardIcon(check(fieldAt(row), value) == Check::Invalid ? QStyle::SP_MessageBoxCritical : QStyle::SP_MessageBoxWarning);
        return {};
    default: return {};
    }
}

QString TargetTableModel::tooltip(int row, int column) const {
    const auto field = fieldAt(row);
    if (column == Measured) {
        switch (field) {
        case TargetField::HalfLife: return tr("mean attention distance of this head, tokens");
        case TargetField::Beta: return tr("concentration of its attention within the layer, 0 to 1");
        case TargetField::ValueScale: return tr("RMS of what this head adds, after the output projection");
        case TargetField::OutputGate: return tr("softmax attention has no output gate: nothing to measure");
        }
    }
    if (column == Automatic)
        return tr("what the start \"%1\" uses").arg(QString::fromStdString(m_session->recipe()->recipe().preset));
    if (column == Locked)
        return tr("kept as it is through alignment");
    if (column != User)
        return {};
    const auto value = user(row);
    const auto result = value ? check(field, *value) : Check::Fine;
    if (costly(row))
        return tr("%1 costs more than 10 %: %2").arg(numberText(known(value)), m_session->probes()->text());
    const auto set = value ? tr("%1. ").arg(numberText(*value)) : QString(); // the column is narrow
    const auto prefix = set + (result == Check::Invalid ? tr("Out of range: ") : result == Check::Unusual ? tr("Allowed, but far from what heads do: ") : QString());
    return prefix + allowedText(field) + tr("; empty = automatic");
}

Qt::ItemFlags TargetTableModel::flags(const QModelIndex& index) const {
    auto flags = QAbstractTableModel::flags(index);
    if (index.column() == User)
        flags |= Qt::ItemIsEditable;
    if (index.column() == Locked)
        flags |= Qt::ItemIsUserCheckable;
    return flags;
}

bool TargetTableModel::setData(const QModelIndex& index, const QVariant& value, int role) {
    if (!index.isValid())
        return false;
    if (index.column() == Locked && role == Qt::CheckStateRole) {
        m_session->recipe()->setLocked({headAt(index.row())}, fieldAt(index.row()), value.toInt() == Qt::Checked);
        return true;
    }
    return index.column() == User && role == Qt::EditRole && setTexts({index.row()}, {value.toString()});
}

bool TargetTableModel::setTexts(const QList<int>& rows, const QStringList& texts) {
    QList<std::optional<double>> values;
    for (qsizetype i = 0; i < rows.size() && i < texts.size(); ++i) {
        const auto value = parsed(texts[i], fieldAt(rows[i]));
        if (!value) {
            Q_EMIT rejected(tr("\"%1\" was not taken: %2.").arg(texts[i].trimmed(), allowedText(fieldAt(rows[i]))));
            return false;
        }
        values << *value;
    }
    // the text names the cells: only edits of the same ones within a second are one undo step
    const auto what = rows.size() == 1 ? tr("Set %1 of layer %2, head %3").arg(fieldText(fieldAt(rows[0]))).arg(headAt(rows[0]).layer).arg(headAt(rows[0]).head)
                                       : tr("Paste %n target(s)", nullptr, static_cast<int>(values.size()));
    return apply(rows, values, what);
}

bool TargetTableModel::set(const QList<int>& rows, const QString& text) {
    QList<std::optional<double>> values;
    for (const int row : rows) {
        const auto value = parsed(text, fieldAt(row));
        if (!value) {
            Q_EMIT rejected(tr("\"%1\" was not taken: %2.").arg(text.trimmed(), allowedText(fieldAt(row))));
            return false;
        }
        values << *value;
    }
    return apply(rows, values, tr("Set %1").arg(rowsText(rows)));
}

bool TargetTableModel::paste(const QList<int>& rows, const QString& clipboard) {
    QList<TargetField> fields;
    for (const int row : rows)
        fields << fieldAt(row);
    const auto pasted = placeTargets(targetLines(clipboard), fields);
    if (pasted.isEmpty()) {
        Q_EMIT rejected(tr("The clipboard holds no target for these rows: copy rows of this table, or values, one a line."));
        return false;
    }
    QList<int> onto;
    QStringList texts;
    for (const auto& each : pasted) {
        onto << rows[each.row];
        texts << each.text;
    }
    return setTexts(onto, texts);
}

void TargetTableModel::setLocked(const QList<int>& rows, bool locked) {
    core::Recipe recipe = m_session->recipe()->recipe();
    for (const int row : rows) {
        const auto id = headAt(row);
        auto& target = recipe.targets[id.layer][id.head];
        if (locked)
            target.locked.insert(targetKey(fieldAt(row)));
        else
            target.locked.erase(targetKey(fieldAt(row)));
        if (target.empty())
            recipe.targets[id.layer].erase(id.head);
        if (recipe.targets[id.layer].empty())
            recipe.targets.erase(id.layer);
    }
    m_session->recipe()->replace(recipe, (locked ? tr("Lock %1") : tr("Unlock %1")).arg(rowsText(rows)));
}

QString TargetTableModel::rowsText(const QList<int>& rows) const {
    QSet<HeadId> heads;
    QSet<int> fields;
    for (const int row : rows) {
        heads.insert(headAt(row));
        fields.insert(row % kFields);
    }
    const auto which = fields.size() == 1 ? fieldText(fieldAt(rows.front())) : tr("%n target(s)", nullptr, static_cast<int>(rows.size()));
    return heads.size() == 1 ? tr("%1 of layer %2, head %3").arg(which).arg(headAt(rows.front()).layer).arg(headAt(rows.front()).head)
                             : tr("%1 of %n head(s)", nullptr, static_cast<int>(heads.size())).arg(which);
}

bool TargetTableModel::scale(const QList<int>& rows, double factor) {
    QList<int> scaled; // rows with a value
    QList<std::optional<double>> values;
    for (const int row : rows)
        if (const auto value = currentTarget(*m_session, headAt(row), fieldAt(row))) {
            scaled << row;
            values << *value * factor;
        }
    if (scaled.isEmpty())
        Q_EMIT rejected(tr("Nothing to scale: profile the teacher or type a value first."));
    return !scaled.isEmpty() && apply(scaled, values, tr("Scale %1 by %2").arg(rowsText(scaled)).arg(factor));
}

bool TargetTableModel::apply(const QList<int>& rows, const QList<std::optional<double>>& values, const QString& what) {
    for (qsizetype i = 0; i < values.size(); ++i)
        if (values[i] && check(fieldAt(rows[i]), *values[i]) == Check::Invalid) {
            Q_EMIT rejected(tr("%1 was not taken: %2.").arg(numberText(known(values[i])), allowedText(fieldAt(rows[i]))));
            return false;
        }
    QList<TargetEdit> edits;
    for (qsizetype i = 0; i < values.size(); ++i)
        edits << TargetEdit{headAt(rows[i]), fieldAt(rows[i]), values[i]};
    m_session->recipe()->editTargets(edits, what);
    return true;
}

void TargetTableModel::reset(const QList<int>& rows) {
    QList<TargetEdit> edits;
    for (const int row : rows)
        edits << TargetEdit{headAt(row), fieldAt(row), std::nullopt, true};
    m_session->recipe()->editTargets(edits, tr("Reset %1").arg(rowsText(rows)));
}

QString TargetTableModel::text(const QList<int>& rows) const {
    QString result = QStringLiteral("head\tfield\tmeasured\tautomatic\tuser\tlocked\n");
    for (const int row : rows) {
        for (int column = Head; column < Locked; ++column)
            result += data(index(row, column)).toString() + QLatin1Char('\t');
        result += data(index(row, Locked), Qt::CheckStateRole).toInt() == Qt::Checked ? QStringLiteral("yes\n") : QStringLiteral("no\n");
    }
    return result;
}

} // namespace linnet::app
