// Choosing layers by measurement, pins, budgets, and the section of the method: made-up rankings in, widgets and the recipe out.
#include "app/models/layer_choice.h"
#include "app/models/layer_table_model.h"
#include "app/models/session.h"
#include "app/models/settings.h"
#include "app/panels/heads_page.h"
#include "app/panels/layers_page.h"
#include "app/panels/problems_panel.h"
#include "app/panels/project_panel.h"
#include "app/panels/run_panel.h"
#include "tests/app/fake_teacher.h"
#include "widgets/empty_state.h"
#include "widgets/head_heat_map.h"
#include "widgets/keep_curve.h"
#include "widgets/step_rail.h"

#include <QAction>
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QPushButton>
#include <QSignalSpy>
#include <QSpinBox>
#include <QStandardPaths>
#include <QTableView>
#include <QTest>
#include <QToolButton>

using namespace linnet;
using namespace linnet::tests;
using Columns = app::LayerTableModel;
using Layers = std::vector<std::int64_t>;

class TestAppLayers : public QObject {
    Q_OBJECT

    std::unique_ptr<app::Session> m_session;

    app::RecipeModel* recipe() { return m_session->recipe(); }
    void adopt(const core::ModelInfo& teacher = fakeTeacher()) {
        m_session->adopt(teacher, fakeProfile());
        auto made = core::defaultRecipe("cpu");
        made.keep = core::parseKeepRule("layers:0,1,2,4");
        recipe()->load(made);
    }
    static core::Selection ranking(const std::string& method = "kl") { // 5 is converted first, 0 last
        core::Selection made;
        made.method = method, made.unit = "nats of KL";
        for (int i = 0; i < kLayers; ++i)
            made.ranking.push_back({kLayers - 1 - i, 0.01 * (i + 1)});
        for (int kept = kLayers; kept >= 0; --kept)
            made.curve.push_back({kept, 3, 20 + 0.5 * (kLayers - kept), 0.1 * (kLayers - kept), 1000});
        made.teacherPerplexity = 20;
        made.kept = {0, 1, 2};
        return made;
    }
    template <typename T> static T* find(QWidget& in, const char* name) {
        auto* found = in.findChild<T*>(QString::fromLatin1(name));
        if (!found)
            qFatal("there is no %s", name);
        return found;
    }

private Q_SLOTS:
    void initTestCase() {
        QStandardPaths::setTestModeEnabled(true);
        QCoreApplication::setOrganizationName(QStringLiteral("Linnet"));
        QCoreApplication::setApplicationName(QStringLiteral("tst_app_layers"));
        app::Settings().clear();
    }
    void init() { m_session = std::make_unique<app::Session>(); }
    void cleanup() { m_session.reset(); }

    void nothingToChooseFrom() {
        app::LayersPage page(m_session.get());
        page.show();
        QVERIFY(QTest::qWaitForWindowExposed(&page));
        QVERIFY(page.findChild<widgets::EmptyState*>()->isVisible());
        adopt();
        QVERIFY(!page.findChild<widgets::EmptyState*>()->isVisible());
        auto* curve = find<widgets::KeepCurve>(page, "keepCurve");
        QVERIFY(curve->isEmpty() && !curve->choice());
        auto* model = page.findChild<Columns*>();
        QCOMPARE(model->rowCount(), kLayers);
        QCOMPARE(model->index(2, Columns::Score).data().toString(), QStringLiteral("–"));
        QCOMPARE(model->index(2, Columns::Choice).data().toString(), QStringLiteral("softmax"));
        QCOMPARE(model->index(3, Columns::Choice).data().toString(), QStringLiteral("convert"));
        find<QComboBox>(page, "quantityCombo")->setCurrentIndex(2); // the cache is known without a measurement
        QCOMPARE(curve->choice(), std::optional(4));
        QVERIFY2(curve->readout(6).contains(QStringLiteral("24.0 MiB")), qPrintable(curve->readout(6)));
        QVERIFY2(page.minimumSizeHint().width() <= 660, qPrintable(QString::number(page.minimumSizeHint().width())));
        for (auto* combo : {find<QComboBox>(page, "goalCombo")})
            for (int goal = 0; goal < combo->count(); ++goal) {
                combo->setCurrentIndex(goal);
                QVERIFY2(page.minimumSizeHint().width() <= 660, qPrintable(QString::number(page.minimumSizeHint().width())));
            }
    }

