// What nobody foresaw: exceptions in slots, paints, timers and threads end in a line, not with the window; a window that was killed is spoken of
// at the next start; a wheel that passes over fields changes none.
#include "app/guarded.h"
#include "app/jobs/worker.h"
#include "app/models/run_store.h"
#include "app/models/session_restore.h"
#include "app/panels/notice_bar.h"
#include "tests/app/fake_teacher.h"
#include "tests/support/window_test.h"
#include "widgets/collapsible.h"
#include "widgets/curve_plot.h"

#include <QAbstractItemView>
#include <QComboBox>
#include <QDir>
#include <QDockWidget>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QScrollArea>
#include <QScrollBar>
#include <QSignalSpy>
#include <QSlider>
#include <QSpinBox>
#include <QTabWidget>
#include <QTestEventList>
#include <QTimer>
#include <QVBoxLayout>
#include <QWheelEvent>
#include <thread>

using namespace linnet;
using namespace linnet::tests;

namespace {

struct BadPaint : QWidget {
    bool bad = true;
    int whole = 0;
    void paintEvent(QPaintEvent*) override {
        if (bad)
            core::fail(core::ErrorCode::Internal, "a paint that fails");
        ++whole;
    }
};

} // namespace

class TestAppGuard : public WindowTest {
    Q_OBJECT

    QString notice() { return m_window->habits()->notices()->text(QStringLiteral("unexpected")); }
    bool told(const QString& part) { return QTest::qWaitFor([&] { return notice().contains(part); }, 3000); }
    static void turn(QWidget* over, int notches, Qt::KeyboardModifiers keys = Qt::NoModifier) {
        const QPointF at(QRectF(over->rect()).center());
        QWheelEvent wheel(at, over->mapToGlobal(at), {}, {0, 120 * notches}, Qt::NoButton, keys, Qt::NoScrollPhase, false);
        QSpontaneKeyEvent::setSpontaneous(&wheel); // as from a screen: only those go on to parents
        qApp->notify(over, &wheel);
    }

private Q_SLOTS:
    void init() {
        app::Settings().clear();
        makeWindow();
    }
    void cleanup() { m_window.reset(); }

    void aSlotThatThrows() {
        QPushButton button;
        connect(&button, &QPushButton::clicked, &button, [] { core::fail(core::ErrorCode::Usage, "unknown device \"warp\""); });
        button.show();
        QTest::mouseClick(&button, Qt::LeftButton);
        QVERIFY2(told(QStringLiteral("unknown device \"warp\"")), qPrintable(notice()));
        QVERIFY(session().logLines().last().contains(QStringLiteral("warp")));
        const auto lines = session().logLines().size();
        QTest::mouseClick(&button, Qt::LeftButton);
        QTest::qWait(50);
        QCOMPARE(session().logLines().size(), lines); // the same once more is no news
        saidAndWorkingStill();
    }

    void aMenuThatThrows() { // through an action of the window itself
        auto* bad = new QAction(m_window.get());
        bad->setShortcut(QKeySequence(QStringLiteral("Ctrl+Alt+F9")));
        m_window->addAction(bad);
        connect(bad, &QAction::triggered, bad, [] { throw std::runtime_error("an action that fails"); });
        QTest::keyClick(m_window.get(), Qt::Key_F9, Qt::ControlModifier | Qt::AltModifier);
        QVERIFY(told(QStringLiteral("an action that fails")));
        saidAndWorkingStill();
    }

    void aPaintThatThrows() {
        BadPaint widget;
        widget.resize(60, 40);
        widget.show();
        QVERIFY(told(QStringLiteral("a paint that fails")));
        widget.bad = false;
        widget.update();
        QTRY_VERIFY(widget.whole > 0);
    }

    void aTimerThatThrows() {
        QTimer::singleShot(0, this, [] { throw 17; });
        QVERIFY(told(QStringLiteral("unknown exception")));
    }

    void aThreadOfThePoolThatThrows() {
        app::inBackground([] { core::fail(core::ErrorCode::Io, "a look at the disk that fails"); });
        QVERIFY(told(QStringLiteral("a look at the disk that fails")));
        std::atomic<bool> after = false;
        app::inBackground([&after] { after = true; });
        QTRY_VERIFY(after);
    }

