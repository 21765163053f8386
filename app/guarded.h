// The doors at which an exception that nobody foresaw ends: the events of the window (slots, paints, drawings, timers are all events) and
// the threads of the pool. What it was is told in a line, the rest goes on; without a guard the whole window would go.
#pragma once

#include "core/base/result.h"

#include <QApplication>
#include <QThreadPool>

namespace linnet::app {

class GuardedApplication : public QApplication {
    Q_OBJECT
public:
    using QApplication::QApplication;
    bool notify(QObject* receiver, QEvent* event) override;

Q_SIGNALS:
    void unexpected(const QString& what); // in the window's thread, once the event is over
};

void tellUnexpected(const core::Error& error, const QString& where) noexcept; // from any thread

// In a thread of the pool. What `work` throws is told and ends `work` only.
template <class Work> void inBackground(Work work) {
    QThreadPool::globalInstance()->start([work = std::move(work)]() mutable {
        if (const auto done = core::guarded([&] { work(); }); !done)
            tellUnexpected(done.error(), QStringLiteral("a background thread"));
    });
}

} // namespace linnet::app
