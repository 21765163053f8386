#include "core/convert/run_watch.h"

#include "core/base/files.h"
#include "core/base/regular_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace linnet::core {
namespace {

std::string hostName() {
    char name[256] = {};
    return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

// The lines in the last `bytes` of a file; the first may be the end of a longer one.
std::vector<std::string> lastLines(const std::filesystem::path& file, std::uint64_t bytes) {
    std::string text;
    (void)guarded([&] {
        const RegularFile in(file);
        text.resize(std::min(in.size(), bytes));
        text.resize(in.read(in.size() - text.size(), text.data(), text.size()));
    });
    std::vector<std::string> lines;
    std::istringstream in(std::move(text));
    for (std::string line; std::getline(in, line);)
        lines.push_back(std::move(line));
    return lines;
}

constexpr std::size_t kStampLength = 20; // "2026-01-31 12:00:00 " before each line of log.txt

void readLog(const std::filesystem::path& run, RunOnDisk& seen) {
    for (const auto& line : lastLines(run / "log.txt", 16384)) {
        if (line.size() <= kStampLength)
            continue;
        const auto text = std::string_view(line).substr(kStampLength);
        const auto after = [&](std::string_view start) { return std::string(text.substr(start.size())); };
        if (text.starts_with("stopped: ")) {
            seen.ending = RunEnding::Stopped;
            seen.endingText = after("stopped: ");
        } else if (text.starts_with("failed: ")) {
            seen.ending = RunEnding::Failed;
            seen.endingText = after("failed: ");
        } else { // it went on
            seen.ending = RunEnding::Unknown;
            seen.endingText.clear();
            if (text.starts_with("stage "))
                seen.stage = after("stage ");
        }
    }
}

void readState(const std::filesystem::path& run, RunOnDisk& seen) {
    const Json state = readJsonFile(run / "state.json");
    seen.seconds = state.value("seconds", 0.0);
    seen.finished = state.value("finished", false);
    if (const auto found = state.find("evaluation"); found != state.end() && found->is_object())
        for (const auto& [name, value] : found->items())
            seen.evaluation[name] = evaluationFromJson(value);
}

void readCheckpoint(const std::filesystem::path& run, RunOnDisk& seen) {
    std::filesystem::file_time_type newest;
    for (const auto& entry : std::filesystem::directory_iterator(run / "checkpoints")) {
        const auto name = entry.path().filename().string();
        if (entry.path().extension() != ".json" || !(name.starts_with("align_") || name == "distill.json"))
            continue;
        const auto written = entry.last_write_time();
        if (seen.savedStep && written < newest)
            continue;
        seen.savedStep = readJsonFile(entry.path()).at("step").get<std::int64_t>();
        newest = written;
    }
}

} // namespace

std::string runProcessText() {
    return Json{{"pid", ::getpid()}, {"host", hostName()}}.dump() + "\n";
}

std::optional<RunProcess> runProcess(const std::filesystem::path& run) {
    const auto file = run / ".lock";
    const int lock = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (lock < 0)
        return std::nullopt;
    // A shared lock is to be had unless somebody executes the run; it is given back at once, and who starts a run tries again.
    const bool executed = ::flock(lock, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    ::close(lock);
    if (!executed)
        return std::nullopt;
    RunProcess process;
    (void)guarded([&] {
        const Json json = readJsonFile(file);
        process.pid = json.at("pid").get<std::int64_t>();
        process.host = json.at("host").get<std::string>();
        process.here = process.pid == ::getpid() && process.host == hostName();
    });
    return process;
}

RunFollower::News RunFollower::poll() {
    News news;
    struct stat now = {};
    const int file = ::open(m_file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0 || ::fstat(file, &now) != 0 || !S_ISREG(now.st_mode)) {
        if (file >= 0)
            ::close(file);
        return news;
    }
    if (m_first || now.st_ino != m_inode || static_cast<std::uint64_t>(now.st_size) < m_offset) {
        news.anew = true;
        m_offset = 0;
        m_inode = now.st_ino;
        m_first = false;
    }
    std::string bytes;
    char piece[1 << 16];
    for (ssize_t count; (count = ::pread(file, piece, sizeof piece, static_cast<off_t>(m_offset + bytes.size()))) > 0;)
        bytes.append(piece, static_cast<std::size_t>(count));
    ::close(file);
    m_bytesRead += bytes.size();
    std::size_t begin = 0;
    for (std::size_t end; (end = bytes.find('\n', begin)) != std::string::npos; begin = end + 1)
        if (auto row = metricFromLine(std::string_view(bytes).substr(begin, end - begin)))
            news.rows.push_back(std::move(*row));
    m_offset += begin;
    return news;
}

RunOnDisk lookAtRun(const std::filesystem::path& run) {
    RunOnDisk seen;
    seen.process = runProcess(run);
    (void)guarded([&] { readState(run, seen); });
    (void)guarded([&] { readLog(run, seen); });
    (void)guarded([&] { readCheckpoint(run, seen); });
    const auto lines = lastLines(run / "metrics.jsonl", 4096);
    for (auto line = lines.rbegin(); line != lines.rend() && !seen.lastMetric; ++line)
        seen.lastMetric = metricFromLine(*line);
    return seen;
}

} // namespace linnet::core
