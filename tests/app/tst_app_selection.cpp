// One selection drives everything: maps, histogram, tables, problems and chip read it and write it; the pin and the hover are apart.
#include "app/models/head_metrics.h"
#include "app/models/layer_table_model.h"
#include "app/models/settings.h"
#include "app/panels/heads_page.h"
#include "app/panels/layers_page.h"
#include "app/panels/problems_panel.h"
#include "app/panels/selection_chip.h"
#include "app/panels/targets_panel.h"
#include "tests/app/panel_fixture.h"
#include "widgets/head_heat_map.h"
#include "widgets/metric_histogram.h"

#include <QAction>
#include <QClipboard>
#include <QComboBox>
#include <QDir>
#include <QLineEdit>
#include <QListWidget>
#include <QSignalSpy>
#include <QStandardItemModel>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QToolButton>
#include <cmath>
#include <limits>

using namespace linnet;
using namespace linnet::tests;
using app::HeadId;
using app::Metric;
using app::Source;
using app::TargetField;

class TestAppSelection : public QObject {
    Q_OBJECT

    std::unique_ptr<app::Session> m_session;

    void adopt() { adoptFakes(*m_session); }
    app::SelectionModel* selection() { return m_session->selection(); }
    static void choose(QWidget& page, const char* combo, int index) { page.findChild<QComboBox*>(QString::fromLatin1(combo))->setCurrentIndex(index); }
    static bool offers(QWidget& page, int source) {
        auto* model = qobject_cast<QStandardItemModel*>(page.findChild<QComboBox*>(QStringLiteral("sourceCombo"))->model());
        return model->item(source)->isEnabled();
    }

private Q_SLOTS:
    void initTestCase() {
        useTestSettings("tst_app_selection");
    }
    void init() {
        app::Settings().clear();
        m_session = std::make_unique<app::Session>();
    }
    void cleanup() {
        m_session.reset();
        app::Settings().clear();
    }

    void thePinOutlivesTheSelection() {
        QSignalSpy pinned(selection(), &app::SelectionModel::pinnedChanged);
        selection()->select({{1, 2}, {3, 0}}, {9, 9}); // no such primary: the first one
        QCOMPARE(selection()->primary(), (HeadId{1, 2}));
        selection()->setPinned({3, 0});
        selection()->setPrimary({3, 0});
        selection()->setPrimary({5, 5}); // not selected
        QCOMPARE(selection()->primary(), (HeadId{3, 0}));
        selection()->clear(); // Esc: the selection first
        QVERIFY(selection()->selected().isEmpty());
        QCOMPARE(selection()->pinned(), (HeadId{3, 0}));
        selection()->clear(); // once more: the pin
        QVERIFY(!selection()->pinned().valid());
        QCOMPARE(pinned.count(), 2);
        selection()->selectLayers({1, 4}, kHeads);
        QCOMPARE(selection()->selected().size(), 8);
        selection()->setPinned({0, 0});
        selection()->setHovered({0, 1});
        selection()->reset(); // another model
        QVERIFY(selection()->selected().isEmpty() && !selection()->pinned().valid() && !selection()->hovered().valid());
    }

    void theChipSaysWhatIsHeld() {
        adopt();
        app::SelectionChip chip(m_session.get());
        const auto button = [&](const char* name) { return chip.findChild<QToolButton*>(QString::fromLatin1(name)); };
        for (const char* name : {"chipSelected", "chipPinned", "chipLocked"})
            QVERIFY(button(name)->isHidden());
        selection()->select({{2, 1}, {3, 3}, {0, 0}}, {2, 1});
        selection()->setPinned({4, 2});
        m_session->recipe()->setLocked({{5, 0}, {5, 1}}, TargetField::Beta, true);
        QVERIFY(button("chipSelected")->text().startsWith(QStringLiteral("L2 H1 + 2 more")));
        QVERIFY(button("chipPinned")->text().startsWith(QStringLiteral("reference L4 H2")));
        QCOMPARE(button("chipLocked")->text(), QStringLiteral("2 locked"));
        button("chipLocked")->click();
        QCOMPARE(selection()->sorted(), (QList<HeadId>{{5, 0}, {5, 1}}));
        button("chipSelected")->click();
        QVERIFY(selection()->selected().isEmpty() && !button("chipPinned")->isHidden());
        button("chipPinned")->click();
        QVERIFY(button("chipSelected")->isHidden() && button("chipPinned")->isHidden());
    }

