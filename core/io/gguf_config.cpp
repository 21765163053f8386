#include "core/io/gguf_config.h"

#include "core/base/result.h"
#include "core/io/config_checks.h"
#include "core/io/gguf_dequant.h"
#include "core/io/model_files.h"
#include "core/io/text_checks.h"

#include <algorithm>
#include <map>

namespace linnet::core {
namespace {

constexpr const char* kHybrid = "qwen35";

// Typed reads of "<architecture>.<key>" that name file, key and value when they refuse.
class ArchitectureKeys {
public:
    ArchitectureKeys(const GgufFile& file, std::string architecture) : m_file(file), m_architecture(std::move(architecture)) {}

    std::int64_t integer(const std::string& key, std::int64_t most) const {
        const auto value = optionalInteger(key, most);
        if (!value)
            fail(ErrorCode::Malformed, m_file.path().string() + ": metadata key " + full(key) + " is missing",
                 {{"file", m_file.path().string()}, {"key", full(key)}});
        return *value;
    }

    std::optional<std::int64_t> optionalInteger(const std::string& key, std::int64_t most) const {
        if (const auto entry = m_file.metadata().find(full(key));
            entry != m_file.metadata().end() && std::holds_alternative<std::vector<std::int64_t>>(entry->second))
            fail(ErrorCode::Unsupported,
                 m_file.path().string() + ": metadata key " + full(key) + " differs by layer; one number for all is supported",
                 {{"file", m_file.path().string()}, {"key", full(key)}});
        const auto* value = m_file.find<std::int64_t>(full(key));
        if (!value)
            return std::nullopt;
        if (*value < 1 || *value > most)
            refuse(key, std::to_string(*value), "a number from 1 to " + std::to_string(most) + " was expected");
        return *value;
    }

    double real(const std::string& key, double otherwise) const {
        const auto* value = m_file.find<double>(full(key));
        return value ? shortestDouble(*value) : otherwise;
    }

    const std::string* text(const std::string& key) const { return m_file.find<std::string>(full(key)); }
    bool has(const std::string& key) const { return m_file.metadata().contains(full(key)); }

    // A feature that would change what the model computes: absent, or 0 for "off".
    void refuseIfSet(const std::string& key, const char* what) const {
        const auto* value = m_file.find<std::int64_t>(full(key));
        if (value && *value != 0)
            unsupported(key, std::to_string(*value), what);
    }

    [[noreturn]] void refuse(const std::string& key, const std::string& value, const std::string& why) const {
        fail(ErrorCode::Malformed, m_file.path().string() + ": metadata key " + full(key) + " is " + value + ", " + why,
             {{"file", m_file.path().string()}, {"key", full(key)}, {"found", value}});
    }

    [[noreturn]] void unsupported(const std::string& key, const std::string& value, const std::string& what) const {
        fail(ErrorCode::Unsupported, m_file.path().string() + ": metadata key " + full(key) + " is " + value + ": " + what,
             {{"file", m_file.path().string()}, {"key", full(key)}, {"found", value}});
    }

private:
    std::string full(const std::string& key) const { return m_architecture + "." + key; }

