#include "app/panels/runs_page.h"

#include "app/models/run_table_model.h"
#include "app/models/session.h"
#include "app/panels/command_menu.h"
#include "app/panels/export_wizard.h"
#include "app/panels/run_columns.h"
#include "app/panels/run_comparison.h"
#include "app/panels/stop_or_discard.h"
#include "widgets/plurals.h"
#include "widgets/run_look.h"

#include <QAction>
#include <QContextMenuEvent>
#include <QDesktopServices>
#include <QFileDialog>
#include <QFileInfo>
#include <QHeaderView>
#include <QLabel>
#include <QMenu>
#include <QMessageBox>
#include <QPushButton>
#include <QSplitter>
#include <QTableView>
#include <QToolBar>
#include <QToolButton>
#include <QUrl>
#include <QVBoxLayout>
#include <algorithm>
#include <utility>

namespace linnet::app {

RunsPage::RunsPage(Session* session, QWidget* parent) : QWidget(parent), m_session(session), m_model(new RunTableModel(session->library(), this)) {
    setObjectName(QStringLiteral("runsPage"));
    m_table = new QTableView;
    m_table->setObjectName(QStringLiteral("runsTable"));
    m_table->setAccessibleName(tr("Runs"));
    m_table->setModel(m_model);
    m_table->setSelectionBehavior(QAbstractItemView::SelectRows);
    m_table->setSelectionMode(QAbstractItemView::ExtendedSelection);
    m_table->setEditTriggers(QAbstractItemView::EditKeyPressed | QAbstractItemView::DoubleClicked);
    m_table->setAlternatingRowColors(true);
    m_table->setShowGrid(false);
    m_table->setWordWrap(false);
    m_table->setTabKeyNavigation(false);
    m_table->setIconSize({26, 12});
    m_table->verticalHeader()->hide();
    m_table->verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 10);
    m_table->horizontalHeader()->setHighlightSections(false);
    m_table->installEventFilter(this);
    m_columns = new RunColumns(m_table);
    m_detail = new QLabel;
    m_detail->setObjectName(QStringLiteral("runDetail"));
    m_detail->setWordWrap(true);
    m_detail->setTextInteractionFlags(Qt::TextSelectableByMouse);
    m_detail->setMinimumHeight(2 * fontMetrics().lineSpacing()); // the table does not jump
    m_detail->setAlignment(Qt::AlignLeft | Qt::AlignTop);
    m_empty = new QLabel(tr("<b>No runs yet.</b> Enqueue starts one from the recipe as it stands; a folder that linnet-cli convert writes to can be added and followed."));
    m_empty->setWordWrap(true);
    m_comparison = new RunComparison;
    makeActions();
    auto* bar = new QToolBar;
    bar->setToolButtonStyle(Qt::ToolButtonTextOnly);
    for (const char* id : {"runEnqueue", "", "runNow", "runPause", "runStop", "runDiscard", "runResume", "", "runBaseline"})
        *id ? bar->addAction(m_actions[QString::fromLatin1(id)]) : static_cast<void>(bar->addSeparator());
    auto* more = new QToolButton;
    more->setText(tr("More"));
    more->setObjectName(QStringLiteral("runMore"));
    more->setMenu(m_menu);
    more->setPopupMode(QToolButton::InstantPopup);
    bar->addWidget(more);
    for (auto* button : bar->findChildren<QToolButton*>())
        button->setFocusPolicy(Qt::TabFocus);
    auto* split = new QSplitter(Qt::Vertical);
    auto* upper = new QWidget;
    auto* upperLayout = new QVBoxLayout(upper);
    upperLayout->setContentsMargins(0, 0, 0, 0);
    upperLayout->addWidget(m_empty);
    upperLayout->addWidget(m_table, 1);
    upperLayout->addWidget(m_detail);
    split->addWidget(upper);
    split->addWidget(m_comparison);
    split->setStretchFactor(0, 1);
    split->setStretchFactor(1, 1);
    split->setChildrenCollapsible(false);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(6, 4, 6, 6);
    layout->addWidget(bar);
    layout->addWidget(split, 1);
    connect(m_table->selectionModel(), &QItemSelectionModel::selectionChanged, this, [this] {
        if (const auto run = one(); run && run->hasBegun())
            m_session->library()->choose(run->folder);
        refresh();
    });
    connect(session, &Session::runsChanged, this, &RunsPage::followCurrent);
    connect(m_model, &QAbstractItemModel::dataChanged, this, &RunsPage::refresh);
    connect(m_model, &QAbstractItemModel::layoutChanged, this, &RunsPage::refresh);
    connect(session, &Session::jobChanged, this, &RunsPage::refresh);
    connect(session, &Session::teacherChanged, this, &RunsPage::refresh);
    refresh();
}

