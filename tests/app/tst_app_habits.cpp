// What a person expects of any window: theme, keys, recent files, drops, the session of last time, hints, help, about.
#include "app/models/open_target.h"
#include "app/models/recents.h"
#include "app/models/session_restore.h"
#include "app/models/shortcut_map.h"
#include "app/models/theme_choice.h"
#include "app/panels/about_dialog.h"
#include "app/panels/help_window.h"
#include "app/panels/hint_bar.h"
#include "app/panels/shortcuts_dialog.h"
#include "tests/app/fake_teacher.h"
#include "tests/support/gui_watchdog.h"
#include "tests/support/window_test.h"
#include "widgets/theme.h"

#include <QAbstractButton>
#include <QClipboard>
#include <QDBusVariant>
#include <QDir>
#include <QDockWidget>
#include <QDropEvent>
#include <QFile>
#include <QKeySequenceEdit>
#include <QListWidget>
#include <QMenu>
#include <QMenuBar>
#include <QMimeData>
#include <QPushButton>
#include <QRegularExpression>
#include <QSignalSpy>
#include <QTabWidget>
#include <QTableWidget>
#include <QTextBrowser>
#include <QToolButton>
#include <ctime>

using namespace linnet;
using namespace linnet::tests;
using app::HeadId;
using app::OpenKind;
using app::Recent;

class TestAppHabits : public WindowTest {
    Q_OBJECT

    static QString make(const QString& path, const QByteArray& content = "x") { // in the place; a trailing slash: a folder
        const auto whole = place().filePath(path);
        QDir().mkpath(path.endsWith(QLatin1Char('/')) ? whole : QFileInfo(whole).path());
        QFile file(whole);
        if (!path.endsWith(QLatin1Char('/')) && file.open(QIODevice::WriteOnly))
            file.write(content);
        return whole;
    }
    void dropOn(const QList<QUrl>& urls) {
        QMimeData data;
        data.setUrls(urls);
        const QPoint at(300, 300);
        QDragEnterEvent enter(at, Qt::CopyAction, &data, Qt::LeftButton, {});
        QApplication::sendEvent(m_window.get(), &enter);
        QVERIFY(enter.isAccepted());
        QDropEvent drop(at, Qt::CopyAction, &data, Qt::LeftButton, {});
        QApplication::sendEvent(m_window.get(), &drop);
    }
    static bool dark() { return widgets::isDark(QGuiApplication::palette()); } // open windows follow inside exec() only

private Q_SLOTS:
    void init() {
        app::Settings().clear();
        makeWindow();
    }
    void cleanup() { m_window.reset(); }

    void themes() {
        QVERIFY(!dark()); // the desktop here has none
        action("themeDark")->trigger();
        QVERIFY(dark() && action("themeDark")->isChecked());
        makeWindow();
        QVERIFY(action("themeDark")->isChecked()); // stored
        QVERIFY(dark());
        action("toggleTheme")->trigger();
        QVERIFY(!dark() && action("themeLight")->isChecked());
        action("themeSystem")->trigger();
        QCOMPARE(dark(), m_window->habits()->theme()->systemIsDark());
        app::Settings().setValue(QStringLiteral("window/theme"), 17);
        m_window->habits()->theme()->reload();
        QVERIFY(m_window->habits()->theme()->choice() == app::ThemeChoice::System);
    }

    void theDesktopsAnswer() { // as the portal's Read gives it: a variant in a variant
        const auto nested = [](uint scheme) { return QVariant::fromValue(QDBusVariant(QVariant::fromValue(QDBusVariant(scheme)))); };
        QVERIFY(app::darkOfPortal(nested(1)) == true && app::darkOfPortal(nested(2)) == false);
        QVERIFY(app::darkOfPortal(1U) == true);
        QVERIFY(!app::darkOfPortal(nested(0)) && !app::darkOfPortal(nested(9)) && !app::darkOfPortal(QVariant()) && !app::darkOfPortal(QStringLiteral("dark")));
    }

