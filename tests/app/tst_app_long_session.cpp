// A day at the workbench in a minute: a tiny teacher, the real worker, the window's own actions; and at the end the same recipe by the
// command line, which must have measured the same numbers.
#include "app/models/target_table_model.h"
#include "tests/support/gui_watchdog.h"
#include "tests/support/oracle_process.h"
#include "tests/support/window_test.h"
#include "widgets/head_heat_map.h"

#include <QFile>
#include <QMimeData>
#include <QProcess>
#include <QPushButton>
#include <QSignalSpy>
#include <QTabWidget>
#include <QTableView>
#include <QUrl>

using namespace linnet;
using namespace linnet::tests;
using app::HeadId;
using app::JobState;
using app::TargetField;
using Layers = std::vector<std::int64_t>;

namespace {

constexpr int kLong = 180'000, kShort = 20'000, kSteps = 300;

// A recipe.json without what depends on the moment; numbers as they are written.
std::map<std::pair<std::int64_t, std::int64_t>, std::pair<double, double>> losses(const std::vector<core::MetricRow>& rows) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::pair<double, double>> found;
    for (const auto& row : rows)
        if (row.stage == "align")
            found[{row.layer, row.step}] = {row.loss, row.heldOutLoss.value_or(-1)};
    return found;
}

} // namespace

class TestAppLongSession : public WindowTest {
    Q_OBJECT

    QTemporaryDir m_teachers;
    QString m_first, m_second; // run folders

    app::RecipeModel& recipe() { return *session().recipe(); }
    void wait(const char* what, int limit = kLong) {
        QVERIFY2(QTest::qWaitFor([this] { return idle(); }, limit), what);
        const auto said = boxes();
        QVERIFY2(said.isEmpty(), qPrintable(said.join(QLatin1Char('\n'))));
    }

private Q_SLOTS:
    void initTestCase() {
        if (oraclePython().isEmpty())
            QSKIP("LINNET_ORACLE_PYTHON is not set: no transformers to make a teacher with");
        QVERIFY(QFile::exists(qEnvironmentVariable("LINNET_CLI")));
        const auto said = runOracle(QStringLiteral("convert_oracle.py"), {QStringLiteral("models"), m_teachers.path()});
        QVERIFY2(said.isEmpty(), qPrintable(said));
        app::Settings().setValue(QStringLiteral("runs/folder"), place().filePath(QStringLiteral("runs")));
        makeWindow();
        LINNET_NOT_FROZEN("start");
    }
    void cleanupTestCase() { m_window.reset(); }

    void openByDrop() {
        QMimeData dropped;
        dropped.setUrls({QUrl::fromLocalFile(m_teachers.filePath(QStringLiteral("llama")))});
        m_window->habits()->drop(&dropped);
        QCOMPARE(session().jobState(), JobState::Running);
        wait("opening");
        QVERIFY(session().teacher() && session().teacher()->config.layers == 4);
        LINNET_NOT_FROZEN("opening");
    }

    void writeTheRecipe() {
        auto made = recipe().recipe();
        made.dataText = {m_teachers.filePath(QStringLiteral("text.txt")).toStdString()};
        made.seqLen = 32, made.calibrationTokens = 768, made.selectionTokens = 192, made.evaluationTokens = 384;
        made.align.steps = kSteps, made.align.batch = 4;
        made.device = "cpu", made.seed = 3;
        recipe().replace(made, QStringLiteral("Set up"));
        QVERIFY(recipe().problems().empty());
    }

    void profile() {
        action("profile")->trigger();
        QCOMPARE(session().jobState(), JobState::Running);
        wait("profiling");
        QVERIFY(session().profile());
        LINNET_NOT_FROZEN("profiling");
    }

