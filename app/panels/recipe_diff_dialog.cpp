#include "app/panels/recipe_diff_dialog.h"

#include "app/models/session.h"
#include "widgets/plurals.h"

#include <QClipboard>
#include <QComboBox>
#include <QDialogButtonBox>
#include <QFileDialog>
#include <QFileInfo>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QPushButton>
#include <QSignalBlocker>
#include <QTableWidget>
#include <QVBoxLayout>

namespace linnet::app {
namespace {

QString shown(const std::string& value) {
    return value.empty() ? QStringLiteral("–") : QString::fromStdString(value); // absent: the default holds
}

} // namespace

RecipeDiffDialog::RecipeDiffDialog(Session* session, QWidget* parent) : QDialog(parent), m_session(session) {
    setObjectName(QStringLiteral("recipeDiffDialog"));
    setWindowTitle(tr("Compare recipes"));
    resize(640, 420);
    m_other = new QComboBox;
    m_other->setObjectName(QStringLiteral("diffOther"));
    m_other->setAccessibleName(tr("Recipe to compare with"));
    m_other->setMinimumContentsLength(12);
    m_other->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    auto* file = new QPushButton(tr("File…"));
    connect(file, &QPushButton::clicked, this, &RecipeDiffDialog::chooseFile);
    auto* row = new QHBoxLayout;
    auto* label = new QLabel(tr("The recipe in the window against"));
    label->setBuddy(m_other);
    row->addWidget(label);
    row->addWidget(m_other, 1);
    row->addWidget(file);
    m_summary = new QLabel;
    m_summary->setObjectName(QStringLiteral("diffSummary"));
    m_summary->setWordWrap(true);
    m_table = new QTableWidget(0, 3);
    m_table->setObjectName(QStringLiteral("diffTable"));
    m_table->setAccessibleName(tr("Recipe keys that differ"));
    m_table->setHorizontalHeaderLabels({tr("key"), tr("in the window"), tr("the other")});
    m_table->setEditTriggers(QAbstractItemView::NoEditTriggers);
    m_table->setSelectionBehavior(QAbstractItemView::SelectRows);
    m_table->setAlternatingRowColors(true);
    m_table->verticalHeader()->hide();
    m_table->horizontalHeader()->setSectionResizeMode(0, QHeaderView::ResizeToContents);
    for (const int column : {1, 2})
        m_table->horizontalHeader()->setSectionResizeMode(column, QHeaderView::Stretch);
    auto* buttons = new QDialogButtonBox(QDialogButtonBox::Close);
    auto* copyButton = buttons->addButton(tr("Copy"), QDialogButtonBox::ActionRole);
    auto* takeButton = buttons->addButton(tr("Take the other"), QDialogButtonBox::ActionRole);
    copyButton->setToolTip(tr("The lines as tab-separated text"));
    takeButton->setToolTip(tr("Its settings become the recipe in the window; Undo takes it back"));
    takeButton->setObjectName(QStringLiteral("diffTake"));
    m_take = takeButton;
    connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
    connect(copyButton, &QPushButton::clicked, this, &RecipeDiffDialog::copy);
    connect(takeButton, &QPushButton::clicked, this, &RecipeDiffDialog::take);
    auto* layout = new QVBoxLayout(this);
    layout->addLayout(row);
    layout->addWidget(m_summary);
    layout->addWidget(m_table, 1);
    layout->addWidget(buttons);
    connect(m_other, &QComboBox::currentIndexChanged, this, &RecipeDiffDialog::refresh);
    connect(m_table, &QTableWidget::itemSelectionChanged, this, &RecipeDiffDialog::selectHeads);
    connect(session->recipe(), &RecipeModel::changed, this, &RecipeDiffDialog::refresh);
    fillRuns();
    refresh();
}

void RecipeDiffDialog::fillRuns() {
    const QSignalBlocker quiet(m_other);
    for (const auto& run : m_session->runs())
        m_other->addItem(run->name, run->folder);
}

void RecipeDiffDialog::compareWith(const QString& folderOrFile) {
    int index = m_other->findData(folderOrFile);
    if (index < 0) {
        m_other->addItem(QFileInfo(folderOrFile).fileName(), folderOrFile);
        index = m_other->count() - 1;
    }
    m_other->setCurrentIndex(index);
    refresh();
}

void RecipeDiffDialog::chooseFile() {
    const auto path = QFileDialog::getOpenFileName(this, tr("Recipe to compare with"), {}, tr("Recipes (*.json)"));
    if (!path.isEmpty())
        compareWith(path);
}

void RecipeDiffDialog::refresh() {
    const QSignalBlocker quiet(m_table);
    m_table->setRowCount(0);
    m_recipe.reset();
    m_take->setEnabled(false);
    const auto path = m_other->currentData().toString();
    if (path.isEmpty()) {
        m_summary->setText(tr("There is no run yet. File… compares with a recipe that was saved."));
        return;
    }
    const auto other = core::readRecipe((QFileInfo(path).isDir() ? path + QStringLiteral("/recipe.json") : path).toStdString());
    if (!other) {
        m_summary->setText(tr("Can't read it: %1").arg(QString::fromStdString(other.error().message)));
        return;
    }
    m_recipe = *other;
    const auto differences = core::diffRecipes(m_session->recipe()->recipe(), *m_recipe);
    m_take->setEnabled(!differences.empty());
    m_summary->setText(differences.empty() ? tr("The two recipes are the same.") : tr("%n key(s) (differs|differ); a dash stands for a key that is not there.", nullptr, static_cast<int>(differences.size())));
    m_table->setRowCount(static_cast<int>(differences.size()));
    for (int row = 0; row < m_table->rowCount(); ++row) {
        const auto& difference = differences[static_cast<std::size_t>(row)];
        const QString cells[] = {QString::fromStdString(difference.key), shown(difference.left), shown(difference.right)};
        for (int column = 0; column < 3; ++column) {
            m_table->setItem(row, column, new QTableWidgetItem(cells[column]));
            m_table->item(row, column)->setToolTip(cells[column]);
        }
    }
}

void RecipeDiffDialog::copy() const {
    QString text = QStringLiteral("key\twindow\tother\n");
    for (int row = 0; row < m_table->rowCount(); ++row)
        for (int column = 0; column < 3; ++column)
            text += m_table->item(row, column)->text() + (column < 2 ? QLatin1Char('\t') : QLatin1Char('\n'));
    QGuiApplication::clipboard()->setText(text);
}

void RecipeDiffDialog::selectHeads() {
    QSet<HeadId> heads;
    HeadId primary;
    for (const auto& index : m_table->selectionModel()->selectedRows()) {
        const auto parts = m_table->item(index.row(), 0)->text().split(QLatin1Char('.')); // targets.12.7.beta
        if (parts.size() < 3 || parts[0] != QLatin1String("targets"))
            continue;
        const HeadId head{parts[1].toInt(), parts[2].toInt()};
        if (head.layer < m_session->recipe()->layers() && head.head < m_session->recipe()->heads()) {
            heads.insert(head);
            primary = head;
        }
    }
    if (!heads.isEmpty())
        m_session->selection()->select(heads, primary);
}

void RecipeDiffDialog::take() {
    if (m_recipe)
        m_session->useRecipe(*m_recipe, tr("Take the recipe of %1").arg(m_other->currentText()));
}

} // namespace linnet::app