    void aClickOnTheCurveChooses() {
        app::LayersPage page(m_session.get());
        page.resize(700, 520);
        page.show();
        QVERIFY(QTest::qWaitForWindowExposed(&page));
        adopt();
        m_session->adoptRanking(ranking(), {});
        auto* curve = find<widgets::KeepCurve>(page, "keepCurve");
        QVERIFY(!curve->choice()); // layers 3 and 5 are not what the ranking would take
        QVERIFY(find<QLabel>(page, "layersPageNote")->text().contains(QStringLiteral("not those of the kl ranking")));
        QTRY_VERIFY(curve->pointPosition(2).x() > 0);
        QTest::mouseClick(curve, Qt::LeftButton, {}, curve->pointPosition(2));
        QCOMPARE(*recipe()->converted(), (Layers{2, 3, 4, 5}));
        QCOMPARE(recipe()->recipe().keep.text(), std::string("layers:0,1")); // at once, without a job
        QVERIFY(m_session->jobState() == app::JobState::Idle);
        QCOMPARE(curve->choice(), std::optional(2));
        QCOMPARE(find<QSpinBox>(page, "keepCountSpin")->value(), 2);
        QVERIFY(find<QLabel>(page, "layersPageNote")->isHidden());
        curve->setFocus();
        QTest::keyClick(curve, Qt::Key_Right); // by keyboard too
        QCOMPARE(*recipe()->converted(), (Layers{3, 4, 5}));
        QTest::keyClick(curve, Qt::Key_Right);
        QCOMPARE(recipe()->undoStack()->count(), 1); // moving along the curve is one step back
        recipe()->undoStack()->undo();
        QCOMPARE(*recipe()->converted(), (Layers{3, 5}));
        QVERIFY(!curve->choice());
        find<QSpinBox>(page, "keepCountSpin")->setValue(5); // a ranking of this method is there: the choice follows
        QCOMPARE(*recipe()->converted(), (Layers{5}));
    }

    void theTableTellsTheRanking() {
        app::LayersPage page(m_session.get());
        adopt();
        m_session->adoptRanking(ranking(), {});
        auto* model = page.findChild<Columns*>();
        const auto text = [&](int layer, int column) { return model->index(layer, column).data().toString(); };
        QCOMPARE(text(5, Columns::Order), QStringLiteral("1"));
        QCOMPARE(text(5, Columns::Score), QStringLiteral("0.01"));
        QCOMPARE(text(0, Columns::Order), QStringLiteral("6"));
        auto odd = ranking();
        odd.ranking[1].score = std::numeric_limits<double>::quiet_NaN();
        odd.ranking.pop_back();
        m_session->adoptRanking(odd, {});
        QCOMPARE(text(4, Columns::Score), QStringLiteral("overflow"));
        QCOMPARE(text(0, Columns::Score), QStringLiteral("–"));
        auto* view = find<QTableView>(page, "layersTable");
        view->sortByColumn(Columns::Score, Qt::AscendingOrder);
        QCOMPARE(view->model()->index(0, Columns::Layer).data().toInt(), 5);
        find<QComboBox>(page, "quantityCombo")->setCurrentIndex(1);
        QCOMPARE(find<widgets::KeepCurve>(page, "keepCurve")->readout(5), QStringLiteral("5 kept: KL to the teacher 0.1 nats a token"));
        auto bypass = ranking("bypass");
        bypass.curve.clear();
        m_session->adoptRanking(bypass, {});
        QVERIFY(find<widgets::KeepCurve>(page, "keepCurve")->isEmpty());
    }

