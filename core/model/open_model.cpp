// What a person calls a model, opened:
// - a .gguf file or a Hugging Face folder: a teacher (core/io checks it);
// - a run folder (recipe.json inside): the teacher that recipe.json names in teacher.source (absolute, or relative to the run
//   folder) with the layers of checkpoints/student.safetensors in place of its own; recipe.json's `mixer` names their kind;
// - an exported folder, format `hf`: config.json has "model_type": "linnet", every other key as the teacher's Hugging Face config
//   has it, and
//       "linnet": {"teacher_type": "llama" | "qwen2" | "qwen3", "mixer": "gated_delta_net", "converted_layers": [3, 7, ...]}
//   model.safetensors (or its shards with the index) holds the teacher's tensors under the teacher's names, except self_attn.* of
//   converted layers, which have model.layers.N.linear_attn.* instead (student_files.cpp; any float type). Layers with a sliding
//   window keep self_attn.* and add model.layers.N.sliding_window; they count as converted. Tokenizer files are the teacher's:
//   tokenizer.json, tokenizer_config.json. A tied lm_head may be left out.
#include "core/torch_pch.h"

#include "core/model/opened_model.h"

#include "core/base/files.h"
#include "core/io/qwen35_source.h"
#include "core/model/device.h"
#include "core/model/model.h"

#include <set>

