// Runs: queue, states in words, memory beside the folders, runs of other processes, comparison; and what Curves draws of them.
#include "app/models/curve_data.h"
#include "app/models/run_results.h"
#include "app/models/run_table_model.h"
#include "app/models/session.h"
#include "app/models/settings.h"
#include "app/panels/curves_panel.h"
#include "app/panels/evaluation_panel.h"
#include "app/panels/runs_page.h"
#include "app/panels/curve_drawing.h"
#include "tests/app/fake_teacher.h"
#include "tests/support/gui_watchdog.h"
#include "widgets/curve_plot.h"

#include <QAction>
#include <QComboBox>
#include <QDir>
#include <QElapsedTimer>
#include <QFile>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QMessageBox>
#include <QPushButton>
#include <QSignalSpy>
#include <QStandardPaths>
#include <QTableView>
#include <QTableWidget>
#include <QTemporaryDir>
#include <QTest>
#include <cmath>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace linnet;
using namespace linnet::tests;
using app::CurveAxis;
using app::CurveQuantity;
using app::RunLibrary;
using app::RunText;

namespace {

core::MetricRow row(const char* stage, std::int64_t layer, std::int64_t step, double loss, std::optional<double> heldOut = {}) {
    core::MetricRow made;
    made.stage = stage, made.layer = layer, made.step = step, made.loss = loss, made.heldOutLoss = heldOut;
    made.tokens = 100 * (step + 1), made.time = static_cast<double>(step);
    return made;
}

core::Evaluation evaluation(double loss, double lossSe, double kl, double klSe) {
    core::Evaluation e;
    e.loss = loss, e.lossSe = lossSe, e.perplexity = std::exp(loss), e.klToTeacher = kl, e.klSe = klSe;
    e.seqLen = 64, e.tokens = 630, e.sequences = 10;
    return e;
}

void write(const QString& file, const std::string& text, bool append = false) {
    std::ofstream(file.toStdString(), append ? std::ios::app : std::ios::trunc) << text;
}

} // namespace

class TestAppRuns : public QObject {
    Q_OBJECT

public:
    static void prepare() {}

private:

    std::unique_ptr<QTemporaryDir> m_place;
    std::vector<app::Job> m_jobs; // given to the device that is none
    bool m_idle = true;
    int m_stops = 0;

    RunLibrary::Device device() {
        return {[this] { return m_idle; },
                [this](app::Job job, const QString&) {
                    m_jobs.push_back(std::move(job));
                    m_idle = false;
                },
                [this] { ++m_stops; }};
    }
    void end(RunLibrary& library, core::ErrorCode code = core::ErrorCode::Cancelled, const char* why = "stopped on request") {
        app::JobResult result;
        result.kind = m_jobs.back().kind, result.path = m_jobs.back().path;
        result.error = core::Error{code, why, {}};
        m_idle = true;
        library.jobEnded(result);
        library.startNext();
    }
    core::Recipe recipe(std::uint64_t seed = 0) const {
        auto made = core::defaultRecipe("cpu", "naive");
        made.keep = core::parseKeepRule("layers:0,1,2,4");
        made.align.steps = 3000;
        made.seed = seed;
        return made;
    }
    QString runsFolder() const { return m_place->filePath(QStringLiteral("runs")); }
    QString makeFolder(const QString& name) { // as a stopped run leaves it
        const auto folder = runsFolder() + QLatin1Char('/') + name;
        QDir().mkpath(folder + QStringLiteral("/checkpoints"));
        if (!core::writeRecipe((folder + QStringLiteral("/recipe.json")).toStdString(), recipe(7)))
            qFatal("no recipe");
        write(folder + QStringLiteral("/state.json"), "{\"seconds\": 12.5}");
        write(folder + QStringLiteral("/.lock"), "");
        write(folder + QStringLiteral("/log.txt"), "2026-01-31 12:00:00 stage align\n2026-01-31 12:00:05 stopped: stopped on request\n");
        for (const std::int64_t step : {410, 411})
            write(folder + QStringLiteral("/metrics.jsonl"), core::metricToJson(row("align", 3, step, 0.5)).dump() + "\n", true);
        return folder;
    }

private Q_SLOTS:
    void initTestCase() {
        QStandardPaths::setTestModeEnabled(true);
        QCoreApplication::setOrganizationName(QStringLiteral("Linnet"));
        QCoreApplication::setApplicationName(QStringLiteral("tst_app_runs"));
    }
    void init() {
        m_place = std::make_unique<QTemporaryDir>();
        app::Settings().setValue(QStringLiteral("runs/folder"), runsFolder());
        QFile::remove(QStandardPaths::writableLocation(QStandardPaths::AppDataLocation) + QStringLiteral("/runs.json"));
        m_jobs.clear();
        m_idle = true;
        m_stops = 0;
    }

    // ---- queue

