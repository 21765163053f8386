// What the command line prints: one JSON object or text on stdout, progress and log on stderr; signals as a stop request.
#pragma once

#include "core/base/control.h"
#include "core/base/json.h"
#include "core/base/result.h"

#include <chrono>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace linnet::app {

struct GlobalOptions {
    std::string device = "auto", dtype;
    int threads = 0;
    std::uint64_t seed = 0;
    bool seedGiven = false;
    bool json = false, quiet = false;
};

class Console {
public:
    explicit Console(const GlobalOptions& options);
    core::Control control();              // progress bar on a terminal, plain lines in a pipe
    void result(const core::Json& json, const std::string& text); // the one or the other, by --json
    void note(const std::string& line);   // stderr unless --quiet
    int error(const core::Error& error);  // prints it, returns the exit code

private:
    void progress(const core::Progress& progress);
    void endBar();
    const GlobalOptions& m_options;
    bool m_terminal;
    std::mutex m_mutex;
    bool m_barShown = false;
    std::string m_stage;
    std::chrono::steady_clock::time_point m_stageBegin, m_lastLine;
    double m_stageFrom = 0;
};

// SIGINT and SIGTERM ask for a stop; the second one ends the program at once. Make it before any other thread.
class SignalStop {
public:
    SignalStop();
};

std::vector<std::string> table(const std::vector<std::vector<std::string>>& rows, bool numbers = true); // columns aligned; numbers to the right
std::string number(double value, int digits); // a dash for NaN
std::string byteCount(std::uint64_t bytes);   // "1.2 GiB"

} // namespace linnet::app
