// What a person calls a model, opened:
// - a .gguf file, a folder with one and no config.json, or a Hugging Face folder: a teacher (core/io checks it), or a .gguf hybrid
//   (open_gguf_hybrid.h);
// - a run folder (recipe.json inside): the teacher that recipe.json names in teacher.source (absolute, or relative to the run
//   folder; any MODEL, so a hybrid too) with the layers of checkpoints/student.safetensors in place of its own; recipe.json's `mixer` names
//   their kind;
// - an exported folder, format `hf`: config.json has "model_type": "linnet", every other key as the teacher's Hugging Face config
//   has it, and
//       "linnet": {"teacher_type": "llama" | "qwen2" | "qwen3", "mixer": "gated_delta_net", "converted_layers": [3, 7, ...]}
//   model.safetensors (or its shards with the index) holds the teacher's tensors under the teacher's names, except self_attn.* of
//   converted layers, which have model.layers.N.linear_attn.* instead (student_files.cpp; any float type). Layers with a sliding
//   window keep self_attn.* and add model.layers.N.sliding_window; they count as converted. Tokenizer files are the teacher's:
//   tokenizer.json, tokenizer_config.json. A tied lm_head may be left out. "head_norm_eps": {"3": 1e-05} are layers whose o_norm has another
//   eps than rms_norm_eps;
// - an adapter: its teacher with the adapter's layers (open_adapter.h);
// - a checkpoint of the reference project's student class (open_student.h);
// - a folder of a trainer's checkpoint-N folders: the newest (core/io/checkpoint_folder.h).
#include "core/torch_pch.h"

#include "core/model/opened_model.h"

#include "core/base/files.h"
#include "core/io/checkpoint_folder.h"
#include "core/io/gguf_hybrid.h"
#include "core/io/gguf_names.h"
#include "core/io/layered_source.h"
#include "core/io/weight_files.h"
#include "core/model/config_keys.h"
#include "core/model/device.h"
#include "core/model/model.h"
#include "core/model/open_adapter.h"
#include "core/model/open_gguf_hybrid.h"
#include "core/model/open_student.h"

#include <set>