    void shortcutsAreAssignedStoredAndReset() {
        auto* keys = m_window->habits()->shortcuts();
        const QKeySequence profile(QStringLiteral("Ctrl+P")), fresh(QStringLiteral("Ctrl+Alt+G")), undo(QKeySequence::Undo);
        QCOMPARE(keys->keys(QStringLiteral("profile")), profile);
        QVERIFY(keys->entries().size() > 25);
        keys->assign(QStringLiteral("profile"), fresh);
        QCOMPARE(action("profile")->shortcut(), fresh);
        makeWindow();
        keys = m_window->habits()->shortcuts();
        QCOMPARE(action("profile")->shortcut(), fresh);
        QCOMPARE(keys->takenBy(undo, QStringLiteral("profile")), QStringList{QStringLiteral("undo")});
        keys->assign(QStringLiteral("profile"), undo); // taken away
        QVERIFY(action("undo")->shortcut().isEmpty());
        keys->reset(QStringLiteral("undo"));
        QCOMPARE(action("undo")->shortcut(), undo);
        QVERIFY(action("profile")->shortcut().isEmpty());
        keys->resetAll();
        QCOMPARE(action("profile")->shortcut(), profile);
        QVERIFY(app::Settings().keys().filter(QStringLiteral("shortcuts/")).isEmpty());
    }

    void noTwoPresetsAreTheSame() {
        const auto* keys = m_window->habits()->shortcuts();
        QSet<QAction*> known;
        for (const auto& entry : keys->entries()) {
            known.insert(entry.action);
            QVERIFY2(keys->takenBy(entry.preset, entry.name).isEmpty(), qPrintable(entry.name + QStringLiteral(" has the keys of ") + keys->takenBy(entry.preset, entry.name).join(QLatin1Char(' '))));
        }
        for (auto* each : m_window->findChildren<QAction*>()) // nothing with a key is missing from the list
            if (!each->shortcut().isEmpty() && each->shortcutContext() == Qt::WindowShortcut)
                QVERIFY2(known.contains(each), qPrintable(each->text()));
    }

    void theShortcutsDialogNamesAConflict() {
        action("shortcuts")->trigger();
        auto* dialog = find<app::ShortcutsDialog>("shortcutsDialog");
        QVERIFY(!dialog->isModal());
        auto* table = dialog->findChild<QTableWidget*>(QStringLiteral("shortcutsTable"));
        int row = 0;
        while (row < table->rowCount() && table->item(row, 0)->data(Qt::UserRole).toString() != QLatin1String("profile"))
            ++row;
        table->selectRow(row);
        auto* edit = dialog->findChild<QKeySequenceEdit*>(QStringLiteral("shortcutKeys"));
        QCOMPARE(edit->keySequence(), QKeySequence(QStringLiteral("Ctrl+P")));
        edit->setKeySequence(QKeySequence::Undo);
        const auto conflict = dialog->findChild<QLabel*>(QStringLiteral("shortcutConflict"))->text();
        QVERIFY2(conflict.contains(QStringLiteral("Undo")), qPrintable(conflict));
        QVERIFY(!action("undo")->shortcut().isEmpty()); // nothing taken yet
        dialog->findChild<QPushButton*>(QStringLiteral("setShortcut"))->click();
        QVERIFY(action("undo")->shortcut().isEmpty());
        QCOMPARE(table->item(row, 2)->text(), QKeySequence(QKeySequence::Undo).toString(QKeySequence::NativeText));
        dialog->findChild<QPushButton*>(QStringLiteral("resetShortcuts"))->click();
        QCOMPARE(action("undo")->shortcut(), QKeySequence(QKeySequence::Undo));
    }

    void recentThings() {
        const auto model = make(QStringLiteral("m/config.json")), recipe = make(QStringLiteral("a & b.linnet.json"));
        app::addRecent(Recent::Models, QFileInfo(model).path());
        app::addRecent(Recent::Recipes, recipe);
        for (int i = 0; i < 2 * app::kMaxRecent; ++i)
            app::addRecent(Recent::Runs, QStringLiteral("/runs/%1").arg(i));
        app::addRecent(Recent::Runs, QStringLiteral("/runs/15"));
        QCOMPARE(app::recents(Recent::Runs).size(), app::kMaxRecent);
        QCOMPARE(app::recents(Recent::Runs).front(), QStringLiteral("/runs/15"));
        auto* menu = find<QMenu>("recentMenu");
        Q_EMIT menu->aboutToShow();
        QStringList texts;
        for (auto* each : menu->actions())
            texts << each->text();
        QVERIFY(texts.contains(QStringLiteral("Models")) && texts.contains(QStringLiteral("Recipes")) && texts.contains(QStringLiteral("Runs")));
        QVERIFY2(texts.filter(QStringLiteral("a && b.linnet.json")).size() == 1, qPrintable(texts.join(QLatin1Char('\n'))));
        for (auto* each : menu->actions())
            if (each->text().startsWith(QStringLiteral("15 ")))
                each->trigger(); // gone
        const auto said = boxes();
        QVERIFY(said.size() == 1 && said.front().contains(QStringLiteral("isn't there (any more)")));
        QVERIFY(!app::recents(Recent::Runs).contains(QStringLiteral("/runs/15")));
        app::Settings().setValue(QStringLiteral("recent/models"), QVariant(QPoint(1, 2))); // a wrong type
        QVERIFY(app::recents(Recent::Models).isEmpty());
    }

