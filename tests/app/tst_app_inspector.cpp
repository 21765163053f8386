// The inspector: what each part shows of a made-up head, what it asks of the worker and when, and what its buttons do to the recipe.
#include "app/models/settings.h"
#include "app/panels/inspector_panel.h"
#include "tests/app/panel_fixture.h"
#include "widgets/collapsible.h"
#include "widgets/distance_histogram.h"
#include "widgets/pattern_map.h"
#include "widgets/theme.h"

#include <QCheckBox>
#include <QComboBox>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSettings>
#include <QSignalSpy>
#include <QTableWidget>
#include <QTemporaryDir>
#include <QTest>
#include <cmath>

using namespace linnet;
using namespace linnet::tests;
using app::HeadId;
using app::HeadViewModel;

namespace {

// 3 tokens of 1 channel; keys all alike, no decay, beta 1/2: the newest write halves what was there.
std::shared_ptr<const core::HeadView> smallView() {
    core::HeadView view;
    view.layer = 3, view.head = 1, view.length = 3, view.headDim = 1, view.textTokens = 700;
    view.tokens = {"The", " cat", "\n"};
    view.teacher = {1, 0, 0, 0.25f, 0.75f, 0, 0.5f, 0.3f, 0.2f};
    view.q = {1, 1, 1}, view.k = {1, 1, 1}, view.v = {1, 2, 3};
    view.logDecay = {0, 0, 0}, view.beta = {0.5f, 0.5f, 0.5f}, view.gate = {1, 1, 1}, view.unit = {1, 1, 1};
    view.halfLife = INFINITY, view.betaMean = 0.5;
    view.top = {4096, 8, {0.25, 0.5, 0.75}, {0.0125, 0.025, NAN}};
    return std::make_shared<const core::HeadView>(std::move(view));
}

std::shared_ptr<const core::HeadEvidence> smallEvidence() {
    core::HeadEvidence evidence;
    evidence.layer = 3, evidence.head = 1, evidence.windows = 24, evidence.windowTokens = 512, evidence.relativeError = 0.25, evidence.cosine = 0.875;
    evidence.byPosition = {{0, 1, 24, 0.5, 0.125, 0.75, 0.01}, {1, 2, 24, 0.25, 0.03125, 0.875, 0.01}, {2, 4, 0, NAN, NAN, NAN, NAN}};
    for (int kind = 0; kind < core::kTokenClasses; ++kind)
        evidence.byClass.push_back({kind, kind + 1, 1234, 0.125 * (kind + 1), 0.01, 0.9, 0.01});
    evidence.jumps = {{{"she said <that> the ", "cat", " sat", 2, 300}, {"a small ", "cat", " came\nin", 2, 100}, 200, 0.41}};
    evidence.errors = {{{"of ", "1984", ".", 5, 44}, 12.5}};
    return std::make_shared<const core::HeadEvidence>(std::move(evidence));
}

class Asked { // a model with a worker that only notes what it is asked for
public:
    app::RecipeModel recipe;
    app::SelectionModel selection;
    std::vector<app::Job> jobs;
    bool busy = false;
    HeadViewModel model{&recipe, &selection, [this](app::Job job) -> std::uint64_t {
                            if (busy)
                                return 0;
                            jobs.push_back(std::move(job));
                            return jobs.size();
                        }};
    QObject panel;

    Asked() {
        recipe.setShape(kLayers, kHeads);
        recipe.load(core::defaultRecipe("cpu", "linnet"));
    }
    void answer(bool evidence, bool partial = false) {
        app::JobResult result;
        result.kind = app::JobKind::HeadView;
        result.tag = jobs.size();
        result.headView = smallView();
        result.partial = partial;
        if (evidence)
            result.headEvidence = smallEvidence();
        model.take(result);
    }
};

} // namespace

class TestAppInspector : public QObject {
    Q_OBJECT

    std::unique_ptr<app::Session> m_session;
    QTemporaryDir m_settings;