    void runsStartOneAfterAnother() {
        RunLibrary library(device());
        const auto a = library.enqueue(recipe(1)), b = library.enqueue(recipe(2)), c = library.enqueue(recipe(3));
        QVERIFY(a != b && b != c && a != c); // of one second, and yet three folders
        QCOMPARE(m_jobs.size(), 1u);
        QCOMPARE(QString::fromStdString(m_jobs[0].path.string()), a);
        QVERIFY(m_jobs[0].kind == app::JobKind::Convert);
        QCOMPARE(library.find(a)->state, QStringLiteral("running"));
        QCOMPARE(library.find(b)->state, QStringLiteral("queued"));
        QCOMPARE(library.place(*library.find(c)), 2);
        library.runNow(c); // next, as something runs
        QCOMPARE(library.place(*library.find(c)), 1);
        end(library, core::ErrorCode::Memory, "no memory"); // a failure does not hold the others up
        QCOMPARE(library.find(a)->state, QStringLiteral("failed"));
        QVERIFY(RunText::detail(*library.find(a)).contains(QStringLiteral("no memory")));
        QCOMPARE(m_jobs.size(), 2u);
        QCOMPARE(m_jobs[1].recipe.seed, std::uint64_t(3));
        end(library); // who stops wants the device: the queue is held
        QVERIFY(library.isHeld());
        QCOMPARE(m_jobs.size(), 2u);
        QVERIFY2(RunText::detail(*library.find(b), 1, true).contains(QStringLiteral("queue is held")), qPrintable(RunText::detail(*library.find(b), 1, true)));
        library.setHeld(false);
        QCOMPARE(m_jobs.size(), 3u);
        QCOMPARE(m_jobs[2].recipe.seed, std::uint64_t(2));
    }

    void namesLooksAndQueueOutliveTheWindow() {
        QString b, old;
        {
            RunLibrary library(device());
            library.enqueue(recipe(1));
            b = library.enqueue(recipe(2));
            old = library.open(makeFolder(QStringLiteral("old")))->folder;
            QCOMPARE((QSet<int>{library.runs()[0]->look, library.runs()[1]->look, library.runs()[2]->look}), (QSet<int>{0, 1, 2})); // each its own
            library.rename(old, QStringLiteral("with wide gates"));
            library.setLook(old, 11);
            library.setBaseline(old);
        }
        RunLibrary library(device());
        QCOMPARE(m_jobs.size(), 1u); // nothing starts because a window was opened
        QVERIFY(library.isHeld());
        QCOMPARE(library.find(b)->state, QStringLiteral("queued"));
        QCOMPARE(library.find(b)->recipe->seed, std::uint64_t(2));
        QTRY_VERIFY(library.find(old));
        QCOMPARE(library.find(old)->name, QStringLiteral("with wide gates"));
        QCOMPARE(library.find(old)->look, 11);
        QCOMPARE(library.baseline(), old);
        QVERIFY(!QFile::exists(old + QStringLiteral("/runs.json"))); // nothing of it in the run's folder
        m_idle = true;
        library.runNow(b);
        QCOMPARE(m_jobs.back().recipe.seed, std::uint64_t(2));
        library.rename(old, QString());
        QCOMPARE(library.find(old)->name, QStringLiteral("old"));
    }

    void aBrokenMemoryIsSurvived() {
        const auto file = QStandardPaths::writableLocation(QStandardPaths::AppDataLocation) + QStringLiteral("/runs.json");
        QDir().mkpath(QFileInfo(file).path());
        for (const char* text : {"{\"runs\": [{\"folder\": 3}, {\"folder\": \"/a\", \"name\": \"kept\", \"look\": 5}], \"queue\": [{}], \"baseline\": []}", "{\"ru", ""}) {
            write(file, text);
            RunLibrary library(device());
            QVERIFY(library.runs().isEmpty() && library.baseline().isEmpty());
        }
        write(file, "{\"runs\": [{\"folder\": 3}, {\"folder\": \"/a\", \"name\": \"kept\", \"look\": 5}]}");
        QCOMPARE(app::readRunMemory(file).runs.value(QStringLiteral("/a")).name, QStringLiteral("kept"));
    }

    // ---- states in words

    void eachStateIsSaidHonestly() {
        RunLibrary library(device());
        const auto run = library.find(library.enqueue(recipe()));
        library.jobMetrics({row("align", 3, 411, 0.5)});
        library.jobProgress(QStringLiteral("alignment, layer 3, step 412 of 3000"));
        QCOMPARE(RunText::detail(*run), QStringLiteral("Running: alignment, layer 3, step 412 of 3000."));
        library.jobPaused(true);
        QCOMPARE(run->state, QStringLiteral("pausing"));
        QCOMPARE(RunText::detail(*run), QStringLiteral("Pausing: finishing alignment, layer 3, step 412 of 3000."));
        QTest::qWait(300);
        library.jobProgress(QStringLiteral("alignment, layer 3, step 413 of 3000")); // it still moves
        QTest::qWait(300);
        QCOMPARE(run->state, QStringLiteral("pausing"));
        QTRY_COMPARE(run->state, QStringLiteral("paused"));
        QVERIFY(RunText::detail(*run).startsWith(QStringLiteral("Paused at alignment, layer 3, step 413")));
        library.jobPaused(false);
        QCOMPARE(run->state, QStringLiteral("running"));
        library.jobStopping();
        QCOMPARE(RunText::detail(*run), QStringLiteral("Stopping: finishing alignment, layer 3, step 413 of 3000, then writing a checkpoint to %1/checkpoints.").arg(run->folder));
        end(library);
        QCOMPARE(run->state, QStringLiteral("stopped"));
        QCOMPARE(RunText::detail(*run), QStringLiteral("Stopped at alignment, layer 3, step 412 of 3000, saved; Resume continues from there."));
    }

    void discardingRemovesTheFolderAtItsEnd() {
        RunLibrary library(device());
        const auto folder = library.enqueue(recipe());
        makeFolder(QFileInfo(folder).fileName()); // what its job has written
        library.discard(folder);
        QCOMPARE(m_stops, 1);
        QVERIFY(RunText::detail(*library.find(folder)).isEmpty() || library.find(folder)->toDiscard);
        QVERIFY(QFile::exists(folder)); // not before the job has ended
        end(library);
        QVERIFY(!library.find(folder));
        QTRY_VERIFY(!QFile::exists(folder));
    }