    void metricsByHand() {
        adopt();
        auto& s = *m_session;
        const auto at = [&](Metric metric, Source source) { return app::metricValues(s, metric, source)[2 * kHeads + 1]; };
        QCOMPARE(at(Metric::Distance, Source::Teacher), 1.5 + 9);
        QCOMPARE(at(Metric::OutputAfter, Source::Teacher), 0.125 * 10);
        QVERIFY(std::isnan(at(Metric::AlignmentError, Source::Teacher)));
        // a = 2^(-1 / 1) = 1/2: mean reach (1/2) / (1/2) = 1 token; half-life 2: a = 0.70711, a / (1 - a) = 2.41421
        QVERIFY(std::abs(app::decayHorizon(1) - 1) < 1e-15);
        QVERIFY(std::abs(app::decayHorizon(2) - (1 + std::sqrt(2.0))) < 1e-14);
        double reach = 0, mass = 0; // the same by adding up
        for (int d = 0; d < 4000; ++d)
            reach += d * std::exp2(-d / 37.5), mass += std::exp2(-d / 37.5);
        QVERIFY(std::abs(app::decayHorizon(37.5) - reach / mass) < 1e-9);
        s.recipe()->setTarget({{2, 1}}, TargetField::HalfLife, 2.0);
        QVERIFY(std::abs(at(Metric::Distance, Source::Student) - 2.414213562) < 1e-8);
        QVERIFY(std::abs(at(Metric::Distance, Source::Difference) - (2.414213562 - 10.5)) < 1e-8);
        s.recipe()->setTarget({{2, 1}}, TargetField::HalfLife, std::numeric_limits<double>::infinity());
        QVERIFY(std::isnan(at(Metric::Distance, Source::Student))); // reaches without end: no number
        QVERIFY(app::metricMissing(s, Metric::SinkMass, Source::Student).contains(QStringLiteral("No run measures this")));
        QVERIFY(app::metricMissing(s, Metric::AlignmentError, Source::Student).contains(QStringLiteral("run a conversion")));
        app::LayerFit fit;
        fit.layer = 2;
        fit.heads.resize(kHeads);
        fit.heads[1].chosen.residual = 0.25;
        s.closedForm()->adopt({{2, fit}});
        QCOMPARE(at(Metric::AlignmentError, Source::Student), 0.25);
        QVERIFY(app::metricMissing(s, Metric::AlignmentError, Source::Student).isEmpty());
    }