namespace linnet::core {
namespace {

namespace fs = std::filesystem;

const Json& member(const Json& object, const char* key, const fs::path& file) {
    if (!object.is_object() || !object.contains(key))
        fail(ErrorCode::Malformed, file.string() + ": key \"" + key + "\" is missing", {{"file", file.string()}, {"key", key}});
    return object[key];
}

std::string textMember(const Json& object, const char* key, const fs::path& file) {
    const Json& value = member(object, key, file);
    if (!value.is_string())
        fail(ErrorCode::Malformed, file.string() + ": key \"" + key + "\" is not a text", {{"file", file.string()}, {"key", key}});
    return value.get<std::string>();
}

OpenedModel openRun(const fs::path& run) {
    const fs::path recipeFile = run / "recipe.json", studentFile = run / "checkpoints" / "student.safetensors";
    const Json recipe = readJsonFile(recipeFile);
    const Json& teacher = member(recipe, "teacher", recipeFile);
    const fs::path source = textMember(teacher, "source", recipeFile);
    if (!fs::exists(studentFile) && fs::exists(run / "report.json") && readJsonFile(run / "report.json").value("converted_layers", Json{0}).empty())
        return {openModelFiles(source.is_absolute() ? source : run / source), nullptr, ""}; // every layer was kept: the teacher
    if (!fs::exists(studentFile))
        fail(ErrorCode::NotFound, "run " + run.string() + " has no student yet: " + studentFile.string() + " is missing",
             {{"file", studentFile.string()}});
    OpenedModel opened{openModelFiles(source.is_absolute() ? source : run / source), openSafetensorsFile(studentFile),
                       textMember(recipe, "mixer", recipeFile)};
    const std::string expected = teacher.value("hash", std::string()), found = opened.files.weights->hash();
    if (!expected.empty() && expected != found)
        fail(ErrorCode::Malformed,
             "teacher " + source.string() + " is not the one that run " + run.string() + " was made from: hash " + found + ", expected " + expected,
             {{"file", source.string()}, {"found", found}, {"expected", expected}});
    return opened;
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
    opened.files.weights = openSafetensorsFolder(folder);
    opened.files.tokenizer = openTokenizerJson(folder);
    opened.student = opened.files.weights;
    opened.mixer = textMember(linnet, "mixer", file);
    checkExportedTensors(opened, member(linnet, "converted_layers", file), file);
    return opened;
}

// transformers' Qwen3_5ForCausalLM: a Qwen3 teacher with converted layers (core/io/qwen35_source.h).
OpenedModel openQwen35(const fs::path& folder) {
    const fs::path file = folder / "config.json";
    Json config = readJsonFile(file);
    const auto refuse = [&](const std::string& key, const Json& expected) {
        fail(ErrorCode::Unsupported, file.string() + ": key \"" + key + "\" is " + member(config, key.c_str(), file).dump() + ", only " + expected.dump() + " is supported",
             {{"file", file.string()}, {"key", key}, {"expected", expected.dump()}});
    };
    const Json types = member(config, "layer_types", file);
    const auto is = [](const char* type) { return [type](const Json& t) { return t == type; }; };
    const bool linear = types.is_array() && std::ranges::any_of(types, is("linear_attention"));
    if (!types.is_array() || !std::ranges::all_of(types, [&](const Json& t) { return is("linear_attention")(t) || is("full_attention")(t); }))
        refuse("layer_types", Json::array({"linear_attention", "full_attention"}));
    for (const auto& [theirs, ours] : {std::pair("linear_num_key_heads", "num_attention_heads"), std::pair("linear_num_value_heads", "num_attention_heads"),
                                       std::pair("linear_key_head_dim", "head_dim"), std::pair("linear_value_head_dim", "head_dim")})
        if (linear && member(config, theirs, file) != member(config, ours, file))
            refuse(theirs, config[ours]);
    if (linear && member(config, "linear_conv_kernel_dim", file) != kConvTaps)
        refuse("linear_conv_kernel_dim", kConvTaps);
    config["model_type"] = "qwen3";
    for (const char* theirs : {"architectures", "layer_types"})
        config.erase(theirs);
    OpenedModel opened;
    opened.files.path = folder;
    opened.files.config = hfConfigFromJson(config, file);
    opened.files.weights = qwen35Source(openSafetensorsFolder(folder), opened.files.config);
    opened.files.tokenizer = openTokenizerJson(folder);
    opened.student = opened.files.weights;
    opened.mixer = "gated_delta_net";
    std::set<std::int64_t> listed;
    for (std::size_t l = 0; l < types.size(); ++l)
        if (types[l] == "linear_attention")
            listed.insert(static_cast<std::int64_t>(l));
    if (std::ssize(types) != opened.files.config.layers || listed != opened.convertedLayers())
        fail(ErrorCode::Malformed, file.string() + ": layer_types does not fit the layers that the tensors are there for", {{"file", file.string()}, {"key", "layer_types"}});
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

} // namespace

OpenedModel openFiles(const std::filesystem::path& path) {
    std::error_code ignored;
    const auto opened = [&]() -> OpenedModel {
        const auto type = modelTypeOf(path); // first: an export also holds the recipe that it was made by
        if (type == "linnet")
            return openExported(path);
        if (type == "qwen3_5_text")
            return openQwen35(path);
        if (fs::is_directory(path, ignored) && fs::is_regular_file(path / "recipe.json", ignored))
            return openRun(path);
        return {openModelFiles(path), nullptr, {}};
    }();
    for (const std::int64_t layer : opened.convertedLayers())
        if (layer >= opened.files.config.layers)
            fail(ErrorCode::Malformed,
                 path.string() + ": the student has layer " + std::to_string(layer) + ", its teacher only " +
                     std::to_string(opened.files.config.layers) + " layers",
                 {{"file", path.string()}, {"found", std::to_string(layer)}});
    return opened;
}

Result<ModelPtr> openModel(const std::filesystem::path& path, const RunOptions& options, const Control& control) {
    return guarded([&]() -> ModelPtr {
        OpenedModel opened = openFiles(path);
        setThreads(options.threads);
        const at::Device device = deviceFromName(options.device);
        const at::ScalarType dtype = chosenDType(options, device, *opened.files.weights);
        if (device.is_cpu() && !options.streamed)
            checkMemory(opened, dtype);
        const ModelConfig& c = opened.files.config;
        Mixers mixers;
        if (opened.student)
            mixers = loadLinearLayers(*opened.student, {c.heads, c.headDim, c.hiddenSize, c.rmsNormEps}, device, dtype, opened.mixer);
        return std::make_shared<const Model>(std::move(opened.files), device, dtype, options.streamed, std::move(mixers), control);
    });
}

const Tokenizer& modelTokenizer(const Model& model) {
    return *model.files().tokenizer;
}

std::shared_ptr<const Tokenizer> openTokenizer(const fs::path& path) {
    return openFiles(path).files.tokenizer;
}

} // namespace linnet::core
