#include "core/torch_pch.h"

#include "core/export/hf_folder.h"

#include <numbers>

namespace linnet::core {
namespace {

// GGUF stores llama3's scaling as one divisor a frequency; config.json wants its four numbers. Meta's models share three of them.
RopeConfig withLlama3Numbers(RopeConfig rope, std::int64_t headDim) {
    if (rope.frequencyDivisors.empty())
        return rope;
    rope.type = "llama3";
    rope.factor = *std::max_element(rope.frequencyDivisors.begin(), rope.frequencyDivisors.end());
    rope.lowFrequencyFactor = 1, rope.highFrequencyFactor = 4, rope.originalMaxPositions = 8192;
    for (std::size_t i = 0; i < rope.frequencyDivisors.size(); ++i) {
        const double frequency = std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(headDim));
        const double turns = rope.originalMaxPositions * frequency / (2 * std::numbers::pi);
        const double smooth = std::clamp((turns - rope.lowFrequencyFactor) / (rope.highFrequencyFactor - rope.lowFrequencyFactor), 0.0, 1.0);
        const double expected = 1 / ((1 - smooth) / rope.factor + smooth);
        if (std::abs(expected - rope.frequencyDivisors[i]) > 1e-3 * expected)
            fail(ErrorCode::Unsupported, "export hf: rope_freqs.weight is not llama3 scaling; config.json can't express it", {{"tensor", "rope_freqs.weight"}});
    }
    rope.frequencyDivisors.clear();
    return rope;
}

} // namespace

Json teacherGeneration(const Model& model) {
    const auto file = model.files().path / "generation_config.json";
    Json json = std::filesystem::is_regular_file(file) ? readJsonFile(file) : Json::object();
    if (!json.is_object())
        fail(ErrorCode::Malformed, file.string() + ": a JSON object is expected", {{"file", file.string()}});
    for (const char* of : {"transformers_version", "_from_model_config"}) // of the file that was
        json.erase(of);
    return json;
}

Json ropeParameters(const ModelConfig& c) {
    const auto rope = withLlama3Numbers(c.rope, c.headDim);
    Json json{{"rope_type", rope.type}, {"rope_theta", rope.theta}};
    if (rope.type != "default")
        json["factor"] = rope.factor;
    if (rope.type == "llama3") {
        json["low_freq_factor"] = rope.lowFrequencyFactor;
        json["high_freq_factor"] = rope.highFrequencyFactor;
        json["original_max_position_embeddings"] = static_cast<std::int64_t>(rope.originalMaxPositions);
    }
    return json;
}

void addCommonKeys(Json& config, const Model& model, const std::string& dtype) {
    const auto& c = model.config();
    config.update({{"vocab_size", c.vocabSize}, {"hidden_size", c.hiddenSize}, {"intermediate_size", c.intermediateSize}, {"num_hidden_layers", c.layers},
                   {"num_attention_heads", c.heads}, {"num_key_value_heads", c.kvHeads}, {"head_dim", c.headDim}, {"hidden_act", "silu"},
                   {"max_position_embeddings", c.maxPositions}, {"rms_norm_eps", c.rmsNormEps}, {"tie_word_embeddings", c.tiedEmbeddings}, {"use_cache", true}});
    const char* types[][2] = {{"f32", "float32"}, {"bf16", "bfloat16"}, {"f16", "float16"}};
    for (const auto& type : types)
        if (dtype == type[0])
            config["torch_dtype"] = config["dtype"] = type[1];
    const auto file = model.files().path / "config.json";
    const Json teacher = std::filesystem::is_regular_file(file) ? readJsonFile(file) : Json::object();
    for (const Json& from : {teacher, teacherGeneration(model)}) // the latter's word is the last
        if (const auto pad = from.find("pad_token_id"); pad != from.end() && pad->is_number_unsigned() && pad->get<std::int64_t>() < c.vocabSize)
            config["pad_token_id"] = *pad;
    if (c.bosToken)
        config["bos_token_id"] = *c.bosToken;
    if (c.endTokens.size() == 1)
        config["eos_token_id"] = c.endTokens[0];
    else if (!c.endTokens.empty())
        config["eos_token_id"] = c.endTokens;
}

Json hfConfig(const Model& model, const std::string& dtype) {
    const auto& c = model.config();
    const Json parameters = ropeParameters(c);
    Json own = parameters; // with the modelling file's names
    own.erase("rope_type"), own.erase("rope_theta");
    own["type"] = parameters["rope_type"], own["theta"] = parameters["rope_theta"];
    std::vector<std::int64_t> converted;
    Json windows = Json::object(), headNorms = Json::object();
    std::string mixer = "gated_delta_net";
    for (const auto& [layer, value] : model.mixers()) {
        converted.push_back(layer);
        if (value.kind == Mixer::Kind::SlidingWindow)
            windows[std::to_string(layer)] = {value.window, value.sinks};
        else
            mixer = value.spec->name;
        if (value.headNormEps > 0)
            headNorms[std::to_string(layer)] = value.headNormEps;
    }
    if (mixer != "gated_delta_net")
        fail(ErrorCode::Unsupported, "export hf: mixer " + mixer + " is not in the modelling file yet", {{"value", mixer}});
    Json config{{"model_type", "linnet"}, {"architectures", {"LinnetForCausalLM"}},
                {"auto_map", {{"AutoConfig", "modeling_linnet.LinnetConfig"}, {"AutoModelForCausalLM", "modeling_linnet.LinnetForCausalLM"}}},
                {"rope_theta", parameters["rope_theta"]}, {"rope_parameters", parameters}};
    addCommonKeys(config, model, dtype);
    if (c.modelType == "llama") {
        config["attention_bias"] = c.qkvBias;
        config["mlp_bias"] = c.mlpBias;
    } else if (c.modelType == "qwen3") {
        config["attention_bias"] = c.qkvBias;
    }
    config["linnet"] = {{"teacher_type", c.modelType}, {"mixer", mixer}, {"converted_layers", converted}, {"windows", windows}, {"qk_norm", c.qkNorm},
                        {"qkv_bias", c.qkvBias}, {"output_bias", c.outputBias}, {"mlp_bias", c.mlpBias}, {"rope", own}};
    if (!headNorms.empty())
        config["linnet"]["head_norm_eps"] = headNorms;
    return config;
}

} // namespace linnet::core
