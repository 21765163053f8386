// The panels against a session that holds a made-up teacher and profile: what a click does to the recipe, and what is shown.
#include "app/models/layer_choice.h"
#include "app/models/target_table_model.h"
#include "app/panels/evaluation_panel.h"
#include "app/panels/heads_page.h"
#include "app/panels/inspector_panel.h"
#include "app/panels/project_panel.h"
#include "app/panels/targets_panel.h"
#include "tests/app/panel_fixture.h"
#include "widgets/distance_histogram.h"
#include "widgets/elided_label.h"
#include "widgets/head_heat_map.h"
#include "widgets/step_rail.h"

#include <QAction>
#include <QClipboard>
#include <QComboBox>
#include <QLabel>
#include <QTableView>
#include <QTableWidget>
#include <QTemporaryDir>
#include <QTest>
#include <cmath>
#include <limits>

using namespace linnet;
using namespace linnet::tests;
using app::HeadId;
using app::TargetField;
using Model = app::TargetTableModel;
using Layers = std::vector<std::int64_t>;

class TestAppPanels : public QObject {
    Q_OBJECT

    std::unique_ptr<app::Session> m_session;

    void adopt() { adoptFakes(*m_session); }
    app::RecipeModel* recipe() { return m_session->recipe(); }

private Q_SLOTS:
    void initTestCase() {
        useTestSettings("tst_app_panels");
    }
    void init() { m_session = std::make_unique<app::Session>(); }
    void cleanup() { m_session.reset(); }

    void theHeatMapsShowTheProfile() {
        app::HeadsPage page(m_session.get());
        adopt();
        const struct { const char* name; double expected; } maps[] = {{"distanceMap", 1.5 + 14}, {"concentrationMap", 0.5 /* absolute */}, {"scaleMap", 0.125 * 15}};
        for (const auto& [name, expected] : maps)
            QCOMPARE(page.findChild<widgets::HeadHeatMap*>(QString::fromLatin1(name))->value(3, 2), expected);
    }

    void aTickConvertsItsLayerAndUndoTakesItBack() {
        app::HeadsPage page(m_session.get());
        adopt();
        page.resize(660, 460);
        page.show();
        QVERIFY(QTest::qWaitForWindowExposed(&page));
        QVERIFY2(page.minimumSizeHint().width() <= 660, qPrintable(QString::number(page.minimumSizeHint().width())));
        QCOMPARE(*recipe()->converted(), (Layers{3, 5}));
        auto* map = page.findChild<widgets::HeadHeatMap*>(QStringLiteral("distanceMap"));
        QTRY_VERIFY(map->tickRect(2).isValid());
        QTest::mouseClick(map, Qt::LeftButton, {}, QRectF(map->tickRect(2)).center().toPoint());
        QCOMPARE(*recipe()->converted(), (Layers{2, 3, 5}));
        QCOMPARE(recipe()->undoStack()->count(), 1);
        const auto* summary = page.findChild<QLabel*>(QStringLiteral("layerSummary"));
        QVERIFY2(summary->text().contains(QStringLiteral("3 of 6 layers will be converted")), qPrintable(summary->text()));
        recipe()->undoStack()->undo();
        QCOMPARE(*recipe()->converted(), (Layers{3, 5}));
        QVERIFY(summary->text().contains(QStringLiteral("2 of 6 layers will be converted")));
    }

    void presets_data() {
        QTest::addColumn<QString>("action");
        QTest::addColumn<QString>("rule");
        QTest::addColumn<bool>("warns");
        QTest::newRow("uniform") << "keepUniform" << "uniform:4" << false;
        QTest::newRow("first") << "keepFirst" << "first:4" << false;
        QTest::newRow("last") << "keepLast" << "last:4" << true;
        QTest::newRow("bypass") << "keepBypass" << "bypass:4" << false;
        QTest::newRow("every second") << "convertSecond" << "layers:0,2,4" << true;
        QTest::newRow("none") << "convertNone" << "layers:0,1,2,3,4,5" << false;
    }
    void presets() {
        QFETCH(QString, action);
        QFETCH(QString, rule);
        QFETCH(bool, warns);
        app::HeadsPage page(m_session.get());
        adopt(); // 6 layers: N = 4
        page.findChild<QAction*>(action)->trigger();
        QCOMPARE(QString::fromStdString(recipe()->recipe().keep.text()), rule);
        QCOMPARE(!page.findChild<QLabel*>(QStringLiteral("layerWarning"))->text().isEmpty(), warns);
        QCOMPARE(recipe()->undoStack()->count(), 1);
        recipe()->undoStack()->undo();
        QCOMPARE(*recipe()->converted(), (Layers{3, 5}));
    }

