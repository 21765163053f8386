#include "app/panels/inspector_neighbours.h"

#include "app/models/session.h"
#include "app/models/target_table_model.h"
#include "core/profile/similar_heads.h"

#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QPushButton>
#include <QTableWidget>

namespace linnet::app {
namespace {

QString nameOf(HeadId head) {
    return QStringLiteral("L%1 H%2").arg(head.layer).arg(head.head);
}

// What a person set; else what the closed form or the preset holds for it. Empty: nothing is known.
core::HeadTarget targetsToCopy(Session& session, HeadId from) {
    auto target = session.recipe()->target(from);
    if (target.empty()) {
        target.halfLife = currentTarget(session, from, TargetField::HalfLife);
        target.beta = currentTarget(session, from, TargetField::Beta);
    }
    return target;
}

} // namespace

InspectorNeighbours::InspectorNeighbours(Session* session) : InspectorSection(session, QStringLiteral("neighbours"), tr("Similar heads"), false) {
    m_hint = sectionLabel(QStringLiteral("neighboursHint"));
    const QStringList columns{tr("head"), tr("apart"), tr("hist."), tr("conc."), tr("scale")};
    const QStringList hints{QString(), tr("the root of the sum of the other three's squares"), tr("Hellinger distance of the attention by distance, without the first tokens: 0 to 1"),
                            tr("difference of the absolute concentrations: 0 to 1"), tr("difference of log10 of the RMS after o_proj")};
    m_table = new QTableWidget(0, static_cast<int>(columns.size()));
    m_table->setObjectName(QStringLiteral("neighboursTable"));
    m_table->setAccessibleName(tr("Similar heads"));
    m_table->setHorizontalHeaderLabels(columns);
    for (int column = 0; column < columns.size(); ++column)
        m_table->horizontalHeaderItem(column)->setToolTip(hints[column]);
    m_table->horizontalHeader()->setSectionResizeMode(QHeaderView::Stretch);
    m_table->verticalHeader()->hide();
    m_table->verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 4);
    m_table->setEditTriggers(QAbstractItemView::NoEditTriggers);
    m_table->setSelectionBehavior(QAbstractItemView::SelectRows);
    m_table->setSelectionMode(QAbstractItemView::SingleSelection);
    m_table->setTabKeyNavigation(false);
    m_table->setFixedHeight(6 * (fontMetrics().height() + 4) + 24);
    m_show = new QPushButton(tr("Show it"));
    m_show->setObjectName(QStringLiteral("neighboursShow"));
    m_copy = new QPushButton(tr("Copy its targets"));
    m_copy->setObjectName(QStringLiteral("neighboursCopy"));
    auto* buttons = new QHBoxLayout;
    buttons->addWidget(m_show);
    buttons->addWidget(m_copy);
    buttons->addStretch();
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(4);
    layout->addWidget(m_hint);
    layout->addWidget(m_table);
    layout->addLayout(buttons);
    const auto show = [this, session] {
        if (const auto head = current(); head.valid())
            session->selection()->select({head}, head);
    };
    connect(m_table, &QTableWidget::itemActivated, this, show);
    connect(m_table, &QTableWidget::itemSelectionChanged, this, &InspectorNeighbours::updateButtons);
    connect(m_show, &QPushButton::clicked, this, show);
    connect(m_copy, &QPushButton::clicked, this, &InspectorNeighbours::copyTargets);
    follow(session->recipe(), &RecipeModel::targetsChanged);
    follow(session->closedForm(), &ClosedFormModel::changed);
}

void InspectorNeighbours::fill(HeadId id) {
    const auto* profile = session().profile();
    const auto found = profile ? core::similarHeads(*profile, id.layer, id.head) : std::vector<core::SimilarHead>{};
    m_hint->setText(!profile        ? tr("Not measured: profile the teacher.")
                    : found.empty() ? tr("No other head was measured in all three parts.")
                                    : tr("The five nearest by attention histogram, concentration and output scale."));
    QList<HeadId> heads;
    for (const auto& each : found)
        heads << HeadId{static_cast<int>(each.layer), static_cast<int>(each.head)};
    m_table->setVisible(!found.empty());
    if (heads != m_heads) { // else the row that a person chose stays chosen
        m_heads = heads;
        m_table->clearSelection();
        m_table->setRowCount(static_cast<int>(found.size()));
        for (int row = 0; row < m_table->rowCount(); ++row) {
            const auto& each = found[static_cast<std::size_t>(row)];
            const QStringList cells{nameOf(heads[row]), QString::number(each.distance, 'f', 3), QString::number(each.histogram, 'f', 3), QString::number(each.concentration, 'f', 3),
                                    QString::number(each.scale, 'f', 3)};
            for (int column = 0; column < cells.size(); ++column) {
                auto* item = new QTableWidgetItem(cells[column]);
                item->setTextAlignment((column == 0 ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
                m_table->setItem(row, column, item);
            }
        }
        if (!heads.isEmpty())
            m_table->selectRow(0);
    }
    updateButtons();
}

HeadId InspectorNeighbours::current() const {
    const auto rows = m_table->selectionModel()->selectedRows();
    return rows.isEmpty() ? HeadId{} : m_heads.value(rows.front().row());
}

void InspectorNeighbours::updateButtons() {
    const auto head = current();
    m_show->setVisible(!m_heads.isEmpty());
    m_copy->setVisible(!m_heads.isEmpty());
    m_show->setEnabled(head.valid());
    const auto target = head.valid() ? targetsToCopy(session(), head) : core::HeadTarget{};
    m_copy->setEnabled(!target.empty());
    const auto value = [](const std::optional<double>& v, const QString& name) { return v ? QStringLiteral("\n%1 %2").arg(name, std::isinf(*v) ? tr("none") : sectionNumber(*v)) : QString(); };
    m_copy->setToolTip(target.empty() ? tr("It has no target, and no run has found one for it.")
                                      : tr("To the selected heads, as one step:") + value(target.halfLife, tr("half-life")) + value(target.beta, tr("beta")) +
                                            value(target.valueScale, tr("value scale")) + value(target.outputGate, tr("output gate")));
}

void InspectorNeighbours::copyTargets() {
    const auto from = current();
    const auto target = from.valid() ? targetsToCopy(session(), from) : core::HeadTarget{};
    if (target.empty())
        return;
    auto recipe = session().recipe()->recipe();
    const auto heads = session().selection()->sorted();
    for (const auto& head : heads)
        recipe.targets[head.layer][head.head] = target;
    session().recipe()->replace(recipe, heads.size() == 1 ? tr("Copy targets of %1 to %2").arg(nameOf(from), nameOf(heads.front()))
                                                          : tr("Copy targets of %1 to %2 heads").arg(nameOf(from)).arg(heads.size()));
}

} // namespace linnet::app
