#include "app/window_habits.h"

#include "app/guarded.h"
#include "app/models/open_target.h"
#include "app/models/recipe_teacher.h"
#include "app/models/session.h"
#include "app/models/session_restore.h"
#include "app/models/settings_file.h"
#include "app/models/shortcut_map.h"
#include "app/models/theme_choice.h"
#include "app/panels/about_dialog.h"
#include "app/panels/help_window.h"
#include "app/panels/hint_bar.h"
#include "app/panels/notice_bar.h"
#include "app/panels/shortcuts_dialog.h"
#include "widgets/field_keys.h"
#include "widgets/head_heat_map.h"
#include "widgets/plot_widget.h"
#include "widgets/wheel_guard.h"

#include <QAbstractItemView>
#include <QActionGroup>
#include <QApplication>
#include <QDockWidget>
#include <QFileInfo>
#include <QMainWindow>
#include <QMenu>
#include <QMenuBar>
#include <QMessageBox>
#include <QMimeData>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QTabWidget>
#include <QVBoxLayout>

namespace linnet::app {
namespace {

QAction* add(QMenu* menu, const char* name, const QString& title, const QKeySequence& keys = {}) {
    auto* action = menu->addAction(title);
    action->setObjectName(QString::fromLatin1(name));
    action->setShortcut(keys);
    return action;
}

QWidget* mainPart(QWidget* page) { // what its keys are for: map, table, text or plot
    const auto parts = page->findChildren<QWidget*>();
    const auto is = [](QWidget* at) {
        return qobject_cast<widgets::HeadHeatMap*>(at) || qobject_cast<QAbstractItemView*>(at) || qobject_cast<QPlainTextEdit*>(at) || qobject_cast<widgets::PlotWidget*>(at);
    };
    for (auto* part : parts)
        if (part->isVisibleTo(page) && part->isEnabled() && (part->focusPolicy() & Qt::TabFocus) && is(part))
            return part;
    return nullptr;
}

QWidget* firstFocus(QWidget* panel) { // where Tab would land in it, but on what shows that it has the focus
    auto* at = panel;
    do {
        if (at->isVisible() && at->isEnabled() && (at->focusPolicy() & Qt::TabFocus) && (at == panel || panel->isAncestorOf(at)) && !at->inherits("QScrollArea") && !at->inherits("QTabBar"))
            return at;
        at = at->nextInFocusChain();
    } while (at != panel);
    return nullptr;
}

} // namespace

WindowHabits::WindowHabits(QMainWindow* window, Session* session)
    : QObject(window), m_window(window), m_session(session), m_theme(new ThemeKeeper(this)), m_shortcuts(new ShortcutMap(this)) {
    connect(session, &Session::foreignRecipe, this, &WindowHabits::askAboutForeign);
    connect(session->recipe(), &RecipeModel::autosaved, this, &WindowHabits::followAutosave);
    connect(session->recipe(), &RecipeModel::autosaveFailed, this, &WindowHabits::followAutosave);
    connect(session, &Session::teacherChanged, this, &WindowHabits::followAutosave);
    connect(session, &Session::teacherChanged, this, [this] {
        if (m_session->teacher())
            m_notices->clear(QStringLiteral("lastModel"));
    });
    new widgets::WheelGuard(this);
    new widgets::FieldKeys(this);
    if (auto* application = qobject_cast<GuardedApplication*>(QCoreApplication::instance()))
        connect(application, &GuardedApplication::unexpected, this, &WindowHabits::tellUnexpected);
}

void WindowHabits::tellUnexpected(const QString& what) {
    const auto told = tr("Something went wrong inside Linnet: %1. What is saved is unharmed; what you did last may have had no effect.").arg(what);
    if (m_notices->text(QStringLiteral("unexpected")) == told)
        return; // a drawing that fails does so in every frame
    m_session->addLog(tr("unexpected: %1").arg(what));
    m_notices->tell(QStringLiteral("unexpected"), told);
}

QWidget* WindowHabits::wrapPages(QTabWidget* pages) {
    m_pages = pages;
    auto* center = new QWidget;
    auto* layout = new QVBoxLayout(center);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    m_hints = new HintBar(pages);
    connect(m_hints, &HintBar::helpRequested, this, &WindowHabits::showHelp);
    m_notices = new NoticeBar;
    layout->addWidget(m_notices);
    layout->addWidget(pages, 1);
    m_restore = new SessionRestore(m_session, pages, this);
    return center;
}

// ---- menus ------------------------------------------------------------------------------------------------------------------

void WindowHabits::fillRecent(QMenu* menu) {
    connect(menu, &QMenu::aboutToShow, this, [this, menu] { refillRecent(menu); });
    refillRecent(menu);
}

void WindowHabits::refillRecent(QMenu* menu) {
    menu->clear();
    const std::pair<Recent, QString> kinds[] = {{Recent::Models, tr("Models")}, {Recent::Runs, tr("Runs")}, {Recent::Recipes, tr("Recipes")}};
    for (const auto& [kind, title] : kinds) {
        const auto paths = recents(kind);
        if (paths.isEmpty())
            continue;
        menu->addSection(title);
        for (const auto& path : paths) {
            const QFileInfo file(path);
            auto* action = menu->addAction(tr("%1   in %2").arg(file.fileName(), file.path()).replace(QLatin1Char('&'), QStringLiteral("&&")));
            connect(action, &QAction::triggered, this, [this, kind = kind, path] {
                if (!QFileInfo::exists(path))
                    dropRecent(kind, path); // said by open()
                open(path);
            });
        }
    }
    if (menu->isEmpty()) {
        menu->addAction(tr("(none yet)"))->setEnabled(false);
        return;
    }
    menu->addSeparator();
    connect(menu->addAction(tr("&Clear this list")), &QAction::triggered, this, &clearRecents);
}

void WindowHabits::fillEdit(QMenu* menu) {
    menu->addSeparator();
    connect(add(menu, "shortcuts", tr("&Keyboard shortcuts..."), QKeySequence(tr("Ctrl+K"))), &QAction::triggered, this, &WindowHabits::showShortcuts);
    auto* reopen = add(menu, "reopen", tr("Re&open the last model at start"));
    reopen->setCheckable(true);
    reopen->setChecked(SessionRestore::reopens());
    connect(reopen, &QAction::toggled, this, &SessionRestore::setReopens);
    connect(add(menu, "resetSettings", tr("Reset &settings...")), &QAction::triggered, this, &WindowHabits::askReset);
}

void WindowHabits::fillView(QMenu* menu) {
    auto* themes = menu->addMenu(tr("&Theme"));
    auto* group = new QActionGroup(themes);
    const struct {
        const char* name;
        QString title;
        ThemeChoice choice;
    } choices[] = {{"themeSystem", tr("As the &desktop"), ThemeChoice::System}, {"themeLight", tr("&Light"), ThemeChoice::Light}, {"themeDark", tr("&Dark"), ThemeChoice::Dark}};
    for (const auto& [name, title, choice] : choices) {
        auto* action = add(themes, name, title);
        action->setCheckable(true);
        group->addAction(action);
        connect(action, &QAction::triggered, m_theme, [this, choice = choice] { m_theme->choose(choice); });
        const auto show = [this, action, choice = choice] { action->setChecked(m_theme->choice() == choice); };
        connect(m_theme, &ThemeKeeper::changed, action, show);
        show();
    }
    fillRunColors(menu->addMenu(tr("&Run colours")));
    connect(add(menu, "toggleTheme", tr("Light or dar&k"), QKeySequence(tr("Ctrl+T"))), &QAction::triggered, m_theme,
            [this] { m_theme->choose(m_window->palette().color(QPalette::Window).lightnessF() < 0.5f ? ThemeChoice::Light : ThemeChoice::Dark); });
    connect(add(menu, "nextPanel", tr("&Next panel"), QKeySequence(Qt::Key_F6)), &QAction::triggered, this, [this] { nextPanel(true); });
    connect(add(menu, "previousPanel", tr("&Previous panel"), QKeySequence(Qt::SHIFT | Qt::Key_F6)), &QAction::triggered, this, [this] { nextPanel(false); });
}

void WindowHabits::fillRunColors(QMenu* menu) {
    auto* group = new QActionGroup(menu);
    const std::tuple<const char*, QString, widgets::RunColors> sets[] = {{"runColorsOkabeIto", tr("&Okabe and Ito"), widgets::RunColors::OkabeIto}, {"runColorsTol", tr("&Tol, bright"), widgets::RunColors::Tol}};
    for (const auto& [name, title, set] : sets) {
        auto* action = add(menu, name, title);
        action->setCheckable(true);
        group->addAction(action);
        connect(action, &QAction::triggered, this, [this, set = set] { m_session->library()->setColors(set); });
        const auto show = [action, set = set] { action->setChecked(widgets::runColors() == set); };
        connect(m_session->library(), &RunLibrary::changed, action, show);
        show();
    }
}

void WindowHabits::fillHelp(QMenu* menu) {
    connect(add(menu, "helpContents", tr("&Contents")), &QAction::triggered, this, [this] { showHelp(HelpWindow::pages().front()); });
    connect(add(menu, "helpHere", tr("Help on this &panel"), QKeySequence(Qt::Key_F1)), &QAction::triggered, this, &WindowHabits::showHelpOfFocus);
    connect(add(menu, "showHints", tr("Show the &hints again")), &QAction::triggered, this, [this] { m_hints->showAgain(); });
    menu->addSeparator();
    connect(add(menu, "about", tr("&About Linnet")), &QAction::triggered, this, &WindowHabits::showAbout);
}

void WindowHabits::finish() {
    for (auto* table : m_window->findChildren<QAbstractItemView*>())
        table->setTabKeyNavigation(false); // arrows move inside it
    const auto collect = [this](const auto& self, QMenu* menu, const QString& group) -> void {
        for (auto* action : menu->actions())
            if (action->menu())
                self(self, action->menu(), group);
            else if (!action->isSeparator())
                m_shortcuts->add(action, group); // those without a name are lists of files
    };
    for (auto* action : m_window->menuBar()->actions())
        if (action->menu())
            collect(collect, action->menu(), action->text().remove(QLatin1Char('&')));
}

void WindowHabits::nextPanel(bool forward) {
    QList<QWidget*> panels{m_pages};
    for (auto* dock : m_window->findChildren<QDockWidget*>())
        if (dock->isVisible() && !dock->visibleRegion().isEmpty()) // not one behind another's tab
            panels << dock;
    const auto* focus = QApplication::focusWidget();
    const auto count = panels.size();
    qsizetype at = 0;
    for (qsizetype i = 0; i < count; ++i)
        if (focus && panels[i]->isAncestorOf(focus))
            at = i;
    for (qsizetype step = 1; step <= count; ++step) {
        auto* panel = panels[((at + (forward ? step : -step)) % count + count) % count];
        auto* inside = panel == m_pages ? m_pages->currentWidget() : static_cast<QDockWidget*>(panel)->widget();
        auto* part = panel == m_pages ? mainPart(inside) : nullptr;
        if (auto* target = part || !inside ? part : firstFocus(inside))
            return target->setFocus(forward ? Qt::TabFocusReason : Qt::BacktabFocusReason);
    }
}

void WindowHabits::showPage(int index) {
    m_pages->setCurrentIndex(index);
    if (auto* page = m_pages->currentWidget())
        if (auto* part = mainPart(page) ? mainPart(page) : firstFocus(page))
            part->setFocus(Qt::ShortcutFocusReason);
}

// ---- opening ----------------------------------------------------------------------------------------------------------------

void WindowHabits::start(const QString& path, bool openAnything) {
    if (SessionRestore::markOpen())
        m_notices->tell(QStringLiteral("unclean"), SessionRestore::reopens() && openAnything && path.isEmpty()
                                                       ? tr("Linnet was not closed properly last time. The model, its recipe as of the last edit and your selection are restored; a run that was going on stands under Runs, where Resume continues it.")
                                                       : tr("Linnet was not closed properly last time. A recipe comes back as of its last edit when its model is opened; a run that was going on stands under Runs, where Resume continues it."));
    if (!openAnything)
        return;
    const auto last = SessionRestore::reopens() ? SessionRestore::lastModel() : QString();
    if (!path.isEmpty())
        return path == QLatin1String("default") ? m_session->openTeacher(path) : open(path);
    if (last.isEmpty()) { // the first time; without a default model the project panel says what to do
        if (core::guarded([] { return core::defaultTeacher(); }))
            m_session->openTeacher(QStringLiteral("default"));
        return;
    }
    if (QFileInfo::exists(last))
        return m_session->openTeacher(last);
    m_notices->tell(QStringLiteral("lastModel"), tr("The model of last time isn't there any more: %1. Open another.").arg(last));
}

void WindowHabits::open(const QString& path) {
    const auto target = openTarget(path);
    switch (target.kind) {
    case OpenKind::Wrong: Q_EMIT failed(tr("Can't open this"), {core::ErrorCode::NotFound, target.why.toStdString(), {}}); break;
    case OpenKind::Recipe: loadRecipe(target.path); break;
    case OpenKind::Run:
    case OpenKind::Model: m_session->openTeacher(target.path); break;
    }
}

void WindowHabits::drop(const QMimeData* dropped) {
    const auto target = openTarget(*dropped);
    if (target.kind == OpenKind::Wrong)
        Q_EMIT failed(tr("Can't open what was dropped"), {core::ErrorCode::Usage, target.why.toStdString(), {}});
    else
        open(target.path);
}

void WindowHabits::loadRecipe(const QString& path) {
    const auto recipe = core::readRecipe(path.toStdString());
    if (!recipe) {
        Q_EMIT failed(tr("Can't load the recipe"), recipe.error());
        return;
    }
    addRecent(Recent::Recipes, path);
    m_session->useRecipe(*recipe, tr("Load %1").arg(QFileInfo(path).fileName()));
    if (m_session->teacher())
        Q_EMIT m_session->notice(tr("Recipe loaded from %1").arg(path));
}

void WindowHabits::askAboutForeign(const core::Recipe& recipe, const QString& what) {
    const auto theirs = teacherName(recipe), ours = QFileInfo(QString::fromStdString(m_session->teacher()->path.string())).fileName();
    auto* box = new QMessageBox(QMessageBox::Question, tr("A recipe of another model"), tr("This recipe is for %1; %2 is open.").arg(theirs, ours), QMessageBox::NoButton, m_window);
    box->setAttribute(Qt::WA_DeleteOnClose);
    box->setObjectName(QStringLiteral("foreignBox"));
    auto* openIt = box->addButton(tr("&Open its model"), QMessageBox::AcceptRole);
    auto* take = box->addButton(tr("&Take its settings"), QMessageBox::AcceptRole);
    openIt->setObjectName(QStringLiteral("foreignOpen"));
    take->setObjectName(QStringLiteral("foreignTake"));
    box->addButton(QMessageBox::Cancel);
    const auto path = teacherPath(recipe);
    const bool there = !path.isEmpty() && QFileInfo(path).canonicalFilePath() != QFileInfo(QString::fromStdString(m_session->teacher()->path.string())).canonicalFilePath();
    openIt->setEnabled(there);
    box->setDefaultButton(there ? openIt : take);
    box->setInformativeText((there ? QString() : path.isEmpty() ? tr("Its model isn't at %1 any more. ").arg(QString::fromStdString(recipe.teacherSource)) : tr("The files of that model have changed since. ")) +
                            tr("Its settings can be taken for %1: layers and targets that %1 doesn't have are listed under Problems; undo brings your recipe back.").arg(ours));
    connect(openIt, &QPushButton::clicked, this, [this, recipe, what] { m_session->openFor(recipe, what); });
    connect(take, &QPushButton::clicked, this, [this, recipe, what] { m_session->takeSettings(recipe, what); });
    box->open();
}

void WindowHabits::followAutosave() {
    const auto* recipe = m_session->recipe();
    const auto failed = QStringLiteral("autosave"), second = QStringLiteral("secondWindow");
    if (const auto& problem = recipe->autosaveProblem())
        m_notices->tell(failed, tr("The recipe can't be autosaved: %1 It is tried again every few seconds; File > Save recipe as puts it elsewhere.").arg(QString::fromStdString(problem->message) + QLatin1Char('.')),
                        tr("Save as..."), [this] { m_window->findChild<QAction*>(QStringLiteral("saveRecipe"))->trigger(); });
    else
        m_notices->clear(failed);
    if (m_session->teacher() && recipe->window() > 1)
        m_notices->tell(second, tr("This model is also open in another window. Each window edits and saves a recipe of its own; this one's is %1.").arg(QFileInfo(recipe->autosaveFile()).fileName()));
    else
        m_notices->clear(second);
}

// ---- windows beside the work ------------------------------------------------------------------------------------------------

void WindowHabits::tell(const QString& text) {
    auto* box = new QMessageBox(QMessageBox::Information, tr("Linnet"), text, QMessageBox::Ok, m_window);
    box->setAttribute(Qt::WA_DeleteOnClose);
    box->setObjectName(QStringLiteral("tellBox"));
    box->open();
}

void WindowHabits::showHelp(const QString& page) {
    if (!m_help)
        m_help = new HelpWindow(m_window);
    m_help->showPage(page);
}

void WindowHabits::showHelpOfFocus() {
    const auto* focus = QApplication::focusWidget();
    showHelp(HelpWindow::pageOf(focus && focus != m_pages && !m_pages->isAncestorOf(focus) ? focus : m_pages->currentWidget()));
}

void WindowHabits::showShortcuts() {
    auto* dialog = new ShortcutsDialog(m_shortcuts, m_window);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->show();
}

void WindowHabits::showAbout() {
    auto* dialog = new AboutDialog(m_window);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->open();
}

void WindowHabits::askReset() {
    auto* box = new QMessageBox(QMessageBox::Question, tr("Reset settings"), tr("Set theme, shortcuts, layout, hints and the choices of every page to what they were at first?"),
                                QMessageBox::NoButton, m_window);
    box->setInformativeText(tr("Recipes, runs and the lists of recent files stay. Some choices show at the next start."));
    box->setAttribute(Qt::WA_DeleteOnClose);
    box->setObjectName(QStringLiteral("resetBox"));
    auto* reset = box->addButton(tr("&Reset"), QMessageBox::AcceptRole);
    box->setDefaultButton(box->addButton(QMessageBox::Cancel));
    connect(reset, &QPushButton::clicked, this, [this] {
        resetSettings();
        m_theme->reload();
        m_shortcuts->reload();
        m_hints->showAgain();
        m_session->library()->setColors(widgets::RunColors::OkabeIto);
        Q_EMIT layoutResetRequested();
    });
    box->open();
}

void WindowHabits::commitEdits() {
    if (auto* field = QApplication::focusWidget(); field && m_window->isAncestorOf(field)) {
        field->clearFocus();
        field->setFocus();
    }
}

void WindowHabits::save() {
    SessionRestore::markClosed();
    m_restore->save();
}

} // namespace linnet::app
