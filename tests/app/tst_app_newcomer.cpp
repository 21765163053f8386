// What a person who had never seen the window stumbled over: a recipe of another model, a mistyped rule, a second window.
#include "app/models/autosave_slot.h"
#include "app/panels/help_window.h"
#include "app/panels/notice_bar.h"
#include "tests/app/fake_teacher.h"
#include "tests/support/gui_watchdog.h"
#include "tests/support/window_test.h"

#include <QAbstractButton>
#include <QDir>
#include <QDockWidget>
#include <QFile>
#include <QLineEdit>
#include <QListWidget>
#include <QPushButton>
#include <QSignalSpy>
#include <QStatusBar>
#include <QTabBar>
#include <QTabWidget>
#include <QTextBrowser>

using namespace linnet;
using namespace linnet::tests;

class TestAppNewcomer : public WindowTest {
    Q_OBJECT

    static core::ModelInfo teacher(const char* hash) {
        auto info = fakeTeacher();
        info.hash = hash;
        info.path = place().filePath(QStringLiteral("model-%1.gguf").arg(QLatin1String(hash))).toStdString();
        QFile file(QString::fromStdString(info.path.string()));
        if (!file.exists() && file.open(QIODevice::WriteOnly))
            file.write("GGUF");
        return info;
    }
    static core::Recipe recipeOf(const core::ModelInfo& model, std::uint64_t seed) {
        auto recipe = core::defaultRecipe("cpu", "naive");
        recipe.keep = core::parseKeepRule("layers:0,1,2,4");
        recipe.teacherSource = model.path.string();
        recipe.teacherHash = model.hash;
        recipe.seed = seed;
        return recipe;
    }
    void openAs(const core::ModelInfo& model, std::uint64_t seed) {
        session().adopt(model, fakeProfile());
        session().recipe()->load(recipeOf(model, seed));
    }
    void setText(const std::vector<std::string>& text) {
        auto recipe = session().recipe()->recipe();
        recipe.dataText = text;
        session().recipe()->replace(recipe, QStringLiteral("Set text"));
    }
    static QString fileOf(const core::Recipe& recipe) {
        const auto path = place().filePath(QStringLiteral("of-%1.json").arg(QString::fromStdString(recipe.teacherHash)));
        if (!core::writeRecipe(path.toStdString(), recipe))
            qFatal("no recipe written");
        return path;
    }
    QPushButton* inBox(const char* name) { // of the question that is open
        for (auto* box : m_window->findChildren<QMessageBox*>(QStringLiteral("foreignBox")))
            if (box->isVisible())
                return box->findChild<QPushButton*>(QString::fromLatin1(name));
        qFatal("nothing is asked");
    }
    QStringList problems() {
        QStringList list;
        auto* shown = find<QListWidget>("problemsList");
        for (int i = 0; i < shown->count(); ++i)
            list << shown->item(i)->text();
        return list;
    }

private Q_SLOTS:
    void initTestCase() {
        for (const char* given : {"LINNET_TEACHER", "LINNET_TEXT"}) // nothing is set up on this machine
            qunsetenv(given);
    }
    void init() {
        app::Settings().setValue(QStringLiteral("runs/folder"), place().filePath(QStringLiteral("runs")));
        makeWindow();
    }
    void cleanup() {
        m_window.reset();
        QDir(QStandardPaths::writableLocation(QStandardPaths::AppDataLocation)).removeRecursively();
    }

    // ---- a recipe of another model ----
    void aRecipeOfAnotherModelIsAskedAbout() {
        const auto a = teacher("aaaa"), b = teacher("bbbb");
        openAs(b, 1);
        m_window->habits()->loadRecipe(fileOf(recipeOf(a, 7)));
        QCOMPARE(session().recipe()->recipe().seed, std::uint64_t(1)); // nothing without a word
        QVERIFY(inBox("foreignOpen")->isEnabled());
        QVERIFY(boxes().front().contains(QStringLiteral("model-aaaa.gguf")));
        m_window->habits()->loadRecipe(fileOf(recipeOf(a, 7)));
        inBox("foreignTake")->click();
        const auto taken = session().recipe()->recipe();
        QCOMPARE(taken.seed, std::uint64_t(7));
        QCOMPARE(taken.teacherHash, b.hash);
        QCOMPARE(taken.teacherSource, b.path.string());
        QCOMPARE(session().recipe()->undoStack()->undoText(), QStringLiteral("Load of-aaaa.json"));
        m_window->habits()->loadRecipe(fileOf(recipeOf(b, 9))); // its own needs no question
        QVERIFY(boxes().isEmpty());
        QCOMPARE(session().recipe()->recipe().seed, std::uint64_t(9));
    }

