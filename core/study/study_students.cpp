#include "core/torch_pch.h"

#include "core/study/study_students.h"

#include "core/base/files.h"
#include "core/convert/drift.h"
#include "core/convert/group_alignment.h"
#include "core/distill/train.h"
#include "core/model/device.h"

namespace linnet::core {
namespace {

constexpr std::uint64_t kUnknownMemory = std::uint64_t{8} << 30; // where the driver does not say

Recipe bankRecipe(Recipe recipe) { // less what comes after alignment
    recipe.align.drift = AlignSettings{}.drift;
    recipe.align.driftSteps = AlignSettings{}.driftSteps;
    recipe.distill = {};
    return recipe;
}

} // namespace

std::string StudyStudents::bankName(const Recipe& recipe) {
    if (recipe.preset == "sliding-window")
        return {};
    return recipe.preset + "-" + std::to_string(recipe.align.steps) + "-" + std::to_string(recipe.seqLen) + "-" + recipeHash(bankRecipe(recipe));
}

StudyStudents::StudyStudents(const Model& teacher, std::filesystem::path folder, const std::vector<Recipe>& keep, const Control& control)
    : m_teacher(teacher), m_folder(std::move(folder)), m_control(control) {
    for (const auto& recipe : keep)
        m_keep.insert(bankName(recipe));
    const auto memory = deviceMemoryBytes(teacher.device());
    m_budget = memory > 0 ? memory / 2 : kUnknownMemory;
}

const Profile& StudyStudents::profile(const TokenWindows& calibration) {
    const auto key = calibration.hash();
    if (!m_profiles.contains(key)) {
        ProfileOptions options;
        options.cacheFolder = m_folder / "profiles";
        m_profiles[key] = orFail(profileModel(m_teacher, calibration, options, m_control));
    }
    return m_profiles.at(key);
}

void StudyStudents::make(const Recipe& recipe, const TokenWindows& calibration) {
    const auto path = m_folder / bankName(recipe);
    const bool fresh = !std::filesystem::exists(path / "recipe.json");
    if (fresh)
        std::filesystem::remove_all(path); // a kill may have come before its recipe
    auto run = fresh ? RunFolder::create(path, recipe) : RunFolder::open(path);
    const auto file = run.file("checkpoints/aligned.safetensors");
    if (!run.state().value("made", false)) {
        std::vector<std::int64_t> layers(static_cast<std::size_t>(m_teacher.config().layers));
        std::iota(layers.begin(), layers.end(), 0);
        const ConvertOptions options;
        const Profile* measured = recipe.preset == "paper" ? &profile(calibration) : nullptr;
        GroupAlignment({run, options, m_control, recipe, m_teacher, calibration, measured, layers, false}, m_budget).run(file, run.file("checkpoints/naive.safetensors"));
        run.state()["made"] = true;
        run.save();
        if (onBank)
            onBank(path.filename().string(), run.secondsSoFar());
    }
    m_bank = loadLinearLayers(*openSafetensorsFile(file), m_teacher.linearShape(), m_teacher.device(), at::kFloat, recipe.mixer);
}

const Mixers& StudyStudents::bank(const Recipe& recipe, const TokenWindows& calibration) {
    const auto name = bankName(recipe);
    if (m_name == name)
        return m_bank;
    m_bank.clear();
    if (!m_name.empty() && !m_keep.contains(m_name))
        std::filesystem::remove_all(m_folder / m_name);
    m_name.clear();
    make(bankRecipe(recipe), calibration);
    m_name = name;
    return m_bank;
}

Mixers StudyStudents::computed(const Mixers& mixers) const {
    Mixers result = mixers;
    for (auto& [layer, mixer] : result)
        if (mixer.kind == Mixer::Kind::Linear)
            mixer.linear = mapped(mixer.linear, [&](const at::Tensor& t) { return t.to(m_teacher.dtype()); });
    return result;
}

void StudyStudents::correct(const Recipe& recipe, const TokenWindows& calibration, Mixers& student) const {
    DriftJob job{.teacher = m_teacher, .recipe = recipe, .calibration = calibration, .control = m_control, .onMetric = {}, .onLog = {}};
    job.budget = m_teacher.device().is_cuda() ? m_budget : 0;
    correctDrift(job, student);
}

Mixers StudyStudents::distilled(const Recipe& recipe, const TokenWindows& training, const Mixers& student) const {
    const at::AutoGradMode gradients(true);
    auto state = freshDistillState(student);
    const std::map<std::int64_t, std::function<void(LinearLayer&)>> noLocks;
    DistillJob job{m_teacher, mixerSpec(recipe.mixer), recipe.distill, recipe.seed, training, noLocks, m_teacher.device().is_cuda() ? m_budget : 0, m_control, {}, {}};
    distillStudent(job, state);
    Mixers result = distilledMixers(state, mixerSpec(recipe.mixer));
    for (auto& [layer, mixer] : result)
        mixer.linear = mapped(mixer.linear, [](const at::Tensor& t) { return t.detach(); });
    return result;
}

Mixers StudyStudents::student(const Recipe& recipe, const Slices& slices, const std::vector<std::int64_t>& converted) {
    Mixers student;
    if (recipe.preset == "sliding-window") {
        for (const auto layer : converted)
            student[layer] = Mixer{Mixer::Kind::SlidingWindow, nullptr, {}, recipe.window, recipe.sinks};
        return student;
    }
    const Mixers& all = bank(recipe, slices.calibration);
    for (const auto layer : converted)
        student.insert(*all.find(layer));
    if (recipe.align.drift != "none")
        correct(recipe, slices.calibration, student);
    if (recipe.distill.steps > 0)
        student = distilled(recipe, slices.training, student);
    return computed(student);
}

void StudyStudents::removeAll() {
    m_bank.clear();
    m_name.clear();
    std::filesystem::remove_all(m_folder);
}

} // namespace linnet::core