QAction* RunsPage::action(const QString& id, const QString& text, const QString& hint, void (RunsPage::*slot)()) {
    auto* made = new QAction(text, this);
    made->setObjectName(id);
    made->setToolTip(hint);
    connect(made, &QAction::triggered, this, slot);
    m_actions[id] = made;
    return made;
}

void RunsPage::makeActions() {
    action(QStringLiteral("runEnqueue"), tr("Enqueue"), tr("Put the recipe as it stands at the end of the queue; it starts when the runs before it have ended"), &RunsPage::enqueue);
    action(QStringLiteral("runHold"), tr("Hold queue"), tr("While held, waiting runs don't start by themselves"), &RunsPage::hold)->setCheckable(true);
    action(QStringLiteral("runNow"), tr("Run now"), tr("Start this waiting run, or put it first while another runs"), &RunsPage::runNow);
    action(QStringLiteral("runPause"), tr("Pause"), tr("Keep everything in memory and wait"), &RunsPage::pause);
    action(QStringLiteral("runStop"), tr("Stop and save"), tr("Finish the step, write a checkpoint, end; Resume continues from there"), &RunsPage::stop);
    action(QStringLiteral("runDiscard"), tr("Discard..."), tr("Stop the run and remove its folder"), &RunsPage::discard);
    action(QStringLiteral("runResume"), tr("Resume"), tr("Go on from the last checkpoint, with the same numbers as an undisturbed run"), &RunsPage::resume);
    action(QStringLiteral("runDuplicate"), tr("Copy recipe"), tr("Bring this run's recipe into the editor, as one step that can be undone"), &RunsPage::duplicate);
    action(QStringLiteral("runBaseline"), tr("Baseline"), tr("What Curves and Evaluation compare with; drawn dashed"), &RunsPage::baseline)->setCheckable(true);
    action(QStringLiteral("runFolder"), tr("Folder"), tr("Open the run's folder"), &RunsPage::openFolder);
    action(QStringLiteral("runExport"), tr("Export..."), tr("Write the finished student as a model folder or file"), &RunsPage::exportRun);
    action(QStringLiteral("runOpen"), tr("Open run with its teacher"), tr("Open the teacher that it was made from, its recipe and its results"), &RunsPage::openRun);
    action(QStringLiteral("runRename"), tr("Rename"), tr("Its folder keeps its name"), &RunsPage::rename);
    action(QStringLiteral("runEarlier"), tr("Earlier in the queue"), {}, &RunsPage::earlier);
    action(QStringLiteral("runLater"), tr("Later in the queue"), {}, &RunsPage::later);
    action(QStringLiteral("runAdd"), tr("Add run folder..."), tr("A run that lies elsewhere, of linnet-cli for example"), &RunsPage::addFolder);
    auto* removal = action(QStringLiteral("runDelete"), tr("Delete..."), tr("Remove the run and its folder"), &RunsPage::remove);
    removal->setShortcut(QKeySequence::Delete);
    removal->setShortcutContext(Qt::WidgetShortcut);
    m_table->addAction(removal);
    makeMenu();
}

void RunsPage::makeMenu() {
    m_menu = new QMenu(this);
    m_looks = new QMenu(tr("Colour and line"), this);
    m_looks->setObjectName(QStringLiteral("runLooks"));
    static const char* const lines[] = {QT_TR_NOOP("solid, disc"), QT_TR_NOOP("dashed, square"), QT_TR_NOOP("dotted, triangle"), QT_TR_NOOP("dash-dotted, diamond")};
    for (int look = 0; look < widgets::kRunLooks; ++look) { // a submenu for each line style
        if (look % widgets::kRunColorCount == 0)
            m_looks->addMenu(tr(lines[look / widgets::kRunColorCount]));
        auto* menu = m_looks->actions().constLast()->menu();
        auto* made = menu->addAction(widgets::runColorName(look), this, [this, look] {
            for (const auto& run : selected())
                m_session->library()->setLook(run->folder, look);
        });
        made->setObjectName(QStringLiteral("runLook%1").arg(look));
        connect(menu, &QMenu::aboutToShow, made, [this, made, look] { // in the set of colours that is chosen then
            made->setIcon(QIcon(widgets::lookSwatch(widgets::runLook(look), {26, 12}, devicePixelRatioF())));
            made->setText(widgets::runColorName(look));
        });
    }
    for (const char* id : {"runExport", "runDuplicate", "runOpen", "runFolder", "runRename"})
        m_menu->addAction(m_actions[QString::fromLatin1(id)]);
    m_menu->addMenu(m_looks);
    m_menu->addMenu(m_columns->menu());
    for (const char* id : {"runEarlier", "runLater", "runDelete", "", "runHold", "runAdd"})
        *id ? m_menu->addAction(m_actions[QString::fromLatin1(id)]) : static_cast<void>(m_menu->addSeparator());
}

