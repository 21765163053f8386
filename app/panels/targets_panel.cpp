#include "app/panels/targets_panel.h"

#include "app/models/session.h"
#include "app/models/target_actions.h"
#include "app/models/target_table_model.h"
#include "app/panels/target_preview.h"
#include "widgets/empty_state.h"
#include "widgets/plurals.h"
#include "widgets/theme.h"

#include <QAction>
#include <QClipboard>
#include <QEvent>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QInputDialog>
#include <QLabel>
#include <QLineEdit>
#include <QMap>
#include <QMenu>
#include <QPushButton>
#include <QStackedLayout>
#include <QStyledItemDelegate>
#include <QTableView>
#include <QVBoxLayout>
#include <algorithm>
#include <functional>

namespace linnet::app {

namespace {

constexpr int kRoomyHeight = 520; // from here on the preview has a picture beside the eight rows of two heads; the inspector has it too

class ValueDelegate : public QStyledItemDelegate { // tells what is typed before it is taken
public:
    using Typed = std::function<void(const QModelIndex&, const QString&)>;
    ValueDelegate(Typed typed, QObject* parent) : QStyledItemDelegate(parent), m_typed(std::move(typed)) {}
    QWidget* createEditor(QWidget* parent, const QStyleOptionViewItem&, const QModelIndex& index) const override {
        auto* editor = new QLineEdit(parent);
        editor->setFrame(false);
        connect(editor, &QLineEdit::textEdited, this, [this, index = QPersistentModelIndex(index)](const QString& text) { m_typed(index, text); });
        return editor;
    }

private:
    Typed m_typed;
};

} // namespace

TargetsPanel::TargetsPanel(Session* session, QWidget* parent) : QWidget(parent), m_session(session) {
    setObjectName(QStringLiteral("targetsPanel"));
    m_model = new TargetTableModel(session, this);
    makeTable();
    const auto label = [](const QString& name) {
        auto* made = new QLabel;
        made->setObjectName(name);
        made->setWordWrap(true);
        return made;
    };
    m_caption = label(QStringLiteral("targetsCaption"));
    m_message = label(QStringLiteral("targetsMessage"));
    m_message->hide();
    m_probe = label(QStringLiteral("targetsProbe"));
    m_probe->setTextInteractionFlags(Qt::TextSelectableByMouse);
    m_probe->setToolTip(tr("What is left of this head's output after the best linear map of what the start makes of it: 0 all is there, 1 nothing. "
                           "Measured on some calibration windows, without training."));
    m_preview = new TargetPreview(session);

    auto* content = new QWidget;
    auto* layout = new QVBoxLayout(content);
    layout->setContentsMargins(6, 6, 6, 6);
    layout->setSpacing(4);
    layout->addWidget(m_caption);
    layout->addWidget(m_table, 3);
    layout->addWidget(m_preview, 1);
    layout->addWidget(m_probe);
    layout->addWidget(m_message);
    auto* buttons = new QHBoxLayout;
    buttons->setSpacing(4);
    makeButtons(buttons);
    layout->addLayout(buttons);
    m_stack = new QStackedLayout(this);
    m_stack->addWidget(new widgets::EmptyState(QStringLiteral("◎"), tr("No head selected"), tr("Select heads in a heat map to see and set their targets.")));
    m_stack->addWidget(content);
    m_stack->addWidget(new widgets::EmptyState(QStringLiteral("◎"), tr("Linear already"), tr("The selected heads are linear in this model: nothing is left to set. Choose heads of a softmax layer.")));

    connect(m_model, &TargetTableModel::rejected, this, &TargetsPanel::say);
    connect(m_model, &QAbstractItemModel::dataChanged, this, &TargetsPanel::refresh); // may come of another head's choice: the row follows it, not it the row
    connect(m_model, &QAbstractItemModel::modelReset, this, &TargetsPanel::refresh);
    connect(m_table->selectionModel(), &QItemSelectionModel::currentRowChanged, this, &TargetsPanel::lookAt);
    connect(session->probes(), &TargetProbeModel::changed, this, &TargetsPanel::showProbe);
    connect(session->selection(), &SelectionModel::changed, this, &TargetsPanel::refresh);
    refresh();
    showProbe();
}

void TargetsPanel::makeTable() {
    m_table = new QTableView;
    m_table->setObjectName(QStringLiteral("targetsTable"));
    m_table->setAccessibleName(tr("Targets of the selected heads"));
    m_table->setModel(m_model);
    m_table->setSelectionBehavior(QAbstractItemView::SelectRows);
    m_table->setAlternatingRowColors(true);
    m_table->setEditTriggers(QAbstractItemView::DoubleClicked | QAbstractItemView::EditKeyPressed | QAbstractItemView::AnyKeyPressed | QAbstractItemView::SelectedClicked);
    m_table->setItemDelegateForColumn(TargetTableModel::User, new ValueDelegate(
                                                                   [this](const QModelIndex& index, const QString& text) {
                                                                       m_preview->show(m_model->headAt(index.row()), m_model->fieldAt(index.row()), TargetTableModel::typed(text, m_model->fieldAt(index.row())));
                                                                   },
                                                                   this));
    m_table->verticalHeader()->hide();
    m_table->verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 6);
    m_table->horizontalHeader()->setMinimumSectionSize(30);
    QFont small = font(); // six columns in a dock
    small.setPointSizeF(small.pointSizeF() * 0.87);
    m_table->setFont(small);
    m_table->setIconSize({11, 11}); // a warning leaves room for its number
    m_table->horizontalHeader()->setFont(small);
    m_table->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
    m_table->horizontalHeader()->setResizeContentsPrecision(20); // of thousands of rows, those in view
    m_table->horizontalHeader()->setSectionResizeMode(TargetTableModel::User, QHeaderView::Stretch);
    const auto shortcut = [this](const QKeySequence& keys, auto&& slot) {
        auto* action = new QAction(m_table);
        action->setShortcut(keys);
        action->setShortcutContext(Qt::WidgetShortcut);
        connect(action, &QAction::triggered, this, slot);
        m_table->addAction(action);
    };
    shortcut(QKeySequence::Copy, [this] { copy(); });
    shortcut(QKeySequence::Paste, [this] { paste(); });
    shortcut(QKeySequence::Delete, [this] { m_model->set(rows(), QString()); });
}