    void adopt() { adoptFakes(*m_session); }
    app::RecipeModel* recipe() { return m_session->recipe(); }
    void select(HeadId head) { m_session->selection()->select({head}, head); }
    static void open(app::InspectorPanel& panel) {
        for (const char* key : {"numbers", "distance", "pattern", "errors", "neighbours", "evidence", "closedForm"})
            panel.section(QString::fromLatin1(key))->setExpanded(true);
    }
    static QString text(const app::InspectorPanel& panel, const char* name) { return panel.findChild<QLabel*>(QString::fromLatin1(name))->text(); }

private Q_SLOTS:
    void initTestCase() {
        QSettings::setPath(QSettings::NativeFormat, QSettings::UserScope, m_settings.path());
        useTestSettings("tst_app_inspector");
    }
    void init() {
        app::Settings().clear();
        m_session = std::make_unique<app::Session>();
    }
    void cleanup() { m_session.reset(); }

    // ---- the model: who is asked, and when ------------------------------------------------------------------------------------

    void nothingIsAskedForFoldedParts() {
        Asked asked;
        asked.selection.select({{3, 1}}, {3, 1});
        QTest::qWait(250);
        QVERIFY(asked.jobs.empty());
        QCOMPARE(asked.model.state(), HeadViewModel::State::None);
        asked.model.want(&asked.panel, HeadViewModel::View);
        QCOMPARE(asked.model.state(), HeadViewModel::State::Measuring);
        QCOMPARE(asked.model.stateText(), QStringLiteral("measuring..."));
        QTRY_COMPARE(asked.jobs.size(), std::size_t(1));
        QVERIFY(asked.jobs[0].kind == app::JobKind::HeadView && !asked.jobs[0].evidence && asked.jobs[0].inspecting.layer == 3 && asked.jobs[0].inspecting.head == 1);
        asked.answer(false);
        QVERIFY(asked.model.state() == HeadViewModel::State::Known && asked.model.view() && !asked.model.evidence());
        asked.model.want(&asked.panel, HeadViewModel::View | HeadViewModel::Evidence); // the view is there, the rest is not
        QVERIFY(asked.model.view() && asked.model.isStale());
        QTRY_COMPARE(asked.jobs.size(), std::size_t(2));
        QVERIFY(asked.jobs[1].evidence);
        asked.answer(false, true);
        QCOMPARE(asked.model.state(), HeadViewModel::State::Measuring);
        asked.answer(true);
        QVERIFY(asked.model.state() == HeadViewModel::State::Known && asked.model.evidence());
        asked.model.want(&asked.panel, 0);
        QVERIFY(asked.model.state() == HeadViewModel::State::None && !asked.model.view());
    }

    void onlyTheLatestCounts() {
        Asked asked;
        asked.model.want(&asked.panel, HeadViewModel::View);
        asked.selection.select({{3, 1}}, {3, 1});
        QTRY_COMPARE(asked.jobs.size(), std::size_t(1));
        asked.selection.select({{2, 0}}, {2, 0});
        asked.answer(false); // of the head before
        QVERIFY(!asked.model.view());
        QTRY_COMPARE(asked.jobs.size(), std::size_t(2));
        QCOMPARE(asked.jobs[1].inspecting.layer, std::int64_t(2));
        asked.answer(false);
        QVERIFY(asked.model.view());
        const auto known = asked.model.view();
        asked.selection.select({{5, 3}}, {5, 3});
        QTRY_COMPARE(asked.jobs.size(), std::size_t(3));
        asked.selection.select({{2, 0}}, {2, 0}); // remembered
        QCOMPARE(asked.model.view(), known);
        QCOMPARE(asked.model.state(), HeadViewModel::State::Known);
        QTest::qWait(250);
        QCOMPARE(asked.jobs.size(), std::size_t(3));
        asked.recipe.setTarget({{2, 0}}, app::TargetField::HalfLife, 4.0); // what holds is drawn until the new answer comes
        QVERIFY(asked.model.view() == known && asked.model.isStale());
        QTRY_COMPARE(asked.jobs.size(), std::size_t(4));
        asked.answer(false);
        asked.recipe.setTarget({{0, 0}}, app::TargetField::HalfLife, 4.0); // another head's
        asked.recipe.setPins({1}, app::Pin::Never);
        QVERIFY(!asked.model.isStale());
        asked.recipe.undoStack()->undo();
        asked.recipe.undoStack()->undo();
        asked.recipe.undoStack()->undo();
        QVERIFY(asked.model.view() == known && !asked.model.isStale());
        asked.model.setText(QStringLiteral("my own text"));
        QVERIFY(!asked.model.view());
        QTRY_COMPARE(asked.jobs.size(), std::size_t(5));
        QCOMPARE(asked.jobs[4].inspecting.text, std::string("my own text"));
    }