    void aModelThatIsGoneCantBeOpened() {
        auto a = teacher("aaaa");
        openAs(teacher("bbbb"), 1);
        a.path = "/nowhere/at all.gguf";
        m_window->habits()->loadRecipe(fileOf(recipeOf(a, 7)));
        QVERIFY(!inBox("foreignOpen")->isEnabled());
        QVERIFY(inBox("foreignTake")->isEnabled());
        boxes();
    }

    void aRecipeOfAnotherModelStartsNoRun() { // however it came
        openAs(teacher("bbbb"), 1);
        session().recipe()->replace(recipeOf(teacher("aaaa"), 7), QStringLiteral("smuggled"));
        QVERIFY(problems().join(QLatin1Char('\n')).contains(QStringLiteral("model-aaaa.gguf")));
        session().startRun();
        QVERIFY(idle() && session().runs().isEmpty());
        QVERIFY(boxes().front().contains(QStringLiteral("model-aaaa.gguf")));
    }

    void editsGoToTheOpenModelsFile() {
        const auto a = teacher("aaaa"), b = teacher("bbbb");
        openAs(a, 11);
        openAs(b, 22); // at once: the edit of a waits to be written
        m_window->habits()->loadRecipe(fileOf(recipeOf(a, 33)));
        inBox("foreignTake")->click();
        session().recipe()->setTarget({{3, 1}}, app::TargetField::Beta, 0.5);
        session().recipe()->replace(recipeOf(a, 44), QStringLiteral("smuggled"));
        m_window.reset(); // writes what waits
        const auto saved = [](const char* hash) { return core::readRecipe(app::AutosaveSlot::file(hash).toStdString()); };
        QVERIFY(saved("aaaa"));
        QCOMPARE(saved("aaaa")->seed, std::uint64_t(11));
        QVERIFY(!saved("bbbb") || saved("bbbb")->teacherHash == b.hash);
    }

    // ---- a mistyped rule ----
    void aMistypedRuleStandsAndStopsTheRun() {
        openAs(teacher("aaaa"), 1);
        setText({"self:8"});
        auto* keep = find<QLineEdit>("keepEdit");
        keep->setText(QStringLiteral("foo:99"));
        Q_EMIT keep->editingFinished();
        QCOMPARE(keep->text(), QStringLiteral("foo:99"));
        QVERIFY(find<QLabel>("keepProblem")->text().contains(QStringLiteral("foo")));
        QVERIFY(!find<QPushButton>("runButton")->isEnabled());
        QVERIFY(problems().join(QLatin1Char('\n')).contains(QStringLiteral("foo:99")));
        session().startRun(); // as a key of the menu would
        QVERIFY(idle() && session().runs().isEmpty());
        QVERIFY(boxes().front().contains(QStringLiteral("foo:99")));
        QCOMPARE(session().recipe()->recipe().keep.text(), std::string("layers:0,1,2,4"));
        keep->setText(QStringLiteral("layers:0-2,5"));
        Q_EMIT keep->editingFinished();
        QCOMPARE(session().recipe()->recipe().keep.text(), std::string("layers:0,1,2,5"));
        QCOMPARE(keep->text(), QStringLiteral("layers:0-2,5"));
        QVERIFY(find<QPushButton>("runButton")->isEnabled() && find<QLabel>("keepProblem")->text().isEmpty());
        keep->setText(QStringLiteral("bar"));
        Q_EMIT keep->editingFinished();
        session().recipe()->undoStack()->undo(); // any other way to set the layers ends it
        QCOMPARE(keep->text(), QStringLiteral("layers:0-2,4"));
        QVERIFY(find<QPushButton>("runButton")->isEnabled());
    }

    void whatIsTypedCountsForTheKeyOfRun() {
        openAs(teacher("aaaa"), 1);
        setText({"self:8"});
        auto* keep = find<QLineEdit>("keepEdit");
        m_window->activateWindow();
        keep->setFocus();
        QTRY_VERIFY(keep->hasFocus());
        keep->selectAll();
        QTest::keyClicks(keep, QStringLiteral("nonsense"));
        action("start")->trigger(); // the field still has the focus
        QVERIFY(idle() && session().runs().isEmpty());
        QVERIFY(boxes().front().contains(QStringLiteral("nonsense")));
    }