void TargetsPanel::makeButtons(QHBoxLayout* row) { // one row: the table needs the height
    const auto button = [row](const QString& text, const QString& name, const QString& hint) {
        auto* made = new QPushButton(text);
        made->setObjectName(name);
        made->setToolTip(hint);
        made->setMinimumWidth(36);
        made->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
        row->addWidget(made, 1);
        return made;
    };
    connect(button(tr("Set…"), QStringLiteral("setTargetsButton"), tr("One value for the selected rows (or all): asks which target where they are of several kinds")), &QPushButton::clicked, this, &TargetsPanel::askValue);
    connect(button(tr("Scale…"), QStringLiteral("scaleTargetsButton"), tr("Multiply the values of the selected rows (or all)")), &QPushButton::clicked, this, &TargetsPanel::scale);
    connect(button(tr("Lock"), QStringLiteral("lockTargetsButton"), tr("Keep the selected rows (or all) as they are through alignment; once more unlocks them")),
            &QPushButton::clicked, this, &TargetsPanel::lock);
    auto* menu = new QMenu(this);
    fillSpread(menu);
    button(tr("Apply"), QStringLiteral("applyTargetsButton"), tr("Give the values of the head of the current row to other heads"))->setMenu(menu);
    auto* more = new QMenu(this);
    more->setToolTipsVisible(true);
    const auto action = [this, more](const QString& text, const QString& name, const QString& hint, auto slot) {
        auto* made = more->addAction(text, this, slot);
        made->setObjectName(name);
        made->setToolTip(hint);
    };
    action(tr("&Copy"), QStringLiteral("copyTargets"), tr("Selected rows (or all) as tab-separated text"), &TargetsPanel::copy);
    action(tr("&Paste"), QStringLiteral("pasteTargets"), tr("Copied rows field by field; plain values one a row, a single one to all rows"), &TargetsPanel::paste);
    action(tr("&Reset"), QStringLiteral("resetTargets"), tr("Selected rows (or all): automatic again, unlocked"), [this] { m_model->reset(rows()); });
    more->addSeparator();
    action(tr("Compare with a &run…"), QStringLiteral("compareRecipe"), tr("Where this recipe differs from that of a run"), &TargetsPanel::comparisonRequested);
    button(tr("More"), QStringLiteral("moreTargetsButton"), tr("Copy, paste, reset, compare"))->setMenu(more);
}