    void onlyRunsAreDeleted() {
        RunLibrary library(device());
        const auto folder = makeFolder(QStringLiteral("mine"));
        library.open(folder);
        QSignalSpy refused(&library, &RunLibrary::failed);
        const int lock = ::open((folder + QStringLiteral("/.lock")).toUtf8().constData(), O_RDWR);
        QCOMPARE(::flock(lock, LOCK_EX | LOCK_NB), 0);
        library.remove(folder);
        QCOMPARE(refused.count(), 1);
        ::close(lock);
        QFile::rename(folder + QStringLiteral("/recipe.json"), folder + QStringLiteral("/letters.json"));
        library.remove(folder);
        QCOMPARE(refused.count(), 2);
        QVERIFY(QFile::exists(folder + QStringLiteral("/letters.json")));
        QFile::rename(folder + QStringLiteral("/letters.json"), folder + QStringLiteral("/recipe.json"));
        library.remove(folder);
        QTRY_VERIFY(!QFile::exists(folder));
        QVERIFY(library.runs().isEmpty());
    }

    // ---- runs of other processes

    void aRunElsewhereIsFollowed() {
        const auto folder = makeFolder(QStringLiteral("elsewhere"));
        RunLibrary library(device());
        QTRY_COMPARE(library.runs().size(), 1); // found by itself
        const auto run = library.runs()[0];
        QTRY_COMPARE(run->state, QStringLiteral("stopped"));
        QCOMPARE(run->recipe->seed, std::uint64_t(7));
        library.setShown(folder, true);
        QTRY_COMPARE(run->metrics.size(), 2u);
        const auto lockFile = (folder + QStringLiteral("/.lock")).toUtf8();
        int ready[2];
        QCOMPARE(::pipe(ready), 0);
        const pid_t child = ::fork();
        if (child == 0) { // only system calls: the window's threads are not here
            const int lock = ::open(lockFile.constData(), O_RDWR);
            ::flock(lock, LOCK_EX);
            (void)!::write(ready[1], "x", 1);
            for (;;)
                ::pause();
        }
        char byte = 0;
        QCOMPARE(::read(ready[0], &byte, 1), ssize_t(1));
        write(folder + QStringLiteral("/.lock"), "{\"pid\": " + std::to_string(child) + ", \"host\": \"nearby\"}\n");
        write(folder + QStringLiteral("/log.txt"), "2026-01-31 12:10:00 resumed\n", true);
        QTRY_COMPARE_WITH_TIMEOUT(run->state, QStringLiteral("elsewhere"), 8000);
        QVERIFY2(RunText::detail(*run).contains(QStringLiteral("process %1 on nearby").arg(child)), qPrintable(RunText::detail(*run)));
        QVERIFY(!library.runs()[0]->canResume());
        QSignalSpy came(&library, &RunLibrary::metricsAppended);
        QTRY_VERIFY_WITH_TIMEOUT(!library.runs().isEmpty(), 10);
        QTest::qWait(1200); // it is looked at often now
        for (const std::int64_t step : {412, 413, 414})
            write(folder + QStringLiteral("/metrics.jsonl"), core::metricToJson(row("align", 3, step, 0.25)).dump() + "\n", true);
        QTRY_COMPARE_WITH_TIMEOUT(run->metrics.size(), 5u, 8000);
        QVERIFY(!came.isEmpty()); // appended, not read anew
        QVERIFY(RunText::detail(*run).contains(QStringLiteral("step 415 of 3000")));
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
        QTRY_COMPARE_WITH_TIMEOUT(run->state, QStringLiteral("stopped"), 8000);
        QCOMPARE(RunText::state(*run), QStringLiteral("interrupted"));
        QVERIFY2(RunText::detail(*run).contains(QStringLiteral("killed?")), qPrintable(RunText::detail(*run)));
        QVERIFY(run->canResume());
        QVERIFY(library.resume(folder));
        QVERIFY(m_jobs.back().kind == app::JobKind::Resume);
        QCOMPARE(m_jobs.back().recipe.seed, std::uint64_t(7));
        ::close(ready[0]);
        ::close(ready[1]);
    }

    void aResumedRunRepeatsNothing() {
        std::vector<core::MetricRow> rows;
        app::appendRows(rows, {row("align", 1, 0, 4), row("align", 2, 0, 5), row("align", 1, 1, 3), row("align", 2, 1, 4), row("distill", -1, 0, 1)});
        app::appendRows(rows, {row("align", 1, 1, 2.5)}); // layer 1 goes back to its checkpoint
        QCOMPARE(rows.size(), 5u);
        QCOMPARE(rows.back().loss, 2.5);
        QCOMPARE(std::count_if(rows.begin(), rows.end(), [](const auto& r) { return r.stage == "align" && r.layer == 1; }), 2);
        QCOMPARE(std::count_if(rows.begin(), rows.end(), [](const auto& r) { return r.layer == 2; }), 2);
    }

    void theNewestRunIsShownFirst() {
        makeFolder(QStringLiteral("20260101-old"));
        const auto newest = makeFolder(QStringLiteral("20260102-new"));
        app::Session session;
        session.adopt(fakeTeacher(), fakeProfile());
        QTRY_VERIFY(session.currentRun());
        QCOMPARE(session.currentRun()->folder, newest);
        QTRY_COMPARE(session.currentRun()->metrics.size(), 2u);
    }

    void aVanishedFolderLeavesTheList() {
        const auto folder = makeFolder(QStringLiteral("gone"));
        RunLibrary library(device());
        QTRY_COMPARE(library.runs().size(), 1);
        QDir(folder).removeRecursively();
        QTRY_VERIFY_WITH_TIMEOUT(library.runs().isEmpty(), 8000);
    }

    // ---- comparison

