// What a person who had never seen the window stumbled over: a recipe of another model, a mistyped rule, a second window.
#include "app/models/autosave_slot.h"
#include "app/panels/help_window.h"
#include "app/panels/notice_bar.h"
#include "tests/app/fake_teacher.h"
#include "tests/support/gui_watchdog.h"
#include "tests/support/window_test.h"

#include <QAbstractButton>
#include <QDir>
#include <QFile>
#include <QLineEdit>
#include <QListWidget>
#include <QPushButton>
#include <QSignalSpy>
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
    void init() { makeWindow(); }
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
        QVERIFY2(below->text().startsWith(QStringLiteral("1 file, 4.0 kB, about 1,000 tokens")), qPrintable(below->text()));
        type(file + QStringLiteral(" ; ") + folder);
        QCOMPARE(session().recipe()->recipe().dataText, (std::vector<std::string>{file.toStdString(), folder.toStdString()}));
        QCOMPARE(session().recipe()->undoStack()->undoText(), QStringLiteral("Set text"));
        QVERIFY2(below->text().startsWith(QStringLiteral("2 files, 8.0 kB")), qPrintable(below->text()));
        QVERIFY(!problems().join(QLatin1Char('\n')).contains(QStringLiteral("Text:")));
        const std::pair<const char*, const char*> wrong[] = {{"/nowhere/a.txt", "isn't there"}, {"self:0", "whole number"}, {"self:4; default", "stands alone"}, {"", "No text"}};
        for (const auto& [text, why] : wrong) {
            type(QString::fromLatin1(text));
            QVERIFY2(below->text().contains(QLatin1String(why)), qPrintable(below->text()));
        }
        type(QStringLiteral("self:64"));
        QVERIFY2(below->text().startsWith(QStringLiteral("64 sequences")), qPrintable(below->text()));
    }

    // ---- room ----
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
