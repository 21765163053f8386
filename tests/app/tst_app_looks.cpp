// What looking at every picture of the window found, and must not come back (tests/gui/screenshots.sh makes them).
#include "app/main_window.h"
#include "app/models/layer_choice.h"
#include "app/models/layer_table_model.h"
#include "app/models/run_table_model.h"
#include "app/models/settings.h"
#include "app/models/shortcut_map.h"
#include "app/panels/curves_panel.h"
#include "app/panels/export_pages.h"
#include "app/panels/heads_page.h"
#include "tests/app/panel_fixture.h"
#include "tests/app/tiny_run.h"
#include "widgets/curve_plot.h"
#include "widgets/head_heat_map.h"
#include "widgets/progress_strip.h"
#include "widgets/step_rail.h"
#include "widgets/theme.h"

#include <QAction>
#include <QComboBox>
#include <QIcon>
#include <QLabel>
#include <QLineEdit>
#include <QMessageBox>
#include <QRegularExpression>
#include <QScrollBar>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>

using namespace linnet;
using namespace linnet::tests;

class TestAppLooks : public QObject {
    Q_OBJECT

    QTemporaryDir m_folder;

private Q_SLOTS:
    void initTestCase() {
        useTestSettings("tst_app_looks");
        widgets::applyTheme(*qApp, widgets::Theme::Light); // as the program looks
    }
    void init() {
        app::Settings().clear();
        app::Settings().setValue(QStringLiteral("runs/folder"), m_folder.path());
    }
    void cleanup() { app::Settings().clear(); }

    void whatExplainsIsNotInTheColourOfDisabledControls() {
        app::MainWindow window;
        for (const bool opened : {false, true}) {
            if (opened)
                adoptFakes(*window.session());
            for (const auto* label : window.findChildren<QLabel*>()) {
                const auto words = label->text().remove(QRegularExpression(QStringLiteral("<[^>]*>"))).split(QLatin1Char(' '), Qt::SkipEmptyParts).size();
                QVERIFY2(words < 3 || !label->testAttribute(Qt::WA_ForceDisabled), qPrintable(label->text()));
            }
        }
    }

    void whatIsWrongIsInTheRedOfTheTheme() {
        app::MainWindow window;
        adoptFakes(*window.session());
        window.show();
        window.session()->recipe()->setKeepText(QStringLiteral("foo:99"));
        auto* field = window.findChild<QLineEdit*>(QStringLiteral("keepEdit"));
        QVERIFY(field);
        field->setText(QStringLiteral("kl:1")); // not yet taken
        for (const auto theme : {widgets::Theme::Dark, widgets::Theme::Light}) {
            widgets::applyTheme(*qApp, theme);
            QTRY_COMPARE(field->palette().color(QPalette::Text), widgets::stateColors(QApplication::palette()).bad);
            QCOMPARE(field->text(), QStringLiteral("kl:1"));
        }
    }

    void aFailureIsSaidUntilItWasRead() {
        app::MainWindow window;
        window.show();
        auto* strip = window.findChild<widgets::ProgressStrip*>();
        window.session()->openTeacher(m_folder.filePath(QStringLiteral("nothing")));
        QTRY_VERIFY(window.findChild<QMessageBox*>(QStringLiteral("errorBox")));
        QTRY_VERIFY(!strip->isRunning());
        QVERIFY(!strip->taskText().isEmpty());
        window.findChild<QMessageBox*>(QStringLiteral("errorBox"))->close();
        QTRY_COMPARE(strip->taskText(), QString());
        Q_EMIT window.session()->runsChanged(); // what else the window looks at does not bring it back
        QCOMPARE(strip->taskText(), QString());
    }

    void theWarningOfTheFirstLayersMovesNoCell() {
        app::Session session;
        app::HeadsPage page(&session);
        adoptFakes(session);
        page.resize(662, 500);
        page.show();
        QVERIFY(QTest::qWaitForWindowExposed(&page));
        const auto* map = page.findChild<widgets::HeadHeatMap*>(QStringLiteral("distanceMap"));
        const auto place = [&] {
            QCoreApplication::sendPostedEvents();
            QTest::qWait(50);
            return map->mapTo(&page, map->tickRect(0).center());
        };
        const auto before = place();
        session.recipe()->setConverted({0, 1, 3}, QStringLiteral("more"));
        QVERIFY(!page.findChild<QLabel*>(QStringLiteral("layerWarning"))->text().isEmpty());
        QCOMPARE(place(), before);
        session.recipe()->setConverted({3}, QStringLiteral("less"));
        QCOMPARE(place(), before);
    }