    void differenceAndNoiseByHand() {
        const auto d = app::difference({2.0, 0.3, 10}, {2.5, 0.4, 10});
        QCOMPARE(d.value, 0.5);
        QCOMPARE(d.error, 0.5); // sqrt(0.09 + 0.16)
        QCOMPARE(d.n, std::int64_t(10));
        QVERIFY(std::isnan(app::difference({2.0, 0.3, 10}, {}).value));
        const std::map<std::string, core::Evaluation> measured{{"teacher", evaluation(2, 0.03, 0, 0)}, {"student", evaluation(2.1, 0.04, 0.09, 0.01)}};
        const auto ratio = app::measured(measured, "student", app::Quantity::Ratio);
        QVERIFY(std::abs(ratio.value - std::exp(0.1)) < 1e-12);
        QVERIFY(std::abs(ratio.error - std::exp(0.1) * 0.05) < 1e-12); // sqrt(0.0009 + 0.0016) = 0.05
        QVERIFY(std::abs(app::measured(measured, "student", app::Quantity::Perplexity).error - std::exp(2.1) * 0.04) < 1e-12);
        QVERIFY(std::isnan(app::measured(measured, "naive", app::Quantity::Loss).value));
        QCOMPARE(app::withNoise({}, 3), QStringLiteral("–"));
        QCOMPARE(app::signedWithNoise({0.5, 0.25, 1}, 2), QStringLiteral("+0.50 ± 0.25"));
        app::RunEntry a, b;
        a.evaluation = b.evaluation = measured;
        QVERIFY(app::incomparable(a, b).isEmpty());
        b.evaluation["teacher"].seqLen = 128;
        QCOMPARE(app::incomparable(a, b), QStringLiteral("windows of 64 and 128 tokens"));
    }

    void thePageComparesTwoRuns() {
        app::Session session;
        session.adopt(fakeTeacher(), fakeProfile());
        app::RunsPage page(&session);
        page.resize(900, 600);
        page.show();
        auto* table = page.findChild<QTableView*>(QStringLiteral("runsTable"));
        auto* keys = page.findChild<QTableWidget*>(QStringLiteral("runDifferences"));
        auto* results = page.findChild<QTableWidget*>(QStringLiteral("runResults"));
        auto* tabs = page.findChild<QWidget*>(QStringLiteral("comparisonTabs"));
        QVERIFY(tabs->isHidden());
        const auto adopt = [&](const char* name, std::uint64_t seed, double loss) {
            app::RunEntry run;
            run.name = QString::fromLatin1(name), run.folder = QStringLiteral("/runs/") + run.name, run.state = QStringLiteral("done");
            run.recipe = recipe(seed);
            run.evaluation = {{"teacher", evaluation(2, 0.03, 0, 0)}, {"student", evaluation(loss, 0.03, 0.1, 0.01)}};
            session.adoptRun(run);
        };
        adopt("a", 1, 2.1);
        adopt("b", 2, 2.2);
        table->selectAll();
        QVERIFY(!tabs->isHidden());
        QCOMPARE(keys->rowCount(), 1); // only what differs
        QVERIFY2(keys->item(0, 0)->text().contains(QStringLiteral("seed")), qPrintable(keys->item(0, 0)->text()));
        const auto cell = [&](const char* name, int column) {
            for (int i = 0; i < results->rowCount(); ++i)
                if (results->item(i, 0)->text() == QLatin1String(name))
                    return results->item(i, column)->text();
            return QString();
        };
        const auto model = static_cast<app::RunTableModel*>(table->model());
        const bool bFirst = model->row(QStringLiteral("/runs/b")) == 0;
        QCOMPARE(cell("loss", 3), bFirst ? QStringLiteral("-0.1000 ± 0.0424") : QStringLiteral("+0.1000 ± 0.0424")); // sqrt(2) 0.03
        QCOMPARE(cell("loss", 4), QStringLiteral("10"));
        QVERIFY(cell("time", 1).isEmpty()); // not measured in either: no row
        table->selectRow(model->row(QStringLiteral("/runs/a")));
        QVERIFY(tabs->isHidden());
        page.findChild<QAction*>(QStringLiteral("runBaseline"))->trigger();
        QCOMPARE(session.library()->baseline(), QStringLiteral("/runs/a"));
        table->selectRow(model->row(QStringLiteral("/runs/b")));
        QVERIFY(!tabs->isHidden()); // against the baseline
        QCOMPARE(cell("loss", 3), QStringLiteral("+0.1000 ± 0.0424"));
        // and the recipe comes into the editor as one step
        page.findChild<QAction*>(QStringLiteral("runDuplicate"))->trigger();
        QCOMPARE(session.recipe()->recipe().seed, std::uint64_t(2));
        QCOMPARE(session.recipe()->undoStack()->undoText(), QStringLiteral("Recipe of b"));
        // the name is edited in place
        const auto index = model->index(model->row(QStringLiteral("/runs/b")), app::RunTableModel::Name);
        QVERIFY(model->setData(index, QStringLiteral("renamed"), Qt::EditRole));
        QCOMPARE(session.library()->find(QStringLiteral("/runs/b"))->name, QStringLiteral("renamed"));
        page.findChild<QAction*>(QStringLiteral("runLook12"))->trigger();
        QCOMPARE(session.library()->find(QStringLiteral("/runs/b"))->look, 12);
        QVERIFY2(page.minimumSizeHint().width() <= 640, qPrintable(QString::number(page.minimumSizeHint().width())));
    }