    void whatAPathIs_data() {
        QTest::addColumn<QString>("path");
        QTest::addColumn<int>("kind");
        QTest::addColumn<QString>("opened"); // or a part of why not
        const auto row = [](const char* name, const QString& path, OpenKind kind, const QString& opened) { QTest::newRow(name) << path << int(kind) << opened; };
        make(QStringLiteral("hf/config.json"));
        make(QStringLiteral("run/recipe.json"));
        make(QStringLiteral("run/state.json"));
        make(QStringLiteral("one/a.gguf"));
        make(QStringLiteral("two/a.gguf"));
        make(QStringLiteral("two/b.gguf"));
        const auto at = [](const char* path) { return place().filePath(QString::fromLatin1(path)); };
        row("a model folder", at("hf"), OpenKind::Model, at("hf"));
        row("its config", at("hf/config.json"), OpenKind::Model, at("hf"));
        row("its weights", make(QStringLiteral("hf/model.safetensors")), OpenKind::Model, at("hf"));
        row("its tokenizer", make(QStringLiteral("hf/tokenizer.json")), OpenKind::Model, at("hf"));
        row("an export's recipe", make(QStringLiteral("hf/recipe.json")), OpenKind::Recipe, at("hf/recipe.json"));
        row("a run", at("run"), OpenKind::Run, at("run"));
        row("a run's recipe", at("run/recipe.json"), OpenKind::Recipe, at("run/recipe.json"));
        row("a GGUF", at("one/a.gguf"), OpenKind::Model, at("one/a.gguf"));
        row("a GGUF by content", make(QStringLiteral("blob"), "GGUF\3"), OpenKind::Model, at("blob"));
        row("a folder of one GGUF", at("one"), OpenKind::Model, at("one/a.gguf"));
        row("a folder of two", at("two"), OpenKind::Wrong, QStringLiteral("2 GGUF files"));
        row("an empty folder", make(QStringLiteral("none/")), OpenKind::Wrong, QStringLiteral("neither a model folder"));
        row("a text", make(QStringLiteral("a.txt")), OpenKind::Wrong, QStringLiteral("is a text"));
        row("a pickle", make(QStringLiteral("pytorch_model.bin")), OpenKind::Wrong, QStringLiteral("pickle"));
        row("an archive", make(QStringLiteral("model.tar.gz")), OpenKind::Wrong, QStringLiteral("unpack"));
        row("lone weights", make(QStringLiteral("lone/model.safetensors")), OpenKind::Wrong, QStringLiteral("weights alone"));
        row("a picture", make(QStringLiteral("cat.png")), OpenKind::Wrong, QStringLiteral("none of what opens"));
        row("nothing", at("absent"), OpenKind::Wrong, QStringLiteral("isn't there"));
    }
    void whatAPathIs() {
        QFETCH(QString, path);
        QFETCH(int, kind);
        QFETCH(QString, opened);
        const auto target = app::openTarget(path);
        QCOMPARE(int(target.kind), kind);
        if (target.kind == OpenKind::Wrong)
            QVERIFY2(target.why.contains(opened), qPrintable(target.why));
        else
            QCOMPARE(target.path, opened);
    }