    void aBusyDeviceIsWaitedFor() {
        Asked asked;
        asked.busy = true;
        asked.model.want(&asked.panel, HeadViewModel::View);
        asked.selection.select({{3, 1}}, {3, 1});
        QTRY_COMPARE(asked.model.state(), HeadViewModel::State::Waiting);
        QVERIFY(asked.model.stateText().contains(QStringLiteral("another job has the device")));
        asked.busy = false;
        asked.model.retry();
        QTRY_COMPARE(asked.jobs.size(), std::size_t(1));
        app::JobResult cancelled;
        cancelled.kind = app::JobKind::HeadView, cancelled.tag = 1;
        cancelled.error = core::Error{core::ErrorCode::Cancelled, "stopped", {}};
        asked.model.take(cancelled); // a run began
        QCOMPARE(asked.model.state(), HeadViewModel::State::Waiting);
        asked.model.retry();
        QTRY_COMPARE(asked.jobs.size(), std::size_t(2));
        cancelled.tag = 2, cancelled.error = core::Error{core::ErrorCode::Unsupported, "no recurrence", {}};
        asked.model.take(cancelled);
        QCOMPARE(asked.model.stateText(), QStringLiteral("not measured: no recurrence"));
        {
            QObject other;
            asked.model.want(&asked.panel, 0);
            asked.model.want(&other, HeadViewModel::View);
            QVERIFY(asked.model.state() != HeadViewModel::State::None);
        }
        asked.model.refresh(); // who wanted it is gone
        QCOMPARE(asked.model.state(), HeadViewModel::State::None);
    }

    void theWorkerAnswers() { // the real teacher: a probe and a head view do not end each other, a later head view ends an earlier one
        if (qEnvironmentVariableIsEmpty("LINNET_TEACHER") || qEnvironmentVariableIsEmpty("LINNET_TEXT"))
            QSKIP("LINNET_TEACHER or LINNET_TEXT is not set");
        app::Worker worker;
        std::map<std::uint64_t, std::vector<app::JobResult>> results;
        const auto drain = [&] {
            for (auto& result : worker.drain().results)
                results[result.tag].push_back(std::move(result));
        };
        app::Job job;
        job.path = qgetenv("LINNET_TEACHER").toStdString();
        job.run.device = "cpu";
        const auto opened = worker.submit(job);
        QTRY_VERIFY_WITH_TIMEOUT((drain(), results.contains(opened)), 120000);
        QVERIFY(results[opened][0].model.has_value());
        job = {};
        job.recipe = core::defaultRecipe("cpu", "linnet");
        job.recipe.seqLen = 64, job.recipe.calibrationTokens = 4 * 64, job.recipe.selectionTokens = job.recipe.evaluationTokens = 64;
        job.kind = app::JobKind::HeadView;
        job.inspecting.layer = 1, job.inspecting.head = 1;
        const auto dropped = worker.submit(job);
        job.inspecting.head = 2;
        job.evidence = true;
        const auto asked = worker.submit(job);
        job.kind = app::JobKind::Probe, job.layer = 1, job.head = 2;
        const auto probed = worker.submit(job);
        QTRY_VERIFY_WITH_TIMEOUT((drain(), results.contains(probed) && results.contains(dropped) && results[asked].size() == 2), 120000);
        QVERIFY(results[probed][0].probed.has_value());
        QVERIFY(results[dropped].back().error && results[dropped].back().error->code == core::ErrorCode::Cancelled);
        const auto& first = results[asked][0];
        QVERIFY(first.partial && first.headView && !first.headEvidence && results[asked][1].headEvidence && !results[asked][1].partial);
        const auto& view = *first.headView;
        QVERIFY(view.head == 2 && view.length == 64 && view.headDim == 64);
        for (std::int64_t t = 0; t < view.length; ++t) {
            double sum = 0;
            for (std::int64_t s = 0; s < view.length; ++s)
                sum += view.teacher[static_cast<std::size_t>(t * view.length + s)];
            QVERIFY(std::abs(sum - 1) < 1e-4);
        }
        const double residual = results[probed][0].probed->chosen.residual, error = results[asked][1].headEvidence->relativeError;
        QVERIFY2(std::abs(error - residual) < 0.02 * residual, qPrintable(QStringLiteral("%1, the probe's own residual %2").arg(error).arg(residual)));
    }