    void deletingAsksFirst() {
        app::Session session;
        app::RunsPage page(&session);
        page.show();
        const auto folder = makeFolder(QStringLiteral("asked"));
        session.library()->open(folder);
        auto* table = page.findChild<QTableView*>(QStringLiteral("runsTable"));
        table->selectRow(0);
        table->setFocus();
        page.findChild<QAction*>(QStringLiteral("runDelete"))->trigger();
        auto* box = page.window()->findChild<QMessageBox*>(QStringLiteral("deleteBox"));
        QVERIFY(box);
        QVERIFY(box->text().contains(folder));
        box->button(QMessageBox::Cancel)->click();
        QTest::qWait(50);
        QVERIFY(QFile::exists(folder));
        page.findChild<QAction*>(QStringLiteral("runDelete"))->trigger();
        for (auto* button : page.window()->findChildren<QPushButton*>())
            if (button->text() == QLatin1String("Delete"))
                button->click();
        QTRY_VERIFY(!QFile::exists(folder));
    }

    void theEvaluationHasTheBaseline() {
        app::Session session;
        app::EvaluationPanel panel(&session);
        auto* table = panel.findChild<QTableWidget*>(QStringLiteral("evaluationTable"));
        app::RunEntry base, run;
        base.name = QStringLiteral("base"), base.folder = QStringLiteral("/runs/base"), base.state = QStringLiteral("done");
        base.evaluation = {{"teacher", evaluation(2, 0.03, 0, 0)}, {"student", evaluation(2.2, 0.03, 0.2, 0.03)}};
        run = base;
        run.name = QStringLiteral("run"), run.folder = QStringLiteral("/runs/run");
        run.evaluation["student"] = evaluation(2.1, 0.04, 0.1, 0.04);
        session.adoptRun(base);
        session.adoptRun(run);
        QCOMPARE(table->rowCount(), 4);
        session.library()->setBaseline(base.folder);
        QCOMPARE(table->rowCount(), 6);
        QCOMPARE(table->item(4, 3)->text(), QStringLiteral("2.2000 ± 0.0300"));
        QCOMPARE(table->item(5, 3)->text(), QStringLiteral("-0.1000 ± 0.0500"));
        QCOMPARE(table->item(5, 4)->text(), QStringLiteral("-0.1000 ± 0.0500"));
        QCOMPARE(table->item(5, 5)->text(), QStringLiteral("–")); // agreement was not measured
        QCOMPARE(table->item(5, 6)->text(), QStringLiteral("n = 10"));
        session.library()->choose(base.folder); // itself: no difference
        QCOMPARE(table->rowCount(), 4);
    }

    // ---- curves

    void percentilesByHand() {
        std::vector<double> values{4, 1, 3, 2, 5};
        QCOMPARE(app::percentile(values, 0.5), 3.0);
        QCOMPARE(app::percentile(values, 0.1), 1.4); // rank 0.4 between 1 and 2
        QCOMPARE(app::percentile(values, 0.9), 4.6);
        std::vector<double> none;
        QVERIFY(std::isnan(app::percentile(none, 0.5)));
        app::StageCurves curves("align");
        std::vector<core::MetricRow> rows{row("distill", -1, 0, 9)};
        for (const int layer : {0, 1, 2, 3, 4}) // one after another, as on a CPU
            for (const int step : {0, 1, 2}) {
                rows.push_back(row("align", layer, step, layer + 10.0 * step));
                rows.back().time = 100 * layer + step;
            }
        QCOMPARE(curves.add(rows), std::int64_t(0));
        const auto points = curves.percentiles(CurveQuantity::Loss, CurveAxis::Time);
        QCOMPARE(points.x, (std::vector<double>{0, 1, 2})); // when its first layer got there
        QCOMPARE(points.p50, (std::vector<double>{2, 12, 22}));
        QCOMPARE(points.p10, (std::vector<double>{0.4, 10.4, 20.4}));
        QCOMPARE(curves.percentiles(CurveQuantity::Loss, CurveAxis::Step, 2).p50, (std::vector<double>{22}));
        QVERIFY(!curves.has(CurveQuantity::HeldOut));
        QVERIFY(curves.percentiles(CurveQuantity::HeldOut, CurveAxis::Step).x.empty());
        QCOMPARE(curves.add({row("align", 4, 1, 100)}), std::int64_t(1)); // resumed: its step 2 is gone
        QCOMPARE(curves.layer(4, CurveQuantity::Loss, CurveAxis::Step).y, (std::vector<double>{4, 100}));
        QCOMPARE(curves.percentiles(CurveQuantity::Loss, CurveAxis::Step).p50, (std::vector<double>{2, 12, 21.5}));
        QVERIFY(curves.percentiles(CurveQuantity::Loss, CurveAxis::Step, std::int64_t(5)).x.empty());
    }

