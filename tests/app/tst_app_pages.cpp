// The window at 1280 x 800: what must be seen without scrolling, room that is given back, and Stop's second press.
#include "app/panels/stop_or_discard.h"
#include "tests/app/fake_teacher.h"
#include "tests/app/shots.h"
#include "tests/app/tiny_run.h"
#include "tests/support/window_test.h"
#include "widgets/progress_strip.h"
#include "widgets/step_rail.h"

#include <QDir>
#include <QDockWidget>
#include <QPushButton>
#include <QScrollArea>
#include <QSignalSpy>
#include <QTabWidget>
#include <QToolButton>

using namespace linnet;
using namespace linnet::tests;

class TestAppPages : public WindowTest {
    Q_OBJECT

    TinyRun m_tiny;

    void adopt() {
        session().adopt(fakeTeacher(), fakeProfile());
        auto recipe = core::defaultRecipe("cpu", "naive");
        recipe.keep = core::parseKeepRule("layers:0,1,2,4");
        session().recipe()->load(recipe);
        session().selection()->select({{3, 1}}, {3, 1});
    }
    bool wholeIn(QWidget* part, QWidget* view) { return view->rect().contains(QRect(part->mapTo(view, QPoint()), part->size())); }

private Q_SLOTS:
    void init() {
        app::Settings().clear();
        makeWindow();
        m_window->resize(1280, 800);
        QTest::qWait(50);
    }
    void cleanup() { m_window.reset(); }

    void allStepsAreSeen() {
        adopt();
        QTest::qWait(100);
        auto* rail = find<widgets::StepRail>("stepRail");
        auto* view = find<QDockWidget>("projectDock")->findChild<QScrollArea*>()->viewport();
        QCOMPARE(rail->steps().size(), 7);
        for (const auto& step : rail->steps())
            QVERIFY2(wholeIn(rail->row(step.id), view), qPrintable(step.id));
        auto* details = find<QToolButton>("teacherDetails");
        QVERIFY(!find<QLabel>("teacherFacts")->isVisible() && find<QLabel>("teacherSummary")->isVisible());
        details->click();
        QVERIFY(find<QLabel>("teacherFacts")->isVisible());
        makeWindow(); // how it was left
        adopt();
        QVERIFY(find<QLabel>("teacherFacts")->isVisible());
    }

    void generateLeavesRoomForTheTexts() {
        adopt();
        find<QTabWidget>("pages")->setCurrentIndex(5);
        QTest::qWait(50);
        auto* page = find("generatePage");
        auto* settings = find<QToolButton>("generateSettingsButton");
        QVERIFY(!find("temperatureSpin")->isVisible() && !find("chatCheck")->isVisible());
        const auto bottom = [page](QWidget* part) { return part->mapTo(page, QPoint(0, part->height())).y(); };
        const auto prompt = find("promptEdit"), text = find("teacherView");
        for (const char* name : {"studentCombo", "tokensSpin", "generateSettingsButton", "copyButton"}) { // one line below the prompt
            QVERIFY2(wholeIn(find(name), page), name);
            QVERIFY2(bottom(find(name)) < bottom(prompt) + 45, name);
        }
        QVERIFY(text->mapTo(page, QPoint()).y() < bottom(prompt) + 80); // its title between
        settings->click();
        QVERIFY(find("temperatureSpin")->isVisible() && find("chatCheck")->isVisible() && find("shadeCombo")->isVisible());
        for (const char* name : {"modeCombo", "temperatureSpin", "topPSpin", "topKSpin", "seedEdit", "shadeCombo"})
            QVERIFY2(wholeIn(find(name), page), name);
        shoot(*m_window, QStringLiteral("generate-settings"));
    }

    void theProbeGivesItsRoomBack() {
        auto* probe = m_window->findChild<QDockWidget*>(QStringLiteral("probeDock"));
        if (!probe)
            QSKIP("built without Dear ImGui: there is no probe dock");
        adopt();
        auto* log = find<QDockWidget>("logDock");
        QTest::qWait(100);
        const int before = log->height();
        probe->raise();
        QTRY_VERIFY(probe->height() > before + 50);
        QTest::qWait(600);
        log->raise();
        QTRY_COMPARE(log->height(), before);
        probe->raise(); // a height that a person gave it stays
        QTRY_VERIFY(probe->height() > before + 50);
        QTest::qWait(600);
        m_window->resizeDocks({probe}, {probe->height() - 40}, Qt::Vertical);
        QTest::qWait(400);
        const int dragged = probe->height();
        log->raise();
        QTest::qWait(500);
        QCOMPARE(log->height(), dragged);
    }

    void aSecondStopOffersToDiscard() {
        LINNET_MAKE_RUN(m_tiny);
        app::Settings().setValue(QStringLiteral("runs/folder"), m_tiny.path(QStringLiteral("mine")));
        session().openTeacher(m_tiny.teacher());
        QTRY_VERIFY_WITH_TIMEOUT(idle() && session().teacher(), 60000);
        auto* stop = action("stop");
        auto* strip = m_window->findChild<widgets::ProgressStrip*>();
        const auto box = [this] { return m_window->findChild<QMessageBox*>(QStringLiteral("discardBox")); };
        const std::pair<const char*, std::function<void()>> presses[] = {{"menu and toolbar", [&] { stop->trigger(); }},
                                                                         {"status bar", [&] { Q_EMIT strip->stopRequested(); }},
                                                                         {"run panel", [&] { find<QPushButton>("stopButton")->click(); }},
                                                                         {"runs page", [&] { action("runStop")->trigger(); }}};
        for (const auto& [name, press] : presses) {
            auto recipe = m_tiny.recipe();
            recipe.align.steps = 200000;
            session().recipe()->load(recipe);
            QSignalSpy metrics(&session(), &app::Session::metricsAppended);
            session().startRun();
            QTRY_VERIFY_WITH_TIMEOUT(!metrics.isEmpty(), 60000);
            const auto folder = session().library()->running()->folder;
            QVERIFY(stop->isEnabled() && !app::stopMeansDiscard(session()));
            press(); // before the run hears of the first
            QCOMPARE(session().jobState(), app::JobState::Stopping);
            QVERIFY2(stop->isEnabled() && stop->text().contains(QStringLiteral("Discard")), name);
            QVERIFY2(!box(), name);
            press();
            QVERIFY2(box() && box()->text().contains(folder), name);
            press(); // and no second box
            QCOMPARE(m_window->findChildren<QMessageBox*>(QStringLiteral("discardBox")).size(), 1);
            for (auto* button : box()->findChildren<QPushButton*>())
                if (button->text() == QLatin1String("Discard"))
                    button->click();
            QTRY_VERIFY_WITH_TIMEOUT(idle(), 60000);
            QTRY_VERIFY2(!QFile::exists(folder), name);
            QVERIFY(stop->text().contains(QStringLiteral("Stop")) && !stop->isEnabled());
            QTRY_VERIFY(!box());
        }
    }
};

int main(int argc, char** argv) {
    TestAppPages::prepare();
    QApplication application(argc, argv);
    TestAppPages test;
    return QTest::qExec(&test, argc, argv);
}
#include "tst_app_pages.moc"