    void selectHeads() {
        find<QTabWidget>("pages")->setCurrentWidget(find("headsPage"));
        widgets::HeadHeatMap* map = nullptr;
        for (auto* each : find("headsPage")->findChildren<widgets::HeadHeatMap*>())
            if (each->isVisible() && !map)
                map = each;
        QVERIFY(map);
        QTRY_VERIFY(map->cellRect(1, 2).width() > 2);
        QTest::mouseClick(map, Qt::LeftButton, {}, map->cellCenter(1, 2));
        QCOMPARE(session().selection()->primary(), (HeadId{1, 2}));
        QTest::mouseClick(map, Qt::LeftButton, Qt::ControlModifier, map->cellCenter(2, 5));
        QCOMPARE(session().selection()->sorted(), (QList<HeadId>{{1, 2}, {2, 5}}));
        recipe().setConverted({1, 2}, QStringLiteral("Two layers"));
        QCOMPARE(recipe().converted().value_or(Layers{}), (Layers{1, 2}));
        QTest::mouseClick(map, Qt::LeftButton, {}, map->tickRect(0).center());
        QCOMPARE(recipe().converted().value_or(Layers{}), (Layers{0, 1, 2}));
        action("undo")->trigger();
        QCOMPARE(recipe().converted().value_or(Layers{}), (Layers{1, 2}));
        LINNET_NOT_FROZEN("selecting");
    }

    void chooseLayersByMeasurement() { // and take it back: the ticks stand
        session().selectLayers(core::parseKeepRule("bypass:2"));
        wait("choosing layers");
        QVERIFY(session().ranking());
        QCOMPARE(recipe().converted().value_or(Layers{}).size(), std::size_t(2));
        if (recipe().converted().value_or(Layers{}) != Layers{1, 2})
            action("undo")->trigger();
        QCOMPARE(recipe().converted().value_or(Layers{}), (Layers{1, 2}));
        LINNET_NOT_FROZEN("choosing layers");
    }

    void editTargetsUndoRedo() {
        session().selection()->select({{1, 2}}, {1, 2});
        auto* table = find<QTableView>("targetsTable");
        QTRY_VERIFY(table->model()->rowCount() >= 4);
        QVERIFY(table->model()->setData(table->model()->index(0, app::TargetTableModel::User), QStringLiteral("12.5")));
        const auto halfLife = [this] { return recipe().target({1, 2}).halfLife; };
        QVERIFY(halfLife() == 12.5);
        recipe().setLocked({{1, 2}}, TargetField::HalfLife, true);
        recipe().setTarget({{2, 5}, {2, 4}}, TargetField::Beta, 0.3);
        const auto edited = recipe().recipe();
        for (int i = 0; i < 3; ++i)
            action("undo")->trigger();
        QVERIFY(!halfLife() && recipe().target({2, 4}).empty());
        for (int i = 0; i < 3; ++i)
            action("redo")->trigger();
        QVERIFY(recipe().recipe() == edited);
        QVERIFY(recipe().problems().empty());
        LINNET_NOT_FROZEN("editing");
    }

    void runAndStop() {
        action("start")->trigger();
        const auto run = session().currentRun();
        QVERIFY(run);
        m_first = run->folder;
        QTRY_VERIFY_WITH_TIMEOUT(!run->metrics.empty() || idle(), kLong);
        QVERIFY2(!idle(), "the run ended before it could be stopped");
        action("pause")->trigger();
        QCOMPARE(session().jobState(), JobState::Paused);
        action("pause")->trigger();
        QCOMPARE(session().jobState(), JobState::Running);
        QElapsedTimer clock;
        clock.start();
        action("stop")->trigger();
        QCOMPARE(session().jobState(), JobState::Stopping);
        QVERIFY(clock.elapsed() < 200);
        wait("stopping", kShort);
        QCOMPARE(run->state, QStringLiteral("stopped"));
        QVERIFY(losses(run->metrics).size() < 2 * kSteps);
        LINNET_NOT_FROZEN("running and stopping");
    }

    void resume() {
        session().resumeRun(m_first);
        QCOMPARE(session().jobState(), JobState::Running);
        wait("resuming");
        QCOMPARE(session().currentRun()->state, QStringLiteral("done"));
        QCOMPARE(session().currentRun()->report->convertedLayers, (Layers{1, 2}));
        QCOMPARE(losses(session().currentRun()->metrics).size(), std::size_t(2 * kSteps)); // nothing lost
        LINNET_NOT_FROZEN("resuming");
    }

    void runAVariant() {
        auto variant = recipe().recipe();
        variant.align.steps = 5;
        recipe().replace(variant, QStringLiteral("Fewer steps"));
        QTest::qWait(1100); // folders are named by the second
        action("start")->trigger();
        wait("the variant");
        m_second = session().currentRun()->folder;
        QVERIFY(m_second != m_first);
        QCOMPARE(session().currentRun()->state, QStringLiteral("done"));
        LINNET_NOT_FROZEN("the variant");
    }

