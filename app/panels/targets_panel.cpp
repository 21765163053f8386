#include "app/panels/targets_panel.h"

#include "app/models/session.h"
#include "app/models/target_table_model.h"
#include "widgets/empty_state.h"
#include "widgets/theme.h"

#include <QAction>
#include <QClipboard>
#include <QEvent>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QInputDialog>
#include <QLabel>
#include <QPushButton>
#include <QStackedLayout>
#include <QTableView>
#include <QVBoxLayout>
#include <algorithm>

namespace linnet::app {

TargetsPanel::TargetsPanel(Session* session, QWidget* parent) : QWidget(parent), m_session(session) {
    setObjectName(QStringLiteral("targetsPanel"));
    m_model = new TargetTableModel(session, this);
    m_table = new QTableView;
    m_table->setObjectName(QStringLiteral("targetsTable"));
    m_table->setModel(m_model);
    m_table->setSelectionBehavior(QAbstractItemView::SelectRows);
    m_table->setAlternatingRowColors(true);
    m_table->setEditTriggers(QAbstractItemView::DoubleClicked | QAbstractItemView::EditKeyPressed | QAbstractItemView::AnyKeyPressed | QAbstractItemView::SelectedClicked);
    m_table->verticalHeader()->hide();
    m_table->verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 8);
    m_table->horizontalHeader()->setMinimumSectionSize(36);
    QFont small = font(); // six columns in a dock
    small.setPointSizeF(small.pointSizeF() * 0.9);
    m_table->setFont(small);
    m_table->horizontalHeader()->setFont(small);
    m_table->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
    m_table->horizontalHeader()->setSectionResizeMode(TargetTableModel::User, QHeaderView::Stretch);
    const auto button = [this](const QString& text, const QString& name, const QString& hint, auto&& slot) {
        auto* made = new QPushButton(text);
        made->setObjectName(name);
        made->setToolTip(hint);
        connect(made, &QPushButton::clicked, this, slot);
        return made;
    };
    m_reset = button(tr("Reset"), QStringLiteral("resetTargetsButton"), tr("Selected rows (or all): automatic again, unlocked"), [this] { m_model->reset(rows()); });
    m_scale = button(tr("Scale x…"), QStringLiteral("scaleTargetsButton"), tr("Multiply the values of the selected rows (or all)"), [this] { scale(); });
    m_copy = button(tr("Copy"), QStringLiteral("copyTargetsButton"), tr("Selected rows (or all) as tab-separated text"), [this] { copy(); });
    m_paste = button(tr("Paste"), QStringLiteral("pasteTargetsButton"), tr("One value for all selected rows, or one line a row"), [this] { paste(); });
    m_caption = new QLabel;
    m_caption->setWordWrap(true);
    m_message = new QLabel;
    m_message->setObjectName(QStringLiteral("targetsMessage"));
    m_message->setWordWrap(true);
    m_message->hide();
    m_probe = new QLabel;
    m_probe->setObjectName(QStringLiteral("targetsProbe"));
    m_probe->setWordWrap(true);
    m_probe->setTextInteractionFlags(Qt::TextSelectableByMouse);
    m_probe->setToolTip(tr("What is left of this head's output after the best linear map of what the start makes of it: 0 all is there, 1 nothing. "
                           "Measured on some calibration windows, without training."));

    auto* content = new QWidget;
    auto* layout = new QVBoxLayout(content);
    layout->setContentsMargins(6, 6, 6, 6);
    layout->addWidget(m_caption);
    layout->addWidget(m_table, 1);
    layout->addWidget(m_probe);
    layout->addWidget(m_message);
    auto* buttons = new QHBoxLayout;
    for (auto* each : {m_reset, m_scale, m_copy, m_paste}) {
        each->setMinimumWidth(40);
        buttons->addWidget(each, 1);
    }
    layout->addLayout(buttons);
    m_stack = new QStackedLayout(this);
    m_stack->addWidget(new widgets::EmptyState(QStringLiteral("◎"), tr("No head selected"), tr("Select heads in a heat map to see and set their targets.")));
    m_stack->addWidget(content);

    const auto shortcut = [this](QKeySequence::StandardKey key, auto&& slot) {
        auto* action = new QAction(m_table);
        action->setShortcut(key);
        action->setShortcutContext(Qt::WidgetShortcut);
        connect(action, &QAction::triggered, this, slot);
        m_table->addAction(action);
    };
    shortcut(QKeySequence::Copy, [this] { copy(); });
    shortcut(QKeySequence::Paste, [this] { paste(); });
    connect(m_model, &TargetTableModel::rejected, this, [this](const QString& reason) {
        m_message->setText(reason);
        m_message->show();
    });
    connect(m_model, &QAbstractItemModel::dataChanged, m_message, &QWidget::hide);
    connect(m_model, &QAbstractItemModel::modelReset, this, &TargetsPanel::refresh);
    connect(session->probes(), &TargetProbeModel::changed, this, &TargetsPanel::showProbe);
    refresh();
    showProbe();
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

void TargetsPanel::refresh() {
    const auto heads = m_session->selection()->selected().size();
    m_stack->setCurrentIndex(heads > 0 ? 1 : 0);
    m_caption->setText(tr("%n head(s) selected; no user value: automatic", nullptr, static_cast<int>(heads)));
    m_message->hide();
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
    constexpr int kUserColumn = TargetTableModel::User;
    QStringList texts;
    auto clipboard = QGuiApplication::clipboard()->text();
    while (clipboard.endsWith(QLatin1Char('\n')) || clipboard.endsWith(QLatin1Char('\r')))
        clipboard.chop(1);
    for (const auto& line : clipboard.split(QLatin1Char('\n'))) {
        const auto cells = line.split(QLatin1Char('\t'));
        if (cells.front() == QLatin1String("head"))
            continue; // our own header line
        texts << (cells.size() > kUserColumn ? cells[kUserColumn] : cells.front());
    }
    auto target = rows();
    if (texts.size() == 1)
        texts = QStringList(target.size(), texts.front());
    m_model->setTexts(target.mid(0, texts.size()), texts.mid(0, target.size()));
}

} // namespace linnet::app
