#include "app/models/run_table_model.h"

#include "app/models/run_results.h"
#include "widgets/run_look.h"

#include <QDir>
#include <QFont>
#include <QGuiApplication>
#include <QPalette>
#include <cmath>

namespace linnet::app {

namespace {

// Of a finished run that ended with alignment: what the student has, whatever the last step did.
std::optional<double> keptLoss(const RunEntry& run) {
    if (!run.report || run.report->aligned.empty() || (!run.metrics.empty() && run.metrics.back().stage != "align"))
        return std::nullopt;
    double sum = 0;
    for (const auto& layer : run.report->aligned) {
        if (!layer.heldOutLoss)
            return std::nullopt;
        sum += *layer.heldOutLoss;
    }
    return sum / static_cast<double>(run.report->aligned.size());
}

} // namespace

RunTableModel::RunTableModel(RunLibrary* library, QObject* parent) : QAbstractTableModel(parent), m_library(library), m_rows(library->runs()) {
    connect(library, &RunLibrary::changed, this, &RunTableModel::refresh);
    connect(library, &RunLibrary::evaluationChanged, this, &RunTableModel::refresh);
    const auto one = [this](const QString& folder) {
        if (const int at = row(folder); at >= 0)
            Q_EMIT dataChanged(index(at, 0), index(at, Columns - 1));
    };
    connect(library, &RunLibrary::progressed, this, one);
    connect(library, &RunLibrary::metricsReplaced, this, one);
}

void RunTableModel::refresh() {
    if (m_rows == m_library->runs()) {
        if (!m_rows.isEmpty())
            Q_EMIT dataChanged(index(0, 0), index(static_cast<int>(m_rows.size()) - 1, Columns - 1));
        return;
    }
    Q_EMIT layoutAboutToBeChanged(); // a selection follows its runs
    const auto before = m_rows;
    const auto old = persistentIndexList();
    m_rows = m_library->runs();
    QModelIndexList now;
    for (const auto& each : old) {
        const auto at = each.row() < before.size() ? m_rows.indexOf(before[each.row()]) : -1;
        now.append(at < 0 ? QModelIndex() : index(static_cast<int>(at), each.column()));
    }
    changePersistentIndexList(old, now);
    Q_EMIT layoutChanged();
}

int RunTableModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(m_rows.size());
}

RunEntryPtr RunTableModel::run(const QModelIndex& index) const {
    return index.isValid() && index.row() < m_rows.size() ? m_rows[index.row()] : nullptr;
}

int RunTableModel::row(const QString& folder) const {
    for (int i = 0; i < m_rows.size(); ++i)
        if (m_rows[i]->folder == folder)
            return i;
    return -1;
}

