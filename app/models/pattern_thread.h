// Computes a student's pattern beside the window: of requests the latest wins, so a slider that moves never waits and never holds up the window.
#pragma once

#include "core/convert/head_view.h"

#include <QObject>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

namespace linnet::app {

using PatternValues = std::shared_ptr<const std::vector<float>>; // [T, T] row-major

struct PatternResult {
    quint64 number = 0;        // of the request
    PatternValues student;     // effective weights
    PatternValues difference;  // rows as shares of their magnitude, less the teacher's
    double milliseconds = 0;   // that it took
};

class PatternThread : public QObject {
    Q_OBJECT
public:
    explicit PatternThread(QObject* parent = nullptr);
    ~PatternThread() override;
    quint64 request(std::shared_ptr<const core::HeadView> view, const core::HeadSliders& sliders);

Q_SIGNALS:
    void done(const linnet::app::PatternResult& result); // in the thread of this object

private:
    struct Request {
        quint64 number = 0;
        std::shared_ptr<const core::HeadView> view; // null: none
        core::HeadSliders sliders;
    };
    void loop();
    std::mutex m_mutex;
    std::condition_variable m_wake;
    Request m_waiting;
    bool m_quit = false;
    quint64 m_last = 0;
    std::thread m_thread;
};

} // namespace linnet::app