    // ---- two windows ----
    void twoWindowsOfOneModel() {
        const auto a = teacher("aaaa");
        openAs(a, 5);
        QCOMPARE(session().recipe()->window(), 1);
        auto* notices = find<app::NoticeBar>("noticeBar");
        QVERIFY(notices->text(QStringLiteral("secondWindow")).isEmpty());
        QSignalSpy saved(session().recipe(), &app::RecipeModel::autosaved);
        QTRY_VERIFY_WITH_TIMEOUT(!saved.isEmpty(), 4000);
        {
            app::MainWindow second;
            second.show();
            second.session()->adopt(a, fakeProfile());
            QCOMPARE(second.session()->recipe()->window(), 2);
            const auto begun = second.session()->recipe()->takeAutosave(a.hash); // with what the first has
            QVERIFY(begun && *begun && (*begun)->seed == 5);
            second.session()->recipe()->load(recipeOf(a, 6));
            QVERIFY(second.findChild<app::NoticeBar*>()->text(QStringLiteral("secondWindow")).contains(QStringLiteral("autosave-aaaa.2.json")));
        }
        QCOMPARE(core::readRecipe(app::AutosaveSlot::file("aaaa").toStdString())->seed, std::uint64_t(5));
        QCOMPARE(core::readRecipe(app::AutosaveSlot::file("aaaa", 2).toStdString())->seed, std::uint64_t(6));
        session().adopt(teacher("bbbb"), fakeProfile()); // frees the file
        app::RecipeModel other;
        other.setTeacher("aaaa");
        QCOMPARE(other.window(), 1);
    }

    // ---- the text ----
    void theTextIsChosenInTheWindow() {
        auto recipe = recipeOf(teacher("aaaa"), 1);
        recipe.calibrationTokens = 100, recipe.selectionTokens = 50, recipe.evaluationTokens = 50;
        session().adopt(teacher("aaaa"), fakeProfile());
        session().recipe()->load(recipe);
        auto* line = find<QLineEdit>("textEdit");
        auto* below = find<QLabel>("textBelow");
        QVERIFY2(below->text().contains(QStringLiteral("isn't on this machine")), qPrintable(below->text())); // the default text: none here
        QVERIFY(problems().join(QLatin1Char('\n')).contains(QStringLiteral("Text: The default text")));
        const auto type = [&](const QString& text) {
            line->setText(text);
            line->setModified(true);
            Q_EMIT line->editingFinished();
        };
        const auto file = place().filePath(QStringLiteral("some text.txt")), folder = place().filePath(QStringLiteral("texts"));
        QVERIFY(QDir().mkpath(folder));
        const auto write = [](const QString& path, int bytes) {
            QFile made(path);
            QVERIFY(made.open(QIODevice::WriteOnly));
            made.write(QByteArray(bytes, 'a'));
        };
        write(file, 100);
        type(file);
        QVERIFY2(below->text().contains(QStringLiteral("too little")), qPrintable(below->text())); // a token is a byte at least
        write(file, 4000);
        type(file + QStringLiteral("; ") + folder);
        QVERIFY2(below->text().contains(QStringLiteral("holds no .txt")), qPrintable(below->text()));
        write(folder + QStringLiteral("/more.jsonl"), 4000);
        type(folder);
        QVERIFY2(below->text().startsWith(QStringLiteral("1 file, 3.9 KiB, about 1,000 tokens")), qPrintable(below->text()));
        type(file + QStringLiteral(" ; ") + folder);
        QCOMPARE(session().recipe()->recipe().dataText, (std::vector<std::string>{file.toStdString(), folder.toStdString()}));
        QCOMPARE(session().recipe()->undoStack()->undoText(), QStringLiteral("Set text"));
        QVERIFY2(below->text().startsWith(QStringLiteral("2 files, 7.8 KiB")), qPrintable(below->text()));
        QVERIFY(!problems().join(QLatin1Char('\n')).contains(QStringLiteral("Text:")));
        const std::pair<const char*, const char*> wrong[] = {{"/nowhere/a.txt", "isn't there"}, {"self:0", "whole number"}, {"self:4; default", "stands alone"}, {"", "No text"}};
        for (const auto& [text, why] : wrong) {
            type(QString::fromLatin1(text));
            QVERIFY2(below->text().contains(QLatin1String(why)), qPrintable(below->text()));
        }
        type(QStringLiteral("self:64"));
        QVERIFY2(below->text().startsWith(QStringLiteral("64 sequences")), qPrintable(below->text()));
    }

