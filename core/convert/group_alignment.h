// Stages 1 and 2 of a whole run, group by group. One teacher forward serves all: the hidden states of all windows go from layer to
// layer, the layers of a group leave their inputs and targets on the device as the forward passes them, and when the group is whole it
// is aligned before the forward goes on. So never more than one group's captures exist, none is computed twice and none crosses the bus
// (2 x hidden x 2 bytes a token and layer: 0.2 GB at 32k tokens and 1536 channels, 1.2 GB at 200k, where fewer layers share a group).
// Where a GPU's budget is too small for one layer, hidden states, inputs and targets lie in host memory; a start that reads them (all but
// the plain ones) has the layer's own on the device for that moment.
#pragma once

#include "core/convert/align_group.h"
#include "core/convert/run_folder.h"

#include <chrono>
#include <deque>
#include <future>

namespace linnet::core {

struct GroupAlignmentJob {
    RunFolder& run;
    const ConvertOptions& options;
    const Control& control;
    const Recipe& recipe;
    const Model& teacher;
    const TokenWindows& calibration;
    const Profile* profile;
    const std::vector<std::int64_t>& converted;
    bool baselines;
    bool spill = false; // for tests: whatever the budget (align_feed.h)
};

struct GroupSeconds {
    double capture = 0; // the teacher's forward
    double start = 0;   // stage 1
    double align = 0;
    double files = 0;   // waiting for them
};

class GroupAlignment {
public:
    GroupAlignment(const GroupAlignmentJob& job, std::uint64_t budget);
    // Everything that is not yet in the files; they are written now and then, and whole at the end.
    void run(const std::filesystem::path& studentFile, const std::filesystem::path& naiveFile);
    const GroupSeconds& seconds() const { return m_seconds; }
    const std::vector<std::int64_t>& sizes() const { return m_sizes; } // of the groups

private:
    struct Group;
    struct Start { // of one layer
        LinearLayer layer, naive; // naive on the host
        Json fit;                 // of a closed form
    };
    void prepare(Group& group);
    void make(Group& group) const;
    void capture(Group& group, std::size_t index, const LayerWeights& weights, at::Tensor& hidden, bool last);
    Start start(std::int64_t layer, const LayerWeights& weights, const LayerCapture& capture, bool resumed);
    void takeStart();
    void align(Group& group);
    void keep(bool always);
    void count(double& part, std::chrono::steady_clock::time_point begin) const; // waits for the device
    void writeInBackground(std::future<void>& job, const std::filesystem::path& file, const Mixers& mixers);

    GroupAlignmentJob m_job;
    std::vector<std::int64_t> m_sizes;
    bool m_spill;
    std::size_t m_startsAtOnce = 1;
    std::vector<OutputMetric> m_metrics; // of all layers, on the host; loss kl_metric
    std::filesystem::path m_studentFile, m_naiveFile;
    Mixers m_student, m_naive; // on the host
    GroupSeconds m_seconds;
    std::future<void> m_studentWrite, m_naiveWrite;
    std::map<std::int64_t, std::future<NewParameters>> m_drawn; // by layer
    std::deque<std::tuple<Group*, std::size_t, std::future<Start>>> m_starts; // in the layers' order; after all that they use
    std::chrono::steady_clock::time_point m_lastWrite = std::chrono::steady_clock::now();
    std::vector<std::int64_t> m_finished; // layers whose alignment states may go once the student is written
};

} // namespace linnet::core