    void anUnmeasuredRankingSaysSo() {
        app::HeadsPage page(m_session.get());
        adopt();
        recipe()->setKeepRule(core::parseKeepRule("bypass:4"));
        QVERIFY(!app::convertedLayers(*m_session));
        QVERIFY(page.findChild<QLabel*>(QStringLiteral("layerSummary"))->text().contains(QStringLiteral("the 2 cheapest layers, measured when the run starts")));
    }

    void theCacheOfTheSummaryIsCounted() {
        adopt(); // 768 B a token x 32768 = 24 MiB, 4 of 6 kept 16 MiB; the state of 2 layers is 2 x (32 x 8 + 9 x 32) x 4 = 4352 B
        const auto text = app::layerSummary(*m_session);
        QVERIFY2(text.contains(QStringLiteral("24.0 MiB → 16.0 MiB")), qPrintable(text));
    }

    void selectionIsLinked() {
        app::HeadsPage page(m_session.get());
        adopt();
        page.resize(660, 460);
        page.show();
        QVERIFY(QTest::qWaitForWindowExposed(&page));
        auto* map = page.findChild<widgets::HeadHeatMap*>(QStringLiteral("scaleMap"));
        QTRY_VERIFY(map->cellRect(1, 1).width() > 2);
        QTest::mouseClick(map, Qt::LeftButton, {}, map->cellCenter(1, 3));
        QCOMPARE(m_session->selection()->primary(), (HeadId{1, 3}));
        QTest::mouseClick(map, Qt::LeftButton, Qt::ControlModifier, map->cellCenter(4, 0));
        QCOMPARE(m_session->selection()->sorted(), (QList<HeadId>{{1, 3}, {4, 0}}));
        QTest::keyClick(map, Qt::Key_Escape);
        QVERIFY(m_session->selection()->selected().isEmpty());
    }

    void theTableShowsMeasuredAndAutomatic() {
        adopt();
        app::TargetsPanel panel(m_session.get());
        auto* model = panel.findChild<QTableView*>(QStringLiteral("targetsTable"))->model();
        QCOMPARE(model->rowCount(), 0);
        m_session->selection()->select({{2, 1}, {0, 3}}, {2, 1});
        QCOMPARE(model->rowCount(), 8); // L0 H3 first
        const auto& head = m_session->profile()->layers[2][1];
        const auto automatic = core::automaticTargets(*m_session->profile(), "naive")[2][1];
        const auto text = [&](int row, int column) { return model->index(row, column).data().toString(); };
        QCOMPARE(text(4, Model::Head), QStringLiteral("L2 H1"));
        const auto measured = [&](int row, const char* name) { // called what it is: no half-life was measured
            const auto shown = text(row, Model::Measured);
            return shown.startsWith(QLatin1String(name)) ? shown.section(QLatin1Char(' '), 1).toDouble() : std::nan("");
        };
        QCOMPARE(measured(4, "dist. "), head.distance.mean);
        QCOMPARE(measured(5, "conc. "), head.concentrationLayer);
        QCOMPARE(measured(6, "RMS "), head.rmsPostO);
        QCOMPARE(text(7, Model::Measured), QStringLiteral("–"));
        QCOMPARE(text(4, Model::Automatic).toDouble(), *automatic.halfLife);
        QCOMPARE(text(5, Model::Automatic).toDouble(), *automatic.beta);
        QCOMPARE(text(4, Model::User), QString());
    }

