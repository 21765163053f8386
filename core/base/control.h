// How a long job is steered and watched. Every loop in core calls `checkpoint` at least each 200 ms of work.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>

namespace linnet::core {

struct Progress {
    std::string stage;  // "load", "profile", "select", "align", "evaluate", "export"
    double done = 0;    // in units of the stage
    double total = 0;   // 0: not known
    std::string detail; // "layer 12, step 40 of 100"
};

class PauseGate {
public:
    void pause();
    void resume();
    bool paused() const;
    void wait(const std::stop_token& stop); // returns when resumed or when a stop is asked for

private:
    mutable std::mutex m_mutex;
    std::condition_variable_any m_changed;
    bool m_paused = false;
};

// Passed by reference through core; a default one never stops and reports to nobody.
struct Control {
    std::stop_token stop;
    PauseGate* gate = nullptr;
    std::function<void(const Progress&)> onProgress;
    std::function<void(const std::string&)> onLog; // one line, no newline

    void checkpoint() const; // waits while paused; throws Failure{Cancelled} once a stop is asked for
    void report(const std::string& stage, double done, double total, const std::string& detail = {}) const; // + checkpoint
    void log(const std::string& line) const;
};

} // namespace linnet::core