bool RunsPage::eventFilter(QObject* watched, QEvent* event) {
    if (event->type() == QEvent::ContextMenu && watched == m_table) { // by mouse or by the menu key
        auto* menu = new QMenu(this);
        menu->setAttribute(Qt::WA_DeleteOnClose);
        for (const char* id : {"runNow", "runPause", "runStop", "runDiscard", "runResume", "runBaseline"})
            menu->addAction(m_actions[QString::fromLatin1(id)]);
        menu->addSeparator();
        menu->addActions(m_menu->actions());
        if (const auto run = one(); run && run->hasBegun())
            CommandMenu::addRun(menu, m_session, run->folder);
        menu->popup(static_cast<QContextMenuEvent*>(event)->globalPos());
        return true;
    }
    return QWidget::eventFilter(watched, event);
}

// Another view chose a run, or one was started: the table shows which, unless several are being compared.
void RunsPage::followCurrent() {
    const auto run = m_session->currentRun();
    const auto folder = run ? run->folder : QString();
    if (folder == std::exchange(m_current, folder) || !run || selected().size() > 1)
        return;
    if (const int row = m_model->row(folder); row >= 0 && (selected().isEmpty() || selected().front() != run))
        m_table->selectRow(row);
}

QList<RunEntryPtr> RunsPage::selected() const {
    QList<RunEntryPtr> runs;
    for (const auto& index : m_table->selectionModel()->selectedRows())
        if (const auto run = m_model->run(index))
            runs.append(run);
    return runs;
}

RunEntryPtr RunsPage::one() const {
    const auto runs = selected();
    return runs.size() == 1 ? runs.front() : nullptr;
}

void RunsPage::refresh() {
    const auto runs = selected();
    const auto* library = m_session->library();
    m_empty->setVisible(m_model->rowCount() == 0);
    const auto run = runs.size() == 1 ? runs.front() : runs.isEmpty() ? library->running() : nullptr;
    QString detail;
    if (run)
        detail = RunText::detail(*run, library->place(*run), library->isHeld());
    else if (library->isHeld() && !library->runs().isEmpty() && !library->runs().front()->hasBegun())
        detail = tr("The queue is held: More > Hold queue lets it go on.");
    m_detail->setText(detail);
    enableActions(run);
    const auto baseline = library->find(library->baseline());
    if (runs.size() == 2)
        m_comparison->compare(runs[0], runs[1]);
    else
        m_comparison->compare(run && baseline && run != baseline ? baseline : nullptr, run);
}

void RunsPage::enableActions(const RunEntryPtr& run) {
    const auto* library = m_session->library();
    const bool idle = m_session->jobState() == JobState::Idle, queued = run && run->state == QLatin1String("queued"), ours = run && run == library->running();
    const auto enable = [this](const char* id, bool on) { m_actions[QString::fromLatin1(id)]->setEnabled(on); };
    enable("runEnqueue", m_session->teacher().has_value());
    m_actions[QStringLiteral("runHold")]->setChecked(library->isHeld());
    enable("runNow", queued);
    enable("runPause", ours && run->state != QLatin1String("stopping"));
    m_actions[QStringLiteral("runPause")]->setText(ours && (run->state == QLatin1String("paused") || run->state == QLatin1String("pausing")) ? tr("Continue") : tr("Pause"));
    const bool discards = ours && stopMeansDiscard(*m_session); // as its second press everywhere does
    enable("runStop", ours && (run->state != QLatin1String("stopping") || discards));
    enable("runDiscard", ours && offersDiscard(*m_session));
    enable("runResume", idle && run && run->canResume());
    enable("runDuplicate", run && run->recipe.has_value() && m_session->teacher());
    enable("runBaseline", run && run->hasBegun());
    m_actions[QStringLiteral("runBaseline")]->setChecked(run && run->folder == library->baseline());
    enable("runFolder", run && run->hasBegun());
    enable("runExport", idle && run && run->state == QLatin1String("done"));
    enable("runOpen", idle && run && run->hasBegun());
    enable("runRename", run != nullptr);
    enable("runEarlier", queued && library->place(*run) > 1);
    enable("runLater", queued);
    const auto runs = selected();
    enable("runDelete", !runs.isEmpty() && std::none_of(runs.begin(), runs.end(), [](const auto& each) { return each->isOurs() || each->state == QLatin1String("elsewhere"); }));
    m_looks->setEnabled(!runs.isEmpty());
}