    void drops() {
        session().adopt(fakeTeacher(), fakeProfile());
        auto recipe = core::defaultRecipe("cpu");
        recipe.seed = 4711;
        const auto file = make(QStringLiteral("dropped.linnet.json"), QByteArray::fromStdString(core::recipeToText(recipe)));
        dropOn({QUrl::fromLocalFile(file)});
        QVERIFY(boxes().isEmpty());
        QCOMPARE(session().recipe()->recipe().seed, decltype(recipe.seed)(4711));
        QCOMPARE(session().recipe()->undoStack()->undoText(), QStringLiteral("Load dropped.linnet.json"));
        QCOMPARE(app::recents(Recent::Recipes), QStringList{file});
        const struct {
            QList<QUrl> urls;
            QString why;
        } wrong[] = {{{QUrl::fromLocalFile(make(QStringLiteral("a.txt")))}, QStringLiteral("is a text")},
                     {{QUrl(QStringLiteral("https://example.org/model.gguf"))}, QStringLiteral("not on this machine")},
                     {{QUrl::fromLocalFile(file), QUrl::fromLocalFile(file)}, QStringLiteral("One thing at a time")},
                     {{QUrl::fromLocalFile(make(QStringLiteral("torn.json"), "{\"version\": 1,"))}, QStringLiteral("torn.json")}};
        for (const auto& [urls, why] : wrong) {
            dropOn(urls);
            saidAndWorking(why);
        }
    }

    void theSessionComesBack() {
        session().adopt(fakeTeacher(), fakeProfile());
        auto* pages = find<QTabWidget>("pages");
        pages->setCurrentIndex(2);
        const auto page = pages->currentWidget()->objectName();
        session().selection()->select({{2, 1}, {4, 3}}, {4, 3});
        find<QDockWidget>("logDock")->hide();
        m_window->close();
        makeWindow();
        QCOMPARE(find<QTabWidget>("pages")->currentWidget()->objectName(), page);
        QVERIFY(find<QDockWidget>("logDock")->isHidden());
        QCOMPARE(app::SessionRestore::lastModel(), QString::fromStdString(fakeTeacher().path.string()));
        session().adopt(fakeTeacher(), fakeProfile());
        QCOMPARE(session().selection()->sorted(), (QList<HeadId>{{2, 1}, {4, 3}}));
        QCOMPARE(session().selection()->primary(), (HeadId{4, 3}));
        action("resetLayout")->trigger();
        QVERIFY(find<QDockWidget>("logDock")->isVisible());
        app::Settings().setValue(QStringLiteral("session/selection"), QStringList{QStringLiteral("99:0"), QStringLiteral("x"), QStringLiteral("1:2:3")}); // nonsense
        makeWindow();
        session().adopt(fakeTeacher(), fakeProfile());
        QVERIFY(session().selection()->selected().isEmpty());
    }

    void theSessionIsSavedWithoutAClose() { // a kill asks nobody
        session().adopt(fakeTeacher(), fakeProfile());
        session().selection()->select({{1, 1}}, {1, 1});
        QTRY_COMPARE_WITH_TIMEOUT(app::Settings().value(QStringLiteral("session/selection")).toStringList(), QStringList{QStringLiteral("1:1")}, 3000);
    }

    void resetSettings() {
        action("themeDark")->trigger();
        m_window->habits()->shortcuts()->assign(QStringLiteral("profile"), QKeySequence(QStringLiteral("Ctrl+Alt+G")));
        app::addRecent(Recent::Models, QStringLiteral("/a/model"));
        find<QDockWidget>("inspectorDock")->hide();
        action("resetSettings")->trigger();
        auto* box = find<QMessageBox>("resetBox");
        for (auto* button : box->buttons())
            if (box->buttonRole(button) == QMessageBox::AcceptRole)
                button->click();
        QVERIFY(!dark());
        QCOMPARE(action("profile")->shortcut(), QKeySequence(QStringLiteral("Ctrl+P")));
        QVERIFY(find<QDockWidget>("inspectorDock")->isVisible());
        QCOMPARE(app::recents(Recent::Models), QStringList{QStringLiteral("/a/model")}); // what a person opened is no setting
    }

    void hintsGoAndComeBack() {
        auto* bar = find<app::HintBar>("hintBar");
        auto* pages = find<QTabWidget>("pages");
        pages->setCurrentIndex(0);
        QVERIFY(bar->isVisible());
        for (int i = 0; i < pages->count(); ++i) { // each page has one, and its own
            pages->setCurrentIndex(i);
            QVERIFY2(!bar->text().isEmpty(), qPrintable(pages->widget(i)->objectName()));
        }
        const auto last = bar->text();
        pages->setCurrentIndex(0);
        QVERIFY(bar->text() != last);
        bar->findChild<QToolButton*>(QStringLiteral("hintClose"))->click();
        QVERIFY(bar->isHidden());
        pages->setCurrentIndex(1);
        QVERIFY(bar->isVisible());
        makeWindow();
        find<QTabWidget>("pages")->setCurrentIndex(0);
        QVERIFY(find("hintBar")->isHidden());
        action("showHints")->trigger();
        QVERIFY(find("hintBar")->isVisible());
        find("hintBar")->findChild<QToolButton*>(QStringLiteral("hintMore"))->click();
        QCOMPARE(find<app::HelpWindow>("helpWindow")->page(), QStringLiteral("heads"));
    }

