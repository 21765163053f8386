// A run folder seen from outside, while another process (or this one) executes it. Nothing here writes or waits.
//
// Who executes a run holds flock(LOCK_EX) on its .lock, whose text names process and host. The kernel lets go of the lock when that
// process ends in whatever way, so a lock that is held is a process that lives; on file systems that pass flock on (NFS since Linux
// 2.6.12) also one on another machine.
#pragma once

#include "core/convert/convert.h"

namespace linnet::core {

struct RunProcess {
    std::int64_t pid = 0; // 0: an executor that does not say
    std::string host;
    bool here = false;    // this very process
};
std::optional<RunProcess> runProcess(const std::filesystem::path& run); // nullopt: nobody executes it
std::string runProcessText();                                           // of this process, as .lock holds it

// The lines of metrics.jsonl as they come: each is read once. A last line without its end waits for the rest of it.
class RunFollower {
public:
    explicit RunFollower(std::filesystem::path run) : m_file(std::move(run) / "metrics.jsonl") {}
    struct News {
        std::vector<MetricRow> rows;
        bool anew = false; // rows are all there is: the first look, or the file was rewritten (a resumed run drops what it repeats)
    };
    News poll();
    std::uint64_t bytesRead() const { return m_bytesRead; } // so far, of all looks

private:
    std::filesystem::path m_file;
    std::uint64_t m_offset = 0, m_inode = 0, m_bytesRead = 0;
    bool m_first = true;
};

enum class RunEnding { Unknown, Stopped, Failed }; // Unknown: it goes on, or it was killed

struct RunOnDisk { // what small files and ends of large ones say; what is not there stays empty
    std::optional<RunProcess> process;
    bool finished = false;
    std::string stage;                       // begun last: "align"
    RunEnding ending = RunEnding::Unknown;
    std::string endingText;                  // "stopped on request"
    double seconds = 0;                      // executed so far, as of the last save
    std::optional<MetricRow> lastMetric;
    std::optional<std::int64_t> savedStep;   // of the newest checkpoint of a stage in progress
    std::map<std::string, Evaluation> evaluation;
};
RunOnDisk lookAtRun(const std::filesystem::path& run);

std::optional<MetricRow> metricFromLine(std::string_view line); // nullopt: torn by a kill, or no row of ours

} // namespace linnet::core
