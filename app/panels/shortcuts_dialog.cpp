#include "app/panels/shortcuts_dialog.h"

#include "app/models/shortcut_map.h"

#include <QDialogButtonBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QKeySequenceEdit>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QTableWidget>
#include <QVBoxLayout>

namespace linnet::app {
namespace {

enum Column { Action, Menu, Keys, Preset, Columns };

QString native(const QKeySequence& keys) {
    return keys.toString(QKeySequence::NativeText);
}

// What single views do with keys that belong to them alone.
QString keysOfViews() {
    return ShortcutsDialog::tr("In the heat map: arrows move the selected head, Shift extends, Space converts or keeps its layer. "
                               "In the table of layers: N never convert, A always convert, Del no pin. In the curve of layers: Left and Right keep one fewer or one more.");
}

} // namespace

ShortcutsDialog::ShortcutsDialog(ShortcutMap* shortcuts, QWidget* parent)
    : QDialog(parent), m_shortcuts(shortcuts), m_search(new QLineEdit), m_table(new QTableWidget(0, Columns)), m_keys(new QKeySequenceEdit), m_conflict(new QLabel),
      m_set(new QPushButton(tr("&Set"))), m_reset(new QPushButton(tr("&Reset"))), m_resetAll(new QPushButton(tr("Reset &all"))) {
    setObjectName(QStringLiteral("shortcutsDialog"));
    setWindowTitle(tr("Keyboard shortcuts"));
    resize(640, 560);
    m_search->setPlaceholderText(tr("Find an action or a key"));
    m_search->setAccessibleName(tr("Find an action or a key"));
    m_search->setClearButtonEnabled(true);
    m_table->setObjectName(QStringLiteral("shortcutsTable"));
    m_table->setAccessibleName(tr("Actions and their keys"));
    m_table->setHorizontalHeaderLabels({tr("Action"), tr("Menu"), tr("Keys"), tr("Preset")});
    m_table->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
    m_table->horizontalHeader()->setSectionResizeMode(Action, QHeaderView::Stretch);
    m_table->verticalHeader()->hide();
    m_table->setSelectionBehavior(QAbstractItemView::SelectRows);
    m_table->setSelectionMode(QAbstractItemView::SingleSelection);
    m_table->setEditTriggers(QAbstractItemView::NoEditTriggers);
    m_table->setTabKeyNavigation(false);
    m_table->setShowGrid(false);
    m_keys->setObjectName(QStringLiteral("shortcutKeys"));
    m_keys->setAccessibleName(tr("New keys of the action"));
    for (auto* part : m_keys->findChildren<QLineEdit*>())
        part->setAccessibleName(tr("New keys of the action"));
    m_conflict->setObjectName(QStringLiteral("shortcutConflict"));
    m_conflict->setWordWrap(true);
    m_set->setObjectName(QStringLiteral("setShortcut"));
    m_reset->setObjectName(QStringLiteral("resetShortcut"));
    m_resetAll->setObjectName(QStringLiteral("resetShortcuts"));
    for (auto* button : {m_set, m_reset, m_resetAll})
        button->setAutoDefault(false);
    auto* views = new QLabel(keysOfViews());
    views->setWordWrap(true);
    auto* close = new QDialogButtonBox(QDialogButtonBox::Close);
    auto* edit = new QHBoxLayout;
    edit->addWidget(m_keys, 1);
    edit->addWidget(m_set);
    edit->addWidget(m_reset);
    edit->addWidget(m_resetAll);
    auto* layout = new QVBoxLayout(this);
    layout->addWidget(m_search);
    layout->addWidget(m_table, 1);
    layout->addLayout(edit);
    layout->addWidget(m_conflict);
    layout->addWidget(views);
    layout->addWidget(close);

    connect(m_search, &QLineEdit::textChanged, this, &ShortcutsDialog::filter);
    connect(m_table, &QTableWidget::itemSelectionChanged, this, &ShortcutsDialog::showCurrent);
    connect(m_keys, &QKeySequenceEdit::keySequenceChanged, this, &ShortcutsDialog::showConflict);
    connect(m_set, &QPushButton::clicked, this, [this] { m_shortcuts->assign(current(), m_keys->keySequence()); });
    connect(m_reset, &QPushButton::clicked, this, [this] { m_shortcuts->reset(current()); });
    connect(m_resetAll, &QPushButton::clicked, m_shortcuts, &ShortcutMap::resetAll);
    connect(m_shortcuts, &ShortcutMap::changed, this, &ShortcutsDialog::fill);
    connect(close, &QDialogButtonBox::rejected, this, &QDialog::reject);
    fill();
    m_table->selectRow(0);
}

QString ShortcutsDialog::current() const {
    const auto* item = m_table->item(m_table->currentRow(), Action);
    return item ? item->data(Qt::UserRole).toString() : QString();
}

void ShortcutsDialog::fill() {
    const auto& entries = m_shortcuts->entries();
    m_table->setRowCount(static_cast<int>(entries.size()));
    for (int row = 0; row < m_table->rowCount(); ++row) {
        const auto& entry = entries[row];
        const auto keys = m_shortcuts->keys(entry.name);
        const QString texts[Columns] = {entry.title(), entry.group, native(keys), native(entry.preset)};
        for (int column = 0; column < Columns; ++column) {
            auto* item = new QTableWidgetItem(texts[column]);
            item->setData(Qt::UserRole, entry.name);
            if (column == Keys && keys != entry.preset) { // what a person set
                auto font = item->font();
                font.setBold(true);
                item->setFont(font);
            }
            m_table->setItem(row, column, item);
        }
    }
    filter(m_search->text());
    showCurrent();
}

void ShortcutsDialog::filter(const QString& word) {
    for (int row = 0; row < m_table->rowCount(); ++row) {
        bool found = word.isEmpty();
        for (int column = 0; column < Preset; ++column)
            found = found || m_table->item(row, column)->text().contains(word, Qt::CaseInsensitive);
        m_table->setRowHidden(row, !found);
    }
}

void ShortcutsDialog::showCurrent() {
    m_keys->setKeySequence(m_shortcuts->keys(current()));
    showConflict();
}

void ShortcutsDialog::showConflict() {
    const auto name = current();
    const auto taken = m_shortcuts->takenBy(m_keys->keySequence(), name);
    QStringList titles;
    for (const auto& entry : m_shortcuts->entries())
        if (taken.contains(entry.name))
            titles << entry.title();
    m_conflict->setText(taken.isEmpty() ? QString() : tr("⚠ %1 belongs to %2; Set takes it from there.").arg(native(m_keys->keySequence()), titles.join(QStringLiteral(", "))));
    m_set->setEnabled(!name.isEmpty() && m_keys->keySequence() != m_shortcuts->keys(name));
    m_reset->setEnabled(!name.isEmpty());
}

} // namespace linnet::app
