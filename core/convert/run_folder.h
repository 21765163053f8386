// A run on disk: what is frozen, what grows, and the state from which a killed run goes on.
#pragma once

#include "core/convert/align.h"
#include "core/convert/convert.h"
#include "core/convert/tensor_file.h"
#include "core/distill/train.h"

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
    void replaceRecipe(const Recipe& recipe); // of a folder that serves many rules; a run keeps its own (open() checks that)

    // state.json: whatever the stages have finished. Written atomically on save().
    Json& state() { return m_state; }
    void save();
    double secondsSoFar() const; // of earlier processes and this one

    void log(const std::string& line);
    void appendMetric(const MetricRow& row);
    // Rows that a resumed layer (-1: any) will write again.
    void dropMetrics(std::int64_t layer, std::int64_t fromStep, const std::string& stage = "align");

    // Of an aligned layer: its training losses, and which state was kept (AlignedLayer).
    void noteAligned(std::int64_t layer, std::pair<double, double> losses, std::int64_t keptStep, std::optional<double> heldOutLoss);

    // Alignment of one layer in progress: tensors first, then the small file that names them.
    void saveAlign(std::int64_t layer, const AlignState& state);
    bool loadAlign(std::int64_t layer, at::Device device, AlignState& state) const;
    void removeAlign(std::int64_t layer);

    void saveDistill(const DistillState& state);
    bool loadDistill(at::Device device, DistillState& state) const;
    void removeDistill();

    // What the closed form found, layer by layer: written when a layer's start is made, read as closed_form.json's list.
    void saveClosedForm(std::int64_t layer, const Json& fit);
    Json closedForm() const; // of all layers so far, by layer

private:
    explicit RunFolder(std::filesystem::path path);
    void saveCheckpoint(const std::string& name, std::int64_t step, const NamedTensors& tensors, Json small);
    void removeCheckpoint(const std::string& name);
    void noteSave(const std::string& stage, std::int64_t layer, std::int64_t step); // for run_saves.h
    std::filesystem::path m_path;
    Json m_state = Json::object();
    int m_lock = -1;
    double m_earlierSeconds = 0;
    std::string m_lastSaved; // layers of a group are saved together: noted once
    std::chrono::steady_clock::time_point m_begin = std::chrono::steady_clock::now();
    std::ofstream m_metrics, m_log;
};

} // namespace linnet::core
