#include "core/base/control.h"

#include "core/base/result.h"

namespace linnet::core {

void PauseGate::pause() {
    const std::lock_guard lock(m_mutex);
    m_paused = true;
}

void PauseGate::resume() {
    {
        const std::lock_guard lock(m_mutex);
        m_paused = false;
    }
    m_changed.notify_all();
}

bool PauseGate::paused() const {
    const std::lock_guard lock(m_mutex);
    return m_paused;
}

void PauseGate::wait(const std::stop_token& stop) {
    std::unique_lock lock(m_mutex);
    m_changed.wait(lock, stop, [this] { return !m_paused; });
}

void Control::checkpoint() const {
    if (gate)
        gate->wait(stop);
    if (stop.stop_requested())
        fail(ErrorCode::Cancelled, "stopped on request");
}

void Control::report(const std::string& stage, double done, double total, const std::string& detail) const {
    if (onProgress)
        onProgress({stage, done, total, detail});
    checkpoint();
}

void Control::log(const std::string& line) const {
    if (onLog)
        onLog(line);
}

} // namespace linnet::core