    // ---- the parts ------------------------------------------------------------------------------------------------------------

    void identityAndMates() {
        adopt();
        app::InspectorPanel panel(m_session.get());
        select({3, 3});
        QCOMPARE(text(panel, "headIdentity"), QStringLiteral("<b>Layer 3, head 3</b>"));
        auto* mates = panel.findChild<QLabel*>(QStringLiteral("headMates"));
        QVERIFY2(mates->text().contains(QStringLiteral("<a href=\"2\">H2</a>")) && mates->text().contains(QStringLiteral("<b>H3</b>")), qPrintable(mates->text()));
        QVERIFY(!mates->text().contains(QStringLiteral("H1")));
        Q_EMIT mates->linkActivated(QStringLiteral("2"));
        QCOMPARE(m_session->selection()->primary(), (HeadId{3, 2}));
        QCOMPARE(text(panel, "headIdentity"), QStringLiteral("<b>Layer 3, head 2</b>"));
    }

    void numbersWithRanks() {
        adopt();
        app::InspectorPanel panel(m_session.get());
        select({3, 1}); // distance 1.5 + 13: the third largest of its layer, the eleventh of 24
        const auto numbers = text(panel, "headNumbers");
        QVERIFY2(numbers.contains(QStringLiteral("14.5 ± 0.25")), qPrintable(numbers));
        QVERIFY2(numbers.contains(QStringLiteral("/4&nbsp;")) && numbers.contains(QStringLiteral("/24&nbsp;")) && numbers.contains(QStringLiteral(">3&nbsp;<")) && numbers.contains(QStringLiteral(">11&nbsp;<")), qPrintable(numbers));
        QVERIFY(text(panel, "headSample").contains(QStringLiteral("n = 3 sequences of 64 tokens (192)")));
        m_session->adopt(fakeTeacher(), nullptr);
        QVERIFY(text(panel, "headSample").contains(QStringLiteral("Not measured")));
    }

    void foldedPartsAreFilledWhenTheyOpen() {
        adopt();
        app::InspectorPanel panel(m_session.get());
        panel.section(QStringLiteral("numbers"))->setExpanded(false);
        select({3, 1});
        QVERIFY(text(panel, "headNumbers").isEmpty());
        panel.section(QStringLiteral("numbers"))->setExpanded(true);
        QVERIFY(text(panel, "headNumbers").contains(QStringLiteral("14.5")));
        panel.section(QStringLiteral("evidence"))->setExpanded(true);
        panel.section(QStringLiteral("distance"))->setExpanded(false);
        app::InspectorPanel again(m_session.get()); // remembers
        QVERIFY(again.section(QStringLiteral("evidence"))->isExpanded() && !again.section(QStringLiteral("distance"))->isExpanded());
    }

    void targetAndDecayOnTheHistogram() {
        adopt();
        app::InspectorPanel panel(m_session.get());
        select({3, 3});
        const auto* histogram = panel.findChild<widgets::DistanceHistogram*>();
        recipe()->setTarget({{3, 3}}, app::TargetField::HalfLife, 4.0);
        QCOMPARE(histogram->kernelMass(), widgets::decayKernelMass(m_session->profile()->edges, 4.0));
        QVERIFY(text(panel, "headDecay").contains(QStringLiteral("4 tokens")));
        recipe()->setTarget({{3, 3}}, app::TargetField::HalfLife, std::numeric_limits<double>::infinity());
        QVERIFY(histogram->kernelMass().empty() && text(panel, "headDecay").contains(QStringLiteral("no decay")));
    }

