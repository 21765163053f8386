#include "core/io/gguf_hybrid.h"

#include "core/base/result.h"
#include "core/io/dtype_convert.h"
#include "core/io/gguf_config.h"
#include "core/io/model_files.h"
#include "core/io/qwen35_source.h"

#include <algorithm>
#include <cmath>

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

// Softmax layers without QK-norm, which core/export/eps_lift.h stores with q and k times 2^-k and a norm of sqrt(eps) 2^k: k is taken back.
class UnscaledHeads : public WeightSource {
public:
    UnscaledHeads(std::shared_ptr<const WeightSource> given, std::shared_ptr<const WeightSource> stored, const ModelConfig& config)
        : m_given(std::move(given)), m_stored(std::move(stored)), m_config(config) {}

    const std::vector<TensorInfo>& tensors() const override { return m_given->tensors(); }
    const TensorInfo* find(const std::string& name) const override { return m_given->find(name); }
    DType nativeDType() const override { return m_given->nativeDType(); }
    std::string hash() const override { return m_given->hash(); }

    void read(const std::string& name, DType dtype, void* out) const override {
        const auto at = name.find(".self_attn.");
        const auto part = at == name.npos ? std::string() : name.substr(at + 11, 7);
        if (part != "q_proj." && part != "k_proj.")
            return m_given->read(name, dtype, out);
        std::size_t count = 1;
        for (const auto size : find(name)->shape)
            count *= static_cast<std::size_t>(size);
        std::vector<float> values(count);
        m_given->read(name, DType::F32, values.data());
        const float factor = scaleOf(name.substr(0, at + 11) + part[0] + "_norm.weight");
        std::ranges::for_each(values, [factor](float& value) { value *= factor; });
        convertFloats(values.data(), count, dtype, out);
    }

private:
    float scaleOf(const std::string& norm) const {
        std::vector<float> w(static_cast<std::size_t>(m_config.headDim));
        if (const auto* info = m_stored->find(norm); !info || info->shape != std::vector<std::int64_t>{m_config.headDim})
            fail(ErrorCode::Malformed, "tensor " + norm + " is missing or has another size than a head (" + std::to_string(m_config.headDim) + ")", {{"tensor", norm}});
        m_stored->read(norm, DType::F32, w.data());
        const double root = std::sqrt(static_cast<double>(static_cast<float>(m_config.rmsNormEps)));
        const double scale = std::exp2(std::round(std::log2(static_cast<double>(w[0]) / root)));
        for (const float value : w)
            if (!(std::abs(static_cast<double>(value) - root * scale) <= 1e-5 * root * scale))
                fail(ErrorCode::Unsupported, "tensor " + norm + " holds " + std::to_string(value) + ": a " + m_config.modelType + " teacher has no norm of q and k, only sqrt(eps) times a power of two was expected",
                     {{"tensor", norm}, {"found", std::to_string(value)}});
        return static_cast<float>(scale);
    }

    std::shared_ptr<const WeightSource> m_given, m_stored;
    ModelConfig m_config;
};

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
    const std::shared_ptr<const WeightSource> stored = openGguf(path);
    hybrid.weights = qwen35Source(stored, config, NormsStored::Plain);
    if (!config.qkNorm)
        hybrid.weights = std::make_shared<UnscaledHeads>(hybrid.weights, stored, config);
    checkTensors(path, *hybrid.weights, hybrid.linearLayers, config.layers);
    return hybrid;
}

} // namespace linnet::core