    void aTextThatIsNotThereStartsNoRun() {
        openAs(teacher("aaaa"), 1); // with the default text, which is not on this machine
        auto* run = find<QPushButton>("runButton");
        for (const int width : {275, 285, 330}) { // said whole below the field
            m_window->resizeDocks({find<QDockWidget>("projectDock")}, {width}, Qt::Horizontal);
            QTest::qWait(50);
            const auto* below = find<QLabel>("textBelow");
            QVERIFY2(below->height() >= below->heightForWidth(below->width()), qPrintable(QStringLiteral("%1: %2 of %3").arg(below->width()).arg(below->height()).arg(below->heightForWidth(below->width()))));
        }
        QVERIFY(!run->isEnabled() && !action("start")->isEnabled());
        QVERIFY2(run->toolTip().contains(QStringLiteral("default text")) && action("start")->toolTip().contains(QStringLiteral("default text")), qPrintable(run->toolTip()));
        session().startRun();
        action("runEnqueue")->trigger();
        QCOMPARE(boxes().size(), 2);
        QVERIFY(idle() && session().runs().isEmpty());
        auto recipe = session().recipe()->recipe(); // a warning that stands before it in the recipe
        recipe.targets[0][1].beta = 0.5;
        session().recipe()->replace(recipe, QStringLiteral("a target of a layer that stays"));
        const auto list = problems();
        QVERIFY2(list.size() >= 2 && list.front().startsWith(QStringLiteral("Text: ")), qPrintable(list.join(QLatin1Char('\n')))); // what stops a run first
        auto* dock = find<QDockWidget>("problemsDock");
        QCOMPARE(dock->windowTitle(), QStringLiteral("Problems (%1)").arg(list.size()));
        QCOMPARE(dock->toggleViewAction()->text(), QStringLiteral("Problems"));
        const auto file = place().filePath(QStringLiteral("came later.txt"));
        setText({file.toStdString()});
        QVERIFY(!run->isEnabled());
        QFile made(file);
        QVERIFY(made.open(QIODevice::WriteOnly));
        made.write(QByteArray(400'000, 'a'));
        made.close();
        session().startRun(); // looks again: it is there now
        QVERIFY(!session().runProblem());
        boxes();
        QTRY_VERIFY_WITH_TIMEOUT(idle(), 20000);
        boxes();
        QVERIFY(run->isEnabled());
        const auto failed = session().currentRun(); // its model is none: it saved nothing
        QVERIFY(failed && failed->state == QLatin1String("failed") && !failed->canResume());
    }

    void aRunThatSavedNothingOffersNoResume() {
        openAs(teacher("aaaa"), 1);
        for (const bool saved : {false, true}) {
            app::RunEntry run;
            run.folder = place().filePath(QStringLiteral("runs/failed-%1").arg(saved));
            QVERIFY(QDir().mkpath(run.folder + QStringLiteral("/checkpoints")));
            run.name = QFileInfo(run.folder).fileName();
            run.state = QStringLiteral("failed");
            run.failure = QStringLiteral("The default text isn't on this machine.");
            run.saved = saved;
            session().adoptRun(run);
            QCOMPARE(find<QPushButton>("resumeButton")->isEnabled(), saved);
            const auto said = app::RunText::detail(run);
            QCOMPARE(said.contains(QStringLiteral("Resume")), saved);
            QVERIFY2(!said.contains(QStringLiteral("..")), qPrintable(said));
        }
    }

    void theExportTakesAFinishedRun() {
        openAs(teacher("aaaa"), 1);
        auto* exporting = action("export");
        QVERIFY(!exporting->isEnabled());
        const auto add = [&](const char* name, const char* state) {
            app::RunEntry run;
            run.folder = place().filePath(QStringLiteral("exports/") + QLatin1String(name));
            run.name = QLatin1String(name);
            run.state = QLatin1String(state);
            session().adoptRun(run); // and is chosen
        };
        add("20260101-a", "done");
        add("20260102-b", "done");
        add("20260103-c", "failed");
        QVERIFY(exporting->isEnabled());
        QVERIFY2(exporting->toolTip().contains(QStringLiteral("20260102-b")), qPrintable(exporting->toolTip())); // the newest that is finished
        session().library()->choose(place().filePath(QStringLiteral("exports/20260101-a")));
        QVERIFY2(exporting->toolTip().contains(QStringLiteral("20260101-a")), qPrintable(exporting->toolTip()));
    }

    // ---- room ----
    void theHintMovesNoTab() {
        app::Settings().remove(QStringLiteral("hints"));
        makeWindow();
        auto* pages = find<QTabWidget>("pages");
        auto* bar = find("hintBar");
        for (const int page : {0, 2, 4}) {
            pages->setCurrentIndex(page);
            QTest::qWait(20);
            QVERIFY(bar->isVisible());
            const auto tabs = pages->tabBar()->mapTo(m_window.get(), QPoint());
            const int top = bar->mapTo(m_window.get(), QPoint()).y(), bottom = top + bar->height();
            QVERIFY2(top >= tabs.y() + pages->tabBar()->height() - 2, qPrintable(QString::number(top))); // below them
            const auto pageTop = [&] { return pages->currentWidget()->mapTo(m_window.get(), QPoint()).y(); };
            QVERIFY2(pageTop() >= bottom, qPrintable(QStringLiteral("%1 < %2").arg(pageTop()).arg(bottom))); // and covers nothing
            QVERIFY(bar->height() >= bar->heightForWidth(bar->width()));
            bar->findChild<QAbstractButton*>(QStringLiteral("hintClose"))->click();
            QTRY_COMPARE(pageTop(), top);
            QCOMPARE(pages->tabBar()->mapTo(m_window.get(), QPoint()), tabs);
        }
    }

    void aDockThatIsBroughtBackHasRoom() {
        openAs(teacher("aaaa"), 1);
        session().selection()->select({{3, 1}}, {3, 1});
        m_window->resize(1280, 800);
        QTest::qWait(100);
        m_window->resize(800, 600);
        auto *inspector = find("inspectorDock"), *targets = find("targetsDock"), *project = find("projectDock");
        QTRY_VERIFY(inspector->isHidden() && targets->isHidden());
        const auto said = m_window->findChild<QStatusBar*>()->currentMessage();
        QVERIFY2(said.contains(QStringLiteral("Inspector and Targets")) && said.contains(QStringLiteral("View")), qPrintable(said));
        QTRY_VERIFY2((m_window->resize(800, 600), m_window->width() < 1000), qPrintable(QString::number(m_window->width())));
        action("inspectorDockToggle")->trigger();
        QTRY_VERIFY(inspector->isVisible() && project->isHidden() && find("runDock")->isHidden());
        QTest::qWait(100);
        const int width = m_window->width();
        QVERIFY2(width < 1000, qPrintable(QString::number(width))); // it grew to what page and inspector need, at most
        QVERIFY(inspector->mapTo(m_window.get(), QPoint(inspector->width(), 0)).x() <= width);
        auto* content = find("inspectorPanel");
        QVERIFY2(content->width() <= content->parentWidget()->width(), qPrintable(QStringLiteral("%1 of %2").arg(content->width()).arg(content->parentWidget()->width())));
        action("projectDockToggle")->trigger();
        QTRY_VERIFY(project->isVisible() && inspector->isHidden());
        m_window->resize(1280, 800);
        QTRY_VERIFY(inspector->isVisible() && targets->isVisible() && project->isVisible() && find("runDock")->isVisible());
    }

    void aNarrowWindowFoldsTheRight() {
        openAs(teacher("aaaa"), 1);
        m_window->resize(1280, 800);
        QTest::qWait(100);
        const int left = find("projectDock")->width(), right = find("inspectorDock")->width();
        m_window->resize(800, 600); // as far as the docks let it, and then the whole way
        QTRY_VERIFY2(find("inspectorDock")->isHidden() && find("targetsDock")->isHidden(), qPrintable(QString::number(m_window->width())));
        QVERIFY2(find("projectDock")->width() >= 230 && find("runDock")->width() >= 230, qPrintable(QString::number(find("projectDock")->width())));
        QTRY_VERIFY2((m_window->resize(800, 600), m_window->width() < 1000), qPrintable(QString::number(m_window->width())));
        m_window->resize(1280, 800);
        QTRY_VERIFY(find("inspectorDock")->isVisible() && find("targetsDock")->isVisible());
        QTRY_VERIFY2(qAbs(find("projectDock")->width() - left) <= 4 && qAbs(find("inspectorDock")->width() - right) <= 4,
                     qPrintable(QStringLiteral("%1 of %2, %3 of %4").arg(find("projectDock")->width()).arg(left).arg(find("inspectorDock")->width()).arg(right)));
        m_window->resize(800, 600);
        QTRY_VERIFY(find("inspectorDock")->isHidden());
        m_window->close(); // the layout of next time is the whole one
        makeWindow();
        m_window->resize(1280, 800);
        QTRY_VERIFY(find("inspectorDock")->isVisible());
    }

    void nothingSelectedIsSaid() {
        openAs(teacher("aaaa"), 1);
        m_window->resize(1280, 800);
        session().selection()->select({{3, 1}}, {3, 1});
        QTRY_VERIFY(!find("inspectorEmpty")->isVisible());
        action("clearSelection")->trigger();
        auto* empty = find("inspectorEmpty");
        QTRY_VERIFY(empty->isVisible());
        QTRY_VERIFY2(empty->height() <= find("inspectorDock")->height(), qPrintable(QString::number(empty->height()))); // its middle is in view
    }

    // ---- the first time ----
    void withoutADefaultModel() {
        app::Settings().clear(); // no model of last time
        m_window->habits()->start({}, true);
        const auto atStart = boxes();
        QVERIFY2(atStart.isEmpty() && idle(), qPrintable(atStart.join(QLatin1Char('\n')) + session().jobTitle()));
        auto* button = find("emptyProject")->findChild<QPushButton*>();
        QCOMPARE(button->text(), QStringLiteral("Open..."));
        session().openTeacher(QStringLiteral("default"));
        const auto said = boxes();
        QCOMPARE(said.size(), 1);
        QVERIFY2(said.front().contains(QStringLiteral("isn't on this machine")) && !said.front().contains(QStringLiteral("./linnet")), qPrintable(said.front()));
    }

    void aRunMarksItsPageAndLeavesThePersonOnTheirs() {
        openAs(teacher("aaaa"), 1);
        auto* pages = find<QTabWidget>("pages");
        pages->setCurrentIndex(0);
        Q_EMIT session().stageStarted(QStringLiteral("align"));
        Q_EMIT session().stageStarted(QStringLiteral("distill"));
        QCOMPARE(pages->currentIndex(), 0);
        QCOMPARE(pages->tabText(3), QStringLiteral("Curves •"));
        pages->setCurrentIndex(3);
        QCOMPARE(pages->tabText(3), QStringLiteral("Curves"));
    }

    void theToolBarKeepsItsWidths() {
        openAs(teacher("aaaa"), 1);
        session().recipe()->setTarget({{3, 1}}, app::TargetField::Beta, 0.5);
        QCOMPARE(action("undo")->iconText(), QStringLiteral("Undo"));
        QVERIFY(action("undo")->text().contains(QStringLiteral("beta")));
    }

    void theHelpFindsAnyOfTheWords() {
        app::HelpWindow help;
        help.showPage(QStringLiteral("first"));
        auto* search = help.findChild<QLineEdit*>();
        auto* none = help.findChild<QLabel*>(QStringLiteral("helpNone"));
        search->setText(QStringLiteral("naive zero-gate-and-more"));
        QVERIFY(none->isHidden());
        search->setText(QStringLiteral("zero gate"));
        QCOMPARE(help.page(), QStringLiteral("evaluation")); // the first of those that have both
        QVERIFY(!help.findChild<QTextBrowser*>()->extraSelections().isEmpty());
        search->setText(QStringLiteral("xyzzy"));
        QVERIFY(!none->isHidden() && none->text().contains(QStringLiteral("xyzzy")));
        search->clear();
        QVERIFY(none->isHidden() && help.findChild<QTextBrowser*>()->extraSelections().isEmpty());
    }

    void noneOfItFroze() { LINNET_NOT_FROZEN("the newcomer's way"); }
};

LINNET_WATCHED_MAIN(TestAppNewcomer)
#include "tst_app_newcomer.moc"