    void edits_data() {
        QTest::addColumn<int>("row");
        QTest::addColumn<QString>("text");
        QTest::addColumn<bool>("taken");
        QTest::addColumn<double>("value");
        const double inf = std::numeric_limits<double>::infinity();
        QTest::newRow("half-life") << 0 << "12.5" << true << 12.5;
        QTest::newRow("no decay") << 0 << "none" << true << inf;
        QTest::newRow("half-life 0") << 0 << "0" << false << 0.0;
        QTest::newRow("half-life word") << 0 << "long" << false << 0.0;
        QTest::newRow("beta") << 1 << "0.3" << true << 0.3;
        QTest::newRow("beta 1") << 1 << "1" << false << 0.0;
        QTest::newRow("beta none") << 1 << "none" << false << 0.0;
        QTest::newRow("value scale") << 2 << "1.5" << true << 1.5;
        QTest::newRow("value scale -1") << 2 << "-1" << false << 0.0;
        QTest::newRow("gate 0") << 3 << "0" << true << 0.0;
        QTest::newRow("gate nan") << 3 << "nan" << false << 0.0;
    }
    void edits() {
        QFETCH(int, row);
        QFETCH(QString, text);
        QFETCH(bool, taken);
        QFETCH(double, value);
        adopt();
        app::TargetsPanel panel(m_session.get());
        m_session->selection()->select({{2, 1}}, {2, 1});
        auto* model = panel.findChild<QTableView*>(QStringLiteral("targetsTable"))->model();
        QCOMPARE(model->setData(model->index(row, Model::User), text), taken);
        const auto field = static_cast<TargetField>(row);
        const auto stored = app::targetValue(recipe()->target({2, 1}), field);
        QCOMPARE(stored.has_value(), taken);
        QCOMPARE(recipe()->undoStack()->count(), taken ? 1 : 0);
        QCOMPARE(panel.findChild<QLabel*>(QStringLiteral("targetsMessage"))->isHidden(), taken);
        if (!taken)
            return;
        QVERIFY(stored == value);
        QVERIFY(recipe()->problems().empty());
        recipe()->undoStack()->undo();
        QVERIFY(recipe()->target({2, 1}).empty());
        recipe()->undoStack()->redo();
        QVERIFY(model->setData(model->index(row, Model::User), QString())); // empty: automatic again
        QVERIFY(recipe()->target({2, 1}).empty());
    }

    void aLockIsAnUndoableTick() {
        adopt();
        app::TargetsPanel panel(m_session.get());
        m_session->selection()->select({{2, 1}}, {2, 1});
        auto* model = panel.findChild<QTableView*>(QStringLiteral("targetsTable"))->model();
        const auto lock = model->index(1, Model::Locked);
        QCOMPARE(lock.data(Qt::CheckStateRole).toInt(), int(Qt::Unchecked));
        QVERIFY(model->setData(lock, Qt::Checked, Qt::CheckStateRole));
        QCOMPARE(recipe()->target({2, 1}).locked, (std::set<std::string>{"beta"}));
        QCOMPARE(lock.data(Qt::CheckStateRole).toInt(), int(Qt::Checked));
        recipe()->undoStack()->undo();
        QVERIFY(recipe()->target({2, 1}).locked.empty());
    }

    void copyPasteScaleReset() {
        adopt();
        app::TargetsPanel panel(m_session.get());
        auto* model = panel.findChild<Model*>();
        const auto trigger = [&](const char* name) { panel.findChild<QAction*>(QString::fromLatin1(name))->trigger(); };
        recipe()->setTarget({{0, 0}}, TargetField::HalfLife, 7.0);
        recipe()->setTarget({{0, 0}}, TargetField::Beta, 0.2);
        m_session->selection()->select({{0, 0}}, {0, 0});
        trigger("copyTargets");
        m_session->selection()->select({{3, 3}}, {3, 3});
        trigger("pasteTargets");
        QVERIFY(recipe()->target({3, 3}) == recipe()->target({0, 0}));
        const auto steps = recipe()->undoStack()->count();
        QVERIFY(model->scale({0, 2}, 2)); // 7 x 2, automatic 1 x 2
        QVERIFY(recipe()->target({3, 3}).halfLife == 14.0);
        QVERIFY(recipe()->target({3, 3}).valueScale == 2.0);
        QVERIFY(!model->scale({1}, 10)); // beta 2: refused
        QVERIFY(recipe()->target({3, 3}).beta == 0.2);
        trigger("resetTargets");
        QVERIFY(recipe()->target({3, 3}).empty());
        QCOMPARE(recipe()->undoStack()->count(), steps + 2); // one step for each of them
        QVERIFY(!recipe()->target({0, 0}).empty());
    }

    void theInspectorFollowsThePrimaryHead() {
        adopt();
        app::InspectorPanel panel(m_session.get());
        m_session->selection()->select({{2, 1}, {3, 3}}, {3, 3});
        QCOMPARE(panel.findChild<QLabel*>(QStringLiteral("headIdentity"))->text(), QStringLiteral("<b>Layer 3, head 3</b>"));
        QVERIFY(panel.findChild<QLabel*>(QStringLiteral("headGroup"))->text().contains(QStringLiteral("key/value head 1, shared by query heads 2 to 3; will be converted")));
        QVERIFY(panel.findChild<QLabel*>(QStringLiteral("headNumbers"))->text().contains(QStringLiteral("16.5 ± 0.25")));
        const auto* histogram = panel.findChild<widgets::DistanceHistogram*>();
        recipe()->setTarget({{3, 3}}, TargetField::HalfLife, 4.0);
        QCOMPARE(histogram->kernelMass(), widgets::decayKernelMass(m_session->profile()->edges, 4.0));
        recipe()->setTarget({{3, 3}}, TargetField::HalfLife, std::numeric_limits<double>::infinity());
        QVERIFY(panel.findChild<QLabel*>(QStringLiteral("headDecay"))->text().contains(QStringLiteral("no decay")));
    }

