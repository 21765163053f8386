// config.json of Hugging Face, in the spelling of transformers 4 and of 5.
#include "core/io/hf_config.h"

#include "core/base/result.h"
#include "core/io/config_checks.h"
#include "core/io/model_files.h"
#include "core/io/text_checks.h"

#include <algorithm>
#include <map>
#include <optional>

namespace linnet::core {
namespace {

// Typed reads of one JSON object that name file, key and value when they refuse. A null counts as absent, as in transformers.
class Keys {
public:
    Keys(const Json& object, std::string file, std::string prefix = {})
        : m_object(object), m_file(std::move(file)), m_prefix(std::move(prefix)) {
        if (!m_object.is_object())
            fail(ErrorCode::Malformed,
                 m_file + ": " + (m_prefix.empty() ? "it" : "\"" + m_prefix + "\"") + " is no JSON object",
                 {{"file", m_file}, {"key", m_prefix}});
    }

    const Json* find(const std::string& key) const {
        const auto entry = m_object.find(key);
        return entry == m_object.end() || entry->is_null() ? nullptr : &*entry;
    }

    std::int64_t integer(const std::string& key, std::int64_t most) const {
        if (const auto value = optionalInteger(key, most))
            return *value;
        fail(ErrorCode::Malformed, m_file + ": key \"" + shown(key) + "\" is missing", {{"file", m_file}, {"key", shown(key)}});
    }

    std::optional<std::int64_t> optionalInteger(const std::string& key, std::int64_t most) const {
        const auto* value = find(key);
        if (!value)
            return std::nullopt;
        if (!value->is_number_unsigned() || value->get<std::uint64_t>() < 1 ||
            value->get<std::uint64_t>() > static_cast<std::uint64_t>(most))
            malformed(key, "a whole number from 1 to " + std::to_string(most) + " was expected");
        return value->get<std::int64_t>();
    }

    double real(const std::string& key, double otherwise) const {
        const auto* value = find(key);
        if (!value)
            return otherwise;
        if (!value->is_number())
            malformed(key, "a number was expected");
        return value->get<double>();
    }

    double requiredReal(const std::string& key) const {
        if (!find(key))
            fail(ErrorCode::Malformed, m_file + ": key \"" + shown(key) + "\" is missing",
                 {{"file", m_file}, {"key", shown(key)}});
        return real(key, 0);
    }

    bool boolean(const std::string& key, bool otherwise) const {
        const auto* value = find(key);
        if (!value)
            return otherwise;
        if (!value->is_boolean())
            malformed(key, "true or false was expected");
        return value->get<bool>();
    }

    std::string text(const std::string& key, const std::string& otherwise) const {
        const auto* value = find(key);
        if (!value)
            return otherwise;
        if (!value->is_string())
            malformed(key, "a text was expected");
        return value->get<std::string>();
    }

    std::vector<std::int64_t> tokens(const std::string& key) const { // one id or a list of them
        const auto* value = find(key);
        if (!value)
            return {};
        std::vector<std::int64_t> ids;
        for (const auto& id : value->is_array() ? *value : Json::array({*value})) {
            if (!id.is_number_integer() || id.get<std::int64_t>() > kLargestVocabulary)
                malformed(key, "a token id or a list of them was expected");
            ids.push_back(id.get<std::int64_t>());
        }
        return ids;
    }

    [[noreturn]] void malformed(const std::string& key, const std::string& why) const {
        refuse(ErrorCode::Malformed, key, why);
    }
    [[noreturn]] void unsupported(const std::string& key, const std::string& why) const {
        refuse(ErrorCode::Unsupported, key, why);
    }

    const std::string& file() const { return m_file; }

private:
    std::string shown(const std::string& key) const { return m_prefix.empty() ? key : m_prefix + "." + key; }

