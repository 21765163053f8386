#include "app/cli/console.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <pthread.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace linnet::app {
namespace {

using Clock = std::chrono::steady_clock;
std::stop_source g_stop; // one per process, as signals are

double secondsSince(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string duration(double seconds) {
    char text[32];
    if (seconds < 60)
        std::snprintf(text, sizeof text, "%.0f s", seconds);
    else
        std::snprintf(text, sizeof text, "%d min %02d s", static_cast<int>(seconds / 60), static_cast<int>(seconds) % 60);
    return text;
}

} // namespace

SignalStop::SignalStop() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr); // every later thread inherits it: only the waiting thread sees them
    std::thread([signals] {
        for (bool asked = false;; asked = true) {
            int signal = 0;
            sigwait(&signals, &signal);
            if (asked)
                ::_exit(130);
            g_stop.request_stop();
        }
    }).detach();
}

Console::Console(const GlobalOptions& options) : m_options(options), m_terminal(::isatty(STDERR_FILENO) != 0) {}

core::Control Console::control() {
    core::Control control;
    control.stop = g_stop.get_token();
    if (!m_options.quiet) {
        control.onProgress = [this](const core::Progress& p) { progress(p); };
        control.onLog = [this](const std::string& line) { note(line); };
    }
    return control;
}

void Console::progress(const core::Progress& p) {
    const std::lock_guard lock(m_mutex);
    const auto now = Clock::now();
    if (p.stage != m_stage) {
        endBar();
        m_stage = p.stage;
        m_stageBegin = now;
        m_stageFrom = p.done;
        m_lastLine = now - std::chrono::hours(1);
    }
    const auto interval = m_terminal ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10'000);
    if (now - m_lastLine < interval)
        return;
    m_lastLine = now;
    const double elapsed = secondsSince(m_stageBegin);
    std::string line = p.stage;
    line.resize(std::max<std::size_t>(9, line.size()), ' ');
    if (p.total > 0) {
        const double share = std::clamp(p.done / p.total, 0.0, 1.0);
        char percent[8];
        std::snprintf(percent, sizeof percent, "%3.0f %%", 100 * share);
        if (m_terminal) {
            constexpr int kWidth = 28;
            const int filled = static_cast<int>(share * kWidth);
            line += "[" + std::string(static_cast<std::size_t>(filled), '#') + std::string(static_cast<std::size_t>(kWidth - filled), '.') + "] ";
        }
        line += percent;
        if (elapsed > 2 && p.done > m_stageFrom)
            line += "  " + duration((p.total - p.done) * elapsed / (p.done - m_stageFrom)) + " left";
    }
    if (!p.detail.empty())
        line += "  " + p.detail;
    if (!m_terminal) {
        std::fprintf(stderr, "%s\n", line.c_str());
        return;
    }
    winsize window{};
    const std::size_t width = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 1 ? window.ws_col - 1u : 79u;
    line.resize(std::min(line.size(), width));
    std::fprintf(stderr, "\r\x1b[K%s", line.c_str());
    std::fflush(stderr);
    m_barShown = true;
}

void Console::endBar() {
    if (m_barShown)
        std::fprintf(stderr, "\n");
    m_barShown = false;
}

void Console::note(const std::string& line) {
    if (m_options.quiet)
        return;
    const std::lock_guard lock(m_mutex);
    endBar();
    std::fprintf(stderr, "%s\n", line.c_str());
}

void Console::result(const core::Json& json, const std::string& text) {
    {
        const std::lock_guard lock(m_mutex);
        endBar();
    }
    // text may hold what no JSON string can: bytes of a token cut in half
    if (m_options.json)
        std::cout << json.dump(-1, ' ', false, core::Json::error_handler_t::replace) << std::endl;
    else if (!text.empty())
        std::cout << text << (text.back() == '\n' ? "" : "\n") << std::flush;
}

int Console::error(const core::Error& error) {
    const std::lock_guard lock(m_mutex);
    endBar();
    if (m_options.json) {
        core::Json context = core::Json::object();
        for (const auto& [key, value] : error.context)
            context[key] = value;
        const core::Json json{{"error", {{"code", core::errorCodeName(error.code)}, {"message", error.message}, {"context", context}}}};
        std::cout << json.dump(-1, ' ', false, core::Json::error_handler_t::replace) << std::endl;
    }
    if (!m_options.json || !std::cout)
        std::fprintf(stderr, "linnet-cli: %s\n", error.message.c_str());
    return core::exitCode(error.code);
}

std::vector<std::string> table(const std::vector<std::vector<std::string>>& rows, bool numbers) {
    std::vector<std::size_t> widths;
    for (const auto& row : rows)
        for (std::size_t i = 0; i < row.size(); ++i) {
            widths.resize(std::max(widths.size(), i + 1));
            widths[i] = std::max(widths[i], row[i].size());
        }
    std::vector<std::string> lines;
    for (const auto& row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i) {
            const std::string space(widths[i] - row[i].size(), ' ');
            line += (i ? "  " : "") + (i == 0 || !numbers ? row[i] + space : space + row[i]);
        }
        line.erase(line.find_last_not_of(' ') + 1);
        lines.push_back(line);
    }
    return lines;
}

std::string number(double value, int digits) {
    if (std::isnan(value))
        return "-";
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

std::string byteCount(std::uint64_t bytes) {
    const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = static_cast<double>(bytes);
    int unit = 0;
    while (value >= 1024 && unit < 4) {
        value /= 1024;
        ++unit;
    }
    return number(value, unit == 0 ? 0 : 1) + " " + units[unit];
}

} // namespace linnet::app