    void aProbeIsShownBesideTheValue() {
        adopt();
        app::TargetsPanel panel(m_session.get());
        const auto* label = panel.findChild<QLabel*>(QStringLiteral("targetsProbe"));
        m_session->selection()->select({{2, 1}}, {2, 1});
        QVERIFY(label->isHidden()); // nothing set by hand
        recipe()->setTarget({{2, 1}}, TargetField::HalfLife, 50.0);
        QVERIFY(!label->isHidden());
        QVERIFY2(label->text().contains(QStringLiteral("L2 H1: measuring")), qPrintable(label->text()));
        core::ProbedHead probed;
        probed.chosen.residual = 0.412, probed.automatic = {8, 0.2, false, false, false, 0.398};
        m_session->probes()->adopt({2, 1}, probed);
        QCOMPARE(label->text(), QStringLiteral("L2 H1: residual 0.412, automatic 0.398 (half-life 8, beta 0.2)"));
        auto* model = panel.findChild<Model*>();
        const auto cell = model->index(0, Model::User);
        QVERIFY(!cell.data(Qt::ForegroundRole).isValid());
        probed.chosen.residual = 0.5; // 25 % worse
        m_session->probes()->adopt({2, 1}, probed);
        QVERIFY(cell.data(Qt::ForegroundRole).isValid());
        QVERIFY(label->text().contains(QStringLiteral("⚠")));
        QVERIFY(cell.data(Qt::ToolTipRole).toString().contains(QStringLiteral("more than 10 %")));
        QVERIFY(!model->index(1, Model::User).data(Qt::ForegroundRole).isValid()); // beta is not set
        auto linnet = recipe()->recipe();
        linnet.preset = "linnet";
        recipe()->load(linnet);
        m_session->probes()->adopt({2, 1}, probed);
        QCOMPARE(model->index(0, Model::Automatic).data().toString(), QStringLiteral("8")); // the grid's, not the profile's
        probed.chosen.beta = 0.5; // what the grid takes beside the half-life that a person set: Probe and the run use it
        m_session->probes()->adopt({2, 1}, probed);
        QCOMPARE(model->index(1, Model::Automatic).data().toString(), QStringLiteral("0.5"));
        recipe()->resetTargets({{2, 1}});
        QVERIFY(label->isHidden());
    }

    void theClosedFormOfAHead() {
        adopt();
        app::InspectorPanel panel(m_session.get());
        const auto text = [&](const char* name) { return panel.findChild<QLabel*>(QString::fromLatin1(name))->text(); };
        auto* tried = panel.findChild<QTableWidget*>(QStringLiteral("closedFormTried"));
        m_session->selection()->select({{3, 1}}, {3, 1});
        QVERIFY2(text("closedFormChosen").contains(QStringLiteral("start \"linnet\"")), qPrintable(text("closedFormChosen"))); // how to get one
        QVERIFY(tried->isHidden());
        const double inf = std::numeric_limits<double>::infinity();
        app::LayerFit fit;
        fit.layer = 3, fit.residual = 0.21;
        app::FitOption best, chosen;
        best.halfLife = inf, best.beta = 0.05, best.residual = 0.3;
        chosen.halfLife = 8, chosen.beta = 0.2, chosen.residual = 0.3125, chosen.histogramTaps = true, chosen.centredKeys = true;
        fit.heads = {{chosen, {chosen}}, {chosen, {best, chosen}}};
        m_session->closedForm()->adopt({{3, fit}});
        QCOMPARE(text("closedFormTitle"), QStringLiteral("<b>Closed form</b>: residual 0.3125 of this head, 0.2100 of layer 3"));
        fit.ridge = 1; // of a run that aligns afterwards
        m_session->closedForm()->adopt({{3, fit}});
        QCOMPARE(text("closedFormTitle"), QStringLiteral("<b>Closed form</b>: residual 0.3125 of this head, 0.2100 of layer 3 (o_proj with ridge 1)"));
        QCOMPARE(text("closedFormChosen"), QStringLiteral("half-life 8, beta 0.2; value taps by distance, RoPE dropped, keys centred"));
        QCOMPARE(tried->rowCount(), 2);
        QCOMPARE(tried->item(1, 3)->text(), QStringLiteral("taps, centred"));
        QCOMPARE(tried->item(0, 1)->text(), QStringLiteral("none"));
        QVERIFY(!tried->item(0, 0)->font().bold() && tried->item(1, 0)->font().bold()); // heads choose together
        m_session->selection()->select({{0, 0}}, {0, 0});
        QVERIFY(text("closedFormChosen").contains(QStringLiteral("Layer 0 was not started in this run")));
        m_session->selection()->select({{3, 9}}, {3, 9});
        QVERIFY(tried->isHidden());
    }