    [[noreturn]] void refuse(ErrorCode code, const std::string& key, const std::string& why) const {
        const auto* value = find(key);
        std::string found = value ? value->dump() : "missing";
        if (found.size() > 200)
            found = found.substr(0, 200) + "...";
        fail(code, m_file + ": key \"" + shown(key) + "\" is " + found + ": " + why,
             {{"file", m_file}, {"key", shown(key)}, {"found", found}});
    }

    const Json& m_object;
    std::string m_file, m_prefix;
};

RopeConfig readRope(const Keys& keys, const ModelConfig& config) {
    RopeConfig rope;
    const bool isNew = keys.find("rope_parameters");
    const std::string name = isNew ? "rope_parameters" : "rope_scaling";
    rope.theta = keys.real("rope_theta", rope.theta);
    if (keys.real("partial_rotary_factor", 1) != 1)
        keys.unsupported("partial_rotary_factor", "rotary positions over a part of the head are not supported");
    const auto* parameters = keys.find(name);
    if (!parameters)
        return rope;
    const Keys inner(*parameters, keys.file(), name);
    rope.theta = inner.real("rope_theta", rope.theta);
    if (inner.real("partial_rotary_factor", 1) != 1)
        inner.unsupported("partial_rotary_factor", "rotary positions over a part of the head are not supported");
    rope.type = inner.text("rope_type", inner.text("type", "default"));
    if (rope.type != "default" && rope.type != "linear" && rope.type != "llama3")
        inner.unsupported(inner.find("rope_type") ? "rope_type" : "type", "default, linear and llama3 are supported");
    if (inner.find("full_attention") || inner.find("sliding_attention"))
        keys.unsupported(name, "rotary positions that differ by layer are not supported");
    if (rope.type == "default")
        return rope;
    rope.factor = inner.requiredReal("factor");
    if (rope.type == "llama3") {
        rope.lowFrequencyFactor = inner.requiredReal("low_freq_factor");
        rope.highFrequencyFactor = inner.requiredReal("high_freq_factor");
        rope.originalMaxPositions = inner.real("original_max_position_embeddings", static_cast<double>(config.maxPositions));
    }
    return rope;
}

void checkArchitecture(const Keys& keys) {
    static const std::map<std::string, std::string> kClasses{
        {"llama", "LlamaForCausalLM"}, {"qwen2", "Qwen2ForCausalLM"}, {"qwen3", "Qwen3ForCausalLM"}};
    if (!keys.find("model_type"))
        keys.malformed("model_type", "llama, qwen2 or qwen3 was expected");
    const auto known = kClasses.find(keys.text("model_type", ""));
    if (known == kClasses.end())
        keys.unsupported("model_type", "llama, qwen2 and qwen3 are supported");
    if (const auto* architectures = keys.find("architectures"); architectures && !architectures->empty())
        if (!architectures->is_array() || architectures->size() != 1 || (*architectures)[0] != known->second)
            keys.unsupported("architectures", known->second + " is supported for model type " + known->first);
    if (keys.text("hidden_act", "silu") != "silu")
        keys.unsupported("hidden_act", "only silu is supported");
    if (keys.boolean("use_sliding_window", false))
        keys.unsupported("use_sliding_window", "sliding-window teachers are not supported");
    if (const auto* types = keys.find("layer_types"))
        for (const auto& type : types->is_array() ? *types : Json::array({*types}))
            if (type != "full_attention")
                keys.unsupported("layer_types", "only full_attention layers are supported in a teacher");
}

void readSizes(const Keys& keys, ModelConfig& config) {
    config.layers = keys.integer("num_hidden_layers", kMostLayers);
    config.hiddenSize = keys.integer("hidden_size", kLargestWidth);
    config.intermediateSize = keys.integer("intermediate_size", kLargestWidth);
    config.vocabSize = keys.integer("vocab_size", kLargestVocabulary);
    config.maxPositions = keys.optionalInteger("max_position_embeddings", kMostPositions).value_or(2048);
    config.heads = keys.integer("num_attention_heads", kMostHeads);
    // Without the key, Llama has as many as heads; the Qwen classes have a default that fits no particular model.
    config.kvHeads = config.modelType == "llama"
                         ? keys.optionalInteger("num_key_value_heads", kMostHeads).value_or(config.heads)
                         : keys.integer("num_key_value_heads", kMostHeads);
    if (const auto headDim = keys.optionalInteger("head_dim", kLargestHeadDim)) {
        config.headDim = *headDim;
    } else if (config.modelType == "qwen3") {
        config.headDim = 128; // the class's default, whatever hidden_size is
    } else {
        if (config.hiddenSize % config.heads != 0 || config.hiddenSize / config.heads > kLargestHeadDim)
            keys.malformed("num_attention_heads",
                           "it gives no head dimension for a hidden_size of " + std::to_string(config.hiddenSize));
        config.headDim = config.hiddenSize / config.heads;
    }
}

void readTokens(const Keys& keys, const std::filesystem::path& file, ModelConfig& config) {
    if (const auto bos = keys.tokens("bos_token_id"); !bos.empty())
        config.bosToken = bos.front();
    config.endTokens = keys.tokens("eos_token_id");
    // Chat models end a turn with a token that only generation_config.json lists.
    const auto generation = file.parent_path() / "generation_config.json";
    if (std::error_code failed; std::filesystem::exists(generation, failed)) {
        const auto json = readJsonFile(generation);
        for (const auto token : Keys(json, generation.string()).tokens("eos_token_id"))
            if (std::find(config.endTokens.begin(), config.endTokens.end(), token) == config.endTokens.end())
                config.endTokens.push_back(token);
    }
}

} // namespace

BlockSize quantisationBlock(const Json& config, const std::string& origin) {
    const Keys keys(config, origin);
    const auto* quantisation = keys.find("quantization_config");
    if (!quantisation)
        return {};
    const Keys inner(*quantisation, origin, "quantization_config");
    if (inner.text("quant_method", "") != "fp8")
        inner.unsupported("quant_method", "only fp8 with block scales is supported; use the unquantised model or a GGUF file");
    const auto* block = inner.find("weight_block_size");
    if (!block)
        inner.unsupported("weight_block_size", "FP8 without block scales is not supported");
    const auto isSize = [](const Json& size) { return size.is_number_unsigned() && size > 0u && size <= 65536u; };
    if (!block->is_array() || block->size() != 2 || !isSize((*block)[0]) || !isSize((*block)[1]))
        inner.malformed("weight_block_size", "two sizes were expected, such as [128, 128]");
    return {(*block)[0].get<std::int64_t>(), (*block)[1].get<std::int64_t>()};
}

ModelConfig hfConfigFromJson(const Json& json, const std::filesystem::path& file) {
    const Keys keys(json, file.string());
    checkArchitecture(keys);
    quantisationBlock(json, file.string());
    ModelConfig config;
    config.modelType = keys.text("model_type", "");
    readSizes(keys, config);
    config.rmsNormEps = keys.real("rms_norm_eps", config.rmsNormEps);
    config.tiedEmbeddings = keys.boolean("tie_word_embeddings", false);
    config.qkNorm = config.modelType == "qwen3";
    const bool attentionBias = keys.boolean("attention_bias", false);
    config.qkvBias = config.modelType == "qwen2" || attentionBias;
    config.outputBias = config.modelType != "qwen2" && attentionBias;
    config.mlpBias = config.modelType == "llama" && keys.boolean("mlp_bias", false);
    config.storedDType = keys.find("quantization_config") ? "float8_e4m3" : keys.text("dtype", keys.text("torch_dtype", ""));
    config.rope = readRope(keys, config);
    readTokens(keys, file, config);
    checkModelConfig(config, file.string());
    return config;
}

ModelConfig readHfConfig(const std::filesystem::path& configJson) {
    return hfConfigFromJson(readJsonFile(configJson), configJson);
}

} // namespace linnet::core