void TargetsPanel::fillSpread(QMenu* menu) {
    const auto add = [this, menu](const QString& name, const QString& text, Spread how) {
        auto* action = menu->addAction(text, this, [this, how] { spread(how); });
        action->setObjectName(name);
    };
    add(QStringLiteral("applyGroup"), tr("To the heads of its key/value group"), Spread::Group);
    add(QStringLiteral("applyLayer"), tr("To its layer"), Spread::Layer);
    add(QStringLiteral("applyModel"), tr("To all heads of the model"), Spread::Model);
    add(QStringLiteral("applySimilar"), tr("To the %1 most similar heads").arg(kSimilarHeads), Spread::Similar);
    menu->addSeparator();
    menu->addAction(tr("Select the similar heads"), this, [this] {
        auto* selection = m_session->selection();
        const auto similar = spreadHeads(*m_session, selection->primary(), Spread::Similar);
        if (similar.isEmpty())
            return say(tr("Which heads are similar is known after a profile."));
        selection->add(QSet<HeadId>(similar.begin(), similar.end()), selection->primary());
    })->setObjectName(QStringLiteral("selectSimilar"));
}

void TargetsPanel::showProbe() {
    const auto* probes = m_session->probes();
    m_probe->setVisible(probes->state() != TargetProbeModel::State::None);
    auto text = tr("L%1 H%2: %3").arg(probes->head().layer).arg(probes->head().head).arg(probes->text().toHtmlEscaped());
    if (probes->costly())
        text = QStringLiteral("<span style='color:%1'>⚠ %2</span>").arg(widgets::stateColors(palette()).warning.name(), text);
    m_probe->setText(text);
}

void TargetsPanel::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange)
        showProbe();
}

void TargetsPanel::resizeEvent(QResizeEvent* event) {
    QWidget::resizeEvent(event);
    m_preview->setRoomy(height() >= kRoomyHeight);
    m_caption->setVisible(height() >= kRoomyHeight);
}

void TargetsPanel::say(const QString& text) {
    m_message->setText(text);
    m_message->show();
}

void TargetsPanel::refresh() {
    const auto heads = m_session->selection()->selected().size();
    const auto& selected = m_session->selection()->selected();
    const bool linear = std::all_of(selected.begin(), selected.end(), [this](const HeadId& head) { return m_session->recipe()->convertedBefore(head.layer); });
    m_stack->setCurrentIndex(heads == 0 ? 0 : linear ? 2 : 1);
    showCaption();
    m_message->hide();
    const auto primary = m_session->selection()->primary();
    const auto current = m_table->currentIndex();
    if (primary.valid() && (!current.isValid() || m_model->headAt(current.row()) != primary)) // another view chose it: its rows come into view
        for (int row = 0; row < m_model->rowCount(); row += 4)
            if (m_model->headAt(row) == primary) {
                const auto field = current.isValid() ? current.row() % 4 : 0;
                m_table->selectionModel()->setCurrentIndex(m_model->index(row + field, TargetTableModel::User), QItemSelectionModel::NoUpdate);
                m_table->scrollTo(m_model->index(row, 0));
                break;
            }
    lookAt();
}

void TargetsPanel::showCaption() {
    const int all = m_model->rowCount();
    int byHand = 0;
    for (int row = 0; row < all; ++row)
        byHand += m_model->user(row).has_value();
    const auto heads = tr("%n head(s) selected", nullptr, static_cast<int>(m_session->selection()->selected().size()));
    m_caption->setText(heads + (byHand == 0 ? tr(": all targets automatic") : tr(": %1 of %2 targets set by hand, the others automatic").arg(byHand).arg(all)));
}

void TargetsPanel::lookAt() {
    const auto current = m_table->currentIndex();
    const auto head = current.isValid() ? m_model->headAt(current.row()) : m_session->selection()->primary();
    m_session->selection()->setPrimary(head);
    m_preview->show(head, current.isValid() ? m_model->fieldAt(current.row()) : TargetField::HalfLife);
}

