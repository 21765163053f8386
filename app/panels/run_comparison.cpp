#include "app/panels/run_comparison.h"

#include "app/models/run_results.h"

#include <QHeaderView>
#include <QLabel>
#include <QTabWidget>
#include <QTableWidget>
#include <QVBoxLayout>

namespace linnet::app {
namespace {

QTableWidget* table(const QString& name, const QString& spoken, const QStringList& columns) {
    auto* made = new QTableWidget(0, static_cast<int>(columns.size()));
    made->setObjectName(name);
    made->setAccessibleName(spoken);
    made->setHorizontalHeaderLabels(columns);
    made->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
    made->horizontalHeader()->setStretchLastSection(true);
    made->horizontalHeader()->setHighlightSections(false);
    made->verticalHeader()->hide();
    made->verticalHeader()->setDefaultSectionSize(made->fontMetrics().height() + 8);
    made->setEditTriggers(QAbstractItemView::NoEditTriggers);
    made->setSelectionBehavior(QAbstractItemView::SelectRows);
    made->setAlternatingRowColors(true);
    made->setWordWrap(false);
    made->setTabKeyNavigation(false);
    return made;
}

void fill(QTableWidget* table, int row, const QStringList& cells, bool numbers) {
    for (int column = 0; column < cells.size(); ++column) {
        auto* item = new QTableWidgetItem(cells[column]);
        item->setToolTip(cells[column]);
        item->setTextAlignment((numbers && column > 0 ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
        table->setItem(row, column, item);
    }
}

} // namespace

RunComparison::RunComparison(QWidget* parent) : QWidget(parent), m_title(new QLabel), m_note(new QLabel) {
    setObjectName(QStringLiteral("runComparison"));
    m_keys = table(QStringLiteral("runDifferences"), tr("Recipe keys that differ"), {tr("recipe key"), tr("A"), tr("B")});
    m_results = table(QStringLiteral("runResults"), tr("Results side by side"), {tr("result"), tr("A"), tr("B"), tr("B - A"), tr("n"), tr("unit")});
    m_results->horizontalHeader()->setStretchLastSection(false); // six columns: names give way, numbers don't
    m_results->horizontalHeader()->setSectionResizeMode(0, QHeaderView::Stretch);
    for (auto* label : {m_title, m_note}) {
        label->setWordWrap(true);
        label->setTextFormat(Qt::RichText);
    }
    m_note->setObjectName(QStringLiteral("runComparisonNote"));
    m_tabs = new QTabWidget;
    m_tabs->setObjectName(QStringLiteral("comparisonTabs"));
    m_tabs->setDocumentMode(true);
    m_tabs->addTab(m_results, tr("Results"));
    m_tabs->addTab(m_keys, tr("Recipes"));
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 4, 0, 0);
    layout->addWidget(m_title);
    layout->addWidget(m_tabs, 1);
    layout->addWidget(m_note);
    m_results->setMinimumHeight(m_results->horizontalHeader()->sizeHint().height() + 5 * (fontMetrics().height() + 8) + 4); // what decides stands in five rows
    compare(nullptr, nullptr);
}

void RunComparison::compare(const RunEntryPtr& left, const RunEntryPtr& right) {
    const bool two = left && right;
    m_tabs->setVisible(two);
    m_note->setVisible(two);
    m_title->setText(two ? tr("<b>A</b> %1 &nbsp; <b>B</b> %2").arg(left->name.toHtmlEscaped(), right->name.toHtmlEscaped())
                         : tr("Select two runs (Ctrl+click), or set a baseline and select another, to compare recipes and results."));
    m_title->setForegroundRole(two ? QPalette::WindowText : QPalette::PlaceholderText);
    if (!two)
        return;
    const auto keys = left->recipe && right->recipe ? core::diffRecipes(*left->recipe, *right->recipe) : std::vector<core::RecipeDifference>{};
    m_keys->setRowCount(static_cast<int>(keys.size()));
    m_tabs->setTabText(1, tr("Recipes (%1 differ)").arg(m_keys->rowCount()));
    const auto value = [](const std::string& text) { return text.empty() ? QStringLiteral("–") : QString::fromStdString(text); };
    for (int row = 0; row < m_keys->rowCount(); ++row) {
        const auto& key = keys[static_cast<std::size_t>(row)];
        fill(m_keys, row, {QString::fromStdString(key.key), value(key.left), value(key.right)}, false);
    }
    const auto results = compareResults(*left, *right);
    m_results->setRowCount(static_cast<int>(results.size()));
    for (int row = 0; row < m_results->rowCount(); ++row) {
        const auto& r = results[static_cast<std::size_t>(row)];
        const auto d = difference(r.left, r.right);
        fill(m_results, row, {r.name, withNoise(r.left, r.decimals), withNoise(r.right, r.decimals), signedWithNoise(d, r.decimals), d.n > 0 ? QString::number(d.n) : QStringLiteral("–"), r.unit}, true);
        m_results->item(row, 5)->setTextAlignment(Qt::AlignLeft | Qt::AlignVCenter);
    }
    QStringList notes;
    if (!left->recipe || !right->recipe)
        notes << tr("One of the recipes can't be read.");
    else if (keys.empty())
        notes << tr("Their recipes are the same.");
    if (results.empty())
        notes << tr("Neither was measured yet.");
    if (const auto why = incomparable(*left, *right); !why.isEmpty())
        notes << tr("<b>Their numbers don't compare</b>: %1.").arg(why.toHtmlEscaped());
    notes << tr("± is one standard error over n windows; for B - A an upper bound, as both stand on the same windows.");
    m_note->setText(notes.join(QLatin1Char(' ')));
}

} // namespace linnet::app
