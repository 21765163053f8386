#include "core/torch_pch.h"

#include "core/export/fla_folder.h"

#include "core/base/files.h"
#include "core/export/tensor_plan.h"

namespace linnet::core {
namespace {

// A mixer's class: its configuration and how its layer's tensors are called there. Another mixer is another row.
struct FlaClass {
    const char* mixer; // MixerSpec::name
    const char* modelType;
    const char* architecture;
    Json (*keys)(const Model& model);                          // those of the mixer's layers
    std::vector<std::pair<std::string, std::string>> renamed; // LinearLayer's name, theirs; all others are alike
};

Json gatedDeltaNetKeys(const Model& model) {
    const auto& c = model.config();
    return {{"attn_mode", "chunk"}, {"head_dim", c.headDim}, {"num_heads", c.heads}, {"num_v_heads", nullptr}, {"expand_v", 1.0}, {"use_gate", true},
            {"output_gate_activation", "swish"}, {"use_short_conv", true}, {"conv_size", kConvTaps}, {"allow_neg_eigval", false}};
}

const FlaClass& classOf(const Model& model) {
    static const std::vector<FlaClass> kClasses{
        {"gated_delta_net", "gated_deltanet", "GatedDeltaNetForCausalLM", gatedDeltaNetKeys, {}},
    };
    for (const auto& [layer, mixer] : model.mixers())
        if (mixer.kind == Mixer::Kind::Linear)
            for (const auto& known : kClasses)
                if (mixer.spec->name == known.mixer)
                    return known;
    return kClasses.front(); // every layer is kept: any class will do
}

// The softmax layers: one entry for each window size, as all else is alike. null, a dictionary, or a list of them.
Json hybridAttention(const Model& model) {
    const auto& c = model.config();
    std::map<std::int64_t, std::vector<std::int64_t>> layers; // by window, 0: none
    for (std::int64_t l = 0; l < c.layers; ++l) {
        const auto* mixer = mixerAt(model.mixers(), l);
        if (!mixer)
            layers[0].push_back(l);
        else if (mixer->kind == Mixer::Kind::SlidingWindow)
            layers[mixer->window].push_back(l);
    }
    Json entries = Json::array();
    for (const auto& [window, list] : layers)
        entries.push_back({{"layers", list}, {"num_heads", c.heads}, {"num_kv_heads", c.kvHeads}, {"qkv_bias", c.qkvBias},
                           {"window_size", window ? Json(window) : Json()}, {"rope_theta", c.rope.theta}});
    return entries.empty() ? Json() : entries.size() == 1 ? entries[0] : entries;
}

class Planner {
public:
    Planner(const Model& model, const FlaClass& theirs, std::string type) : m_model(model), m_class(theirs), m_type(std::move(type)) {}

    std::vector<PlannedTensor> plan() {
        const auto& c = m_model.config();
        copy("model.embeddings.weight", "model.embed_tokens.weight");
        for (std::int64_t l = 0; l < c.layers; ++l)
            layer("model.layers." + std::to_string(l) + ".", mixerAt(m_model.mixers(), l));
        copy("model.norm.weight", "model.norm.weight");
        // Not left to tying: releases before 0.6 name the tied weights in a way that transformers 5 refuses.
        copy("lm_head.weight", c.tiedEmbeddings ? "model.embed_tokens.weight" : "lm_head.weight");
        return std::move(m_plan);
    }

private:
    void copy(const std::string& theirs, const std::string& ours) {
        const auto* info = m_model.files().weights->find(ours);
        if (!info)
            fail(ErrorCode::Malformed, "tensor " + ours + " is missing", {{"tensor", ours}});
        m_plan.push_back({{theirs, m_type, info->shape}, {}, ours});
    }

    void layer(const std::string& prefix, const Mixer* mixer) {
        copy(prefix + "attn_norm.weight", prefix + "input_layernorm.weight");
        if (mixer && mixer->kind == Mixer::Kind::Linear) {
            linear(prefix + "attn.", mixer->linear);
        } else {
            for (const char* name : {"q_proj", "k_proj", "v_proj"})
                for (const char* kind : m_model.config().qkvBias ? std::vector{".weight", ".bias"} : std::vector{".weight"})
                    copy(prefix + "attn." + name + kind, prefix + "self_attn." + name + kind);
            copy(prefix + "attn.o_proj.weight", prefix + "self_attn.o_proj.weight");
        }
        copy(prefix + "mlp_norm.weight", prefix + "post_attention_layernorm.weight");
        for (const char* name : {"mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight"})
            copy(prefix + name, prefix + name);
    }

    void linear(const std::string& prefix, const LinearLayer& layer) {
        layer.forEach([&](const std::string& ours, const at::Tensor& tensor) {
            std::string theirs = ours;
            for (const auto& [from, to] : m_class.renamed)
                if (from == ours)
                    theirs = to;
            auto shape = tensor.sizes().vec();
            if (ours.find("_conv1d.") != ours.npos)
                shape.insert(shape.begin() + 1, 1);
            const bool gate = ours == "A_log" || ours == "dt_bias"; // float32 there, whatever the rest is
            m_plan.push_back({{prefix + theirs, gate ? "F32" : m_type, std::move(shape)}, [tensor] { return tensor; }, {}});
        });
    }

    const Model& m_model;
    const FlaClass& m_class;
    std::string m_type;
    std::vector<PlannedTensor> m_plan;
};

} // namespace

Json flaConfig(const Model& model, const std::string& dtype) {
    const auto& c = model.config();
    const auto& theirs = classOf(model);
    Json config{{"model_type", theirs.modelType}, {"architectures", {theirs.architecture}}, {"attn", hybridAttention(model)}};
    config.update(theirs.keys(model));
    Json common;
    addCommonKeys(common, model, dtype);
    for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "max_position_embeddings", "dtype", "torch_dtype"})
        config[key] = common[key];
    for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) // a key that is not there is token 1 or 2 in these classes
        config[key] = common.contains(key) ? common[key] : Json();
    config.update({{"norm_eps", c.rmsNormEps}, {"hidden_act", "swish"}, {"tie_word_embeddings", false}, {"use_cache", true}});
    return config;
}

WrittenFolder writeFlaFolder(const WriteJob& job, const Control& control) {
    const auto& dtype = job.options.dtype;
    const Json config = flaConfig(job.model, dtype);
    WrittenFolder written{writeBesideWeights(job, config), true, {}};
    const auto file = job.folder / "generation_config.json";
    Json generation = readJsonFile(file);
    generation["use_cache"] = false;
    writeFileAtomically(file, generation.dump(2) + "\n");
    written.notes.push_back("generate() works without a cache here (generation_config.json): transformers 5.24 hands the cache over under a name that "
                            "flash-linear-attention 0.6.0 does not know, and the tokens are wrong. With transformers up to 5.23, use_cache=True is right and faster.");
    if (!config["attn"].is_null())
        written.notes.push_back("flash-linear-attention builds its softmax layers only where the flash-attn package is installed.");
    writeTensors(job, Planner(job.model, classOf(job.model), storedTypeName(dtype)).plan(), written, control);
    return written;
}

} // namespace linnet::core