QVariant RunTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || section >= Columns)
        return {};
    const std::pair<QString, QString> heads[Columns] = {{tr("run"), tr("Ticked runs are drawn in Curves; F2 renames")},
                                                        {tr("state"), tr("Where it is; the line below says it in full")},
                                                        {tr("progress"), tr("Of the stage that it is in, or got to")},
                                                        {tr("loss"), tr("While it runs: of the last step, with its stage. Of a finished alignment: the held-out loss of the states that were kept, mean over the layers")},
                                                        {tr("perplexity"), tr("Of the student, on the held-out slice")},
                                                        {tr("ratio"), tr("Perplexity of the student / the teacher's, ± one standard error")},
                                                        {tr("KL"), tr("To the teacher, nats a token, ± one standard error")},
                                                        {tr("start"), tr("The recipe's preset")},
                                                        {tr("keep"), tr("The rule for the layers that stay softmax")},
                                                        {tr("time"), tr("Executed so far, pauses included")},
                                                        {tr("seed"), tr("Of every random draw")},
                                                        {tr("recipe"), tr("Hash of the recipe without its device: the same hash, the same numbers")}};
    if (role == Qt::DisplayRole)
        return heads[section].first;
    if (role == Qt::ToolTipRole)
        return heads[section].second;
    if (role == Qt::TextAlignmentRole)
        return static_cast<int>((section == Perplexity || section == Ratio || section == Kl || section == Loss || section == Duration || section == Seed ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
    return {};
}

QString RunTableModel::text(const RunEntry& run, int column) const {
    static const QString dash = QStringLiteral("–");
    const auto* last = !run.metrics.empty() ? &run.metrics.back() : run.disk.lastMetric ? &*run.disk.lastMetric : nullptr;
    switch (column) {
    case Name: return run.name + (run.folder == m_library->baseline() ? tr(" (baseline)") : QString());
    case State: return RunText::state(run, m_library->place(run));
    case Progress: return RunText::shortProgress(run);
    case Perplexity: return RunText::number(measured(run.evaluation, "student", Quantity::Perplexity).value, 2);
    case Ratio: return withNoise(measured(run.evaluation, "student", Quantity::Ratio), 3);
    case Kl: return withNoise(measured(run.evaluation, "student", Quantity::Kl), 4);
    case Loss:
        if (const auto kept = keptLoss(run))
            return QStringLiteral("%1 (%2)").arg(QString::number(*kept, 'g', 4), tr("held out"));
        return last && std::isfinite(last->loss) ? QStringLiteral("%1 (%2)").arg(QString::number(last->loss, 'g', 4), RunText::stage(last->stage)) : dash;
    case Preset: return run.recipe ? QString::fromStdString(run.recipe->preset) : dash;
    case Keep: return run.recipe ? QString::fromStdString(run.recipe->keep.text()) : dash;
    case Duration: return RunText::duration(run.disk.seconds);
    case Seed: return run.recipe ? QString::number(run.recipe->seed) : dash;
    case Hash: return run.hash.isEmpty() ? dash : run.hash.left(8);
    default: return {};
    }
}

QVariant RunTableModel::data(const QModelIndex& index, int role) const {
    const auto run = this->run(index);
    if (!run)
        return {};
    switch (role) {
    case Qt::DisplayRole: return text(*run, index.column());
    case Qt::EditRole: return run->name;
    case FolderRole: return run->folder;
    case Qt::TextAlignmentRole: return headerData(index.column(), Qt::Horizontal, role);
    case Qt::DecorationRole: return index.column() == Name ? QVariant(widgets::lookIcon(widgets::runLook(run->look), {26, 12}, qGuiApp->devicePixelRatio(), QGuiApplication::palette().color(QPalette::Base))) : QVariant();
    case Qt::CheckStateRole: return index.column() == Name && run->hasBegun() ? QVariant(run->shown ? Qt::Checked : Qt::Unchecked) : QVariant();
    case Qt::AccessibleTextRole: return index.column() == Name ? tr("%1, drawn in %2").arg(text(*run, Name), widgets::runColorName(run->look)) : text(*run, index.column());
    case Qt::ToolTipRole:
        if (index.column() == Hash && !run->hash.isEmpty())
            return run->hash;
        if (index.column() == Keep)
            return text(*run, Keep);
        return index.column() == State ? RunText::detail(*run, m_library->place(*run), m_library->isHeld()) : QDir::toNativeSeparators(run->folder);
    case Qt::FontRole:
        if (run == m_library->running() || run->folder == m_library->baseline()) {
            QFont bold;
            bold.setBold(true);
            return bold;
        }
        return {};
    default: return {};
    }
}

bool RunTableModel::setData(const QModelIndex& index, const QVariant& value, int role) {
    const auto run = this->run(index);
    if (!run || index.column() != Name)
        return false;
    if (role == Qt::CheckStateRole)
        m_library->setShown(run->folder, value.toInt() == Qt::Checked);
    else if (role == Qt::EditRole)
        m_library->rename(run->folder, value.toString());
    else
        return false;
    return true;
}

Qt::ItemFlags RunTableModel::flags(const QModelIndex& index) const {
    auto flags = QAbstractTableModel::flags(index);
    const auto run = this->run(index);
    if (run && index.column() == Name)
        flags |= Qt::ItemIsEditable | (run->hasBegun() ? Qt::ItemIsUserCheckable : Qt::NoItemFlags);
    return flags;
}

} // namespace linnet::app