QList<int> TargetsPanel::rows() const {
    QList<int> result;
    for (const auto& index : m_table->selectionModel()->selectedRows(TargetTableModel::Head))
        result << index.row();
    if (result.isEmpty())
        for (int row = 0; row < m_model->rowCount(); ++row)
            result << row;
    std::sort(result.begin(), result.end());
    return result;
}

// One value for one kind of target: a half-life is no beta. Which one is asked first where the rows leave it open.
void TargetsPanel::askValue() {
    const auto chosen = rows();
    QMap<QString, QList<int>> byField;
    for (const int row : chosen)
        byField[m_model->index(row, TargetTableModel::Field).data().toString()] << row;
    if (byField.size() == 1)
        return askValueOf(chosen, byField.firstKey());
    QStringList fields;
    for (const int row : chosen)
        if (const auto field = m_model->index(row, TargetTableModel::Field).data().toString(); !fields.contains(field))
            fields << field;
    auto* dialog = new QInputDialog(this);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setObjectName(QStringLiteral("setWhichDialog"));
    dialog->setWindowTitle(tr("Set targets"));
    dialog->setLabelText(tr("Which target of the selected heads?"));
    dialog->setComboBoxItems(fields);
    const auto current = m_table->currentIndex();
    dialog->setTextValue(current.isValid() ? m_model->index(current.row(), TargetTableModel::Field).data().toString() : fields.value(0));
    connect(dialog, &QInputDialog::textValueSelected, this, [this, byField](const QString& field) {
        if (byField.contains(field))
            askValueOf(byField[field], field);
    });
    dialog->open();
}

void TargetsPanel::askValueOf(const QList<int>& chosen, const QString& field) {
    auto* dialog = new QInputDialog(this);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setObjectName(QStringLiteral("setTargetsDialog"));
    dialog->setWindowTitle(tr("Set targets"));
    dialog->setLabelText(tr("%1 of %n head(s): a number, \"none\" for no decay, empty for automatic", nullptr, static_cast<int>(chosen.size())).arg(field));
    connect(dialog, &QInputDialog::textValueSelected, this, [this, chosen](const QString& text) { m_model->set(chosen, text); });
    dialog->open();
}

void TargetsPanel::lock() {
    const auto chosen = rows();
    const auto locked = [this](int row) { return m_model->index(row, TargetTableModel::Locked).data(Qt::CheckStateRole).toInt() == Qt::Checked; };
    m_model->setLocked(chosen, !std::all_of(chosen.begin(), chosen.end(), locked));
}

void TargetsPanel::spread(Spread how) {
    const auto from = m_table->currentIndex().isValid() ? m_model->headAt(m_table->currentIndex().row()) : m_session->selection()->primary();
    QList<TargetField> fields;
    for (const int row : rows())
        if (m_model->headAt(row) == from)
            fields << m_model->fieldAt(row);
    if (fields.isEmpty()) // rows of other heads are selected: all that this one has
        fields = {TargetField::HalfLife, TargetField::Beta, TargetField::ValueScale, TargetField::OutputGate};
    const auto done = spreadTargets(*m_session, from, fields, how);
    if (!done.refused.isEmpty())
        return say(done.refused);
    auto text = tr("Applied to %n head(s); Undo takes it back.", nullptr, done.heads);
    if (done.idle > 0)
        text += QLatin1Char(' ') + tr("%1 of them lie in layers that stay softmax: no effect there unless these are converted.").arg(done.idle);
    say(done.locked > 0 ? text + QLatin1Char(' ') + tr("%n locked target(s) stayed unchanged.", nullptr, done.locked) : text);
}

void TargetsPanel::scale() {
    auto* dialog = new QInputDialog(this);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setWindowTitle(tr("Scale targets"));
    dialog->setLabelText(tr("Multiply by"));
    dialog->setInputMode(QInputDialog::DoubleInput);
    dialog->setDoubleDecimals(4);
    dialog->setDoubleRange(0.0001, 10000);
    dialog->setDoubleValue(2);
    connect(dialog, &QInputDialog::doubleValueSelected, this, [this, chosen = rows()](double factor) { m_model->scale(chosen, factor); });
    dialog->open();
}

void TargetsPanel::copy() {
    QGuiApplication::clipboard()->setText(m_model->text(rows()));
}

void TargetsPanel::paste() {
    m_model->paste(rows(), QGuiApplication::clipboard()->text());
}

} // namespace linnet::app