// ---- actions -----------------------------------------------------------------------------------------------------------------

void RunsPage::enqueue() {
    if (const auto& problem = m_session->runProblem()) {
        Q_EMIT m_session->failed(tr("The recipe has a problem"), *problem);
        return;
    }
    const auto folder = m_session->library()->enqueue(m_session->recipe()->recipe());
    m_table->selectRow(m_model->row(folder));
}

void RunsPage::hold() {
    m_session->library()->setHeld(m_actions[QStringLiteral("runHold")]->isChecked());
}

void RunsPage::runNow() {
    if (const auto run = one())
        m_session->library()->runNow(run->folder);
}

void RunsPage::pause() {
    m_session->pauseOrResume();
}

void RunsPage::stop() {
    stopOrDiscard(m_session, this);
}

void RunsPage::resume() {
    if (const auto run = one())
        m_session->resumeRun(run->folder);
}

void RunsPage::duplicate() {
    const auto run = one() ? one() : m_session->library()->running();
    if (!run || !run->recipe)
        return;
    m_session->useRecipe(*run->recipe, tr("Recipe of %1").arg(run->name));
}

void RunsPage::baseline() {
    if (const auto run = one())
        m_session->library()->setBaseline(run->folder == m_session->library()->baseline() ? QString() : run->folder);
}

void RunsPage::openFolder() {
    if (const auto run = one())
        QDesktopServices::openUrl(QUrl::fromLocalFile(run->folder));
}

void RunsPage::exportRun() {
    const auto run = one();
    if (!run)
        return;
    auto* dialog = new ExportWizard(m_session, run->folder, window());
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->open();
}

void RunsPage::openRun() {
    if (const auto run = one())
        m_session->openTeacher(run->folder);
}

void RunsPage::addFolder() {
    const auto folder = QFileDialog::getExistingDirectory(this, tr("Add a run folder"));
    if (folder.isEmpty())
        return;
    if (!QFileInfo::exists(folder + QStringLiteral("/recipe.json")) || !QFileInfo::exists(folder + QStringLiteral("/state.json"))) {
        Q_EMIT m_session->failed(tr("Not a run folder"), {core::ErrorCode::NotFound, folder.toStdString() + " is no run folder: recipe.json and state.json are not both there", {}});
        return;
    }
    m_table->selectRow(m_model->row(m_session->library()->open(folder)->folder));
}

void RunsPage::rename() {
    if (const auto run = one())
        m_table->edit(m_model->index(m_model->row(run->folder), RunTableModel::Name));
}

void RunsPage::earlier() {
    if (const auto run = one())
        m_session->library()->moveInQueue(run->folder, -1);
}

void RunsPage::later() {
    if (const auto run = one())
        m_session->library()->moveInQueue(run->folder, 1);
}

void RunsPage::ask(const QString& name, const QString& title, const QString& text, const QString& button, std::function<void()> yes) {
    auto* box = new QMessageBox(QMessageBox::Warning, title, text, QMessageBox::Cancel, window());
    box->setAttribute(Qt::WA_DeleteOnClose);
    box->setObjectName(name);
    auto* accept = box->addButton(button, QMessageBox::DestructiveRole);
    box->setDefaultButton(QMessageBox::Cancel);
    connect(accept, &QPushButton::clicked, this, [yes = std::move(yes)] { yes(); });
    box->open();
}

void RunsPage::discard() {
    askToDiscard(m_session, this);
}

void RunsPage::remove() {
    const auto runs = selected();
    if (runs.isEmpty())
        return;
    QStringList folders;
    for (const auto& run : runs)
        folders << run->folder;
    const bool waiting = std::all_of(runs.begin(), runs.end(), [](const auto& run) { return !run->hasBegun(); });
    const auto removal = [this, folders] {
        for (const auto& folder : folders)
            m_session->library()->remove(folder);
    };
    if (waiting) // nothing is lost but its place
        return removal();
    ask(QStringLiteral("deleteBox"), tr("Delete %n run(s)?", nullptr, static_cast<int>(runs.size())), tr("The folders are removed with their checkpoints:\n%1\n\nThis can't be undone.").arg(folders.join(QLatin1Char('\n'))),
        tr("Delete"), removal);
}

} // namespace linnet::app