    // A measurement does not take what a person chose by hand; what is measured of a stopped one is shown, but chooses nothing.
    void whatWasChosenByHandStays() {
        app::LayersPage page(m_session.get());
        adopt(); // layers:0,1,2,4
        auto* take = find<QPushButton>(page, "takeMeasured");
        auto* note = find<QLabel>(page, "layersPageNote");
        QVERIFY(take->isHidden());
        m_session->adoptRanking(ranking(), {});
        QCOMPARE(recipe()->recipe().keep.text(), std::string("layers:0,1,2,4"));
        QVERIFY(!take->isHidden() && note->text().contains(QStringLiteral("yours stay")));
        QVERIFY(find<QPushButton>(page, "measureButton")->toolTip().contains(QStringLiteral("Measure")));
        take->click();
        QCOMPARE(*recipe()->converted(), (Layers{4, 5})); // as many as before, the cheapest
        QVERIFY(take->isHidden() && note->isHidden());
        recipe()->undoStack()->undo();
        auto some = ranking("bypass");
        some.ranking.resize(2), some.curve.clear(), some.kept.clear();
        m_session->adoptRanking(some, {}, true);
        auto* model = page.findChild<Columns*>();
        QCOMPARE(model->index(5, Columns::Score).data().toString(), QStringLiteral("0.01"));
        QCOMPARE(model->index(0, Columns::Score).data().toString(), QStringLiteral("–"));
        QVERIFY2(note->text().contains(QStringLiteral("2 of 6 layers are measured")), qPrintable(note->text()));
        QVERIFY(take->isHidden() && !app::convertedByRanking(*m_session, 4));
        QVERIFY(model->headerData(Columns::Score, Qt::Horizontal, Qt::ToolTipRole).toString().contains(QStringLiteral("leaving out its attention")));
        find<QSpinBox>(page, "keepCountSpin")->setValue(2);
        QCOMPARE(recipe()->recipe().keep.text(), std::string("layers:0,1,2,4"));
    }

    // Beside the maps of heads: what each layer costs, and which heads have targets of a person's.
    void theMapsTellCostAndTargets() {
        app::HeadsPage heads(m_session.get());
        adopt();
        auto* map = find<widgets::HeadHeatMap>(heads, "distanceMap");
        QVERIFY(map->costRect(3).isEmpty());
        m_session->adoptRanking(ranking("bypass"), {});
        QVERIFY2(map->layerText(5).contains(QStringLiteral("cost 0.01 nats of KL (bypass): 1 of 6, 1 is converted first")), qPrintable(map->layerText(5)));
        QVERIFY(map->tooltipText(0, 1).contains(QStringLiteral("cost 0.06 nats of KL (bypass): 6 of 6")));
        recipe()->setTarget({{3, 1}}, app::TargetField::Beta, 0.2);
        for (const char* name : {"distanceMap", "concentrationMap", "scaleMap"}) {
            auto* each = find<widgets::HeadHeatMap>(heads, name);
            QVERIFY(each->tooltipText(3, 1).contains(QStringLiteral("set by hand")) && !each->tooltipText(3, 2).contains(QStringLiteral("set by hand")));
        }
        recipe()->undoStack()->undo();
        QVERIFY(!map->tooltipText(3, 1).contains(QStringLiteral("set by hand")));
    }

    void theFirstMapLeavesStrongSinksOut() {
        app::HeadsPage heads(m_session.get());
        adopt();
        auto* map = find<widgets::HeadHeatMap>(heads, "distanceMap");
        QCOMPARE(map->data().title, QStringLiteral("attention distance"));
        auto strong = std::make_shared<core::Profile>(*fakeProfile());
        for (auto& layer : strong->layers)
            for (auto& head : layer)
                head.sinkMass = 0.6, head.distanceNoSink.mean = 7;
        m_session->adopt(fakeTeacher(), strong);
        QCOMPARE(map->data().title, QStringLiteral("attention distance without sink"));
        QCOMPARE(map->value(1, 1), 7.0);
        find<QComboBox>(heads, "distanceCombo")->setCurrentIndex(1); // all tokens
        QCOMPARE(map->data().title, QStringLiteral("attention distance"));
        app::Settings().clear();
    }