    void thePattern() {
        adopt();
        app::InspectorPanel panel(m_session.get());
        open(panel);
        panel.show();
        select({3, 1});
        QTRY_VERIFY(text(panel, "patternState").contains(QStringLiteral("no teacher is open"))); // the worker has none: an honest state
        m_session->headViews()->adopt({3, 1}, smallView(), smallEvidence());
        auto* map = panel.findChild<widgets::PatternMap*>();
        QVERIFY(!map->isEmpty());
        QVERIFY(text(panel, "patternState").contains(QStringLiteral("cut to 3 of 700 tokens")));
        QTest::keyClick(map, Qt::Key_End); // the last token
        QCOMPARE(map->row(), 2);
        QCOMPARE(text(panel, "patternRow"), QStringLiteral("<b>“⏎” (2)</b> looks at “The” (0)&nbsp;0.50, “ cat” (1)&nbsp;0.30, “⏎” (2)&nbsp;0.20"));
        panel.findChild<QComboBox*>(QStringLiteral("patternShown"))->setCurrentIndex(1); // W = 1/8, 1/4, 1/2: shares 1/7, 2/7, 4/7
        QCOMPARE(text(panel, "patternRow"), QStringLiteral("<b>“⏎” (2)</b> takes from “⏎” (2)&nbsp;0.57, “ cat” (1)&nbsp;0.29, “The” (0)&nbsp;0.14"));
        panel.findChild<QComboBox*>(QStringLiteral("patternShown"))->setCurrentIndex(2);
        QVERIFY(text(panel, "patternRow").contains(QStringLiteral("“⏎” (2)&nbsp;-0.37")));
        QVERIFY(widgets::isDiverging(map->style().map));
        panel.findChild<QCheckBox*>(QStringLiteral("patternHideSinks"))->setChecked(true);
        QVERIFY(text(panel, "patternRow").contains(QStringLiteral("nothing that is shown")));
        QSignalSpy probe(&panel, &app::InspectorPanel::probeRequested);
        panel.findChild<QPushButton*>(QStringLiteral("patternProbe"))->click();
        QCOMPARE(probe.count(), 1);
        auto* line = panel.findChild<QLineEdit*>(QStringLiteral("patternText"));
        line->setText(QStringLiteral("a text"));
        QTest::keyClick(line, Qt::Key_Return);
        QCOMPARE(m_session->headViews()->text(), QStringLiteral("a text"));
        QVERIFY(map->isEmpty()); // of the text before
        line->clear();
        QVERIFY(m_session->headViews()->text().isEmpty() && !map->isEmpty());
    }

    void theLargestSources() { // a pass of the teacher: measured when somebody asks, or looks at the pattern anyway
        adopt();
        app::InspectorPanel panel(m_session.get());
        panel.section(QStringLiteral("numbers"))->setExpanded(true);
        panel.show();
        select({3, 1});
        QVERIFY2(text(panel, "headTop").contains(QStringLiteral("measure</a>")), qPrintable(text(panel, "headTop")));
        QCOMPARE(m_session->headViews()->state(), HeadViewModel::State::None);
        Q_EMIT panel.findChild<QLabel*>(QStringLiteral("headTop"))->linkActivated(QStringLiteral("measure"));
        QCOMPARE(m_session->headViews()->state(), HeadViewModel::State::Measuring);
        QVERIFY(text(panel, "headTop").contains(QStringLiteral("measuring")));
        m_session->headViews()->adopt({3, 1}, smallView());
        const auto said = text(panel, "headTop");
        QVERIFY2(said.contains(QStringLiteral("1: 0.25 ± 0.013; 4: 0.5 ± 0.025; 16: 0.75")), qPrintable(said));
        QVERIFY2(said.contains(QStringLiteral("n = 4,096 rows in 8 windows")), qPrintable(said));
    }

    void theStudentOfARun() {
        adopt();
        app::RunEntry run;
        run.name = QStringLiteral("one"), run.folder = QStringLiteral("/runs/one"), run.state = QStringLiteral("done");
        m_session->adoptRun(run);
        app::InspectorPanel panel(m_session.get());
        open(panel);
        panel.show();
        select({3, 1});
        auto* students = panel.findChild<QComboBox*>(QStringLiteral("patternStudent"));
        QCOMPARE(students->count(), 2);
        students->setCurrentIndex(1);
        Q_EMIT students->activated(1);
        QCOMPARE(m_session->headViews()->run(), QStringLiteral("/runs/one"));
        m_session->headViews()->setRun({});
        QTRY_COMPARE(students->currentIndex(), 0);
    }