    void numbersOfTheStudent() {
        adopt();
        auto& s = *m_session;
        const auto at = [&](Metric metric, Source source, int layer) { return app::metricValues(s, metric, source)[static_cast<std::size_t>(layer * kHeads + 1)]; };
        for (const auto metric : {Metric::AlignedError, Metric::Beta, Metric::OutputGate, Metric::ValueScale}) {
            QVERIFY(app::metricMissing(s, metric, Source::Teacher).contains(QStringLiteral("Only a student")));
            QVERIFY(app::metricMissing(s, metric, Source::Student).contains(QStringLiteral("No student yet")));
        }
        core::StudentNumbers numbers;
        numbers.layers[3].resize(kHeads);
        numbers.layers[3][1] = {12, 0.25, 0.5, 2, 0.75, 0.5, 0.125};
        s.studentNumbers()->adopt(numbers);
        QCOMPARE(at(Metric::Beta, Source::Student, 3), 0.25);
        QCOMPARE(at(Metric::OutputGate, Source::Student, 3), 0.5);
        QCOMPARE(at(Metric::ValueScale, Source::Student, 3), 2.0);
        QCOMPARE(at(Metric::AlignedError, Source::Student, 3), 0.125);
        QCOMPARE(at(Metric::OutputAfter, Source::Student, 3), 0.75);
        QCOMPARE(at(Metric::OutputAfter, Source::Difference, 3), 0.25); // on the run's windows, not against the profile's 0.125 * 14
        QCOMPARE(at(Metric::OutputAfter, Source::Teacher, 3), 0.125 * 14);
        QVERIFY(std::isnan(at(Metric::Beta, Source::Student, 2))); // stays softmax
        QVERIFY(app::metricMissing(s, Metric::OutputAfter, Source::Difference).isEmpty());
        app::HeadsPage page(m_session.get());
        choose(page, "viewCombo", 1);
        choose(page, "metricCombo", static_cast<int>(Metric::Beta));
        auto* map = page.findChild<widgets::HeadHeatMap*>(QStringLiteral("singleMap"));
        QVERIFY(!offers(page, 0) && offers(page, 1) && !offers(page, 2));
        QVERIFY(map->value(3, 1) == 0.25 && std::isnan(map->value(0, 0)));
    }

    void aStudentIsMeasuredOnceAndBesideOtherWork() {
        QTemporaryDir folder;
        QVERIFY(QDir(folder.path()).mkpath(QStringLiteral("checkpoints")));
        const auto write = [&](const char* bytes) {
            QFile file(folder.filePath(QStringLiteral("checkpoints/student.safetensors")));
            QVERIFY(file.open(QIODevice::WriteOnly) && file.write(bytes) > 0);
        };
        std::vector<app::Job> jobs;
        bool busy = true;
        app::StudentNumbersModel model([&](app::Job job) -> std::uint64_t {
            if (busy)
                return 0;
            jobs.push_back(std::move(job));
            return jobs.size();
        });
        using State = app::StudentNumbersModel::State;
        QObject page;
        model.want(&page, true);
        model.show(folder.path(), QStringLiteral("hash")); // it has no student yet
        QVERIFY(model.state() == State::None && !model.hasStudent());
        write("one");
        model.show(folder.path(), QStringLiteral("hash"));
        QCOMPARE(model.state(), State::Measuring);
        QTRY_COMPARE(model.state(), State::Waiting);
        busy = false;
        model.retry();
        QTRY_COMPARE(jobs.size(), std::size_t(1));
        QVERIFY(jobs[0].kind == app::JobKind::StudentNumbers && jobs[0].path == folder.path().toStdString());
        app::JobResult result;
        result.tag = 1;
        result.error = core::Error{core::ErrorCode::Cancelled, "stopped", {}}; // a head was clicked
        model.take(result);
        QCOMPARE(model.state(), State::Waiting);
        model.retry();
        QTRY_COMPARE(jobs.size(), std::size_t(2));
        result.tag = 2;
        result.error.reset();
        core::StudentNumbers numbers;
        numbers.layers[1].resize(2);
        numbers.layers[1][0].beta = 0.5;
        result.studentNumbers = std::make_shared<const core::StudentNumbers>(numbers);
        model.take(result);
        QVERIFY(model.state() == State::Known && model.head(1, 0)->beta == 0.5 && !model.head(1, 2) && !model.head(0, 0));
        model.show(folder.path(), QStringLiteral("hash")); // the same again
        model.retry();
        QTest::qWait(900);
        QCOMPARE(jobs.size(), std::size_t(2));
        model.show(folder.path(), QStringLiteral("another teacher"));
        QVERIFY(!model.numbers() && model.state() == State::Measuring);
        QTRY_COMPARE(jobs.size(), std::size_t(3));
        result.tag = 3;
        result.studentNumbers.reset();
        result.error = core::Error{core::ErrorCode::Usage, "a run of another teacher", {}};
        model.take(result);
        QVERIFY(model.state() == State::Failed && model.stateText().contains(QStringLiteral("another teacher")));
        model.want(&page, false);
        model.show({}, QStringLiteral("hash"));
        QCOMPARE(model.state(), State::None);
    }

