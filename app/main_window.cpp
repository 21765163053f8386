#include "app/main_window.h"

#include "app/models/error_text.h"
#include "app/models/settings.h"
#include "app/panels/curves_panel.h"
#include "app/panels/evaluation_panel.h"
#include "app/panels/command_menu.h"
#include "app/panels/dock_fold.h"
#include "app/panels/dock_room.h"
#include "app/panels/export_wizard.h"
#include "app/panels/generate_page.h"
#include "app/panels/heads_page.h"
#include "app/panels/inspector_panel.h"
#include "app/panels/layers_page.h"
#include "app/panels/log_panel.h"
#include "app/panels/memory_gauge.h"
#include "app/panels/plot_export_menu.h"
#include "app/panels/probe_dock.h"
#include "app/panels/problems_panel.h"
#include "app/panels/project_panel.h"
#include "app/panels/recipe_diff_dialog.h"
#include "app/panels/run_panel.h"
#include "app/panels/runs_page.h"
#include "app/panels/selection_chip.h"
#include "app/panels/stop_or_discard.h"
#include "app/panels/targets_panel.h"
#include "app/window_habits.h"
#include "widgets/progress_strip.h"

#include <QAction>
#include <QApplication>
#include <QCloseEvent>
#include <QDockWidget>
#include <QDragEnterEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QLabel>
#include <QMenuBar>
#include <QMessageBox>
#include <QPushButton>
#include <QScrollArea>
#include <QStatusBar>
#include <QTabWidget>
#include <QToolBar>
#include <QToolButton>