    void theWorkerGoesOnAfterAJobThatThrows() {
        app::Worker worker;
        app::Job job;
        job.kind = app::JobKind::Export;
        job.run.device = "warp"; // of no machine
        worker.submit(job);
        app::Job next;
        next.kind = app::JobKind::Close;
        worker.submit(next);
        std::vector<app::JobResult> results;
        QTRY_VERIFY_WITH_TIMEOUT([&] {
            for (auto& result : worker.drain().results)
                results.push_back(std::move(result));
            return results.size() == 2;
        }(), 10000);
        QVERIFY(results[0].error && !results[1].error);
    }

    void aWindowThatWasKilledIsSpokenOf() {
        const auto said = [&] { return m_window->habits()->notices()->text(QStringLiteral("unclean")); };
        m_window->habits()->start({}, false);
        QVERIFY2(said().isEmpty(), qPrintable(said()));
        app::Settings settings;
        QString mine;
        for (const auto& key : settings.keys())
            if (key.startsWith(QStringLiteral("open/")))
                mine = key;
        QVERIFY(mine.endsWith(QString::number(QCoreApplication::applicationPid())));
        m_window->close();
        QVERIFY(!settings.contains(mine)); // closed properly
        const auto of = [&](qint64 process) { return mine.section(QLatin1Char('/'), 0, 1) + QLatin1Char('/') + QString::number(process); };
        settings.setValue(of(1), QStringLiteral("not what process 1 is")); // its number was given to another program
        settings.setValue(QStringLiteral("open/another-machine/77"), QStringLiteral("linnet")); // may well live
        makeWindow();
        m_window->habits()->start({}, false);
        QVERIFY2(said().contains(QStringLiteral("not closed properly")), qPrintable(said()));
        QVERIFY(!settings.contains(of(1)) && settings.contains(QStringLiteral("open/another-machine/77")));
        makeWindow();
        m_window->habits()->start({}, false);
        QVERIFY(said().isEmpty()); // said once; and this process' own mark is no dead window's
    }

    void theWheelPassesOverFieldsWithoutFocus() {
        QScrollArea area;
        auto* inside = new QWidget;
        auto* layout = new QVBoxLayout(inside);
        auto* spin = new QSpinBox;
        spin->setRange(0, 100);
        spin->setValue(50);
        auto* combo = new QComboBox;
        combo->addItems({QStringLiteral("a"), QStringLiteral("b"), QStringLiteral("c")});
        combo->setCurrentIndex(1);
        auto* slider = new QSlider(Qt::Horizontal);
        slider->setValue(50);
        auto* other = new QPushButton(QStringLiteral("other"));
        for (auto* each : {static_cast<QWidget*>(other), static_cast<QWidget*>(spin), static_cast<QWidget*>(combo), static_cast<QWidget*>(slider)})
            layout->addWidget(each);
        layout->addSpacing(2000);
        area.setWidget(inside);
        area.resize(300, 200);
        area.show();
        area.activateWindow();
        QVERIFY(QTest::qWaitForWindowActive(&area));
        other->setFocus();
        for (auto* each : {static_cast<QWidget*>(spin), static_cast<QWidget*>(combo), static_cast<QWidget*>(slider)}) {
            QVERIFY(each->focusPolicy() != Qt::WheelFocus); // Qt gives it before anything sees the wheel
            const int before = area.verticalScrollBar()->value();
            turn(each, -1);
            QVERIFY(area.verticalScrollBar()->value() > before);
        }
        QVERIFY(spin->value() == 50 && combo->currentIndex() == 1 && slider->value() == 50);
        spin->setFocus();
        turn(spin, 1);
        QCOMPARE(spin->value(), 51);
        combo->setFocus();
        turn(combo, -1);
        QCOMPARE(combo->currentIndex(), 2);
        QVERIFY(area.verticalScrollBar()->value() >= 0);
        turn(area.verticalScrollBar(), 1); // a scroll bar is no field
        for (auto* each : m_window->findChildren<QWidget*>())
            if (each->isVisible())
                QVERIFY2(each->focusPolicy() != Qt::WheelFocus || qobject_cast<QAbstractScrollArea*>(each), qPrintable(each->objectName() + QLatin1Char(' ') + QString::fromLatin1(each->metaObject()->className())));
    }

    void theWheelGoesThroughTheInspector() {
        session().adopt(fakeTeacher(), fakeProfile());
        session().selection()->select({{3, 1}}, {3, 1});
        m_window->resize(1280, 800);
        auto* panel = find("inspectorPanel");
        QTRY_VERIFY(panel->isVisible());
        for (auto* fold : panel->findChildren<widgets::Collapsible*>())
            fold->setExpanded(true);
        QTest::qWait(50);
        auto* bar = static_cast<QScrollArea*>(panel->parentWidget()->parentWidget())->verticalScrollBar();
        QVERIFY(bar->maximum() > 200);
        int met = 0;
        for (auto* plot : panel->findChildren<QWidget*>()) { // whatever lies there, also the canvas of a plot
            if (!plot->isVisible() || !(plot->inherits("linnet::widgets::ExportWidget") || plot->inherits("QCustomPlot")))
                continue;
            bar->setValue(0);
            turn(plot, -1);
            QVERIFY2(bar->value() > 0, plot->metaObject()->className());
            ++met;
        }
        QVERIFY2(met >= 3, qPrintable(QString::number(met)));
    }