    void whatHasNoNumbersIsNotOffered() {
        app::HeadsPage page(m_session.get());
        adopt();
        auto linnet = m_session->recipe()->recipe();
        linnet.preset = "linnet"; // its grid has not run
        m_session->recipe()->load(linnet);
        choose(page, "viewCombo", 1);
        QVERIFY(offers(page, 0) && !offers(page, 1) && !offers(page, 2));
        QVERIFY(page.findChild<QComboBox*>(QStringLiteral("sourceCombo"))->toolTip().contains(QStringLiteral("No half-life is known yet")));
        m_session->recipe()->setTarget({{2, 1}}, TargetField::HalfLife, 2.0);
        QVERIFY(offers(page, 1) && offers(page, 2));
        choose(page, "sourceCombo", 2);
        auto* map = page.findChild<widgets::HeadHeatMap*>(QStringLiteral("singleMap"));
        QVERIFY(std::isnan(map->value(0, 0)) && !std::isnan(map->value(2, 1)));
        QCOMPARE(map->colorRange().minimum(), -map->colorRange().maximum()); // about 0
        m_session->recipe()->undoStack()->undo();
        QCOMPARE(page.findChild<QComboBox*>(QStringLiteral("sourceCombo"))->currentIndex(), 0); // gone: the teacher again
        QCOMPARE(map->value(2, 1), 10.5);
        choose(page, "metricCombo", static_cast<int>(Metric::AlignmentError));
        QVERIFY(!offers(page, 0) && offers(page, 1) && !offers(page, 2));
    }

    void theHistogramBrushesAndSetsTheRange() {
        app::HeadsPage page(m_session.get());
        adopt();
        choose(page, "viewCombo", 1);
        auto* map = page.findChild<widgets::HeadHeatMap*>(QStringLiteral("singleMap"));
        auto* histogram = page.findChild<widgets::MetricHistogram*>();
        Q_EMIT histogram->brushed(5.5, 7.5, Qt::NoModifier); // 1.5 + 4 l + h
        QCOMPARE(selection()->sorted(), (QList<HeadId>{{1, 0}, {1, 1}, {1, 2}}));
        int marked = 0;
        for (const auto& bin : histogram->bins())
            marked += bin.selected;
        QCOMPARE(marked, 3);
        Q_EMIT histogram->brushed(24.5, 24.5, Qt::ControlModifier);
        QCOMPARE(selection()->selected().size(), 4);
        Q_EMIT histogram->rangeDragged(2, 16);
        QCOMPARE(page.findChild<QComboBox*>(QStringLiteral("scaleModeCombo"))->currentIndex(), 2); // fixed
        QVERIFY(std::abs(map->colorRange().minimum() - 2) < 1e-9 && std::abs(map->colorRange().maximum() - 16) < 1e-9);
        QVERIFY(map->colorRange().clipsHigh() && map->colorRange().modeText().startsWith(QStringLiteral("fixed")));
        QVERIFY(std::abs(histogram->range()->second - 16) < 1e-9);
        app::HeadsPage another(m_session.get()); // a typed range is a setting
        QVERIFY(std::abs(another.findChild<widgets::HeadHeatMap*>(QStringLiteral("singleMap"))->colorRange().maximum() - 16) < 1e-9);
        Q_EMIT histogram->rangeReset();
        QCOMPARE(page.findChild<QComboBox*>(QStringLiteral("scaleModeCombo"))->currentIndex(), 0);
        QCOMPARE(map->colorRange().maximum(), 24.5);
    }

