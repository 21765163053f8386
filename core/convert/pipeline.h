// The stages of one run over a run folder; each is skipped where state.json says that it is done.
//
//     data -> [profile] -> [select: rules that need no student] -> align (a bank of every layer that may be converted, where the rule
//     chooses among students, else the converted layers) -> [select] -> [drift] -> [distill] -> evaluate
//
// Each stage that changes the student reads one file and writes another, so a kill never applies one twice:
//     checkpoints/aligned -> checkpoints/drifted -> checkpoints/student (.safetensors); the last stage there is writes the student.
#pragma once

#include "core/convert/run_folder.h"
#include "core/convert/select.h"
#include "core/evaluate/evaluate_model.h"

namespace linnet::core {

class Pipeline {
public:
    Pipeline(RunFolder& run, const ConvertOptions& options, const Control& control);
    Report execute();
    Selection executeSelection(); // stops once the layers are chosen

private:
    // pipeline.cpp
    void prepare(bool choice); // teacher, data, profile, choice and alignment
    void openTeacher();
    void data();
    void profile();
    void drift();
    void distill();
    void evaluate();
    Report report();
    void keepMetric(const MetricRow& measured); // to the run folder and whoever listens
    void measure(const std::string& name, const std::function<Evaluation()>& evaluation);
    void noteTreatments();
    std::vector<Treatment> treatments() const;
    bool done(const std::string& stage) const;
    bool baselines() const { return m_run.state().value("baselines", true); } // as the run was begun, also when resumed
    void stage(const std::string& name, const std::function<void(Json& report)>& body);
    std::uint64_t memoryBudget();
    bool slidingWindow() const { return m_recipe.preset == "sliding-window"; }

    // The student's files
    std::filesystem::path checkpoint(const std::string& name) const { return m_run.file("checkpoints/" + name + ".safetensors"); }
    std::filesystem::path alignedFile() const { return checkpoint(m_bank || drifts() || distils() ? "aligned" : "student"); }
    std::filesystem::path driftedFile() const { return checkpoint(distils() ? "drifted" : "student"); }
    bool drifts() const { return m_recipe.align.drift != "none" && !slidingWindow(); }
    bool distils() const { return m_recipe.distill.steps > 0 && !slidingWindow(); }
    Mixers loadMixers(const std::filesystem::path& file) const;
    Mixers converted(const Mixers& bank) const;
    std::vector<std::int64_t> convertible() const;
    Mixers computed(Mixers mixers) const; // in the teacher's dtype

    // pipeline_bank.cpp: starts and alignment of some layers, and the cache of whole banks
    BankKind measuredOn() const;
    void select(BankKind measuredOn);
    void alignLayers();
    void makeLayers(const Recipe& recipe, const std::filesystem::path& file, Json& report);
    void alignByLayer(const Recipe& recipe, const std::filesystem::path& file);
    LinearLayer startAndAlign(const Recipe& recipe, std::int64_t layer, const LayerWeights& weights, const LayerCapture& capture, const OutputMetric* metric, Mixers& naive);
    std::filesystem::path bankCache() const; // "" without one
    std::vector<AlignedLayer> alignedLayers(const std::vector<std::int64_t>& layers) const; // as state.json has them
    void logKeptStarts() const;
    bool takeBank();
    bool dropBank(const std::filesystem::path& cache, const std::string& why); // false
    std::filesystem::path part(const std::string& name) const;                // where a file of the bank is looked at before it is taken
    void keepBank() const;

    RunFolder& m_run;
    const ConvertOptions& m_options;
    const Control& m_control;
    Recipe m_recipe;
    ModelPtr m_teacher;
    Slices m_slices;
    std::optional<Profile> m_profile;
    std::vector<std::int64_t> m_kept, m_converted, m_aligned; // m_converted: by this run; m_aligned: the layers that alignment makes
    bool m_bank = false;                                      // more than the converted ones
    std::optional<Selection> m_selection;
    std::optional<TeacherReference> m_reference;
};

} // namespace linnet::core
