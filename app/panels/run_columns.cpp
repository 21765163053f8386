#include "app/panels/run_columns.h"

#include "app/models/run_table_model.h"
#include "app/models/settings.h"

#include <QEvent>
#include <QHeaderView>
#include <QMenu>
#include <QTableView>

namespace linnet::app {
namespace {

using Model = RunTableModel;

struct Column {
    Model::Column column;
    const char* key;  // in the settings
    const char* text; // of usual width
};
// In the order in which room is given; the first kAlways are there even where the name has to be cut for it.
constexpr Column kColumns[] = {{Model::State, "state", "stopped, saved"},  {Model::Progress, "progress", "alignment 100 %"}, {Model::Loss, "loss", "0.4919 (distillation)"},
                               {Model::Perplexity, "perplexity", "1234.56"}, {Model::Ratio, "ratio", "1.041 ± 0.217"},      {Model::Kl, "kl", "0.0921 ± 0.0051"},
                               {Model::Duration, "time", "59 min 59 s"},     {Model::Keep, "keep", "greedy:ppl=1.05"},        {Model::Preset, "preset", "alignment-only"},
                               {Model::Seed, "seed", "12345"},               {Model::Hash, "recipe", "0123abcd"}};
constexpr int kAlways = 4, kCell = 14;                        // pixels around a text
constexpr const char* kName = "20261130-054235-linnet-22";    // a run's usual name
constexpr int kNameDecoration = 64;                           // its tick and its line
const QString kSetting = QStringLiteral("runs/columns");

} // namespace

RunColumns::RunColumns(QTableView* table) : QObject(table), m_table(table), m_menu(new QMenu(tr("Columns"), table)) {
    m_menu->setObjectName(QStringLiteral("runColumns"));
    auto* header = table->horizontalHeader();
    header->setStretchLastSection(false);
    header->setSectionResizeMode(QHeaderView::Interactive);
    header->setSectionResizeMode(Model::Name, QHeaderView::Stretch);
    header->setMinimumSectionSize(30);
    const QFontMetrics metrics(table->font());
    for (const auto& each : kColumns) {
        const auto title = table->model()->headerData(each.column, Qt::Horizontal).toString();
        table->setColumnWidth(each.column, std::max(metrics.horizontalAdvance(QString::fromUtf8(each.text)), metrics.horizontalAdvance(title)) + kCell);
        auto* action = m_menu->addAction(title);
        action->setObjectName(QStringLiteral("runColumn_") + QLatin1String(each.key));
        action->setToolTip(table->model()->headerData(each.column, Qt::Horizontal, Qt::ToolTipRole).toString());
        action->setCheckable(true);
        connect(action, &QAction::triggered, this, [this, column = each.column](bool shown) { choose(column, shown); });
    }
    m_menu->setToolTipsVisible(true);
    m_menu->addSeparator();
    auto* automatic = m_menu->addAction(tr("As many as fit"), this, [this] {
        Settings().remove(kSetting);
        fit();
    });
    automatic->setObjectName(QStringLiteral("runColumnsAutomatic"));
    connect(m_menu, &QMenu::aboutToShow, this, &RunColumns::fill);
    header->setContextMenuPolicy(Qt::CustomContextMenu);
    connect(header, &QWidget::customContextMenuRequested, this, [this, header](const QPoint& at) { m_menu->popup(header->mapToGlobal(at)); });
    table->installEventFilter(this);
    fit();
}

bool RunColumns::eventFilter(QObject* watched, QEvent* event) {
    if (event->type() == QEvent::Resize)
        fit();
    return QObject::eventFilter(watched, event);
}

void RunColumns::fit() {
    const Settings settings;
    const auto chosen = settings.value(kSetting).toStringList();
    int room = m_table->width() - 2 * m_table->frameWidth() - QFontMetrics(m_table->font()).horizontalAdvance(QLatin1String(kName)) - kNameDecoration;
    int place = 0;
    for (const auto& each : kColumns) {
        m_table->showColumn(each.column); // a hidden one has no width
        room -= m_table->columnWidth(each.column);
        m_table->setColumnHidden(each.column, settings.contains(kSetting) ? !chosen.contains(QLatin1String(each.key)) : place++ >= kAlways && room < 0);
    }
}

void RunColumns::choose(int column, bool shown) {
    m_table->setColumnHidden(column, !shown);
    QStringList keys;
    for (const auto& each : kColumns)
        if (!m_table->isColumnHidden(each.column))
            keys << QLatin1String(each.key);
    Settings().setValue(kSetting, keys);
}

void RunColumns::fill() {
    for (const auto& each : kColumns)
        if (auto* action = m_menu->findChild<QAction*>(QStringLiteral("runColumn_") + QLatin1String(each.key)))
            action->setChecked(!m_table->isColumnHidden(each.column));
}

} // namespace linnet::app
