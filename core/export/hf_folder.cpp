#include "core/torch_pch.h"

#include "core/export/hf_folder.h"

#include "core/base/files.h"
#include "core/export/tensor_plan.h"

namespace linnet::core {
namespace {

constexpr const char* kSelfAttention = ".self_attn.";

// "model.layers.7.self_attn.q_proj.weight" of a layer that has a linear mixer now: replaced, so left out.
bool replaced(const std::string& name, const Model& model) {
    for (const auto& [layer, mixer] : model.mixers())
        if (mixer.kind == Mixer::Kind::Linear && name.starts_with("model.layers." + std::to_string(layer) + kSelfAttention))
            return true;
    return false;
}

bool copiedFromTeacher(const TensorInfo& info, const Model& model) {
    if (info.name == "lm_head.weight" && model.config().tiedEmbeddings)
        return false;
    return !replaced(info.name, model) && info.name.find(std::string(".") + kLinearModule + ".") == info.name.npos && !info.name.ends_with(".sliding_window");
}

} // namespace

std::vector<PlannedTensor> hfPlan(const Model& model, const std::string& type) {
    std::vector<PlannedTensor> plan;
    for (const auto& info : model.files().weights->tensors())
        if (copiedFromTeacher(info, model))
            plan.push_back({{info.name, type, info.shape}, {}});
    planConvertedLayers(model, type, plan);
    return plan;
}

std::vector<std::string> writeRunFiles(const WriteJob& job) {
    std::vector<std::string> files;
    if (const auto recipe = job.student / "recipe.json"; std::filesystem::exists(recipe)) {
        writeFileAtomically(job.folder / "recipe.json", readTextFile(recipe));
        files.emplace_back("recipe.json");
    }
    if (const auto file = job.student / "report.json"; std::filesystem::exists(file)) {
        Json report = readJsonFile(file);
        if (report.is_object() && report.contains("run") && report["run"].is_string())
            report["run"] = std::filesystem::path(report["run"].get<std::string>()).filename().string(); // where it lay is nobody's business
        writeFileAtomically(job.folder / "report.json", report.dump(2) + "\n");
        files.emplace_back("report.json");
    }
    return files;
}

std::vector<std::string> writeBesideWeights(const WriteJob& job, const Json& config) {
    const auto& [model, student, folder, options] = job;
    std::vector<std::string> files;
    const auto put = [&](const std::string& name, const std::string& text) {
        writeFileAtomically(folder / name, text);
        files.push_back(name);
    };
    const auto& tokenizer = *model.files().tokenizer;
    put("config.json", config.dump(2) + "\n");
    put("tokenizer.json", tokenizer.tokenizerJson());
    put("tokenizer_config.json", tokenizer.tokenizerConfigJson());
    if (const auto chat = tokenizer.chatTemplate(); !chat.empty())
        put("chat_template.jinja", chat);
    Json generation = teacherGeneration(model);
    for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
        if (config.contains(key) && !config[key].is_null())
            generation[key] = config[key];
    put("generation_config.json", generation.dump(2) + "\n");
    for (const auto& name : writeRunFiles(job))
        files.push_back(name);
    return files;
}

WrittenFolder writeHfFolder(const WriteJob& job, const Control& control) {
    const Json config = hfConfig(job.model, job.options.dtype); // first: it refuses what can't be expressed
    WrittenFolder written{writeBesideWeights(job, config), true, {}};
    writeFileAtomically(job.folder / "modeling_linnet.py", kModelingPython);
    written.files.emplace_back("modeling_linnet.py");
    if (std::ranges::any_of(job.model.mixers(), [](const auto& entry) { return entry.second.kind == Mixer::Kind::Linear; }))
        written.notes.emplace_back("On a GPU the modelling file takes the kernels of flash-linear-attention where that is installed; LINNET_FLA=0 in the environment keeps it to plain PyTorch.");
    writeTensors(job, hfPlan(job.model, storedTypeName(job.options.dtype)), written, control);
    return written;
}

} // namespace linnet::core