    void pinsByKeyMenuAndTick() {
        app::LayersPage page(m_session.get());
        page.show();
        QVERIFY(QTest::qWaitForWindowExposed(&page));
        adopt();
        m_session->adoptRanking(ranking(), {});
        auto* view = find<QTableView>(page, "layersTable");
        view->setFocus();
        view->selectRow(5);
        QTest::keyClick(view, Qt::Key_N);
        QVERIFY(recipe()->pin(5) == app::Pin::Never);
        QVERIFY(find<QLabel>(page, "layersPageNote")->text().contains(QStringLiteral("Pins have changed")));
        QCOMPARE(*app::convertedByRanking(*m_session, 2), (Layers{1, 2, 3, 4}));
        find<QAction>(page, "pinAlways")->trigger(); // of the context menu
        QVERIFY(recipe()->pin(5) == app::Pin::Always);
        auto* model = page.findChild<Columns*>();
        const auto never = model->index(0, Columns::Never), always = model->index(0, Columns::Always);
        QVERIFY(model->setData(never, Qt::Checked, Qt::CheckStateRole));
        QVERIFY(recipe()->pin(0) == app::Pin::Never);
        QVERIFY(model->setData(always, Qt::Checked, Qt::CheckStateRole)); // takes the other away
        QCOMPARE(never.data(Qt::CheckStateRole).toInt(), int(Qt::Unchecked));
        QCOMPARE(always.data(Qt::CheckStateRole).toInt(), int(Qt::Checked));
        view->setCurrentIndex(view->model()->index(2, Columns::Never));
        QTest::keyClick(view, Qt::Key_Space); // the tick of the cell with the cursor
        QVERIFY(recipe()->pin(2) == app::Pin::Never);
        QCOMPARE(recipe()->undoStack()->count(), 5);
        while (recipe()->undoStack()->canUndo())
            recipe()->undoStack()->undo();
        QVERIFY(recipe()->recipe().never.empty() && recipe()->recipe().always.empty());
    }

    void layersThatTheRankingLeavesOut() {
        adopt();
        auto pinned = ranking(); // measured with 0 never and 5 always converted: neither is ranked
        pinned.ranking = {{4, 0.1}, {3, 0.2}, {2, 0.3}, {1, 0.4}};
        m_session->adoptRanking(pinned, {{0}, {5}});
        QVERIFY(!m_session->rankingPinsHold());
        recipe()->setPins({0}, app::Pin::Never);
        recipe()->setPins({5}, app::Pin::Always);
        QVERIFY(m_session->rankingPinsHold());
        QCOMPARE(*app::convertedByRanking(*m_session, 3), (Layers{3, 4, 5}));
        QCOMPARE(*app::convertedByRanking(*m_session, 0), (Layers{1, 2, 3, 4, 5}));
        recipe()->setPins({0, 5}, app::Pin::None);
        QCOMPARE(*app::convertedByRanking(*m_session, 5), (Layers{5}));
        QCOMPARE(*app::convertedByRanking(*m_session, 0), (Layers{0, 1, 2, 3, 4, 5}));
    }