namespace linnet::app {
namespace {

constexpr int kLayoutVersion = 2;
const QString kNews = QStringLiteral(" •"); // behind the title of a page

constexpr int kLeastDock = 275; // pixels that the left docks keep in a narrow window

QWidget* scrolled(QWidget* content, int leastWidth = 0) { // small screens: a panel scrolls rather than being cut
    auto* area = new QScrollArea;
    area->setMinimumWidth(leastWidth);
    area->setWidgetResizable(true);
    area->setFrameShape(QFrame::NoFrame);
    area->setHorizontalScrollBarPolicy(leastWidth > 0 ? Qt::ScrollBarAlwaysOff : Qt::ScrollBarAsNeeded);
    area->setWidget(content);
    return area;
}

} // namespace

MainWindow::MainWindow(QWidget* parent) : QMainWindow(parent) {
    setObjectName(QStringLiteral("mainWindow"));
    setWindowTitle(tr("Linnet"));
    setAcceptDrops(true);
    setDockOptions(AnimatedDocks | AllowTabbedDocks | AllowNestedDocks);
    setCorner(Qt::BottomLeftCorner, Qt::LeftDockWidgetArea);
    setCorner(Qt::BottomRightCorner, Qt::RightDockWidgetArea);
    resize(1280, 800);
    m_habits = new WindowHabits(this, &m_session);
    connect(m_habits, &WindowHabits::failed, this, &MainWindow::showError);
    connect(m_habits, &WindowHabits::layoutResetRequested, this, &MainWindow::resetLayout);
    makePages();
    makeMenus();
    makeStatusBar();
    resetLayout();
    const Settings settings;
    if (settings.value(QStringLiteral("window/layout")).toInt() == kLayoutVersion) {
        restoreGeometry(settings.value(QStringLiteral("window/geometry")).toByteArray());
        restoreState(settings.value(QStringLiteral("window/state")).toByteArray(), kLayoutVersion);
    }
    connect(&m_session, &Session::jobChanged, this, &MainWindow::updateActions);
    connect(&m_session, &Session::runsChanged, this, &MainWindow::updateActions);
    connect(&m_session, &Session::runProblemChanged, this, &MainWindow::updateActions);
    connect(&m_session, &Session::failed, this, &MainWindow::showError);
    connect(&m_session, &Session::notice, this, [this](const QString& text) { say(text); });
    connect(&m_session, &Session::teacherChanged, this, [this] {
        const auto& teacher = m_session.teacher();
        setWindowTitle(teacher ? tr("%1 - Linnet").arg(QFileInfo(QString::fromStdString(teacher->path.string())).fileName()) : tr("Linnet"));
        updateActions();
    });
    updateActions();
}

MainWindow::~MainWindow() { // the panels first: to their end they speak to the session
    hide();
    delete takeCentralWidget();
    qDeleteAll(std::exchange(m_docks, {}));
}

QDockWidget* MainWindow::addDock(const QString& name, const QString& title, QWidget* content, Qt::DockWidgetArea area) {
    auto* dock = new QDockWidget(title, this);
    dock->setObjectName(name);
    dock->toggleViewAction()->setObjectName(name + QStringLiteral("Toggle"));
    if (content->accessibleName().isEmpty())
        content->setAccessibleName(title);
    dock->setWidget(content);
    addDockWidget(area, dock);
    m_docks[name] = dock;
    return dock;
}

void MainWindow::makePages() {
    m_pages = new QTabWidget;
    m_pages->setObjectName(QStringLiteral("pages"));
    m_pages->setDocumentMode(true);
    auto* heads = new HeadsPage(&m_session);
    connect(heads, &HeadsPage::measuredChoiceRequested, this, [this] { m_pages->setCurrentWidget(m_layers); });
    m_pages->addTab(m_heads = heads, tr("Heads"));
    m_pages->addTab(m_layers = new LayersPage(&m_session), tr("Layers"));
    m_pages->addTab(new RunsPage(&m_session), tr("Runs"));
    m_pages->addTab(m_curves = new CurvesPanel(&m_session), tr("Curves"));
    m_pages->addTab(m_evaluation = new EvaluationPanel(&m_session), tr("Evaluation"));
    m_pages->addTab(new GeneratePage(&m_session), tr("Generate"));
    setCentralWidget(m_habits->wrapPages(m_pages));
    auto* project = new ProjectPanel(&m_session);
    connect(project, &ProjectPanel::stepRequested, this, &MainWindow::showStep);
    addDock(QStringLiteral("projectDock"), tr("Project"), scrolled(project, kLeastDock), Qt::LeftDockWidgetArea);
    addDock(QStringLiteral("runDock"), tr("Run"), scrolled(new RunPanel(&m_session), kLeastDock), Qt::LeftDockWidgetArea);
    auto* inspector = new InspectorPanel(&m_session);
    addDock(QStringLiteral("inspectorDock"), tr("Inspector"), scrolled(inspector), Qt::RightDockWidgetArea);
    auto* targets = new TargetsPanel(&m_session);
    connect(targets, &TargetsPanel::comparisonRequested, this, &MainWindow::compareRecipes);
    addDock(QStringLiteral("targetsDock"), tr("Targets"), targets, Qt::RightDockWidgetArea);
    addDock(QStringLiteral("logDock"), tr("Log"), new LogPanel(&m_session), Qt::BottomDockWidgetArea);
    auto* problems = new ProblemsPanel(&m_session);
    connect(problems, &ProblemsPanel::stepRequested, this, &MainWindow::showStep);
    auto* problemsDock = addDock(QStringLiteral("problemsDock"), tr("Problems"), problems, Qt::BottomDockWidgetArea);
    const auto count = [problems, problemsDock] { // on its tab
        problemsDock->setWindowTitle(problems->count() == 0 ? tr("Problems") : tr("Problems (%1)").arg(problems->count()));
        problemsDock->toggleViewAction()->setText(tr("Problems"));
    };
    connect(problems, &ProblemsPanel::counted, this, count);
    count();
    if (auto* probe = makeProbePanel(&m_session))
        new DockRoom(this, addDock(QStringLiteral("probeDock"), tr("Probe"), probe, Qt::BottomDockWidgetArea));
    inspector->offerProbe(m_docks.contains(QStringLiteral("probeDock")));
    connect(inspector, &InspectorPanel::probeRequested, this, [this] { showStep(QStringLiteral("probe")); });
    m_fold = new DockFold(this, {m_docks[QStringLiteral("inspectorDock")], m_docks[QStringLiteral("targetsDock")]}, {m_docks[QStringLiteral("projectDock")], m_docks[QStringLiteral("runDock")]});
    connect(m_fold, &DockFold::told, this, &MainWindow::say);
    // A run marks the page on which there is something new, and leaves the person on theirs.
    connect(&m_session, &Session::stageStarted, this, [this](const QString& stage) {
        const bool draws = stage == QLatin1String("align") || stage == QLatin1String("drift") || stage == QLatin1String("distill");
        auto* page = draws ? m_curves : stage == QLatin1String("evaluate") ? m_evaluation : nullptr;
        if (page && page != m_pages->currentWidget() && !m_pages->tabText(m_pages->indexOf(page)).endsWith(kNews))
            m_pages->setTabText(m_pages->indexOf(page), m_pages->tabText(m_pages->indexOf(page)) + kNews);
    });
    connect(m_pages, &QTabWidget::currentChanged, this, [this](int page) {
        if (auto text = m_pages->tabText(page); text.endsWith(kNews))
            m_pages->setTabText(page, text.chopped(kNews.size()));
    });
}

void MainWindow::showStep(const QString& id) { // where a step of the rail is done; it starts nothing
    if (id == QLatin1String("open"))
        return m_session.jobState() == JobState::Idle ? m_open->popup(QCursor::pos()) : void();
    if (id == QLatin1String("export"))
        return m_actions[QStringLiteral("export")]->isEnabled() ? exportCurrent() : void();
    if (id == QLatin1String("profile"))
        m_pages->setCurrentWidget(m_heads);
    if (id == QLatin1String("layers"))
        m_pages->setCurrentWidget(m_layers);
    if (id == QLatin1String("evaluate"))
        m_pages->setCurrentWidget(m_evaluation);
    const auto dock = id + QStringLiteral("Dock"); // targets, run; the inspector's probe
    if (auto* shown = m_docks.value(dock)) {
        shown->show();
        shown->raise();
    }
}

void MainWindow::makeMenus() {
    const auto add = [this](QMenu* menu, const QString& id, const QString& title, const QKeySequence& keys, auto&& slot) {
        auto* action = menu->addAction(title);
        action->setShortcut(keys);
        action->setObjectName(id);
        connect(action, &QAction::triggered, this, slot);
        m_actions[id] = action;
        return action;
    };
    auto* file = menuBar()->addMenu(tr("&File"));
    add(file, QStringLiteral("openFolder"), tr("&Open folder..."), QKeySequence::Open, [this] { openFolder(); });
    add(file, QStringLiteral("openFile"), tr("Open &GGUF file..."), QKeySequence(tr("Ctrl+Shift+O")), [this] { openFile(); });
    add(file, QStringLiteral("openDefault"), tr("Open &default teacher"), QKeySequence(tr("Ctrl+D")), [this] { m_session.openTeacher(QStringLiteral("default")); });
    add(file, QStringLiteral("closeTeacher"), tr("&Close teacher"), QKeySequence(tr("Ctrl+Shift+W")), [this] { m_session.closeTeacher(); });
    m_recent = file->addMenu(tr("Open &recent"));
    m_recent->setObjectName(QStringLiteral("recentMenu"));
    m_habits->fillRecent(m_recent);
    file->addSeparator();
    add(file, QStringLiteral("loadRecipe"), tr("&Load recipe..."), QKeySequence(tr("Ctrl+L")), [this] {
        const auto path = QFileDialog::getOpenFileName(this, tr("Load recipe"), {}, tr("Recipes (*.json)"));
        if (!path.isEmpty())
            m_habits->loadRecipe(path);
    });
    add(file, QStringLiteral("saveRecipe"), tr("&Save recipe as..."), QKeySequence::Save, [this] { saveRecipe(); });
    file->addSeparator();
    add(file, QStringLiteral("export"), tr("&Export student..."), QKeySequence(tr("Ctrl+E")), [this] { exportCurrent(); });
    file->addMenu(new PlotExportMenu(&m_session, this));
    file->addSeparator();
    add(file, QStringLiteral("quit"), tr("&Quit"), QKeySequence(tr("Ctrl+Q")), [this] { close(); });

    auto* edit = menuBar()->addMenu(tr("&Edit"));
    auto* undo = m_session.recipe()->undoStack()->createUndoAction(this, tr("Undo"));
    undo->setShortcut(QKeySequence::Undo);
    undo->setObjectName(QStringLiteral("undo"));
    auto* redo = m_session.recipe()->undoStack()->createRedoAction(this, tr("Redo"));
    redo->setShortcut(QKeySequence::Redo);
    redo->setObjectName(QStringLiteral("redo"));
    undo->setIconText(tr("Undo")); // on the tool bar, whatever it would undo: that stands in the menu and in its tip
    redo->setIconText(tr("Redo"));
    edit->addActions({undo, redo});
    edit->addSeparator();
    add(edit, QStringLiteral("clearSelection"), tr("&Clear selection"), QKeySequence(Qt::Key_Escape), [this] { m_session.selection()->clear(); });
    add(edit, QStringLiteral("pinHead"), tr("&Pin head as reference"), QKeySequence(tr("Ctrl+Shift+K")), [this] { m_session.selection()->setPinned(m_session.selection()->primary()); });
    add(edit, QStringLiteral("compareRecipes"), tr("Co&mpare recipe with a run..."), {}, [this] { compareRecipes(); });
    m_habits->fillEdit(edit);

    auto* run = menuBar()->addMenu(tr("&Run"));
    add(run, QStringLiteral("profile"), tr("&Profile teacher"), QKeySequence(tr("Ctrl+P")), [this] { m_session.profileTeacher(); });
    add(run, QStringLiteral("start"), tr("&Run conversion"), QKeySequence(tr("Ctrl+R")), [this] {
        m_habits->commitEdits();
        m_session.startRun();
    });
    add(run, QStringLiteral("pause"), tr("P&ause"), QKeySequence(tr("Ctrl+Shift+P")), [this] { m_session.pauseOrResume(); });
    add(run, QStringLiteral("stop"), tr("&Stop and save"), QKeySequence(tr("Ctrl+.")), [this] { stopOrDiscard(&m_session, this); });
    run->addSeparator();
    run->addMenu(new CommandMenu(&m_session, this));

    m_view = menuBar()->addMenu(tr("&View"));
    for (int i = 0; i < m_pages->count(); ++i)
        add(m_view, QStringLiteral("page%1").arg(i), m_pages->tabText(i), QKeySequence(tr("Ctrl+%1").arg(i + 1)), [this, i] { m_habits->showPage(i); });
    m_view->addSeparator();
    for (const char* name : {"projectDock", "runDock", "inspectorDock", "targetsDock", "logDock", "problemsDock", "probeDock"})
        if (auto* dock = m_docks.value(QString::fromLatin1(name)))
            m_view->addAction(dock->toggleViewAction());
    m_view->addSeparator();
    m_habits->fillView(m_view);
    add(m_view, QStringLiteral("resetLayout"), tr("&Reset layout"), {}, [this] { resetLayout(); });

    auto* help = menuBar()->addMenu(tr("&Help"));
    m_habits->fillHelp(help);
    m_habits->finish();

    auto* bar = addToolBar(tr("Main"));
    bar->setObjectName(QStringLiteral("mainToolBar"));
    bar->setMovable(false);
    if (auto* more = bar->findChild<QWidget*>(QStringLiteral("qt_toolbar_ext_button"))) // where the window is narrow
        more->setAccessibleName(tr("More tools"));
    m_open = new QMenu(tr("Open"), this);
    for (const char* name : {"openFolder", "openFile", "openDefault"})
        m_open->addAction(m_actions[QString::fromLatin1(name)]);
    m_open->addMenu(m_recent);
    auto* open = new QToolButton;
    open->setObjectName(QStringLiteral("openButton"));
    open->setText(tr("Open"));
    open->setToolTip(tr("A model (Hugging Face folder or GGUF file), or a run"));
    open->setPopupMode(QToolButton::InstantPopup);
    open->setMenu(m_open);
    bar->addWidget(open);
    bar->addAction(m_actions[QStringLiteral("profile")]);
    bar->addSeparator();
    for (const char* name : {"start", "pause", "stop"})
        bar->addAction(m_actions[QString::fromLatin1(name)]);
    bar->addSeparator();
    bar->addAction(m_actions[QStringLiteral("export")]);
    bar->addSeparator();
    bar->addActions({undo, redo});
}

void MainWindow::makeStatusBar() {
    m_strip = new widgets::ProgressStrip;
    m_cursor = new QLabel;
    m_saved = new QLabel;
    statusBar()->addWidget(m_strip, 1);
    statusBar()->addPermanentWidget(m_cursor);
    statusBar()->addPermanentWidget(new SelectionChip(&m_session));
    statusBar()->addPermanentWidget(new MemoryGauge(&m_session));
    statusBar()->addPermanentWidget(m_saved);
    connect(m_strip, &widgets::ProgressStrip::stopRequested, this, [this] { stopOrDiscard(&m_session, this); });
    connect(m_session.selection(), &SelectionModel::hoverChanged, this, [this] {
        const auto head = m_session.selection()->hovered();
        m_cursor->setText(head.valid() ? tr("layer %1, head %2").arg(head.layer).arg(head.head) : QString());
    });
    connect(m_session.recipe(), &RecipeModel::autosaved, this,
            [this] { m_saved->setText(tr("autosaved %1").arg(m_session.recipe()->lastAutosave().toString(QStringLiteral("HH:mm:ss")))); });
    connect(m_session.recipe(), &RecipeModel::autosaveFailed, this, [this] { m_saved->setText(tr("⚠ not autosaved")); });
}

void MainWindow::resetLayout() {
    const auto dock = [this](const char* name) { return m_docks[QString::fromLatin1(name)]; };
    m_fold->unfold();
    for (auto* each : std::as_const(m_docks)) {
        each->setFloating(false);
        each->show();
    }
    addDockWidget(Qt::LeftDockWidgetArea, dock("projectDock"));
    splitDockWidget(dock("projectDock"), dock("runDock"), Qt::Vertical);
    addDockWidget(Qt::RightDockWidgetArea, dock("inspectorDock"));
    splitDockWidget(dock("inspectorDock"), dock("targetsDock"), Qt::Vertical);
    addDockWidget(Qt::BottomDockWidgetArea, dock("logDock"));
    tabifyDockWidget(dock("logDock"), dock("problemsDock"));
    if (auto* probe = m_docks.value(QStringLiteral("probeDock")))
        tabifyDockWidget(dock("problemsDock"), probe);
    dock("logDock")->raise();
    resizeDocks({dock("projectDock"), dock("inspectorDock")}, {285, 320}, Qt::Horizontal);
    resizeDocks({dock("projectDock"), dock("runDock")}, {11, 9}, Qt::Vertical); // the teacher and the steps in one view
    resizeDocks({dock("inspectorDock"), dock("targetsDock")}, {8, 7}, Qt::Vertical); // the eight targets of two heads in one view
    resizeDocks({dock("logDock")}, {120}, Qt::Vertical);
}

void MainWindow::updateActions() {
    const auto state = m_session.jobState();
    const bool idle = state == JobState::Idle, teacher = m_session.teacher().has_value();
    for (const char* name : {"openFolder", "openFile", "openDefault"})
        m_actions[QString::fromLatin1(name)]->setEnabled(idle);
    m_recent->setEnabled(idle);
    m_actions[QStringLiteral("profile")]->setEnabled(idle && teacher);
    const auto& problem = m_session.runProblem();
    m_actions[QStringLiteral("start")]->setEnabled(idle && teacher && !problem);
    m_actions[QStringLiteral("start")]->setToolTip(problem ? QString::fromStdString(problem->message) : QString());
    m_actions[QStringLiteral("pause")]->setEnabled(state == JobState::Running || state == JobState::Paused);
    m_actions[QStringLiteral("pause")]->setText(state == JobState::Paused ? tr("Continue") : tr("P&ause"));
    const bool discards = stopMeansDiscard(m_session); // the second press
    m_actions[QStringLiteral("stop")]->setEnabled(state == JobState::Running || state == JobState::Paused || discards);
    m_actions[QStringLiteral("stop")]->setText(discards ? tr("&Discard run...") : tr("&Stop and save"));
    const auto run = exportable();
    m_actions[QStringLiteral("export")]->setEnabled(idle && run);
    m_actions[QStringLiteral("export")]->setToolTip(run ? tr("Export the student of %1").arg(run->name) : tr("Export the student of a finished run"));
    m_actions[QStringLiteral("saveRecipe")]->setEnabled(teacher);
    if (idle) {
        if (m_strip->isRunning() || m_ended != m_session.jobTitle()) // how it ended is said once
            m_strip->finish(m_ended = m_session.jobTitle());
        return;
    }
    if (!m_strip->isRunning())
        m_strip->start(m_session.jobTitle());
    const bool stopping = state == JobState::Stopping;
    const auto prefix = stopping ? tr("Stopping, saving a checkpoint: ") : state == JobState::Paused ? tr("Paused: ") : QString();
    const auto eta = m_session.jobEta();
    m_strip->setTask(prefix + m_session.jobTitle() + (eta.isEmpty() || stopping ? QString() : QStringLiteral("  ·  ") + eta));
    m_strip->setStopAction(discards ? tr("Discard...") : tr("Stop"), discards ? tr("Remove the run's folder instead of saving it; asks first") : tr("Finish the step, write a checkpoint, stop"), !stopping || discards);
    m_strip->setProgress(qRound64(m_session.jobFraction() * 1000), m_session.jobFraction() < 0 ? 0 : 1000);
}

void MainWindow::openFolder() {
    const auto path = QFileDialog::getExistingDirectory(this, tr("Open a model or run folder"));
    if (!path.isEmpty())
        m_habits->open(path);
}

void MainWindow::openFile() {
    const auto path = QFileDialog::getOpenFileName(this, tr("Open a GGUF file"), {}, tr("GGUF models (*.gguf)"));
    if (!path.isEmpty())
        m_habits->open(path);
}

void MainWindow::say(const QString& text) {
    if (m_session.jobState() == JobState::Idle)
        m_strip->finish({}); // how the job before ended is old by now
    statusBar()->showMessage(text, 8000);
}

void MainWindow::saveRecipe() {
    m_habits->commitEdits();
    auto path = QFileDialog::getSaveFileName(this, tr("Save recipe"), QStringLiteral("recipe.linnet.json"), tr("Recipes (*.json)"));
    if (path.isEmpty())
        return;
    if (const auto saved = core::writeRecipe(path.toStdString(), m_session.recipe()->recipe()); !saved)
        showError(tr("Can't save the recipe"), saved.error());
    else
        addRecent(Recent::Recipes, path), say(tr("Recipe saved as %1").arg(path));
}

void MainWindow::compareRecipes() {
    auto* dialog = new RecipeDiffDialog(&m_session, this);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->show(); // not modal: edits go on, and the list follows them
}

RunEntryPtr MainWindow::exportable() const { // the chosen run, else the newest finished one
    const auto done = [](const RunEntryPtr& run) { return run && run->state == QLatin1String("done"); };
    if (const auto chosen = m_session.currentRun(); done(chosen))
        return chosen;
    const auto newest = std::find_if(m_session.runs().begin(), m_session.runs().end(), done);
    return newest == m_session.runs().end() ? nullptr : *newest;
}

void MainWindow::exportCurrent() {
    const auto run = exportable();
    if (!run)
        return;
    if (run != m_session.currentRun())
        say(tr("%1 is exported: the newest run that is finished").arg(run->name));
    auto* dialog = new ExportWizard(&m_session, run->folder, this);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->open();
}

void MainWindow::showError(const QString& title, const core::Error& error) {
    const auto said = errorText(error);
    auto* box = new QMessageBox(QMessageBox::Warning, title, said.message, QMessageBox::Ok, this);
    box->setAttribute(Qt::WA_DeleteOnClose);
    box->setObjectName(QStringLiteral("errorBox"));
    box->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
    box->setInformativeText(said.advice);
    QString details;
    for (const auto& [key, value] : error.context)
        details += QString::fromStdString(key) + QStringLiteral(": ") + QString::fromStdString(value) + QLatin1Char('\n');
    if (!details.isEmpty())
        box->setDetailedText(details);
    connect(box, &QMessageBox::finished, this, [this] { // it was read
        if (m_session.jobState() == JobState::Idle)
            m_strip->finish({});
    });
    box->open(); // not exec: the window goes on
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
    event->acceptProposedAction(); // what is wrong with it is said when it falls
}

void MainWindow::dropEvent(QDropEvent* event) {
    m_habits->drop(event->mimeData());
}

bool MainWindow::asksBeforeClosing() { // once, while a job is at work whose stop a person would miss
    if (m_closing || m_session.jobState() == JobState::Idle || m_session.jobState() == JobState::Stopping || m_session.isRunning(JobKind::Open) || m_session.isRunning(JobKind::Generate))
        return false;
    if (auto* open = findChild<QMessageBox*>(QStringLiteral("quitBox"))) {
        open->raise();
        return true;
    }
    const bool exports = m_session.isRunning(JobKind::Export);
    auto* box = new QMessageBox(QMessageBox::Question, tr("A job is running"), m_session.jobTitle(), QMessageBox::Cancel, this);
    box->setInformativeText(exports ? tr("Its half-written folder is removed.") : m_session.isRunning(JobKind::Profile) ? tr("What it measured so far is not kept.") : tr("What is done so far is saved; it can go on from there later."));
    box->setAttribute(Qt::WA_DeleteOnClose);
    box->setObjectName(QStringLiteral("quitBox"));
    auto* quit = box->addButton(exports || m_session.isRunning(JobKind::Profile) ? tr("&Stop and quit") : tr("&Stop, save and quit"), QMessageBox::AcceptRole);
    quit->setObjectName(QStringLiteral("quitStop"));
    box->setDefaultButton(quit);
    connect(quit, &QPushButton::clicked, this, [this] {
        m_closing = true;
        connect(&m_session, &Session::jobChanged, this, [this] { // the checkpoint first
            if (m_session.jobState() == JobState::Idle)
                QMetaObject::invokeMethod(this, [this] { close(); }, Qt::QueuedConnection);
        });
        m_session.stop();
        if (m_session.jobState() == JobState::Idle) // it ended meanwhile
            close();
    });
    box->open();
    return true;
}

void MainWindow::closeEvent(QCloseEvent* event) {
    if (asksBeforeClosing())
        return event->ignore();
    m_fold->unfold();
    Settings settings;
    settings.setValue(QStringLiteral("window/layout"), kLayoutVersion);
    settings.setValue(QStringLiteral("window/geometry"), saveGeometry());
    settings.setValue(QStringLiteral("window/state"), saveState(kLayoutVersion));
    m_habits->save();
    m_session.stop(); // a running conversion writes its checkpoint; resume goes on
    QMainWindow::closeEvent(event);
}

} // namespace linnet::app