    void targetsNeverScrollSideways_data() {
        QTest::addColumn<bool>("remembered");
        QTest::newRow("chosen") << false;
        QTest::newRow("remembered") << true;
    }
    void targetsNeverScrollSideways() { // eight rows of two heads, beside one map with all its tools
        QFETCH(bool, remembered);
        if (remembered)
            app::Settings().setValue(QStringLiteral("heads/viewCombo"), 1);
        app::MainWindow window;
        adoptFakes(*window.session());
        window.resize(1280, 800);
        window.show();
        QTest::qWait(300); // a person chooses after the window has laid itself out
        window.findChild<QComboBox*>(QStringLiteral("viewCombo"))->setCurrentIndex(1);
        window.session()->selection()->select({{3, 1}, {3, 2}}, {3, 2});
        window.session()->recipe()->setTarget({{3, 2}}, app::TargetField::HalfLife, 1234.5);
        QTest::qWait(300);
        const auto* table = window.findChild<QTableView*>(QStringLiteral("targetsTable"));
        QVERIFY(table->isVisible());
        QCOMPARE(table->horizontalScrollBar()->maximum(), 0);
        QVERIFY2(table->columnWidth(4) >= table->fontMetrics().horizontalAdvance(QStringLiteral("1234.5")), qPrintable(QString::number(table->columnWidth(4)))); // the user's own
        window.resize(1920, 1080); // a picture beside the rows only where both have room
        QTest::qWait(300);
        QVERIFY2(table->verticalScrollBar()->maximum() == 0, qPrintable(QString::number(table->height())));
    }

    void theSwatchOfASelectedRunKeepsItsPlate() {
        app::Session session;
        app::RunEntry run;
        run.name = QStringLiteral("a"), run.folder = m_folder.filePath(QStringLiteral("a")), run.state = QStringLiteral("done");
        session.adoptRun(run);
        app::RunTableModel model(session.library());
        for (const auto theme : {widgets::Theme::Light, widgets::Theme::Dark}) {
            widgets::applyTheme(*qApp, theme);
            const auto icon = model.index(0, app::RunTableModel::Name).data(Qt::DecorationRole).value<QIcon>();
            const auto plain = icon.pixmap({26, 12}, QIcon::Normal).toImage(), selected = icon.pixmap({26, 12}, QIcon::Selected).toImage();
            QVERIFY(!plain.isNull());
            QCOMPARE(selected, plain); // no tint
            QCOMPARE(QColor(plain.pixel(plain.width() / 4, 2)).rgb(), QApplication::palette().color(QPalette::Base).rgb());
        }
        widgets::applyTheme(*qApp, widgets::Theme::Light);
    }

    void shortcutsNameWhatIsUndoneNotWhich() {
        app::MainWindow window;
        adoptFakes(*window.session());
        window.session()->recipe()->setConverted({2}, QStringLiteral("Convert layer 2"));
        auto* undo = window.findChild<QAction*>(QStringLiteral("undo"));
        QCOMPARE(undo->text(), QStringLiteral("Undo Convert layer 2"));
        app::ShortcutMap map;
        QVERIFY(map.add(undo, QStringLiteral("Edit")) && map.add(window.findChild<QAction*>(QStringLiteral("openFolder")), QStringLiteral("File")));
        QCOMPARE(map.entries()[0].title(), QStringLiteral("Undo"));
        QCOMPARE(map.entries()[1].title(), QStringLiteral("Open folder"));
    }

