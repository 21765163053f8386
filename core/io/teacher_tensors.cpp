// Which tensors a teacher has, and with which shapes.
#include "core/base/result.h"
#include "core/io/model_files.h"
#include "core/io/text_checks.h"

#include <unordered_map>

namespace linnet::core {
namespace {

using Shape = std::vector<std::int64_t>;
using Expected = std::vector<std::pair<std::string, Shape>>;

Expected expectedTensors(const ModelConfig& config) {
    const auto hidden = config.hiddenSize, queries = config.heads * config.headDim, keys = config.kvHeads * config.headDim;
    const auto middle = config.intermediateSize;
    Expected tensors{{"model.embed_tokens.weight", {config.vocabSize, hidden}}, {"model.norm.weight", {hidden}}};
    if (!config.tiedEmbeddings)
        tensors.push_back({"lm_head.weight", {config.vocabSize, hidden}});
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
        const auto prefix = "model.layers." + std::to_string(layer) + ".";
        const auto linear = [&](const std::string& name, std::int64_t out, std::int64_t in, bool bias) {
            tensors.push_back({prefix + name + ".weight", {out, in}});
            if (bias)
                tensors.push_back({prefix + name + ".bias", {out}});
        };
        linear("self_attn.q_proj", queries, hidden, config.qkvBias);
        linear("self_attn.k_proj", keys, hidden, config.qkvBias);
        linear("self_attn.v_proj", keys, hidden, config.qkvBias);
        linear("self_attn.o_proj", hidden, queries, config.outputBias);
        linear("mlp.gate_proj", middle, hidden, config.mlpBias);
        linear("mlp.up_proj", middle, hidden, config.mlpBias);
        linear("mlp.down_proj", hidden, middle, config.mlpBias);
        for (const char* name : {"input_layernorm.weight", "post_attention_layernorm.weight"})
            tensors.push_back({prefix + name, {hidden}});
        if (config.qkNorm)
            for (const char* name : {"self_attn.q_norm.weight", "self_attn.k_norm.weight"})
                tensors.push_back({prefix + name, {config.headDim}});
    }
    return tensors;
}

std::string shapeText(const Shape& shape) {
    std::string text = "[";
    for (const auto size : shape)
        text += (text.size() > 1 ? ", " : "") + std::to_string(size);
    return text + "]";
}

bool isFloat(const TensorInfo& info) {
    return info.storedType != "I32" && info.storedType != "I64"; // those are read, but no weights
}

} // namespace

void checkTeacherTensors(const ModelConfig& config, const WeightSource& weights) {
    std::unordered_map<std::string, Shape> expected;
    for (auto& [name, shape] : expectedTensors(config)) {
        const auto* info = weights.find(name);
        if (!info)
            fail(ErrorCode::Malformed,
                 "tensor " + printable(name) + " of shape " + shapeText(shape) + " is missing from the weights of this " +
                     config.modelType + " model",
                 {{"tensor", name}, {"expected", shapeText(shape)}, {"found", "nothing"}});
        if (info->shape != shape || !isFloat(*info))
            fail(ErrorCode::Malformed,
                 "tensor " + printable(name) + " has shape " + shapeText(info->shape) + " (" + info->storedType +
                     "), the configuration calls for " + shapeText(shape),
                 {{"tensor", name}, {"expected", shapeText(shape)}, {"found", shapeText(info->shape)}});
        expected.emplace(name, std::move(shape));
    }
    for (const auto& info : weights.tensors())
        if (!expected.contains(info.name) && !(config.tiedEmbeddings && info.name == "lm_head.weight") &&
            !info.name.ends_with(".rotary_emb.inv_freq"))
            fail(ErrorCode::Unsupported,
                 "tensor " + printable(info.name) + " belongs to no " + config.modelType + " model with this configuration",
                 {{"tensor", info.name}, {"found", shapeText(info.shape)}});
}

} // namespace linnet::core