namespace linnet::core {
namespace {

namespace fs = std::filesystem;

// The layers that a run converted over what it was made from, which may be a hybrid itself.
void layOver(OpenedModel& opened, const std::shared_ptr<const WeightSource>& student, const std::string& mixer, const fs::path& file) {
    const auto linear = layersWith(*student, kLinearModule);
    const bool before = opened.student && !layersWith(*opened.student, kLinearModule).empty();
    if (before && !linear.empty() && opened.mixer != mixer)
        fail(ErrorCode::Unsupported, file.string() + " has layers of mixer " + mixer + " over a hybrid with " + opened.mixer + "; one mixer for all is supported", {{"file", file.string()}});
    if (!before)
        opened.mixer = mixer;
    for (const auto layer : linear) {
        opened.headNormEps.erase(layer);
        opened.qkNormEps.erase(layer);
    }
    opened.student = opened.student ? layeredSource(student, opened.student) : student;
}

constexpr int kMostLinks = 16; // each model made from the one before

std::set<std::int64_t> layersOf(const Json& list) {
    std::set<std::int64_t> layers;
    for (const auto& layer : list.is_array() ? list : Json::array())
        if (layer.is_number_integer())
            layers.insert(layer.get<std::int64_t>());
    return layers;
}

// The student's file was exchanged or is of another time where it has other layers than the run's report.
void checkReport(const fs::path& reportFile, const fs::path& studentFile, const std::set<std::int64_t>& present) {
    const auto report = guarded([&] { return readJsonFile(reportFile); });
    if (!report || !report->is_object() || !report->contains("converted_layers"))
        return; // none yet
    const auto expected = layersOf((*report)["converted_layers"]);
    std::string differing;
    for (const auto* layers : {&expected, &present})
        for (const auto layer : *layers)
            if (!expected.contains(layer) || !present.contains(layer))
                differing += (differing.empty() ? "" : ", ") + std::to_string(layer) + (present.contains(layer) ? " too many" : " missing");
    if (!differing.empty())
        fail(ErrorCode::Malformed, studentFile.string() + ": converted layers are not those of " + reportFile.string() + ": " + differing + "; convert or resume the run again",
             {{"file", studentFile.string()}, {"found", differing}});
}

OpenedModel openRun(const fs::path& run, int links) {
    const fs::path recipeFile = run / "recipe.json", studentFile = run / "checkpoints" / "student.safetensors", reportFile = run / "report.json";
    const Json recipe = readJsonFile(recipeFile);
    const Json& teacher = member(recipe, "teacher", recipeFile);
    const fs::path source = textMember(teacher, "source", recipeFile);
    const auto noStudent = [&] {
        fail(ErrorCode::NotFound, "run " + run.string() + " has no student yet: " + studentFile.string() + " is missing", {{"file", studentFile.string()}});
    };
    if (!fs::exists(studentFile) && !fs::exists(reportFile))
        noStudent();
    OpenedModel opened = openFiles(source.is_absolute() ? source : run / source, links + 1);
    const std::string expected = teacher.contains("hash") ? textMember(teacher, "hash", recipeFile) : "", found = opened.files.hash();
    if (!expected.empty() && expected != found)
        fail(ErrorCode::Malformed,
             "teacher " + source.string() + " is not the one that run " + run.string() + " was made from: hash " + found + ", expected " + expected,
             {{"file", source.string()}, {"found", found}, {"expected", expected}});
    if (fs::exists(studentFile)) {
        layOver(opened, openSafetensorsFile(studentFile), mixerMember(recipe, recipeFile), studentFile);
        checkReport(reportFile, studentFile, opened.convertedLayers());
        return opened;
    }
    const Json report = readJsonFile(reportFile);
    if (!report.is_object() || !report.contains("converted_layers") || layersOf(report["converted_layers"]) != opened.convertedLayers())
        noStudent();
    return opened; // every softmax layer was kept: the teacher
}

std::string modelTypeOf(const fs::path& folder) { // "" where there is no config.json that tells
    std::error_code ignored;
    if (!fs::is_regular_file(folder / "config.json", ignored))
        return {};
    const Json config = readJsonFile(folder / "config.json");
    return config.is_object() && config.contains("model_type") && config["model_type"].is_string() ? config["model_type"].get<std::string>() : std::string();
}

void checkExportedTensors(const OpenedModel& opened, const Json& converted, const fs::path& file) {
    const std::int64_t layers = opened.files.config.layers;
    for (const Json& layer : converted)
        if (!layer.is_number_integer() || layer.get<std::int64_t>() < 0 || layer.get<std::int64_t>() >= layers)
            fail(ErrorCode::Malformed,
                 file.string() + ": converted_layers holds " + layer.dump() + ", expected layers 0 to " + std::to_string(layers - 1),
                 {{"file", file.string()}, {"key", "converted_layers"}, {"found", layer.dump()}});
    std::set<std::int64_t> listed;
    for (const Json& layer : converted)
        listed.insert(layer.get<std::int64_t>());
    if (const auto present = opened.convertedLayers(); listed != present)
        fail(ErrorCode::Malformed,
             file.string() + ": converted_layers names " + std::to_string(listed.size()) + " layers, the tensors are there for " +
                 std::to_string(present.size()) + " or for others",
             {{"file", file.string()}, {"key", "converted_layers"}});
}

OpenedModel openExported(const fs::path& folder) {
    const fs::path file = folder / "config.json";
    Json config = readJsonFile(file);
    const Json linnet = member(config, "linnet", file);
    config["model_type"] = textMember(linnet, "teacher_type", file);
    for (const char* ours : {"linnet", "architectures", "auto_map"}) // of the modelling file beside it, not of the teacher
        config.erase(ours);
    OpenedModel opened;
    opened.files.path = folder;
    opened.files.config = hfConfigFromJson(config, file);
    opened.files.weights = openFolderWeights(folder, opened.files.config.tiedEmbeddings, opened.files.warnings);
    opened.files.tokenizer = openTokenizerJson(tokenizerFolder(folder));
    opened.student = opened.files.weights;
    opened.mixer = mixerMember(linnet, file);
    checkExportedTensors(opened, member(linnet, "converted_layers", file), file);
    opened.headNormEps = headNormEpsOf(linnet, layersWith(*opened.student, kLinearModule), file);
    return opened;
}

void checkMemory(const OpenedModel& opened, at::ScalarType dtype) {
    const std::uint64_t needed = parameterCount(opened.files.config) * c10::elementSize(dtype), free = availableMemoryBytes();
    if (free > 0 && needed > free)
        fail(ErrorCode::Memory,
             opened.files.path.string() + " needs " + std::to_string(needed >> 20) + " MiB of memory for its weights, " +
                 std::to_string(free >> 20) + " MiB are free: use a smaller dtype (--dtype bf16) or read layers on demand",
             {{"file", opened.files.path.string()}, {"expected", std::to_string(needed)}, {"found", std::to_string(free)}});
}

at::ScalarType chosenDType(const RunOptions& options, const at::Device& device, const WeightSource& weights) {
    if (!options.dtype.empty())
        return dtypeFromName(options.dtype);
    if (device.is_cpu())
        return at::kFloat;
    const TensorInfo* matrix = weights.find("model.layers.0.mlp.down_proj.weight");
    if (matrix && matrix->storedType != "F32" && matrix->storedType != "F16") // BF16 or quantised
        return at::kBFloat16;
    return weights.nativeDType() == DType::F16 ? at::kHalf : weights.nativeDType() == DType::BF16 ? at::kBFloat16 : at::kFloat;
}

// Checks of tensors don't know where those come from; their messages gain it here.
[[noreturn]] void failAt(const fs::path& path, Failure failure) {
    auto& [code, message, context] = failure.error;
    if (const auto gguf = context.contains("tensor") ? ggufIn(path) : fs::path(); !gguf.empty() && isGgufHybrid(gguf))
        if (const auto own = guarded([&] { return qwen35GgufName(context["tensor"]); }); own && !context.contains("file"))
            message += " (" + *own + " in the file)";
    if (context.emplace("file", path.string()).second && !message.starts_with(path.string()))
        message = path.string() + ": " + message;
    throw failure;
}

OpenedModel openAny(const fs::path& path, int links) {
    std::error_code ignored;
    auto opened = [&]() -> OpenedModel {
        const auto type = modelTypeOf(path); // first: an export also holds the recipe that it was made by
        if (type == "linnet")
            return openExported(path);
        if (type == "qwen3_5_text")
            return openQwen35(path);
        if (type == "gated_deltanet")
            return openFla(path);
        if (type == "student")
            return openStudent(path);
        if (type == "transformer")
            refuseStage1(path);
        if (isAdapter(path))
            return openAdapter(path, links);
        if (const auto gguf = ggufIn(path); !gguf.empty())
            return isGgufHybrid(gguf) ? openGgufHybridModel(gguf) : OpenedModel{openModelFiles(gguf), nullptr, {}};
        if (fs::is_directory(path, ignored) && fs::is_regular_file(path / "recipe.json", ignored))
            return openRun(path, links);
        return {openModelFiles(path), nullptr, {}};
    }();
    for (const std::int64_t layer : opened.convertedLayers())
        if (layer >= opened.files.config.layers)
            fail(ErrorCode::Malformed,
                 path.string() + ": the student has layer " + std::to_string(layer) + ", its teacher only " +
                     std::to_string(opened.files.config.layers) + " layers",
                 {{"file", path.string()}, {"found", std::to_string(layer)}});
    if (opened.student && opened.student != opened.files.weights)
        opened.files.identity = hashBytes(opened.files.weights->hash() + opened.student->hash());
    return opened;
}

} // namespace

OpenedModel openFiles(const std::filesystem::path& given, int links) {
    if (links > kMostLinks)
        fail(ErrorCode::Malformed, given.string() + ": models (runs, adapters) refer to each other as teachers without an end, or in more than " + std::to_string(kMostLinks) + " steps",
             {{"file", given.string()}, {kEndlessLinks, std::to_string(links)}});
    std::error_code ignored;
    const auto path = fs::exists(given / "recipe.json", ignored) ? given : newestCheckpoint(given); // what a trainer left; a run has checkpoints of its own
    try {
        auto opened = openAny(path, links);
        opened.path = path;
        return opened;
    } catch (Failure& failure) {
        failAt(path, std::move(failure));
    }
}

void checkContents(const OpenedModel& opened, const Control& control) {
    if (opened.contents.empty())
        return;
    if (const auto found = weightContents(opened.files.path, control); found != opened.contents)
        fail(ErrorCode::Malformed, opened.files.path.string() + " is not the teacher that adapter " + opened.path.string() + " was made from: a hash of all its bytes is " + found + ", expected " +
                                       opened.contents + "; it is damaged or was changed", {{"file", opened.files.path.string()}, {"found", found}, {"expected", opened.contents}});
}

Result<ModelPtr> openModel(const std::filesystem::path& path, const RunOptions& options, const Control& control) {
    return guarded([&]() -> ModelPtr {
        OpenedModel opened = openFiles(path);
        setThreads(options.threads);
        const at::Device device = deviceFromName(options.device);
        const at::ScalarType dtype = chosenDType(options, device, *opened.files.weights);
        if (device.is_cpu() && !options.streamed)
            checkMemory(opened, dtype);
        checkContents(opened, control);
        Mixers mixers = mixersOf(opened, device, dtype);
        try {
            return std::make_shared<const Model>(std::move(opened.files), device, dtype, options.streamed, std::move(mixers), control);
        } catch (Failure& failure) {
            if (failure.error.context.contains("tensor"))
                failAt(opened.path, std::move(failure));
            throw;
        }
    });
}

const Tokenizer& modelTokenizer(const Model& model) {
    return *model.files().tokenizer;
}

std::shared_ptr<const Tokenizer> openTokenizer(const fs::path& path) {
    return openFiles(path).files.tokenizer;
}

} // namespace linnet::core