    void aRangeIsTypedAndTakenToAnotherView() {
        app::HeadsPage page(m_session.get());
        adopt();
        choose(page, "viewCombo", 1);
        auto* map = page.findChild<widgets::HeadHeatMap*>(QStringLiteral("singleMap"));
        auto* low = page.findChild<QLineEdit*>(QStringLiteral("rangeLow"));
        page.show();
        QVERIFY(QTest::qWaitForWindowExposed(&page));
        QCOMPARE(low->text(), QStringLiteral("1.5"));
        low->setFocus();
        low->selectAll();
        QTest::keyClicks(low, QStringLiteral("3"));
        QTest::keyClick(low, Qt::Key_Return);
        QVERIFY(std::abs(map->colorRange().minimum() - 3) < 1e-9);
        page.findChild<QAction*>(QStringLiteral("copyRange"))->trigger();
        QCOMPARE(QGuiApplication::clipboard()->text(), QStringLiteral("3 24.5"));
        choose(page, "metricCombo", static_cast<int>(Metric::OutputAfter));
        page.findChild<QAction*>(QStringLiteral("pasteRange"))->trigger();
        QVERIFY(std::abs(map->colorRange().maximum() - 24.5) < 1e-9);
        QSignalSpy notice(m_session.get(), &app::Session::notice);
        QGuiApplication::clipboard()->setText(QStringLiteral("nothing of the kind"));
        page.findChild<QAction*>(QStringLiteral("pasteRange"))->trigger();
        QCOMPARE(notice.count(), 1);
        low->selectAll();
        QTest::keyClicks(low, QStringLiteral("99"));
        QTest::keyClick(low, Qt::Key_Return); // above the high end
        QVERIFY(notice.count() >= 2);
        QCOMPARE(low->text(), QStringLiteral("3"));
    }

    void scalesAndColours() {
        app::HeadsPage page(m_session.get());
        adopt();
        choose(page, "viewCombo", 1);
        auto* map = page.findChild<widgets::HeadHeatMap*>(QStringLiteral("singleMap"));
        QVERIFY(map->colorRange().modeText().contains(QStringLiteral("log2")));
        choose(page, "axisCombo", 1);
        QCOMPARE(map->colorRange().modeText(), QStringLiteral("global"));
        choose(page, "scaleModeCombo", 1);
        QCOMPARE(map->colorRange().maximum(0), 4.5); // of layer 0
        auto* histogram = page.findChild<widgets::MetricHistogram*>();
        QVERIFY(!histogram->range()); // layers have no range in common
        choose(page, "scaleModeCombo", 3);
        QVERIFY(map->colorRange().minimum() > 1.5 && map->colorRange().maximum() < 24.5);
    }

    void tablesBrush() {
        app::LayersPage layers(m_session.get());
        adopt();
        auto* table = layers.findChild<QTableView*>(QStringLiteral("layersTable"));
        const auto rows = [&] {
            QList<int> found;
            for (const auto& index : table->selectionModel()->selectedRows(app::LayerTableModel::Layer))
                found << index.data().toInt();
            std::sort(found.begin(), found.end());
            return found;
        };
        table->sortByColumn(app::LayerTableModel::Layer, Qt::DescendingOrder);
        table->selectRow(1); // layer 4
        QCOMPARE(selection()->sorted(), (QList<HeadId>{{4, 0}, {4, 1}, {4, 2}, {4, 3}}));
        selection()->select({{0, 1}, {2, 3}}, {2, 3}); // from elsewhere
        QCOMPARE(rows(), (QList<int>{0, 2}));
        QCOMPARE(selection()->selected().size(), 2); // the rows that light up select nothing

        app::TargetsPanel targets(m_session.get());
        auto* heads = targets.findChild<QTableView*>(QStringLiteral("targetsTable"));
        heads->setCurrentIndex(heads->model()->index(1, 0)); // L0 H1
        QCOMPARE(selection()->primary(), (HeadId{0, 1}));
        QCOMPARE(selection()->selected().size(), 2);
        selection()->setPrimary({2, 3});
        QCOMPARE(heads->currentIndex().row() / 4, 1);
        QCOMPARE(heads->currentIndex().row() % 4, 1); // of the same field
    }

