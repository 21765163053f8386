// The stages of one run over a run folder; each is skipped where state.json says that it is done.
#pragma once

#include "core/convert/run_folder.h"
#include "core/evaluate/evaluate_model.h"

namespace linnet::core {

class Pipeline {
public:
    Pipeline(RunFolder& run, const ConvertOptions& options, const Control& control);
    Report execute();

private:
    void openTeacher();
    void data();
    void select();
    void profile();
    void convertLayers();
    void evaluate();
    Report report();

    void alignByLayer(Mixers& student, Mixers& naive);
    LinearLayer startAndAlign(std::int64_t layer, const LayerWeights& weights, const LayerCapture& capture, Mixers& naive);
    void measure(const std::string& name, const Mixers& mixers);
    void noteTreatments();
    bool done(const std::string& stage) const;
    bool baselines() const { return m_run.state().value("baselines", true); } // as the run was begun, also when resumed
    template <class F> void stage(const std::string& name, F&& body);
    std::filesystem::path studentFile() const { return m_run.file("checkpoints/student.safetensors"); }
    std::filesystem::path naiveFile() const { return m_run.file("checkpoints/naive.safetensors"); }
    std::uint64_t groupBudget() const; // 0: layer by layer
    Mixers loadMixers(const std::filesystem::path& file) const;

    RunFolder& m_run;
    const ConvertOptions& m_options;
    const Control& m_control;
    Recipe m_recipe;
    ModelPtr m_teacher;
    Slices m_slices;
    std::optional<Profile> m_profile;
    std::vector<std::int64_t> m_kept, m_converted;
    std::optional<TeacherReference> m_reference;
};

} // namespace linnet::core