    void theRuleOfTheControls() {
        app::LayersPage page(m_session.get());
        adopt();
        auto* method = find<QComboBox>(page, "methodCombo");
        auto* goal = find<QComboBox>(page, "goalCombo");
        auto* measure = find<QPushButton>(page, "measureButton");
        QCOMPARE(page.rule().text(), m_session->startingRule().method + ":4"); // what a recipe begins with
        method->setCurrentText(QStringLiteral("kl"));
        QCOMPARE(page.rule().text(), std::string("kl:4"));
        method->setCurrentText(QStringLiteral("greedy"));
        QVERIFY(find<QLabel>(page, "methodHint")->text().contains(QStringLiteral("layer after layer")));
        goal->setCurrentIndex(1);
        find<QDoubleSpinBox>(page, "cacheSpin")->setValue(12.5);
        QCOMPARE(page.rule().text(), std::string("greedy:cache=13107200@32768"));
        QVERIFY(core::parseKeepRule(page.rule().text()) == page.rule());
        goal->setCurrentIndex(2);
        find<QDoubleSpinBox>(page, "ratioSpin")->setValue(1.1);
        QCOMPARE(page.rule().text(), std::string("greedy:ppl=1.1"));
        QCOMPARE(measure->text(), QStringLiteral("Measure"));
        method->setCurrentText(QStringLiteral("uniform"));
        QCOMPARE(goal->currentIndex(), 0);
        QCOMPARE(measure->text(), QStringLiteral("Apply"));
        find<QSpinBox>(page, "keepCountSpin")->setValue(3);
        measure->click();
        QCOMPARE(recipe()->recipe().keep.text(), std::string("uniform:3"));
        recipe()->setKeepRule(core::parseKeepRule("restore:ppl=1.2")); // from elsewhere: the controls follow
        QCOMPARE(page.rule().text(), std::string("restore:ppl=1.2"));
        for (int i = 0; i < method->count(); ++i)
            QVERIFY(!method->itemData(i, Qt::ToolTipRole).toString().isEmpty());
    }

    void aChoiceThatCannotBeMeasuredSaysSo() {
        app::LayersPage page(m_session.get());
        adopt();
        QSignalSpy failed(m_session.get(), &app::Session::failed);
        auto bad = recipe()->recipe();
        bad.selectionTokens = 0;
        recipe()->load(bad);
        find<QPushButton>(page, "measureButton")->click();
        QCOMPARE(failed.size(), 1);
        QVERIFY(m_session->jobState() == app::JobState::Idle);
    }

    void budgets_data() {
        QTest::addColumn<QString>("rule");
        QTest::addColumn<int>("kept"); // -1: not known before a measurement, or none fits
        QTest::addColumn<QString>("summary");
        QTest::addColumn<QString>("step");
        // 4.19e6 B of keys and values a layer at 32768 tokens, 2176 B of state: 3 layers and 3 states fit into 13e6 B
        QTest::newRow("cache") << "kl:cache=13000000@32768" << 3 << "3 of 6 layers will be converted" << "3 of 6, measured in the run";
        QTest::newRow("cache, nothing fits") << "kl:cache=1000@32768" << -1 << "No choice of layers fits a cache of 1000 bytes" << "the choice does not fit";
        QTest::newRow("perplexity") << "greedy:ppl=1.05" << -1 << "as 1.05 times the teacher's perplexity allows" << "up to 1.05 times the perplexity, measured in the run";
        QTest::newRow("count") << "kl:2" << 2 << "4 of 6 layers will be converted" << "4 of 6, measured in the run";
        QTest::newRow("too many") << "kl:7" << -1 << "does not fit this teacher of 6 layers" << "the choice does not fit";
    }
    void budgets() {
        QFETCH(QString, rule);
        QFETCH(int, kept);
        QFETCH(QString, summary);
        QFETCH(QString, step);
        app::HeadsPage heads(m_session.get());
        app::LayersPage page(m_session.get());
        app::ProjectPanel project(m_session.get());
        adopt();
        recipe()->setKeepRule(core::parseKeepRule(rule.toStdString()));
        QCOMPARE(app::keptCount(*m_session).value_or(-1), std::int64_t(kept));
        const auto text = find<QLabel>(heads, "layerSummary")->text();
        QVERIFY2(text.contains(summary), qPrintable(text));
        QCOMPARE(find<QLabel>(page, "layersPageSummary")->text(), text);
        QCOMPARE(project.findChild<widgets::StepRail*>()->steps()[2].reason, step);
    }

