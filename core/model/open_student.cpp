#include "core/torch_pch.h"

#include "core/model/open_student.h"

#include "core/io/checkpoint_folder.h"
#include "core/io/fla_source.h"
#include "core/model/model.h"

namespace linnet::core {
namespace {

namespace fs = std::filesystem;
constexpr double kTheirNormEps = 1e-5; // default of flash-linear-attention's GatedDeltaNet, which student_layers.py leaves it at

class StudentConfig {
public:
    explicit StudentConfig(const fs::path& folder) : m_file(folder / "config.json"), m_json(readJsonFile(m_file)) {}

    const Json* find(const char* key) const { // null counts as absent
        const auto found = m_json.find(key);
        return found == m_json.end() || found->is_null() ? nullptr : &*found;
    }
    bool flag(const char* key) const { return find(key) && *find(key) == true; }
    [[noreturn]] void refuse(ErrorCode code, const char* key, const std::string& why) const {
        const auto* value = find(key);
        const auto found = value ? value->dump().substr(0, 200) : std::string("missing");
        fail(code, m_file.string() + ": key \"" + key + "\" is " + found + ": " + why, {{"file", m_file.string()}, {"key", key}, {"found", found}});
    }
    const fs::path& file() const { return m_file; }

    // gdn_v3 or gdn_v4, and nothing else that these classes can be told.
    bool shortConvolution() const {
        const auto* name = find("student_name");
        if (!name || (*name != "gdn_v4" && *name != "gdn_v3"))
            refuse(ErrorCode::Unsupported, "student_name", "gdn_v4 and gdn_v3 are Gated DeltaNet layers as ours and are read");
        for (const char* key : {"window_size", "num_experts"})
            if (find(key))
                refuse(ErrorCode::Unsupported, key, "only null is supported");
        if (flag("force_window_on_all_layers"))
            refuse(ErrorCode::Unsupported, "force_window_on_all_layers", "only false is supported");
        if (const auto* act = find("hidden_act"); act && *act != "swish" && *act != "silu")
            refuse(ErrorCode::Unsupported, "hidden_act", "only swish is supported");
        return *name == "gdn_v3";
    }

    std::set<std::int64_t> kept(std::int64_t layers) const {
        std::set<std::int64_t> result;
        const auto* list = find("keep_full_attention_layers");
        if (list && !list->is_array())
            refuse(ErrorCode::Malformed, "keep_full_attention_layers", "a list of layers was expected");
        for (const auto& layer : list ? *list : Json::array())
            if (!layer.is_number_integer() || layer.get<std::int64_t>() < 0 || layer.get<std::int64_t>() >= layers)
                refuse(ErrorCode::Malformed, "keep_full_attention_layers", "layers 0 to " + std::to_string(layers - 1) + " were expected");
            else
                result.insert(layer.get<std::int64_t>());
        return result;
    }

    // The same model in the words of a Hugging Face teacher.
    ModelConfig teacher(const WeightSource& weights) const {
        const bool norms = flag("qk_norm"), bias = flag("qkv_bias");
        if (norms && bias)
            refuse(ErrorCode::Unsupported, "qkv_bias", "biases beside QK-norm are not supported");
        Json hf{{"model_type", norms ? "qwen3" : bias ? "qwen2" : "llama"}};
        for (const char* key : {"vocab_size", "hidden_size", "num_hidden_layers", "head_dim", "intermediate_size", "max_position_embeddings", "tie_word_embeddings", "bos_token_id",
                                "eos_token_id", "rope_theta", "rope_parameters", "dtype", "torch_dtype"})
            if (const auto* value = find(key))
                hf[key] = *value;
        for (const auto& [theirs, ours] : {std::pair("num_heads", "num_attention_heads"), std::pair("num_heads", "num_key_value_heads"), std::pair("num_kv_heads", "num_key_value_heads"),
                                           std::pair("norm_eps", "rms_norm_eps")})
            if (const auto* value = find(theirs))
                hf[ours] = *value;
        if (const auto* gate = weights.find("model.layers.0.mlp.gate_proj.weight"); gate && !hf.contains("intermediate_size") && !gate->shape.empty())
            hf["intermediate_size"] = static_cast<std::uint64_t>(gate->shape[0]); // their class derives it from hidden_ratio
        return hfConfigFromJson(hf, m_file);
    }

    double headNormEps() const {
        const auto bundle = m_file.parent_path() / kBundleFile;
        const Json beside = fs::exists(bundle) ? readJsonFile(bundle) : Json::object();
        const Json value = find("o_norm_eps") ? *find("o_norm_eps") : beside.is_object() ? beside.value("o_norm_eps", Json(kTheirNormEps)) : Json();
        if (!value.is_number() || !(value.get<double>() > 0))
            fail(ErrorCode::Malformed, (find("o_norm_eps") ? m_file : bundle).string() + ": key \"o_norm_eps\" is " + value.dump() + ", a number above 0 was expected",
                 {{"file", m_file.string()}, {"key", "o_norm_eps"}, {"found", value.dump()}});
        return value.get<double>();
    }

private:
    fs::path m_file;
    Json m_json;
};

} // namespace

OpenedModel openStudent(const fs::path& folder) {
    const StudentConfig config(folder);
    std::shared_ptr<const WeightSource> stored = openSafetensorsFolder(folder);
    OpenedModel opened;
    opened.files.path = folder;
    opened.files.config = config.teacher(*stored);
    stored = openFolderWeights(folder, opened.files.config.tiedEmbeddings, opened.files.warnings, "model.embeddings.weight");
    const auto& c = opened.files.config;
    FlaLayout layout{.layers = c.layers, .width = c.heads * c.headDim, .attention = config.kept(c.layers), .windows = {}, .shortConvolution = config.shortConvolution(),
                     .qkvBias = c.qkvBias, .qkNorm = c.qkNorm};
    opened.files.weights = flaSource(std::move(stored), layout);
    opened.files.tokenizer = openTokenizerJson(tokenizerFolder(folder));
    opened.student = opened.files.weights;
    opened.mixer = "gated_delta_net";
    if (const double eps = config.headNormEps(); eps != c.rmsNormEps)
        for (const auto layer : opened.convertedLayers())
            opened.headNormEps[layer] = eps;
    if (c.qkNorm && !config.find("o_norm_eps") && !fs::exists(folder / kBundleFile))
        opened.files.warnings.push_back("trained without the bundle's launch.py: its q_norm and k_norm had the default eps of flash-linear-attention, not the " +
                                        Json(c.rmsNormEps).dump() + " that they are read with");
    return opened;
}

void refuseStage1(const fs::path& folder) {
    const auto stored = openSafetensorsFolder(folder);
    for (const auto& info : stored->tensors())
        if (info.name.find(".attn.student_attn.") != info.name.npos)
            fail(ErrorCode::Unsupported,
                 folder.string() + ": tensor " + info.name + " is of a stage 1 checkpoint, which holds teacher and student at once; make it a student with the project's \"python "
                 "scripts/convert_stage1.py --stage1_dir DIR --student_name gdn_v4 --keep_layers LIST --teacher TEACHER\" and open DIR/converted-hf",
                 {{"file", folder.string()}, {"tensor", info.name}});
}

} // namespace linnet::core