    void fewLayersAreLinesAndManyArePercentiles() {
        app::Session session;
        session.adopt(fakeTeacher(), fakeProfile());
        app::CurvesPanel panel(&session);
        panel.resize(700, 500);
        auto* plot = panel.findChild<widgets::CurvePlot*>(QStringLiteral("alignPlot"));
        app::RunEntry run;
        run.name = QStringLiteral("one"), run.folder = QStringLiteral("/runs/one"), run.state = QStringLiteral("running");
        const auto id = [](const char* what) { return QStringLiteral("/runs/one|") + QLatin1String(what); };
        for (int layer = 0; layer < 4; ++layer)
            for (const int step : {0, 1})
                run.metrics.push_back(row("align", layer, step, layer + 1.0, step == 0 ? std::optional(layer + 2.0) : std::nullopt));
        session.adoptRun(run);
        QCOMPARE(plot->pointCount(id("3|0")), 2u);
        QCOMPARE(plot->pointCount(id("3|1")), 1u); // held out, measured once
        for (int layer = 4; layer < 30; ++layer)
            for (const int step : {0, 1})
                run.metrics.push_back(row("align", layer, step, layer + 1.0));
        session.adoptRun(run);
        QVERIFY(!plot->hasCurve(id("3|0")));
        QCOMPARE(plot->pointCount(id("p50|0")), 2u);
        QCOMPARE(plot->pointCount(id("p10|0")), 2u);
        auto* pinned = panel.findChild<QLineEdit*>(QStringLiteral("pinnedLayers"));
        pinned->setText(QStringLiteral("7, 12"));
        Q_EMIT pinned->editingFinished();
        QVERIFY(plot->hasCurve(id("7|0")) && plot->hasCurve(id("12|0")) && !plot->hasCurve(id("8|0")));
        session.selection()->select({{8, 1}}, {8, 1}); // the selected head's layer too
        QVERIFY(plot->hasCurve(id("8|0")));
        const auto values = plot->valuesAt(1);
        const auto median = std::find_if(values.begin(), values.end(), [&](const auto& value) { return value.id == id("p50|0"); });
        QVERIFY(median != values.end());
        QCOMPARE(median->y, 15.5); // of 1..30
        QCOMPARE(median->name, QStringLiteral("one, median of 30 layers"));
    }

    void theCurvesOfEachStage() {
        app::Session session;
        session.adopt(fakeTeacher(), fakeProfile());
        app::CurvesPanel panel(&session);
        panel.resize(700, 500);
        panel.show();
        const auto plot = [&](const char* name) { return panel.findChild<widgets::CurvePlot*>(QLatin1String(name)); };
        auto *align = plot("alignPlot"), *drift = plot("driftPlot"), *distill = plot("distillPlot");
        QVERIFY(align->isVisible() && !drift->isVisible()); // it says what to do
        app::RunEntry run;
        run.name = QStringLiteral("one"), run.folder = QStringLiteral("/runs/one"), run.state = QStringLiteral("running");
        for (const int layer : {3, 5}) {
            for (const int step : {0, 1})
                run.metrics.push_back(row("align", layer, step, 1.0 / (step + 1)));
            run.metrics.push_back(row("drift", layer, 0, 0.5, 0.4));
            run.metrics.push_back(row("drift", layer, 1, 0.3, 0.25));
        }
        for (const int step : {0, 1, 2})
            run.metrics.push_back(row("distill", -1, step, 0.2 / (step + 1)));
        session.adoptRun(run);
        QVERIFY(align->isVisible() && drift->isVisible() && distill->isVisible()); // stacked
        QCOMPARE(align->pointCount(QStringLiteral("/runs/one|3|0")), 2u); // not the other stages' rows
        QCOMPARE(distill->pointCount(QStringLiteral("/runs/one|-1|0")), 3u);
        QTest::qWait(100);
        const auto text = drift->csv();
        QVERIFY2(text.contains(QStringLiteral("before\",3,0.5")) && text.contains(QStringLiteral("after\",5,0.25")), qPrintable(text));
        // one cursor over equal axes
        Q_EMIT align->cursorMoved(1);
        QCOMPARE(distill->cursor(), std::optional(1.0));
        QVERIFY(!drift->cursor());
        auto* values = panel.findChild<QTableWidget*>(QStringLiteral("cursorValues"));
        QTRY_COMPARE(values->rowCount(), 3); // two layers and the distillation
        QVERIFY(values->item(2, 2)->text().toDouble() == 0.1);
        // one chosen
        panel.findChild<QComboBox*>(QStringLiteral("stageCombo"))->setCurrentIndex(3);
        QVERIFY(!align->isVisible() && drift->isVisible());
        Q_EMIT session.stageStarted(QStringLiteral("distill"));
        QVERIFY(distill->isVisible() && !drift->isVisible());
    }

    void runsAreOverlaid() {
        app::Session session;
        session.adopt(fakeTeacher(), fakeProfile());
        app::CurvesPanel panel(&session);
        auto* plot = panel.findChild<widgets::CurvePlot*>(QStringLiteral("distillPlot"));
        for (const char* name : {"a", "b", "c"}) {
            app::RunEntry run;
            run.name = QString::fromLatin1(name), run.folder = QStringLiteral("/runs/") + run.name, run.state = QStringLiteral("done");
            for (const int step : {0, 1, 2})
                run.metrics.push_back(row("distill", -1, step, 1));
            session.adoptRun(run);
        }
        const auto drawn = [&](const char* name) { return plot->hasCurve(QStringLiteral("/runs/%1|-1|0").arg(QLatin1String(name))); };
        QVERIFY(!drawn("a") && !drawn("b") && drawn("c")); // the chosen one
        session.library()->setShown(QStringLiteral("/runs/a"), true);
        QVERIFY(drawn("a") && !drawn("b") && drawn("c"));
        session.library()->setBaseline(QStringLiteral("/runs/b"));
        QVERIFY(drawn("b"));
        for (const auto& value : plot->valuesAt(1)) {
            const auto name = value.id.mid(6, 1);
            QVERIFY(value.look.style == (name == QLatin1String("b") ? Qt::DashLine : Qt::SolidLine));
            QCOMPARE(value.look.color, widgets::runLook(session.library()->find(QStringLiteral("/runs/") + name)->look).color);
        }
        // a person's zoom outlives what is drawn
        plot->setView(0.5, 1.5, 0.9, 1.1);
        session.library()->setLook(QStringLiteral("/runs/a"), 5);
        QCOMPARE(plot->view().xTo, 1.5);
        QVERIFY(!plot->followsData());
        QCOMPARE(plot->valuesAt(1).front().look.color, widgets::runLook(5).color);
    }

