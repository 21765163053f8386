// A run on disk: what is frozen, what grows, and the state from which a killed run goes on.
#pragma once

#include "core/convert/align.h"
#include "core/convert/convert.h"

#include <fstream>

namespace linnet::core {

class RunFolder {
public:
    static RunFolder create(const std::filesystem::path& path, const Recipe& recipe); // refuses what is not empty
    static RunFolder open(const std::filesystem::path& path);
    RunFolder(RunFolder&&) noexcept;
    ~RunFolder();

    const std::filesystem::path& path() const { return m_path; }
    std::filesystem::path file(const std::string& name) const { return m_path / name; }
    Recipe recipe() const;

    // state.json: whatever the stages have finished. Written atomically on save().
    Json& state() { return m_state; }
    void save();
    double secondsSoFar() const; // of earlier processes and this one

    void log(const std::string& line);
    void appendMetric(const MetricRow& row);
    void dropMetrics(std::int64_t layer, std::int64_t fromStep); // rows that a resumed layer will write again

    // Alignment of one layer in progress: tensors first, then the small file that names them.
    void saveAlign(std::int64_t layer, const AlignState& state);
    bool loadAlign(std::int64_t layer, at::Device device, AlignState& state) const;
    void removeAlign(std::int64_t layer);

private:
    explicit RunFolder(std::filesystem::path path);
    std::filesystem::path m_path;
    Json m_state = Json::object();
    int m_lock = -1;
    double m_earlierSeconds = 0;
    std::chrono::steady_clock::time_point m_begin = std::chrono::steady_clock::now();
    std::ofstream m_metrics, m_log;
};

} // namespace linnet::core