    void curvesTakeTheWheelWithCtrlWhereTheirPageScrolls() {
        find<QTabWidget>("pages")->setCurrentIndex(3);
        auto* plot = find<widgets::CurvePlot>("alignPlot");
        auto* canvas = plot->findChild<QWidget*>(QString(), Qt::FindDirectChildrenOnly);
        QScrollArea* area = nullptr;
        for (auto* around = plot->parentWidget(); around && !area; around = around->parentWidget())
            area = qobject_cast<QScrollArea*>(around);
        QVERIFY(area && canvas);
        m_window->resize(1280, 700);
        for (auto* each : area->findChildren<widgets::CurvePlot*>())
            each->setMinimumHeight(400);
        QTRY_VERIFY(area->verticalScrollBar()->maximum() > 0);
        QSignalSpy moved(plot, &widgets::CurvePlot::xViewChangedByUser);
        turn(canvas, -1);
        QVERIFY(area->verticalScrollBar()->value() > 0 && moved.isEmpty());
        const int at = area->verticalScrollBar()->value();
        turn(canvas, -1, Qt::ControlModifier);
        QCOMPARE(area->verticalScrollBar()->value(), at);
        QVERIFY(!moved.isEmpty());
    }

    void escClosesThePopupOnly() {
        session().adopt(fakeTeacher(), fakeProfile());
        session().selection()->select({{3, 1}}, {3, 1});
        QComboBox* combo = nullptr;
        for (auto* each : find("headsPage")->findChildren<QComboBox*>())
            if (each->isVisible() && each->isEnabled())
                combo = each;
        QVERIFY(combo);
        m_window->activateWindow();
        QVERIFY(QTest::qWaitForWindowActive(m_window.get()));
        combo->setFocus();
        combo->showPopup();
        QTRY_VERIFY(QApplication::activePopupWidget());
        QTest::keyClick(combo->view(), Qt::Key_Escape);
        QTRY_VERIFY(!QApplication::activePopupWidget());
        QCOMPARE(session().selection()->selected().size(), 1);
        QTest::keyClick(m_window.get(), Qt::Key_Escape); // the next one clears it
        QCOMPARE(session().selection()->selected().size(), 0);
    }

    void ctrlZOfAFieldThatHasNothingToUndo() {
        session().adopt(fakeTeacher(), fakeProfile());
        m_window->activateWindow();
        QVERIFY(QTest::qWaitForWindowActive(m_window.get()));
        auto* recipe = session().recipe();
        const auto first = recipe->recipe();
        auto* steps = find<QSpinBox>("stepsSpin");
        steps->setFocus();
        steps->selectAll();
        QTest::keyClicks(steps, QStringLiteral("77"));
        QTest::keyClick(steps, Qt::Key_Return);
        QCOMPARE(recipe->recipe().align.steps, 77);
        QTest::keyClick(steps, Qt::Key_Z, Qt::ControlModifier); // it still has the focus
        QCOMPARE(recipe->recipe().align.steps, first.align.steps);
        auto* keep = find<QLineEdit>("keepEdit");
        recipe->setKeepText(QStringLiteral("uniform:2"));
        keep->setFocus();
        QTest::keyClick(keep, Qt::Key_Z, Qt::ControlModifier);
        QVERIFY(recipe->recipe().keep == first.keep);
        keep->selectAll();
        QTest::keyClicks(keep, QStringLiteral("first:1")); // typed, and not taken: the line's own
        QTest::keyClick(keep, Qt::Key_Z, Qt::ControlModifier);
        QVERIFY(keep->text() != QStringLiteral("first:1"));
        QVERIFY(recipe->recipe().keep == first.keep);
    }