    void compare() {
        session().library()->setBaseline(m_first);
        session().library()->setShown(m_first, true);
        session().library()->setShown(m_second, true);
        auto* pages = find<QTabWidget>("pages");
        for (int i = 0; i < pages->count(); ++i) { // every page shows both without a stop
            pages->setCurrentIndex(i);
            QTest::qWait(100);
        }
        const auto first = session().library()->find(m_first), second = session().library()->find(m_second);
        QVERIFY(first && second);
        QCOMPARE(session().library()->baseline(), m_first);
        QTRY_VERIFY(first->recipe && second->recipe);
        QCOMPARE(first->recipe->align.steps, std::int64_t(kSteps));
        QCOMPARE(second->recipe->align.steps, std::int64_t(5));
        QVERIFY(first->evaluation.at("student").klToTeacher != second->evaluation.at("student").klToTeacher);
        QVERIFY(first->evaluation.at("teacher").perplexity == second->evaluation.at("teacher").perplexity);
        LINNET_NOT_FROZEN("comparing");
    }

    void exportTheStudent() {
        QSignalSpy exported(&session(), &app::Session::exported);
        const auto out = place().filePath(QStringLiteral("student-hf"));
        session().exportRun(m_first, out, {});
        wait("exporting");
        QCOMPARE(exported.size(), 1);
        for (const char* file : {"config.json", "tokenizer.json", "recipe.json"})
            QVERIFY2(QFile::exists(out + QLatin1Char('/') + QLatin1String(file)), file);
        LINNET_NOT_FROZEN("exporting");
    }

    void theCommandLineMeasuresTheSame() {
        const auto run = place().filePath(QStringLiteral("by-cli"));
        QProcess cli;
        cli.setProcessChannelMode(QProcess::MergedChannels);
        cli.start(qEnvironmentVariable("LINNET_CLI"), {QStringLiteral("convert"), m_first + QStringLiteral("/recipe.json"), QStringLiteral("--run"), run, QStringLiteral("--quiet")});
        QVERIFY(cli.waitForFinished(kLong));
        QVERIFY2(cli.exitCode() == 0, cli.readAll().right(2000).constData());
        const auto ours = core::readReport(m_first.toStdString()), theirs = core::readReport(run.toStdString());
        QVERIFY(ours && theirs);
        QVERIFY(ours->convertedLayers == theirs->convertedLayers);
        for (const char* model : {"teacher", "naive", "zero_gate", "student"}) {
            const auto &a = ours->evaluation.at(model), &b = theirs->evaluation.at(model);
            qInfo("%s: perplexity %.9g by the window, %.9g by the command line", model, a.perplexity, b.perplexity);
            QVERIFY(a.loss == b.loss && a.perplexity == b.perplexity && a.klToTeacher == b.klToTeacher && a.tokens == b.tokens);
        }
        const auto curves = core::readMetrics(m_first.toStdString()), theirCurves = core::readMetrics(run.toStdString());
        QVERIFY(curves && theirCurves);
        QCOMPARE(losses(*curves).size(), std::size_t(2 * kSteps));
        QVERIFY(losses(*curves) == losses(*theirCurves)); // a stop and a resume in between changed no bit
        QFile student(m_first + QStringLiteral("/checkpoints/student.safetensors")), other(run + QStringLiteral("/checkpoints/student.safetensors"));
        QVERIFY(student.open(QIODevice::ReadOnly) && other.open(QIODevice::ReadOnly));
        QVERIFY(student.readAll() == other.readAll());
    }

    void theNextSessionKnowsIt() {
        m_window->close();
        makeWindow();
        m_window->habits()->start({}, true); // the model of last time
        wait("opening again");
        QCOMPARE(recipe().recipe().align.steps, std::int64_t(5)); // as it was being edited
        QVERIFY(recipe().target({1, 2}).halfLife == 12.5);
        QCOMPARE(session().selection()->primary(), (HeadId{1, 2}));
        QTRY_VERIFY_WITH_TIMEOUT(session().currentRun() && session().currentRun()->folder == m_second, kShort);
        LINNET_NOT_FROZEN("the next session");
    }
};

LINNET_WATCHED_MAIN(TestAppLongSession)
#include "tst_app_long_session.moc"
