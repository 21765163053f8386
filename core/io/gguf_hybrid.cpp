#include "core/io/gguf_hybrid.h"

#include "core/base/result.h"
#include "core/io/gguf_config.h"
#include "core/io/model_files.h"
#include "core/io/qwen35_source.h"

#include <algorithm>

namespace linnet::core {
namespace {

constexpr std::int64_t kTaps = 4; // of the short convolution

class HybridKeys {
public:
    explicit HybridKeys(const GgufFile& file) : m_file(file) {}

    const std::vector<std::int64_t>* list(const char* key) const { return m_file.find<std::vector<std::int64_t>>(full(key)); }
    const std::int64_t* number(const char* key) const { return m_file.find<std::int64_t>(full(key)); }

    void expect(const char* key, std::int64_t expected, const char* why) const {
        const auto& found = m_file.require<std::int64_t>(full(key));
        if (found != expected)
            refuse(ErrorCode::Unsupported, key, std::to_string(found), std::string(why) + ": only " + std::to_string(expected) + " is supported");
    }
    [[noreturn]] void refuse(ErrorCode code, const char* key, const std::string& found, const std::string& why) const {
        fail(code, m_file.path().string() + ": metadata key " + full(key) + " is " + found + ": " + why, {{"file", m_file.path().string()}, {"key", full(key)}, {"found", found}});
    }

private:
    static std::string full(const char* key) { return std::string("qwen35.") + key; }
    const GgufFile& m_file;
};

// recurrent_layers says it; files without it have a softmax layer at every full_attention_interval-th place (4 where that is missing, too).
std::set<std::int64_t> linearLayers(const HybridKeys& keys, const ModelConfig& config) {
    std::set<std::int64_t> layers;
    if (const auto* flags = keys.list("attention.recurrent_layers")) {
        if (std::ssize(*flags) != config.layers)
            keys.refuse(ErrorCode::Malformed, "attention.recurrent_layers", "a list of " + std::to_string(flags->size()), "one entry for each of the " + std::to_string(config.layers) + " layers is expected");
        for (std::int64_t l = 0; l < config.layers; ++l)
            if ((*flags)[static_cast<std::size_t>(l)])
                layers.insert(l);
        return layers;
    }
    const auto* interval = keys.number("full_attention_interval");
    if (interval && *interval < 1)
        keys.refuse(ErrorCode::Malformed, "full_attention_interval", std::to_string(*interval), "a number from 1 is expected");
    for (std::int64_t l = 0; l < config.layers; ++l)
        if ((l + 1) % (interval ? *interval : 4) != 0)
            layers.insert(l);
    return layers;
}

// Text stands at the same position in the sections "time", "height" and "width", so they don't matter, but that in the fourth a position is 0.
void checkSections(const HybridKeys& keys, const ModelConfig& config) {
    const auto* sections = keys.list("rope.dimension_sections");
    if (!sections)
        return;
    std::int64_t all = 0;
    for (const auto size : *sections)
        all += std::max<std::int64_t>(size, 0);
    const auto at = [&](std::size_t i) { return i < sections->size() ? (*sections)[i] : 0; };
    for (std::int64_t pair = 0; all > 0 && pair < config.headDim / 2; ++pair) // interleaved, as ggml's rope has it for qwen35
        if (const auto sector = pair % all; sector >= 3 * at(static_cast<std::size_t>(sector % 3)))
            keys.refuse(ErrorCode::Unsupported, "rope.dimension_sections", "such", "rotary pair " + std::to_string(pair) + " of a head has no position of a text");
}

void checkTensors(const std::filesystem::path& file, const WeightSource& weights, const std::set<std::int64_t>& linear, std::int64_t layers) {
    for (std::int64_t l = 0; l < layers; ++l) {
        const auto prefix = "model.layers." + std::to_string(l) + ".";
        const bool listed = linear.contains(l), there = weights.find(prefix + "linear_attn.q_proj.weight");
        if (listed != there)
            fail(ErrorCode::Malformed, file.string() + ": layer " + std::to_string(l) + " is " + (listed ? "linear" : "softmax") +
                     " by qwen35.attention.recurrent_layers or full_attention_interval, but its tensors are those of " + (there ? "a linear layer" : "no linear layer"),
                 {{"file", file.string()}, {"key", "qwen35.attention.recurrent_layers"}, {"tensor", "blk." + std::to_string(l) + ".attn_qkv.weight"}});
    }
}

} // namespace

bool isGgufHybrid(const std::filesystem::path& file) {
    return file.extension() == ".gguf" && isGgufHybrid(GgufFile(file));
}

GgufHybrid openGgufHybrid(const std::filesystem::path& path) {
    const GgufFile file(path);
    const HybridKeys keys(file);
    GgufHybrid hybrid{ggufConfig(file), nullptr, {}};
    const auto& config = hybrid.config;
    hybrid.linearLayers = linearLayers(keys, config);
    checkSections(keys, config);
    if (!hybrid.linearLayers.empty()) {
        keys.expect("ssm.state_size", config.headDim, "linear layers have heads of another size than softmax layers (attention.key_length)");
        keys.expect("ssm.group_count", config.heads, "linear layers have fewer or more key heads than softmax layers have heads (attention.head_count)");
        keys.expect("ssm.time_step_rank", config.heads, "linear layers have fewer or more value heads than softmax layers have heads (attention.head_count)");
        keys.expect("ssm.inner_size", config.heads * config.headDim, "this is not the heads' size times their number");
        keys.expect("ssm.conv_kernel", kTaps, "the short convolution has another length");
    }
    hybrid.weights = qwen35Source(openGguf(path), config, NormsStored::Plain);
    checkTensors(path, *hybrid.weights, hybrid.linearLayers, config.layers);
    return hybrid;
}

} // namespace linnet::core
