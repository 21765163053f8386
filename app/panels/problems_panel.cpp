#include "app/panels/problems_panel.h"

#include "app/models/session.h"
#include "app/models/target_table_model.h"
#include "app/models/text_choice.h"
#include "core/convert/recipe_checks.h"

#include <QLabel>
#include <QListWidget>
#include <QSignalBlocker>
#include <QStackedLayout>
#include <algorithm>

namespace linnet::app {
namespace {

constexpr int kStepRole = Qt::UserRole, kLayerRole = Qt::UserRole + 1, kHeadRole = Qt::UserRole + 2;
constexpr int kMostUnusual = 200; // lines; a model may have thousands of heads

struct Place {
    QString step;
    HeadId head;
};

Place placeOf(const std::string& key) { // dotted, of the recipe: "targets.12.7.beta"
    const auto parts = QString::fromStdString(key).split(QLatin1Char('.'));
    if (parts[0] == QLatin1String("targets"))
        return {QStringLiteral("targets"), parts.size() > 2 ? HeadId{parts[1].toInt(), parts[2].toInt()} : HeadId{}};
    if (parts[0] == QLatin1String("layers") || parts[0] == QLatin1String("keep") || parts[0] == QLatin1String("pins"))
        return {QStringLiteral("layers"), {}};
    return {QStringLiteral("run"), {}};
}

HeadId headOf(const QListWidgetItem& item) {
    return {item.data(kLayerRole).toInt(), item.data(kHeadRole).toInt()};
}

} // namespace

ProblemsPanel::ProblemsPanel(Session* session, QWidget* parent) : QWidget(parent), m_session(session) {
    setObjectName(QStringLiteral("problemsPanel"));
    m_list = new QListWidget;
    m_list->setObjectName(QStringLiteral("problemsList"));
    m_list->setAccessibleName(tr("Problems"));
    m_list->setWordWrap(true);
    m_list->setSelectionMode(QAbstractItemView::ExtendedSelection);
    auto* none = new QLabel(tr("No problems."));
    none->setAlignment(Qt::AlignCenter);
    none->setForegroundRole(QPalette::PlaceholderText);
    m_stack = new QStackedLayout(this);
    m_stack->addWidget(none);
    m_stack->addWidget(m_list);
    connect(m_list, &QListWidget::itemSelectionChanged, this, &ProblemsPanel::selectHeads);
    connect(m_list, &QListWidget::itemActivated, this, &ProblemsPanel::jump);
    connect(session->recipe(), &RecipeModel::changed, this, &ProblemsPanel::refill);
    connect(session->recipe(), &RecipeModel::autosaveFailed, this, &ProblemsPanel::refill);
    connect(session->recipe(), &RecipeModel::autosaved, this, &ProblemsPanel::refill);
    connect(session->probes(), &TargetProbeModel::changed, this, &ProblemsPanel::refill);
    connect(session, &Session::teacherChanged, this, &ProblemsPanel::refill);
    refill();
}

void ProblemsPanel::addUnusualTargets(QList<Line>& lines) const {
    int more = 0;
    for (const auto& [layer, heads] : m_session->recipe()->recipe().targets)
        for (const auto& [head, target] : heads)
            for (const auto field : {TargetField::HalfLife, TargetField::Beta, TargetField::ValueScale, TargetField::OutputGate}) {
                const auto value = targetValue(target, field);
                if (!value || TargetTableModel::check(field, *value) != TargetTableModel::Check::Unusual)
                    continue;
                if (++more > kMostUnusual)
                    continue;
                const auto name = QString::fromLatin1(targetKey(field)).replace(QLatin1Char('_'), QLatin1Char(' '));
                lines << Line{QStyle::SP_MessageBoxWarning, tr("L%1 H%2: %3 of %4 is allowed, but far from what heads do").arg(layer).arg(head).arg(name, QString::number(*value, 'g', 4)),
                              QStringLiteral("targets"), {static_cast<int>(layer), static_cast<int>(head)}};
            }
    if (more > kMostUnusual)
        lines << Line{QStyle::SP_MessageBoxWarning, tr("and %1 more such targets").arg(more - kMostUnusual), {}, {}};
}

QList<ProblemsPanel::Line> ProblemsPanel::lines() const {
    QList<Line> lines;
    if (!m_session->teacher())
        return lines;
    for (const auto& problem : m_session->recipe()->problems()) {
        const auto key = problem.context.find("key");
        const auto place = placeOf(key == problem.context.end() ? std::string() : key->second);
        lines << Line{QStyle::SP_MessageBoxCritical, QString::fromStdString(problem.message), place.step, place.head};
    }
    if (const auto* probes = m_session->probes(); probes->costly())
        lines << Line{QStyle::SP_MessageBoxWarning, tr("L%1 H%2 costs more than 10 %: %3").arg(probes->head().layer).arg(probes->head().head).arg(probes->text()),
                      QStringLiteral("targets"), probes->head()};
    for (const auto& note : core::recipeNotes(m_session->recipe()->recipe(), m_session->teacher()->config.layers)) {
        const auto place = placeOf(note.key);
        lines << Line{QStyle::SP_MessageBoxWarning, QString::fromStdString(note.text), place.step, place.head};
    }
    if (const auto look = lookAtText(m_session->recipe()->recipe()); !look.problem.isEmpty())
        lines << Line{QStyle::SP_MessageBoxCritical, tr("Text: %1").arg(look.problem), QStringLiteral("run"), {}};
    if (const auto& problem = m_session->recipe()->autosaveProblem())
        lines << Line{QStyle::SP_MessageBoxWarning, tr("Not autosaved: %1").arg(QString::fromStdString(problem->message)), {}, {}};
    addUnusualTargets(lines);
    for (const auto& warning : m_session->teacher()->warnings)
        lines << Line{QStyle::SP_MessageBoxWarning, QString::fromStdString(warning), {}, {}};
    std::stable_partition(lines.begin(), lines.end(), [](const Line& line) { return line.icon == QStyle::SP_MessageBoxCritical; });
    return lines;
}

void ProblemsPanel::refill() {
    const auto wanted = lines();
    if (wanted == m_lines)
        return; // what is selected in the list stays
    m_lines = wanted;
    const QSignalBlocker quiet(m_list);
    m_list->clear();
    for (const auto& line : m_lines) {
        auto* item = new QListWidgetItem(style()->standardIcon(line.icon), line.text, m_list);
        item->setData(kStepRole, line.step);
        item->setData(kLayerRole, line.head.layer);
        item->setData(kHeadRole, line.head.head);
        if (!line.step.isEmpty())
            item->setToolTip(tr("Enter or a double click goes there"));
    }
    m_stack->setCurrentIndex(m_lines.isEmpty() ? 0 : 1);
    Q_EMIT counted();
}

void ProblemsPanel::selectHeads() {
    const auto* recipe = m_session->recipe();
    QSet<HeadId> heads;
    HeadId primary;
    for (const auto* item : m_list->selectedItems())
        if (const auto head = headOf(*item); head.valid() && head.layer < recipe->layers() && head.head < recipe->heads()) {
            heads.insert(head);
            primary = head;
        }
    if (!heads.isEmpty())
        m_session->selection()->select(heads, primary);
}

void ProblemsPanel::jump(QListWidgetItem* item) {
    selectHeads();
    if (const auto step = item->data(kStepRole).toString(); !step.isEmpty())
        Q_EMIT stepRequested(step);
}

} // namespace linnet::app
