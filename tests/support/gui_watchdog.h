// An application that times every task of the window's thread: each event, from its delivery to its end. What counts is the thread's
// own time (running, or blocked in a call); what it waited for a core is taken off by the kernel's count, so that a loaded
// machine does not look like a frozen window.
#pragma once

#include <QApplication>
#include <QElapsedTimer>
#include <QEvent>
#include <QMetaEnum>
#include <QThread>
#include <QWidget>

#include <cstdio>
#include <fcntl.h>
#include <unistd.h>

namespace linnet::tests {

class GuiWatchdog : public QApplication {
public:
    static constexpr qint64 kPromisedMs = 50;  // of the window; longer ones are printed
    static constexpr qint64 kFrozenMs = 100;   // twice that fails a test: caches are cold here, and other programs share the memory

    struct Task {
        qint64 ms = 0;
        QString name; // of the innermost receiver that took this long, with the event
    };

    GuiWatchdog(int& argc, char** argv) : QApplication(argc, argv), m_schedule(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}
    ~GuiWatchdog() override { ::close(m_schedule); }

    static GuiWatchdog* instance() { return static_cast<GuiWatchdog*>(QCoreApplication::instance()); }

    Task longest() { return std::exchange(m_longest, {}); } // since the last call

    bool notify(QObject* receiver, QEvent* event) override {
        if (QThread::currentThread() != thread())
            return QApplication::notify(receiver, event);
        const char* type = receiver->metaObject()->className(); // before: it may be gone after
        const auto name = receiver->objectName();
        const auto kind = event->type();
        const bool outermost = m_depth++ == 0;
        if (outermost)
            m_blamed.clear();
        QElapsedTimer clock;
        clock.start();
        const auto waited = waitedNs();
        const bool result = QApplication::notify(receiver, event);
        --m_depth;
        if (clock.elapsed() < kPromisedMs)
            return result;
        const auto ms = (clock.nsecsElapsed() - (waitedNs() - waited)) / 1'000'000;
        if (ms >= kPromisedMs && m_blamed.isEmpty())
            m_blamed = QStringLiteral("%1 \"%2\", %3").arg(QLatin1String(type), name, QLatin1String(QMetaEnum::fromType<QEvent::Type>().valueToKey(kind)));
        if (outermost && ms >= kPromisedMs) {
            qInfo("a task of %lld ms: %s", ms, qPrintable(m_blamed));
            if (ms > m_longest.ms)
                m_longest = {ms, m_blamed};
        }
        return result;
    }

private:
    qint64 waitedNs() const { // "running waiting slices", of this thread; 0 where the kernel does not count
        char text[96] = {};
        if (m_schedule < 0 || ::pread(m_schedule, text, sizeof text - 1, 0) <= 0)
            return 0;
        long long running = 0, waiting = 0;
        return std::sscanf(text, "%lld %lld", &running, &waiting) == 2 ? waiting : 0;
    }

    int m_schedule; // opened by the window's thread: "thread-self" stays this one
    int m_depth = 0;
    QString m_blamed;
    Task m_longest;
};

} // namespace linnet::tests

// In place of QTEST_MAIN.
#define LINNET_WATCHED_MAIN(Test)                                         \
    int main(int argc, char** argv) {                                     \
        Test::prepare();                                                  \
        linnet::tests::GuiWatchdog application(argc, argv);               \
        Test test;                                                        \
        return QTest::qExec(&test, argc, argv);                           \
    }

#define LINNET_NOT_FROZEN(during)                                                                                                               \
    do {                                                                                                                                        \
        const auto task_ = linnet::tests::GuiWatchdog::instance()->longest();                                                                   \
        QVERIFY2(task_.ms < linnet::tests::GuiWatchdog::kFrozenMs, qPrintable(QStringLiteral("%1: a task of %2 ms: %3").arg(QLatin1String(during)).arg(task_.ms).arg(task_.name))); \
    } while (false)