    const GgufFile& m_file;
    std::string m_architecture;
};

std::vector<double> readDivisors(const GgufFile& file, const ModelConfig& config) {
    const auto* tensor = file.findTensor("rope_freqs.weight");
    if (!tensor)
        return {};
    const auto expected = config.headDim / 2;
    if (tensor->dims != std::vector<std::int64_t>{expected} || tensor->type.type != GgufType::F32)
        fail(ErrorCode::Malformed,
             file.path().string() + ": tensor \"rope_freqs.weight\" must be F32 with " + std::to_string(expected) + " elements",
             {{"file", file.path().string()}, {"tensor", "rope_freqs.weight"}, {"expected", std::to_string(expected)}});
    std::vector<float> values(static_cast<std::size_t>(expected));
    readGgufTensor(file, *tensor, DType::F32, values.data());
    return {values.begin(), values.end()};
}

RopeConfig readRope(const GgufFile& file, const ArchitectureKeys& keys, const ModelConfig& config) {
    RopeConfig rope;
    rope.theta = keys.real("rope.freq_base", rope.theta);
    if (const auto dimensions = keys.optionalInteger("rope.dimension_count", kLargestHeadDim);
        dimensions && *dimensions != config.headDim)
        keys.unsupported("rope.dimension_count", std::to_string(*dimensions),
                         "rotary positions over a part of the head (" + std::to_string(config.headDim) + ") are not supported");
    const auto* type = keys.text("rope.scaling.type");
    if (type && *type != "none" && *type != "linear")
        keys.unsupported("rope.scaling.type", printable(*type),
                         "supported are none and linear, and llama3 as rope_freqs.weight");
    // Older converters wrote only rope.scale_linear; a factor without a type means linear to the reference loader, too.
    if (!type || *type == "linear")
        rope.factor = keys.real("rope.scaling.factor", keys.real("rope.scale_linear", 1));
    if (rope.factor == 0) // 0 stands for "none" there
        rope.factor = 1;
    if (rope.factor != 1)
        rope.type = "linear";
    rope.frequencyDivisors = readDivisors(file, config);
    return rope;
}

void readTokens(const GgufFile& file, ModelConfig& config) {
    if (const auto* tokens = file.find<std::vector<std::string>>("tokenizer.ggml.tokens");
        tokens && static_cast<std::int64_t>(tokens->size()) > config.vocabSize)
        fail(ErrorCode::Malformed,
             file.path().string() + ": \"tokenizer.ggml.tokens\" has " + std::to_string(tokens->size()) +
                 " tokens, but \"token_embd.weight\" only " + std::to_string(config.vocabSize) + " rows",
             {{"file", file.path().string()}, {"key", "tokenizer.ggml.tokens"}});
    if (const auto* bos = file.find<std::int64_t>("tokenizer.ggml.bos_token_id"))
        config.bosToken = *bos;
    for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"})
        if (const auto* token = file.find<std::int64_t>(key))
            if (std::find(config.endTokens.begin(), config.endTokens.end(), *token) == config.endTokens.end())
                config.endTokens.push_back(*token);
}

// The type that holds most of the bytes: what the file is called by.
std::string dominantType(const GgufFile& file) {
    std::map<std::string, std::uint64_t> bytes;
    for (const auto& tensor : file.tensors())
        bytes[tensor.type.name] += tensor.bytes;
    const auto largest = std::max_element(bytes.begin(), bytes.end(), [](auto& a, auto& b) { return a.second < b.second; });
    return largest == bytes.end() ? "" : largest->first;
}

std::string architectureOf(const GgufFile& file) {
    const auto path = file.path().string();
    const auto& architecture = file.require<std::string>("general.architecture");
    if (architecture != "llama" && architecture != "qwen2" && architecture != "qwen3" && architecture != kHybrid)
        fail(ErrorCode::Unsupported,
             path + ": architecture " + printable(architecture) + " is not supported; llama, qwen2, qwen3 and hybrids as qwen35 are",
             {{"file", path}, {"key", "general.architecture"}, {"found", architecture}});
    if (const auto* parts = file.find<std::int64_t>("split.count"); parts && *parts > 1)
        fail(ErrorCode::Unsupported,
             path + ": \"split.count\" is " + std::to_string(*parts) +
                 ": one part of a split model; join the parts into one file",
             {{"file", path}, {"key", "split.count"}, {"found", std::to_string(*parts)}});
    return architecture;
}

// What a hybrid was made from: ours say it, others are taken for what the architecture is.
std::string hybridTeacher(const GgufFile& file) {
    const auto* type = file.find<std::string>("linnet.teacher_type");
    if (type && *type != "llama" && *type != "qwen2" && *type != "qwen3")
        fail(ErrorCode::Unsupported, file.path().string() + ": metadata key linnet.teacher_type is " + printable(*type) + "; llama, qwen2 and qwen3 are supported",
             {{"file", file.path().string()}, {"key", "linnet.teacher_type"}, {"found", *type}});
    return type ? *type : "qwen3";
}

// A tensor of the first softmax layer, which need not be layer 0 in a hybrid.
bool anyLayerHas(const GgufFile& file, const std::string& part) {
    return std::ranges::any_of(file.tensors(), [&](const GgufTensor& tensor) { return tensor.name.starts_with("blk.") && tensor.name.ends_with("." + part); });
}

} // namespace

ModelConfig ggufConfig(const GgufFile& file) {
    ModelConfig config;
    const auto architecture = architectureOf(file);
    config.modelType = architecture == kHybrid ? hybridTeacher(file) : architecture;
    const ArchitectureKeys keys(file, architecture);
    keys.refuseIfSet("nextn_predict_layers", "layers that predict further tokens are not supported");
    keys.refuseIfSet("expert_count", "mixture-of-experts models are not supported");
    keys.refuseIfSet("attention.sliding_window", "sliding-window teachers are not supported");
    config.layers = keys.integer("block_count", kMostLayers);
    config.hiddenSize = keys.integer("embedding_length", kLargestWidth);
    config.intermediateSize = keys.integer("feed_forward_length", kLargestWidth);
    config.maxPositions = keys.integer("context_length", kMostPositions);
    config.heads = keys.integer("attention.head_count", kMostHeads);
    config.kvHeads = keys.optionalInteger("attention.head_count_kv", kMostHeads).value_or(config.heads);
    const auto keyLength = keys.optionalInteger("attention.key_length", kLargestHeadDim);
    if (!keyLength && (config.hiddenSize % config.heads != 0 || config.hiddenSize / config.heads > kLargestHeadDim))
        keys.refuse("attention.head_count", std::to_string(config.heads),
                    "which gives no head dimension for an embedding_length of " + std::to_string(config.hiddenSize));
    config.headDim = keyLength ? *keyLength : config.hiddenSize / config.heads;
    if (const auto valueLength = keys.optionalInteger("attention.value_length", kLargestHeadDim);
        valueLength && *valueLength != config.headDim)
        keys.unsupported("attention.value_length", std::to_string(*valueLength),
                         "values of another width than keys (" + std::to_string(config.headDim) + ") are not supported");
    if (!keys.has("attention.layer_norm_rms_epsilon"))
        keys.refuse("attention.layer_norm_rms_epsilon", "missing", "a number was expected");
    config.rmsNormEps = keys.real("attention.layer_norm_rms_epsilon", config.rmsNormEps);
    if (architecture == kHybrid && file.findTensor("rope_freqs.weight"))
        fail(ErrorCode::Unsupported, file.path().string() + ": tensor rope_freqs.weight: llama.cpp does not scale rotary positions by it in architecture qwen35",
             {{"file", file.path().string()}, {"tensor", "rope_freqs.weight"}});
    config.rope = readRope(file, keys, config);

    const auto* embedding = file.findTensor("token_embd.weight");
    if (!embedding || embedding->dims.size() != 2 || embedding->dims[1] < 1 || embedding->dims[1] > kLargestVocabulary)
        fail(ErrorCode::Malformed,
             file.path().string() + ": tensor \"token_embd.weight\" is missing or no matrix with 1 to " +
                 std::to_string(kLargestVocabulary) + " rows",
             {{"file", file.path().string()}, {"tensor", "token_embd.weight"}});
    config.vocabSize = embedding->dims[1];
    config.tiedEmbeddings = !file.findTensor("output.weight");
    config.qkNorm = config.modelType == "qwen3";
    config.qkvBias = anyLayerHas(file, "attn_q.bias");
    config.outputBias = anyLayerHas(file, "attn_output.bias");
    config.mlpBias = anyLayerHas(file, "ffn_gate.bias");
    config.storedDType = dominantType(file);
    readTokens(file, config);
    checkModelConfig(config, file.path().string());
    return config;
}

bool isGgufHybrid(const GgufFile& file) {
    const auto* architecture = file.find<std::string>("general.architecture");
    return architecture && *architecture == kHybrid;
}

ModelConfig readGgufConfig(const std::filesystem::path& gguf) {
    return ggufConfig(GgufFile(gguf));
}

} // namespace linnet::core