    void everyHelpPageIsThere() {
        app::HelpWindow help;
        const QRegularExpression link(QStringLiteral("\\]\\(([a-z]+)\\.md\\)"));
        for (const auto& page : app::HelpWindow::pages()) {
            help.showPage(page);
            QCOMPARE(help.page(), page);
            const auto text = help.findChild<QTextBrowser*>()->toPlainText();
            QVERIFY2(text.size() > 200, qPrintable(page));
            QFile file(QStringLiteral(":/help/%1.md").arg(page));
            QVERIFY(file.open(QIODevice::ReadOnly));
            auto links = link.globalMatch(QString::fromUtf8(file.readAll()));
            while (links.hasNext()) {
                const auto target = links.next().captured(1);
                QVERIFY2(app::HelpWindow::pages().contains(target), qPrintable(page + QStringLiteral(" -> ") + target));
            }
        }
        QCOMPARE(QDir(QStringLiteral(":/help")).entryList().size(), app::HelpWindow::pages().size()); // none is unreachable
        help.showPage(QStringLiteral("first"));
        help.findChild<QTextBrowser*>()->setSource(QUrl(QStringLiteral("qrc:/help/runs.md"))); // as a link does
        QCOMPARE(help.findChild<QListWidget*>()->currentItem()->data(Qt::UserRole).toString(), QStringLiteral("runs"));
    }

    void f1HelpsOnTheFocusedPanel() {
        session().adopt(fakeTeacher(), fakeProfile());
        const std::pair<const char*, const char*> panels[] = {{"targetsTable", "targets"}, {"runButton", "runs"}, {"logPanel", "trouble"}, {"keepCountSpin", "layers"}};
        for (const auto& [widget, page] : panels)
            QCOMPARE(app::HelpWindow::pageOf(find(widget)), QString::fromLatin1(page));
        m_window->activateWindow();
        auto* pages = find<QTabWidget>("pages");
        pages->setCurrentWidget(find("layersPage"));
        pages->setFocus();
        QTest::keyClick(m_window.get(), Qt::Key_F1);
        QTRY_COMPARE(find<app::HelpWindow>("helpWindow")->page(), QStringLiteral("layers"));
        QVERIFY(!find<app::HelpWindow>("helpWindow")->isModal());
    }

    void aboutTellsTheVersions() {
        action("about")->trigger();
        auto* dialog = find<app::AboutDialog>("aboutDialog");
        QTRY_VERIFY2(dialog->text().contains(QStringLiteral("LibTorch: 2.")), qPrintable(dialog->text()));
        for (const auto& part : {QStringLiteral("Linnet: " LINNET_VERSION), QStringLiteral("Qt: %1").arg(QString::fromLatin1(qVersion())), QStringLiteral("QCustomPlot: 2."),
                                 QStringLiteral("Dear ImGui: "), QStringLiteral("CUDA: "), QStringLiteral("Device: ")})
            QVERIFY2(dialog->text().contains(part), qPrintable(dialog->text()));
        for (auto* button : dialog->findChildren<QPushButton*>())
            if (button->text().contains(QStringLiteral("Copy")))
                button->click();
        QCOMPARE(QGuiApplication::clipboard()->text(), dialog->text());
        dialog->close();
    }

    void theWindowIsThereWithinASecond() {
        timespec begin{}, end{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin); // its own time: others may load the machine
        makeWindow();
        m_window->grab();
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
        const double ms = double(end.tv_sec - begin.tv_sec) * 1e3 + double(end.tv_nsec - begin.tv_nsec) * 1e-6;
        qInfo("made, shown and drawn in %.0f ms", ms);
        QVERIFY(ms < 1000);
    }

    void nothingHereFreezes() { LINNET_NOT_FROZEN("all of the above"); }
};

LINNET_WATCHED_MAIN(TestAppHabits)
#include "tst_app_habits.moc"