    void errorsAndEvidence() {
        adopt();
        app::InspectorPanel panel(m_session.get());
        open(panel);
        panel.show();
        select({3, 1});
        auto* positions = panel.findChild<QTableWidget*>(QStringLiteral("errorsByPosition"));
        QVERIFY(positions->isHidden());
        m_session->headViews()->adopt({3, 1}, smallView(), smallEvidence());
        QVERIFY2(text(panel, "errorsAll").contains(QStringLiteral("relative error 0.250, cosine 0.875 over 24 windows of 512 tokens")), qPrintable(text(panel, "errorsAll")));
        QCOMPARE(positions->rowCount(), 3);
        QCOMPARE(positions->item(0, 1)->text(), QStringLiteral("0.500 ± 0.125"));
        QCOMPARE(positions->item(2, 0)->text(), QStringLiteral("2 – 3"));
        QCOMPARE(positions->item(2, 1)->text(), QStringLiteral("–")); // not measured is not 0
        QVERIFY(!positions->item(2, 1)->data(Qt::UserRole).isValid());
        QCOMPARE(positions->item(1, 1)->data(Qt::UserRole).toDouble(), 0.5); // half of the largest
        const auto* classes = panel.findChild<QTableWidget*>(QStringLiteral("errorsByClass"));
        QCOMPARE(classes->item(0, 0)->text(), QStringLiteral("sentence start"));
        QCOMPARE(classes->item(5, 1)->text(), QStringLiteral("0.750 ± 0.010"));
        QCOMPARE(classes->item(0, 3)->text(), QStringLiteral("1,234"));
        const auto jumps = text(panel, "evidenceJumps");
        QVERIFY2(jumps.contains(QStringLiteral("200 tokens back, 41 %: …she said &lt;that&gt; the <b><u>cat</u></b> sat… <b>→</b> …a small <b><u>cat</u></b> came⏎in…")), qPrintable(jumps));
        QVERIFY(text(panel, "evidenceErrors").contains(QStringLiteral("12.5 times the mean square: …of <b><u>1984</u></b>.…")));
        QVERIFY(text(panel, "errorsTraining").contains(QStringLiteral("no run shown has aligned layer 3")));
        app::RunEntry run;
        run.name = QStringLiteral("one"), run.folder = QStringLiteral("/runs/one"), run.state = QStringLiteral("done");
        core::MetricRow row;
        row.layer = 3, row.relativeLoss = 0.625;
        run.metrics.push_back(row);
        row.step = 300, row.relativeLoss = 0.125;
        run.metrics.push_back(row);
        row.layer = 2, row.step = 900;
        run.metrics.push_back(row);
        m_session->adoptRun(run);
        QVERIFY2(text(panel, "errorsTraining").contains(QStringLiteral("in one: relative error 0.625 at step 0, 0.125 at step 300")), qPrintable(text(panel, "errorsTraining")));
        auto none = std::make_shared<core::HeadEvidence>(*smallEvidence());
        none->jumps.clear();
        m_session->headViews()->adopt({3, 1}, smallView(), none);
        QVERIFY(text(panel, "evidenceJumps").contains(QStringLiteral("None: beyond the first 4 tokens")));
    }