    void whatTreatmentsCost() {
        adopt();
        app::EvaluationPanel panel(m_session.get());
        auto* table = panel.findChild<QTableWidget*>(QStringLiteral("treatmentsTable"));
        QVERIFY(table->isHidden()); // no run
        app::RunEntry run;
        run.name = QStringLiteral("one"), run.folder = QStringLiteral("/runs/one"), run.state = QStringLiteral("done");
        run.report.emplace();
        m_session->adoptRun(run);
        QVERIFY(!table->isHidden());
        QCOMPARE(table->rowCount(), 1); // RoPE; the teacher has neither biases nor QK norm
        QCOMPARE(table->item(0, 2)->text(), QStringLiteral("–"));
        run.report->treatments = {{"rope", "fit", 0.25, 0.375, 0.5}, {"bias", "fold", 0.1, std::numeric_limits<double>::quiet_NaN(), 1}};
        m_session->adoptRun(run);
        QCOMPARE(table->rowCount(), 2);
        const auto cells = [&](int at) {
            QStringList list;
            for (int column = 0; column < table->columnCount(); ++column)
                list << table->item(at, column)->text();
            return list.join(QLatin1Char('|'));
        };
        QCOMPARE(cells(0), QStringLiteral("RoPE|fit|0.2500|0.3750|50 %"));
        QCOMPARE(cells(1), QStringLiteral("q, k, v bias|fold|0.1000|–|100 %"));
    }

    void theProjectPanelTellsWhereTheWorkIs() {
        app::ProjectPanel panel(m_session.get());
        const auto step = [&](int i) { return panel.findChild<widgets::StepRail*>()->steps()[i]; };
        QVERIFY(!panel.findChild<QWidget*>(QStringLiteral("emptyProject"))->isHidden());
        QCOMPARE(step(1).reason, QStringLiteral("open a model first"));
        adopt();
        QVERIFY(panel.findChild<QWidget*>(QStringLiteral("emptyProject"))->isHidden());
        QVERIFY(!panel.findChild<QWidget*>(QStringLiteral("teacherCard"))->isHidden());
        QCOMPARE(panel.findChild<widgets::ElidedLabel*>(QStringLiteral("teacherName"))->text(), QString::fromStdString(fakeTeacher().path.filename().string()));
        const auto facts = panel.findChild<QLabel*>(QStringLiteral("teacherFacts"))->text();
        for (const char* part : {"llama", "4 / 2 of 8", "1,000", "123,456", "Q4_1", "f32 on cpu", "tied embeddings"})
            QVERIFY2(facts.contains(QLatin1String(part)), part);
        QVERIFY(panel.findChild<QLabel*>(QStringLiteral("teacherWarnings"))->text().contains(QStringLiteral("decoded weights")));
        QVERIFY(step(0).state == widgets::StepState::Done && step(1).state == widgets::StepState::Done);
        QCOMPARE(step(2).reason, QStringLiteral("2 of 6 will be converted"));
        QVERIFY(step(2).state == widgets::StepState::Done && step(3).state == widgets::StepState::Todo); // the default is no choice yet
        QCOMPARE(step(3).reason, QStringLiteral("automatic"));
        recipe()->setTarget({{0, 0}, {1, 0}}, TargetField::Beta, 0.5);
        QCOMPARE(step(3).reason, QStringLiteral("2 heads set by hand"));
        QVERIFY(step(3).state == widgets::StepState::Done);
        recipe()->setKeepRule(m_session->startingRule());
        QVERIFY(step(2).state == widgets::StepState::Todo);
        QVERIFY2(step(2).reason.startsWith(QStringLiteral("default: ")), qPrintable(step(2).reason));
        QCOMPARE(step(6).reason, QStringLiteral("after a finished run"));
        auto misfit = recipe()->recipe();
        misfit.keep = core::parseKeepRule("layers:17");
        recipe()->replace(misfit, QStringLiteral("misfit"));
        QVERIFY(step(2).state == widgets::StepState::Blocked);
        QVERIFY(step(4).state == widgets::StepState::Blocked);
        QVERIFY2(panel.minimumSizeHint().width() <= 270, qPrintable(QString::number(panel.minimumSizeHint().width())));
    }
};

QTEST_MAIN(TestAppPanels)
#include "tst_app_panels.moc"
