// The watchdog that other tests rely on: it sees a block, names who blocked, and is not taken in by a loaded machine.
#include "tests/support/gui_watchdog.h"

#include <QTest>
#include <QTimer>
#include <atomic>
#include <thread>

using linnet::tests::GuiWatchdog;

class TestAppWatchdog : public QObject {
    Q_OBJECT

    class Sleeper : public QObject {
    public:
        int ms = 0;
        bool busy = false;
        void customEvent(QEvent*) override {
            if (!busy)
                return QThread::msleep(static_cast<unsigned long>(ms));
            timespec begin{}, now{}; // so much of a core
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
            do
                clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
            while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1'000'000 < ms);
        }
    };
    GuiWatchdog::Task blockFor(int ms, bool busy) {
        Sleeper sleeper;
        sleeper.setObjectName(QStringLiteral("sleeper"));
        sleeper.ms = ms;
        sleeper.busy = busy;
        GuiWatchdog::instance()->longest();
        QCoreApplication::postEvent(&sleeper, new QEvent(QEvent::User));
        QTest::qWait(1);
        return GuiWatchdog::instance()->longest();
    }

public:
    static void prepare() {}

private Q_SLOTS:
    void aBlockIsSeen_data() {
        QTest::addColumn<bool>("busy");
        QTest::newRow("sleeping") << false;
        QTest::newRow("computing") << true;
    }
    void aBlockIsSeen() {
        QFETCH(bool, busy);
        const auto task = blockFor(200, busy);
        QVERIFY2(task.ms >= 190 && task.ms > GuiWatchdog::kFrozenMs, qPrintable(QString::number(task.ms)));
        QVERIFY2(task.name.contains(QStringLiteral("sleeper")) && task.name.contains(QStringLiteral("User")), qPrintable(task.name));
        QCOMPARE(blockFor(20, busy).ms, qint64(0));
    }

    void aLoadedMachineIsNoBlock() {
        std::atomic<bool> stop = false;
        std::vector<std::thread> neighbours;
        for (unsigned i = 0; i < 4 * std::thread::hardware_concurrency(); ++i)
            neighbours.emplace_back([&] { while (!stop) {} });
        qint64 small = 0, big = 1000;
        for (int i = 0; i < 5; ++i) {
            small = std::max(small, blockFor(25, true).ms);
            big = std::min(big, blockFor(200, true).ms);
        }
        stop = true;
        for (auto& neighbour : neighbours)
            neighbour.join();
        QVERIFY2(small < GuiWatchdog::kFrozenMs, qPrintable(QString::number(small)));
        QVERIFY2(big >= 190, qPrintable(QString::number(big)));
    }

    void nestedEventsAreOneTask() { // what a click sets off belongs to the click
        QObject outer;
        struct Filter : QObject {
            Sleeper inner;
            bool eventFilter(QObject*, QEvent* event) override {
                if (event->type() == QEvent::User)
                    for (int i = 0; i < 3; ++i) {
                        QEvent again(QEvent::User);
                        QCoreApplication::sendEvent(&inner, &again);
                    }
                return false;
            }
        } filter;
        filter.inner.ms = 40;
        outer.installEventFilter(&filter);
        GuiWatchdog::instance()->longest();
        QCoreApplication::postEvent(&outer, new QEvent(QEvent::User));
        QTest::qWait(1);
        QVERIFY(GuiWatchdog::instance()->longest().ms >= 115);
    }
};

LINNET_WATCHED_MAIN(TestAppWatchdog)
#include "tst_app_watchdog.moc"