    void equalAxesMoveTogether() {
        app::Session session;
        session.adopt(fakeTeacher(), fakeProfile());
        app::CurvesPanel panel(&session);
        panel.resize(700, 600);
        panel.show();
        const auto plot = [&](const char* name) { return panel.findChild<widgets::CurvePlot*>(QLatin1String(name)); };
        auto *align = plot("alignPlot"), *drift = plot("driftPlot"), *distill = plot("distillPlot");
        app::RunEntry run;
        run.name = QStringLiteral("one"), run.folder = QStringLiteral("/runs/one"), run.state = QStringLiteral("done");
        for (int step = 0; step < 40; ++step)
            run.metrics.push_back(row("align", 3, step, 1.0 / (step + 1)));
        for (const int layer : {3, 5})
            run.metrics.push_back(row("drift", layer, 0, 0.5, 0.4));
        for (int step = 0; step < 100; ++step)
            run.metrics.push_back(row("distill", -1, step, 0.2 / (step + 1)));
        session.adoptRun(run);
        QTRY_COMPARE(distill->view().xTo, 99.0);
        const auto layers = drift->view().xTo;
        align->setFocus();
        QTest::keyClick(align, Qt::Key_Plus); // 0..39 becomes 3.9..35.1
        QCOMPARE(distill->view().xFrom, align->view().xFrom);
        QCOMPARE(distill->view().xTo, align->view().xTo);
        QTRY_VERIFY(distill->view().yTo < 0.1); // y fits what is in view
        QCOMPARE(drift->view().xTo, layers);                // its x means layers
        distill->setView(50, 90, 0.001, 0.1);
        QTest::keyClick(distill, Qt::Key_Minus); // 45..95: nothing of the alignment lies there
        QVERIFY(align->view().xTo < 40);
        QTest::keyClick(align, Qt::Key_0);
        QTRY_COMPARE(align->view().xTo, 39.0);
        QTRY_COMPARE(distill->view().xTo, 99.0);
    }

    void everyCheckpointIsMarked() {
        const auto folder = makeFolder(QStringLiteral("saved"));
        for (int step = 0; step < 400; ++step)
            write(folder + QStringLiteral("/metrics.jsonl"), core::metricToJson(row("align", 1, step, 0.5)).dump() + "\n", true);
        std::string saves;
        for (int step = 100; step < 400; step += 100)
            saves += core::Json{{"stage", "align"}, {"layer", 1}, {"step", step}, {"time", step + 0.5}}.dump() + "\n";
        saves += core::Json{{"stage", "align"}, {"layer", 1}, {"step", 200}, {"time", 250.5}}.dump() + "\n"; // gone through again
        write(folder + QStringLiteral("/checkpoints/saves.jsonl"), saves + "{\"stage\": \"al"); // torn by a kill
        const auto points = core::readSavePoints(folder.toStdString());
        QCOMPARE(points.size(), 3u);
        QCOMPARE(points.back().time, 250.5);
        app::Session session;
        session.adopt(fakeTeacher(), fakeProfile());
        app::CurvesPanel panel(&session);
        panel.resize(700, 500);
        panel.show();
        auto* plot = panel.findChild<widgets::CurvePlot*>(QStringLiteral("alignPlot"));
        session.library()->open(folder);
        QTRY_COMPARE(plot->pointCount(app::layerCurve(folder, 1, false)), 400u);
        QTRY_COMPARE(plot->markCount(), std::size_t(4)); // three, and the last with its name
        panel.findChild<QComboBox*>(QStringLiteral("axisCombo"))->setCurrentIndex(2);
        QTRY_COMPARE(plot->markCount(), std::size_t(5)); // over time also where the stage began
        app::StageCurves curves("align");
        curves.add({row("align", 1, 0, 1), row("align", 1, 1, 1), row("align", 2, 0, 1)});
        QCOMPARE(curves.positionAfter(1, 1, CurveAxis::Step), std::optional(0.0));
        QCOMPARE(curves.positionAfter(-1, 1, CurveAxis::Tokens), std::optional(200.0));
        QVERIFY(!curves.positionAfter(0, 1, CurveAxis::Step)); // nothing was done yet
    }

    void colorsOfRunsCanBeChosen() {
        app::Session session;
        session.adopt(fakeTeacher(), fakeProfile());
        app::CurvesPanel panel(&session);
        auto* plot = panel.findChild<widgets::CurvePlot*>(QStringLiteral("distillPlot"));
        app::RunEntry run;
        run.name = QStringLiteral("a"), run.folder = QStringLiteral("/runs/a"), run.state = QStringLiteral("done");
        run.metrics = {row("distill", -1, 0, 1), row("distill", -1, 1, 1)};
        session.adoptRun(run);
        const int look = session.library()->find(run.folder)->look;
        session.library()->setColors(widgets::RunColors::Tol);
        QCOMPARE(plot->valuesAt(1).front().look.color, widgets::runColor(look, widgets::RunColors::Tol));
        QCOMPARE(session.library()->find(run.folder)->look, look); // a run keeps its number for life
        app::Session next; // and it is remembered
        QCOMPARE(widgets::runColors(), widgets::RunColors::Tol);
        session.library()->setColors(widgets::RunColors::OkabeIto);
        QCOMPARE(plot->valuesAt(1).front().look.color, widgets::runColor(look));
    }