    void problemsLeadToTheirHeads() {
        app::ProblemsPanel panel(m_session.get());
        adopt();
        auto* list = panel.findChild<QListWidget*>(QStringLiteral("problemsList"));
        QSignalSpy step(&panel, &app::ProblemsPanel::stepRequested);
        QCOMPARE(list->count(), 1); // what to know about the teacher
        auto recipe = m_session->recipe()->recipe();
        recipe.targets[2][1].beta = 1.5;         // refused
        recipe.targets[3][0].halfLife = 500000;  // unusual
        recipe.align.batch = 0;
        m_session->recipe()->load(recipe);
        const auto line = [&](const QString& part) {
            for (int i = 0; i < list->count(); ++i)
                if (list->item(i)->text().contains(part))
                    return list->item(i);
            return static_cast<QListWidgetItem*>(nullptr);
        };
        QVERIFY(line(QStringLiteral("targets.2.1.beta")) && line(QStringLiteral("L3 H0: half life of 5e+05")) && line(QStringLiteral("align.batch")));
        line(QStringLiteral("targets.2.1.beta"))->setSelected(true);
        QCOMPARE(selection()->primary(), (HeadId{2, 1}));
        line(QStringLiteral("L3 H0"))->setSelected(true);
        QCOMPARE(selection()->selected().size(), 2);
        Q_EMIT list->itemActivated(line(QStringLiteral("L3 H0")));
        QCOMPARE(step.takeFirst()[0].toString(), QStringLiteral("targets"));
        Q_EMIT list->itemActivated(line(QStringLiteral("align.batch")));
        QCOMPARE(step.takeFirst()[0].toString(), QStringLiteral("run"));
        Q_EMIT list->itemActivated(line(QStringLiteral("decoded weights")));
        QVERIFY(step.isEmpty()); // nothing to put right
        recipe.targets = {{2, {{1, {}}}}}; // allowed, and nobody reads it: layer 2 stays softmax
        recipe.targets[2][1].beta = 0.5;
        recipe.align.batch = 8;
        recipe.never = {3};
        m_session->recipe()->load(recipe);
        QVERIFY(m_session->recipe()->problems().empty());
        QVERIFY(line(QStringLiteral("pins.never: layer 3 stays softmax, against layers:0,1,2,4")));
        Q_EMIT list->itemActivated(line(QStringLiteral("targets.2: without effect on 1 head")));
        QCOMPARE(step.takeFirst()[0].toString(), QStringLiteral("targets"));
    }

    void theKeyboardReachesEverything() {
        app::HeadsPage page(m_session.get());
        adopt();
        choose(page, "viewCombo", 1);
        page.show();
        QVERIFY(QTest::qWaitForWindowExposed(&page));
        auto* map = page.findChild<widgets::HeadHeatMap*>(QStringLiteral("singleMap"));
        map->setFocus();
        selection()->select({{1, 1}}, {1, 1});
        QTest::keyClick(map, Qt::Key_Down, Qt::ControlModifier);
        QCOMPARE(selection()->hovered(), (HeadId{2, 1}));
        QCOMPARE(selection()->selected().size(), 1);
        QTest::keyClick(map, Qt::Key_Space, Qt::ControlModifier);
        QCOMPARE(selection()->selected().size(), 2);
        QTest::keyClick(map, Qt::Key_P);
        QCOMPARE(selection()->pinned(), (HeadId{2, 1}));
        QTest::keyClick(map, Qt::Key_P);
        QVERIFY(!selection()->pinned().valid());
        QTest::keyClick(map, Qt::Key_A, Qt::ControlModifier);
        QCOMPARE(selection()->selected().size(), kLayers * kHeads);
        QTest::keyClick(map, Qt::Key_Space); // the layer's tick
        QCOMPARE(m_session->recipe()->undoStack()->count(), 1);
        QTest::keyClick(map, Qt::Key_Escape);
        QVERIFY(selection()->selected().isEmpty());
    }
};

QTEST_MAIN(TestAppSelection)
#include "tst_app_selection.moc"