    void budgetsOfAMeasuredRanking() {
        adopt();
        m_session->adoptRanking(ranking(), {}); // perplexity 20 + 0.5 a converted layer
        recipe()->setKeepRule(core::parseKeepRule("kl:ppl=1.051")); // 21.02: two may go
        QCOMPARE(*app::convertedLayers(*m_session), (Layers{4, 5}));
        recipe()->setKeepRule(core::parseKeepRule("kl:cache=13000000@32768"));
        QCOMPARE(*app::convertedLayers(*m_session), (Layers{3, 4, 5}));
        recipe()->setKeepRule(core::parseKeepRule("greedy:ppl=1.051")); // another method's ranking says nothing
        QVERIFY(!app::convertedLayers(*m_session));
        recipe()->setKeepRule(core::parseKeepRule("kl:ppl=1.051"));
        recipe()->setPins({5}, app::Pin::Never); // nor does a curve of other pins
        QVERIFY(!app::convertedLayers(*m_session));
    }

    void aTickAgainstAPinSaysSo() {
        app::HeadsPage page(m_session.get());
        adopt();
        recipe()->setPins({2}, app::Pin::Never);
        QSignalSpy notice(m_session.get(), &app::Session::notice);
        auto* map = page.findChildren<QWidget*>(QStringLiteral("distanceMap")).front();
        QVERIFY(QMetaObject::invokeMethod(map, "layerTickToggled", Q_ARG(int, 2), Q_ARG(bool, true), Q_ARG(Qt::KeyboardModifiers, Qt::NoModifier)));
        QCOMPARE(notice.size(), 1);
        QCOMPARE(recipe()->undoStack()->count(), 1);
        QSignalSpy asked(&page, &app::HeadsPage::measuredChoiceRequested);
        find<QAction>(page, "chooseLayers")->trigger();
        QCOMPARE(asked.size(), 1);
    }

    void theMethodOfTheTeacher() {
        app::RunPanel panel(m_session.get());
        panel.show();
        QVERIFY(QTest::qWaitForWindowExposed(&panel));
        auto* header = find<QToolButton>(panel, "methodHeader");
        QVERIFY(!find<QWidget>(panel, "methodSection")->isVisible());
        header->setFocus();
        QTest::keyClick(header, Qt::Key_Space);
        QVERIFY(find<QWidget>(panel, "methodSection")->isVisible());
        QVERIFY(!find<QWidget>(panel, "methodSection")->isEnabled()); // the recipe belongs to a teacher
        adopt();
        QVERIFY(find<QWidget>(panel, "ropeCombo")->isVisible() && !find<QWidget>(panel, "biasCombo")->isVisible() && !find<QWidget>(panel, "qkNormCombo")->isVisible());
        auto other = fakeTeacher();
        other.config.qkvBias = other.config.qkNorm = true;
        adopt(other);
        QVERIFY(find<QWidget>(panel, "biasCombo")->isVisible() && find<QWidget>(panel, "qkNormCombo")->isVisible());
        QVERIFY(!find<QWidget>(panel, "driftStepsSpin")->isVisible() && !find<QWidget>(panel, "temperatureEdit")->isVisible());
        QVERIFY2(panel.minimumSizeHint().width() <= 270, qPrintable(QString::number(panel.minimumSizeHint().width())));
    }