    void neighboursAndTheirTargets() {
        adopt();
        app::InspectorPanel panel(m_session.get());
        open(panel);
        select({3, 1}); // histograms and concentrations of all heads agree: scale alone tells them apart
        auto* table = panel.findChild<QTableWidget*>(QStringLiteral("neighboursTable"));
        QCOMPARE(table->rowCount(), 5);
        QCOMPARE(table->item(0, 0)->text(), QStringLiteral("L3 H2")); // log10 of 15/14, less than that of 14/13
        QVERIFY(std::abs(table->item(0, 1)->text().toDouble() - std::log10(15.0 / 14)) < 6e-4);
        auto* copy = panel.findChild<QPushButton*>(QStringLiteral("neighboursCopy"));
        recipe()->setTarget({{3, 2}}, app::TargetField::HalfLife, 17.0);
        recipe()->setTarget({{3, 2}}, app::TargetField::OutputGate, 0.5);
        QVERIFY(copy->isEnabled() && copy->toolTip().contains(QStringLiteral("half-life 17")));
        const int steps = recipe()->undoStack()->count();
        copy->click();
        QCOMPARE(recipe()->target({3, 1}), recipe()->target({3, 2}));
        QCOMPARE(recipe()->undoStack()->count(), steps + 1);
        QCOMPARE(recipe()->undoStack()->undoText(), QStringLiteral("Copy targets of L3 H2 to L3 H1"));
        recipe()->undoStack()->undo();
        QVERIFY(recipe()->target({3, 1}).empty());
        m_session->selection()->select({{3, 1}, {0, 0}}, {3, 1});
        table->selectRow(0);
        copy->click();
        QCOMPARE(recipe()->target({0, 0}), recipe()->target({3, 2}));
        QCOMPARE(recipe()->undoStack()->undoText(), QStringLiteral("Copy targets of L3 H2 to 2 heads"));
        panel.findChild<QPushButton*>(QStringLiteral("neighboursShow"))->click();
        QCOMPARE(m_session->selection()->primary(), (HeadId{3, 2}));
    }

    void copyingWhatNobodySet() { // preset naive has automatic values; preset linnet none before a run
        adopt();
        app::InspectorPanel panel(m_session.get());
        open(panel);
        select({3, 1});
        auto* copy = panel.findChild<QPushButton*>(QStringLiteral("neighboursCopy"));
        copy->click(); // of L3 H2, sink-free median 2.5 + 14
        QCOMPARE(recipe()->target({3, 1}).halfLife, std::optional(16.5));
        QVERIFY(!recipe()->target({3, 1}).valueScale);
        auto linnet = core::defaultRecipe("cpu", "linnet");
        recipe()->load(linnet);
        QVERIFY(!copy->isEnabled());
    }

    // ---- pictures -------------------------------------------------------------------------------------------------------------

    void patternPixels() {
        widgets::PatternMap map;
        map.resize(200, 230);
        map.setPattern(std::make_shared<const std::vector<float>>(std::vector<float>{1, 0, 0, 0.25f, 0.75f, 0, 0, 0, 1}), 3, widgets::ColorMap::Viridis);
        const QImage image = map.grab().toImage();
        const double scale = image.devicePixelRatio();
        const QRect square = map.square();
        const auto at = [&](int column, int row) { // the middle of a cell, lower half of it: no row outline, no note
            return image.pixelColor(QPoint(int((square.left() + (column + 0.5) * square.width() / 3) * scale), int((square.top() + (row + 0.7) * square.height() / 3) * scale)));
        };
        const auto expect = [&](int column, int row, double position) {
            const QColor wanted = widgets::mapColor(widgets::ColorMap::Viridis, position), found = at(column, row);
            QVERIFY2(std::abs(found.red() - wanted.red()) < 6 && std::abs(found.green() - wanted.green()) < 6 && std::abs(found.blue() - wanted.blue()) < 6,
                     qPrintable(QStringLiteral("column %1, row %2: %3, expected %4").arg(column).arg(row).arg(found.name(), wanted.name())));
        };
        expect(0, 0, 1);
        expect(0, 1, 0.25);
        expect(1, 1, 0.75);
        expect(0, 2, 0);
        expect(2, 2, 1);
        const QColor ground = widgets::PlotColors::fromPalette(map.palette()).background;
        int plain = 0; // the masked corner is hatched: neither a colour of the map nor all ground
        for (int i = 0; i < 20; ++i)
            plain += image.pixelColor(QPoint(int((square.right() - 20 + i) * scale), int((square.top() + square.height() / 2) * scale))) == ground;
        QVERIFY(plain > 0 && plain < 20);
        map.setPattern({}, 0, widgets::ColorMap::Viridis);
        QVERIFY(map.isEmpty() && map.row() == -1);
    }
};

QTEST_MAIN(TestAppInspector)
#include "tst_app_inspector.moc"
