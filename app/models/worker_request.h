// A question to the worker about what a person looks at: put a moment after the last change, and again when the device was busy. Of answers
// only the latest request's counts.
#pragma once

#include "app/jobs/worker.h"

#include <QObject>
#include <QTimer>
#include <functional>

namespace linnet::app {

class WorkerRequest : public QObject {
    Q_OBJECT
public:
    static constexpr int kDebounceMs = 150;
    using Submit = std::function<std::uint64_t(Job)>; // 0: not now, retry() follows

    WorkerRequest(Submit submit, std::function<Job()> make, int delayMs = kDebounceMs, QObject* parent = nullptr)
        : QObject(parent), m_submit(std::move(submit)), m_make(std::move(make)) {
        m_timer.setSingleShot(true);
        m_timer.setInterval(delayMs);
        connect(&m_timer, &QTimer::timeout, this, [this] {
            m_tag = m_submit(m_make());
            Q_EMIT put(m_tag != 0);
        });
    }
    void later() { m_tag = 0, m_timer.start(); } // anew: an answer that is still to come counts no more
    void close() { m_tag = 0; }
    void drop() { m_timer.stop(), m_tag = 0; }
    void retry() { // what could not be put before
        if (m_tag == 0 && !m_timer.isActive())
            m_timer.start();
    }
    bool isOpen() const { return m_tag != 0; }
    bool answeredBy(const JobResult& result) const { return m_tag != 0 && result.tag == m_tag; }

Q_SIGNALS:
    void put(bool taken);

private:
    Submit m_submit;
    std::function<Job()> m_make;
    QTimer m_timer;
    std::uint64_t m_tag = 0; // of the open request; 0: none
};

} // namespace linnet::app