    void theTableFitsASmallWindow() {
        app::Settings().remove(QStringLiteral("runs/columns"));
        app::Session session;
        session.adopt(fakeTeacher(), fakeProfile());
        app::RunsPage page(&session);
        page.resize(655, 500); // beside the docks of a window of 1280
        page.show();
        app::RunEntry run;
        run.name = QStringLiteral("20261130-054235-linnet"), run.folder = QStringLiteral("/runs/") + run.name, run.state = QStringLiteral("done");
        run.recipe = recipe();
        run.metrics = {row("align", 3, 411, 0.4919)};
        run.evaluation = {{"teacher", evaluation(2, 0.03, 0, 0)}, {"student", evaluation(2.2, 0.03, 0.1, 0.01)}};
        session.adoptRun(run);
        using Model = app::RunTableModel;
        auto* table = page.findChild<QTableView*>(QStringLiteral("runsTable"));
        const auto cell = [&](Model::Column column) { return table->model()->index(0, column); };
        QTest::qWait(50);
        for (const auto column : {Model::Name, Model::State, Model::Progress, Model::Loss, Model::Perplexity}) {
            QVERIFY(!table->isColumnHidden(column));
            const auto text = cell(column).data().toString();
            const int room = table->visualRect(cell(column)).width() - (column == Model::Name ? 64 : 8);
            QVERIFY2(table->fontMetrics().horizontalAdvance(text) <= room, qPrintable(QStringLiteral("%1: %2 pixels").arg(text).arg(room)));
            QVERIFY(table->viewport()->rect().contains(table->visualRect(cell(column))));
        }
        QCOMPARE(cell(Model::Progress).data().toString(), QStringLiteral("100 %"));
        QCOMPARE(cell(Model::Perplexity).data().toString(), QString::number(std::exp(2.2), 'f', 2));
        QVERIFY(table->isColumnHidden(Model::Hash));
        page.resize(1290, 500); // more room, more columns
        QTRY_VERIFY(!table->isColumnHidden(Model::Ratio) && !table->isColumnHidden(Model::Kl));
        auto* menu = page.findChild<QMenu*>(QStringLiteral("runColumns"));
        Q_EMIT menu->aboutToShow();
        auto* seed = menu->findChild<QAction*>(QStringLiteral("runColumn_seed"));
        const bool before = seed->isChecked();
        seed->trigger();
        QCOMPARE(table->isColumnHidden(Model::Seed), before);
        app::RunsPage again(&session); // remembered, whatever the room
        QCOMPARE(again.findChild<QTableView*>(QStringLiteral("runsTable"))->isColumnHidden(Model::Seed), before);
        menu->findChild<QAction*>(QStringLiteral("runColumnsAutomatic"))->trigger();
        QVERIFY(!app::Settings().contains(QStringLiteral("runs/columns")));
    }

    void progressInFewWords() {
        app::RunEntry run;
        run.state = QStringLiteral("queued");
        QCOMPARE(RunText::shortProgress(run), QStringLiteral("–"));
        run.state = QStringLiteral("stopped");
        run.recipe = recipe();
        run.metrics = {row("align", 3, 411, 0.5)};
        QCOMPARE(RunText::shortProgress(run), QStringLiteral("alignment 412/3000"));
        run.state = QStringLiteral("running");
        run.progress = QStringLiteral("alignment, layer 3, step 412 of 3000");
        run.fraction = 0.437;
        QCOMPARE(RunText::shortProgress(run), QStringLiteral("alignment 43 %"));
    }

    void aLongRunIsDrawnInSlices() { // the window's thread has 50 ms for a task
        app::Session session;
        session.adopt(fakeTeacher(), fakeProfile());
        app::CurvesPanel panel(&session);
        panel.resize(900, 600);
        panel.show();
        auto* plot = panel.findChild<widgets::CurvePlot*>(QStringLiteral("alignPlot"));
        app::RunEntry run;
        run.name = QStringLiteral("long"), run.folder = QStringLiteral("/runs/long"), run.state = QStringLiteral("done");
        for (int layer = 0; layer < 30; ++layer)
            for (int step = 0; step < 3000; ++step)
                run.metrics.push_back(row("align", layer, step, 1.0 + layer / (1.0 + step), step % 10 == 0 ? std::optional(1.1) : std::nullopt));
        GuiWatchdog::instance()->longest();
        QElapsedTimer clock;
        clock.start();
        QMetaObject::invokeMethod(&session, [&] { session.adoptRun(run); }, Qt::QueuedConnection);
        const auto median = QStringLiteral("/runs/long|p50|0");
        QTRY_COMPARE(plot->pointCount(median), 3000u);
        const auto whole = clock.restart();
        QTest::qWait(100);
        LINNET_NOT_FROZEN("reading and drawing 90 000 rows");
        clock.restart();
        QMetaObject::invokeMethod(&session, [&] { session.selection()->select({{8, 1}, {9, 1}}, {8, 1}); }, Qt::QueuedConnection);
        QTRY_COMPARE(plot->pointCount(app::layerCurve(run.folder, 9, false)), 3000u);
        const auto again = clock.elapsed();
        QTest::qWait(100);
        LINNET_NOT_FROZEN("drawing two layers more");
        qInfo("90 000 rows: %lld ms until drawn, %lld ms for two layers more", whole, again);
        // slice by slice or at once: the same points
        app::StageCurves curves("align");
        curves.add(run.metrics);
        const auto points = curves.percentiles(CurveQuantity::Loss, CurveAxis::Time);
        panel.findChild<QComboBox*>(QStringLiteral("axisCombo"))->setCurrentIndex(2);
        QTRY_COMPARE(plot->pointCount(median), points.x.size());
        for (const double at : {0.0, 1234.0, 2999.0}) {
            const auto values = plot->valuesAt(at);
            const auto found = std::find_if(values.begin(), values.end(), [&](const auto& value) { return value.id == median; });
            QVERIFY(found != values.end());
            QCOMPARE(found->y, points.p50[static_cast<std::size_t>(at)]);
        }
    }
};

LINNET_WATCHED_MAIN(TestAppRuns)
#include "tst_app_runs.moc"