    void theKeyOfAPageGivesItTheKeys() {
        session().adopt(fakeTeacher(), fakeProfile());
        m_window->activateWindow();
        QVERIFY(QTest::qWaitForWindowActive(m_window.get()));
        auto* pages = find<QTabWidget>("pages");
        for (int page = 0; page < pages->count(); ++page) {
            find<QSpinBox>("stepsSpin")->setFocus();
            action(qPrintable(QStringLiteral("page%1").arg(page)))->trigger();
            QCOMPARE(pages->currentIndex(), page);
            auto* focus = QApplication::focusWidget();
            QVERIFY2(focus && pages->currentWidget()->isAncestorOf(focus), qPrintable(pages->tabText(page)));
        }
        action("page0")->trigger();
        QVERIFY(QApplication::focusWidget()->inherits("linnet::widgets::HeadHeatMap"));
        QSet<QWidget*> stops;
        for (int i = 0; i < 8; ++i) { // F6: nowhere that does not show it
            action("nextPanel")->trigger();
            auto* focus = QApplication::focusWidget();
            QVERIFY(focus && !focus->inherits("QScrollArea") && !focus->inherits("QTabBar"));
            stops << focus;
        }
        QVERIFY(stops.size() >= 4);
    }

    void theLogFollows() {
        auto* log = find("logPanel");
        auto* text = log->findChild<QPlainTextEdit*>();
        auto* bar = text->verticalScrollBar();
        for (int i = 0; i < 200; ++i)
            session().addLog(QStringLiteral("line %1").arg(i));
        QTRY_VERIFY(bar->maximum() > 0 && bar->value() == bar->maximum());
        find<QDockWidget>("problemsDock")->raise();
        QTest::qWait(50);
        for (int i = 0; i < 50; ++i)
            session().addLog(QStringLiteral("unseen %1").arg(i));
        find<QDockWidget>("logDock")->raise();
        QTRY_VERIFY(text->isVisible() && bar->value() == bar->maximum());
        turn(text->viewport(), 3); // a person reads older lines
        const int at = bar->value();
        QVERIFY(at < bar->maximum());
        session().addLog(QStringLiteral("one more"));
        QTest::qWait(20);
        QCOMPARE(bar->value(), at);
        turn(text->viewport(), -30);
        session().addLog(QStringLiteral("and one more"));
        QTRY_COMPARE(bar->value(), bar->maximum());
    }

    void ticksOfRunsAreRemembered() {
        app::RunMemory memory;
        memory.runs[QStringLiteral("/runs/a")] = {QString(), 2, true};
        memory.runs[QStringLiteral("/runs/b")] = {QString(), 3, false};
        QFile file(place().filePath(QStringLiteral("memory.json")));
        QVERIFY(file.open(QIODevice::WriteOnly));
        file.write(QByteArray::fromStdString(app::runMemoryText(memory)));
        file.close();
        const auto read = app::readRunMemory(file.fileName());
        QVERIFY(read.runs[QStringLiteral("/runs/a")].shown && !read.runs[QStringLiteral("/runs/b")].shown);
        app::RunEntry run;
        run.folder = place().filePath(QStringLiteral("ticked/one"));
        QVERIFY(QDir().mkpath(run.folder));
        run.state = QStringLiteral("done");
        session().adoptRun(run);
        session().library()->setShown(run.folder, true);
        makeWindow();
        session().adoptRun(run);
        QVERIFY(app::readRunMemory(QStandardPaths::writableLocation(QStandardPaths::AppDataLocation) + QStringLiteral("/runs.json")).runs[run.folder].shown);
    }

    void someNotchesAreOneStepOfUndo() {
        session().adopt(fakeTeacher(), fakeProfile());
        auto* steps = find<QSpinBox>("stepsSpin");
        const auto before = session().recipe()->recipe().align.steps;
        const int count = session().recipe()->undoStack()->count();
        steps->setFocus();
        QTRY_VERIFY(steps->hasFocus());
        for (int i = 0; i < 5; ++i)
            turn(steps, 1);
        QCOMPARE(session().recipe()->recipe().align.steps, before + 5);
        QCOMPARE(session().recipe()->undoStack()->count(), count + 1);
        action("undo")->trigger();
        QCOMPARE(session().recipe()->recipe().align.steps, before);
    }

private:
    void saidAndWorkingStill() {
        QVERIFY(boxes().isEmpty() && m_window->isVisible() && m_window->isEnabled());
        auto recipe = session().recipe()->recipe();
        recipe.seed += 1;
        session().recipe()->replace(recipe, QStringLiteral("an edit"));
        QVERIFY(action("undo")->isEnabled());
    }
};

int main(int argc, char** argv) {
    TestAppGuard::prepare();
    app::GuardedApplication application(argc, argv);
    TestAppGuard test;
    return QTest::qExec(&test, argc, argv);
}
#include "tst_app_guard.moc"