    void everySettingOfTheMethodIsOneStep() {
        app::RunPanel panel(m_session.get());
        panel.show();
        QVERIFY(QTest::qWaitForWindowExposed(&panel));
        adopt();
        find<QToolButton>(panel, "methodHeader")->setChecked(true);
        const auto before = recipe()->recipe();
        const auto choose = [&](const char* name, const char* value) {
            auto* combo = find<QComboBox>(panel, name);
            combo->setFocus();
            const int steps = combo->findText(QString::fromLatin1(value)) - combo->currentIndex();
            for (int i = 0; i < std::abs(steps); ++i)
                QTest::keyClick(combo, steps > 0 ? Qt::Key_Down : Qt::Key_Up);
        };
        const auto type = [&](const char* name, const char* text) {
            auto* field = find<QWidget>(panel, name);
            QTest::keyClick(field, Qt::Key_A, Qt::ControlModifier);
            QTest::keyClicks(field, QString::fromLatin1(text));
            QTest::keyClick(field, Qt::Key_Return);
        };
        choose("ropeCombo", "fold");
        QCOMPARE(recipe()->recipe().ropeTreatment, std::string("fold"));
        choose("lossCombo", "relative_mse");
        QCOMPARE(recipe()->recipe().align.loss, std::string("relative_mse"));
        type("warmupEdit", "0.125");
        QCOMPARE(recipe()->recipe().align.warmup, 0.125);
        type("lrEdit", "0.002");
        QCOMPARE(recipe()->recipe().align.lr, 0.002);
        type("earlyStopSpin", "3");
        QCOMPARE(recipe()->recipe().align.earlyStop, std::int64_t(3));
        choose("driftCombo", "refit");
        QCOMPARE(recipe()->recipe().align.drift, std::string("refit"));
        type("distillStepsSpin", "200");
        QVERIFY(find<QWidget>(panel, "temperatureEdit")->isVisible());
        type("temperatureEdit", "2");
        QCOMPARE(recipe()->recipe().distill.temperature, 2.0);
        type("memoryEdit", "12.5");
        QCOMPARE(recipe()->recipe().memoryGib, 12.5);
        QCOMPARE(recipe()->undoStack()->count(), 9);
        QVERIFY(recipe()->problems().empty());
        QTest::keyClick(find<QWidget>(panel, "memoryEdit"), Qt::Key_Tab); // leaving a field is no edit
        QCOMPARE(recipe()->undoStack()->count(), 9);
        while (recipe()->undoStack()->canUndo())
            recipe()->undoStack()->undo();
        QVERIFY(recipe()->recipe() == before);
        QCOMPARE(find<QLineEdit>(panel, "memoryEdit")->text(), QStringLiteral("0"));
        choose("driftCombo", "align");
        QVERIFY(find<QWidget>(panel, "driftStepsSpin")->isVisible());
    }

    void problemsOfTheMethodAreNamed() {
        app::RunPanel panel(m_session.get());
        app::ProblemsPanel problems(m_session.get());
        adopt();
        auto bad = recipe()->recipe();
        bad.align.loss = "cross_entropy";
        bad.distill.temperature = 0;
        recipe()->replace(bad, QStringLiteral("Load a file"));
        QCOMPARE(find<QComboBox>(panel, "lossCombo")->currentIndex(), -1);
        QString all;
        const auto* list = problems.findChild<QListWidget*>();
        for (int i = 0; i < list->count(); ++i)
            all += list->item(i)->text() + QLatin1Char('\n');
        QVERIFY2(all.contains(QStringLiteral("align.loss")) && all.contains(QStringLiteral("distill.temperature")), qPrintable(all));
    }

    void aPresetIsExplained() {
        app::RunPanel panel(m_session.get());
        adopt();
        auto* combo = find<QComboBox>(panel, "presetCombo");
        QVERIFY(combo->findText(QStringLiteral("linnet")) >= 0);
        for (int i = 0; i < combo->count(); ++i)
            QVERIFY2(!combo->itemData(i, Qt::ToolTipRole).toString().isEmpty(), qPrintable(combo->itemText(i)));
        auto fold = recipe()->recipe();
        fold.ropeTreatment = "fold"; // set by hand
        recipe()->replace(fold, QStringLiteral("Set RoPE"));
        combo->setCurrentText(QStringLiteral("linnet"));
        Q_EMIT combo->textActivated(QStringLiteral("linnet"));
        QCOMPARE(recipe()->recipe().preset, std::string("linnet"));
        QCOMPARE(recipe()->recipe().ropeTreatment, std::string("fold"));
        QVERIFY(find<QLabel>(panel, "presetHint")->text().contains(QStringLiteral("Closed form")));
    }
};

QTEST_MAIN(TestAppLayers)
#include "tst_app_layers.moc"
