// Runs independent tasks on a few threads, handed out dynamically; only the calling thread talks to the caller.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace linnet::kernels {

class TaskPool {
public:
    using KeepGoing = bool (*)(void* user, double fraction);

    // `units`: the work of all runs together, in whatever unit advance() counts. threads <= 0: one per hardware thread.
    TaskPool(int threads, double units, KeepGoing keepGoing, void* user)
        : m_threads(threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()))), m_units(units),
          m_keepGoing(keepGoing), m_user(user) {}

    int threads() const { return m_threads; }

    // task(worker, index) for index 0 .. tasks - 1; worker 0 is the calling thread. True when all of them ran to their end.
    // The first exception of a task or of keepGoing stops the others and is thrown here.
    bool run(std::int64_t tasks, const std::function<void(int worker, std::int64_t index)>& task) {
        std::atomic<std::int64_t> next = 0;
        int running = m_threads - 1;
        const auto work = [&](int worker) {
            for (std::int64_t i = next++; i < tasks && advance(worker, 0.0); i = next++) {
                task(worker, i);
            }
        };
        std::vector<std::jthread> helpers;
        for (int worker = 1; worker < m_threads; ++worker) {
            helpers.emplace_back([&, worker] {
                guarded([&] { work(worker); });
                const std::lock_guard lock(m_mutex);
                --running;
                m_wake.notify_one();
            });
        }
        guarded([&] {
            advance(0, 0.0); // once in any case: the helpers may take every task
            work(0);
            std::unique_lock lock(m_mutex);
            while (!m_wake.wait_for(lock, kPollInterval, [&] { return running == 0; })) {
                lock.unlock();
                advance(0, 0.0);
                lock.lock();
            }
        });
        helpers.clear(); // joins
        if (m_error) {
            std::rethrow_exception(m_error);
        }
        return !m_stopped;
    }

    // Called by a task after each piece of its work (at most a few tens of milliseconds): false = return now, the run was stopped.
    bool advance(int worker, double units) {
        const double done = m_done.fetch_add(units) + units;
        const auto now = std::chrono::steady_clock::now();
        if (worker == 0 && m_keepGoing != nullptr && now >= m_nextPoll && !m_stopped) {
            m_nextPoll = now + kPollInterval;
            if (!m_keepGoing(m_user, done / m_units)) {
                m_stopped = true;
            }
        }
        return !m_stopped;
    }

private:
    static constexpr std::chrono::milliseconds kPollInterval{20};

    template <typename Work>
    void guarded(const Work& work) {
        try {
            work();
        } catch (...) {
            const std::lock_guard lock(m_mutex);
            if (!m_error) {
                m_error = std::current_exception();
            }
            m_stopped = true;
        }
    }

    const int m_threads;
    const double m_units;
    const KeepGoing m_keepGoing;
    void* const m_user;
    std::chrono::steady_clock::time_point m_nextPoll{}; // of worker 0 alone
    std::atomic<double> m_done = 0.0;
    std::atomic<bool> m_stopped = false;
    std::mutex m_mutex;
    std::condition_variable m_wake;
    std::exception_ptr m_error;
};

} // namespace linnet::kernels
