#include "app/models/pattern_thread.h"

#include <QElapsedTimer>
#include <QMetaObject>

namespace linnet::app {

PatternThread::PatternThread(QObject* parent) : QObject(parent), m_thread([this] { loop(); }) {}

PatternThread::~PatternThread() {
    {
        const std::lock_guard lock(m_mutex);
        m_quit = true;
    }
    m_wake.notify_all();
    m_thread.join();
}

quint64 PatternThread::request(std::shared_ptr<const core::HeadView> view, const core::HeadSliders& sliders) {
    {
        const std::lock_guard lock(m_mutex);
        m_waiting = {++m_last, std::move(view), sliders};
    }
    m_wake.notify_all();
    return m_last;
}

void PatternThread::loop() {
    for (;;) {
        Request request;
        {
            std::unique_lock lock(m_mutex);
            m_wake.wait(lock, [this] { return m_quit || m_waiting.view; });
            if (m_quit)
                return;
            request = std::exchange(m_waiting, {});
        }
        QElapsedTimer clock;
        clock.start();
        PatternResult result{request.number, nullptr, nullptr, 0};
        (void)core::guarded([&] { // where an allocation fails the pattern stays as it was
            auto student = core::recurrencePattern(*request.view, request.sliders);
            auto difference = core::rowShares(student, request.view->length);
            for (std::size_t i = 0; i < difference.size(); ++i)
                difference[i] -= request.view->teacher[i];
            result.difference = std::make_shared<const std::vector<float>>(std::move(difference));
            result.student = std::make_shared<const std::vector<float>>(std::move(student));
        });
        result.milliseconds = double(clock.nsecsElapsed()) * 1e-6;
        QMetaObject::invokeMethod(this, [this, result] { Q_EMIT done(result); }, Qt::QueuedConnection);
    }
}

} // namespace linnet::app