    void aHybridSaysWhatIsLinearAlready() {
        app::MainWindow window;
        auto& session = *window.session();
        auto teacher = fakeTeacher();
        teacher.layerKinds[2] = teacher.layerKinds[5] = "gated_delta_net";
        auto profile = fakeProfile();
        profile->layers[2].clear();
        profile->layers[5].clear();
        session.adopt(teacher, profile);
        auto recipe = core::defaultRecipe("cpu", "naive");
        recipe.keep = core::parseKeepRule("layers:0,1,4");
        session.recipe()->load(recipe);
        const auto said = window.findChild<QLabel*>(QStringLiteral("layerSummary"))->text();
        QVERIFY2(said.contains(QStringLiteral("1 of 4 layers will be converted")) && said.contains(QStringLiteral("3 softmax kept")) && said.contains(QStringLiteral("2 of the model's 6 layers are linear already")), qPrintable(said));
        QCOMPARE(window.findChild<widgets::StepRail*>()->steps()[2].reason, QStringLiteral("1 of 4 will be converted"));
        QVERIFY(said.contains(app::bytesText(app::cacheBytes(teacher, 4, 32768)) + QStringLiteral(" → ")));
        session.selection()->select({{5, 1}}, {5, 1});
        QVERIFY(window.findChild<QLabel*>(QStringLiteral("headGroup"))->text().contains(QStringLiteral("linear in this model already")));
        QVERIFY(window.findChild<QLabel*>(QStringLiteral("headSample"))->text().contains(QStringLiteral("linear already")));
        QVERIFY(!window.findChild<QTableView*>(QStringLiteral("targetsTable"))->isVisibleTo(&window));
        session.selection()->select({{3, 1}}, {3, 1});
        QVERIFY(window.findChild<QLabel*>(QStringLiteral("headGroup"))->text().contains(QStringLiteral("will be converted")));
        QVERIFY(window.findChild<QTableView*>(QStringLiteral("targetsTable"))->isVisibleTo(&window));
        session.recipe()->setKeepRule(core::parseKeepRule("bypass:3")); // not measured: of the others nobody knows yet
        const app::LayerTableModel layers(&session);
        QCOMPARE(layers.index(2, app::LayerTableModel::Choice).data().toString(), QStringLiteral("converted already"));
        QCOMPARE(layers.index(3, app::LayerTableModel::Choice).data().toString(), QStringLiteral("–"));
        app::RunEntry other; // a run of the model that this one was made from
        other.name = QStringLiteral("other"), other.folder = m_folder.filePath(QStringLiteral("other")), other.state = QStringLiteral("done");
        other.recipe = recipe;
        other.recipe->teacherHash = "another";
        session.adoptRun(other);
        QCOMPARE(window.findChild<widgets::StepRail*>()->steps()[4].reason, QStringLiteral("ready"));
        QCOMPARE(window.findChild<widgets::StepRail*>()->steps()[5].state, widgets::StepState::Todo);
    }

    void anOpenedRunIsStaleOnceItsRecipeIsEdited() {
        TinyRun tiny;
        LINNET_MAKE_RUN(tiny);
        app::MainWindow window;
        auto& session = *window.session();
        session.openTeacher(tiny.run());
        QTRY_VERIFY_WITH_TIMEOUT(session.jobState() == app::JobState::Idle && session.teacher() && session.currentRun() && session.currentRun()->recipe, 60000);
        const auto state = [&](const char* id) {
            for (const auto& step : window.findChild<widgets::StepRail*>()->steps())
                if (step.id == QLatin1String(id))
                    return step.state;
            return widgets::StepState::Blocked;
        };
        QTRY_COMPARE(state("run"), widgets::StepState::Done);
        session.recipe()->setTarget({{1, 2}}, app::TargetField::HalfLife, 24.0);
        QTRY_COMPARE(state("run"), widgets::StepState::Stale);
        QCOMPARE(state("evaluate"), widgets::StepState::Stale);
        session.recipe()->undoStack()->undo();
        QTRY_COMPARE(state("run"), widgets::StepState::Done);
    }

    void layersKeptAtOnePlaceHaveOneMark() {
        app::Session session;
        app::RunEntry run;
        run.name = QStringLiteral("a"), run.folder = m_folder.filePath(QStringLiteral("a")), run.state = QStringLiteral("done");
        run.report.emplace();
        run.metricsWhole = true;
        for (const std::int64_t layer : {2, 3, 4}) {
            for (std::int64_t step = 0; step < 10; ++step) {
                core::MetricRow row;
                row.stage = "align", row.layer = layer, row.step = step, row.loss = 1.0 / double(step + 1);
                run.metrics.push_back(row);
            }
            core::AlignedLayer kept;
            kept.layer = layer, kept.keptStep = layer == 4 ? 6 : 0;
            run.report->aligned.push_back(kept);
        }
        session.adoptRun(run);
        app::CurvesPanel panel(&session);
        panel.resize(700, 500);
        panel.show();
        const auto marks = [&] {
            std::size_t most = 0;
            for (const auto* plot : panel.findChildren<widgets::CurvePlot*>())
                most = std::max(most, plot->markCount());
            return most;
        };
        QTRY_COMPARE(marks(), std::size_t(2)); // "layers 2, 3: their starts are kept", "layer 4: kept"
    }
};

QTEST_MAIN(TestAppLooks)
#include "tst_app_looks.moc"
