// A flash-linear-attention folder as a teacher with converted layers. Keys and defaults: fla 0.6 models/gated_deltanet/configuration_gated_deltanet.py
// and models/configuration_utils.py (`attn`: null, one dictionary as in older releases, or a list of them).
#include "core/base/result.h"
#include "core/io/checkpoint_folder.h"
#include "core/io/config_checks.h"
#include "core/io/fla_source.h"
#include "core/model/opened_model.h"

namespace linnet::core {
namespace {

namespace fs = std::filesystem;

// Reads of one JSON object that know the class's defaults and name file and key when they refuse.
class FlaKeys {
public:
    FlaKeys(const Json& object, const fs::path& file, std::string prefix = {}) : m_object(object), m_file(file.string()), m_prefix(std::move(prefix)) {}

    Json value(const std::string& key, const Json& otherwise) const {
        const auto found = m_object.find(key);
        return found == m_object.end() ? otherwise : *found;
    }
    std::int64_t integer(const std::string& key, std::int64_t most, const Json& otherwise = {}) const {
        const Json found = value(key, otherwise);
        if (!found.is_number_integer() || found.get<std::int64_t>() < 1 || found.get<std::int64_t>() > most)
            refuse(ErrorCode::Malformed, key, found, "a whole number from 1 to " + std::to_string(most));
        return found.get<std::int64_t>();
    }
    double real(const std::string& key, double otherwise) const {
        const Json found = value(key, otherwise);
        if (!found.is_number())
            refuse(ErrorCode::Malformed, key, found, "a number");
        return found.get<double>();
    }
    template <class... Allowed> void only(const std::string& key, const Json& otherwise, const Allowed&... allowed) const {
        const Json found = value(key, otherwise);
        const Json list = Json::array({Json(allowed)...});
        for (const auto& one : list)
            if (found == one)
                return;
        refuse(ErrorCode::Unsupported, key, found, list.size() == 1 ? list[0].dump() : "one of " + list.dump());
    }
    [[noreturn]] void refuse(ErrorCode code, const std::string& key, const Json& found, const std::string& expected) const {
        std::string shown = found.dump();
        if (shown.size() > 200)
            shown = shown.substr(0, 200) + "...";
        fail(code, m_file + ": key \"" + m_prefix + key + "\" is " + shown + ", " + expected + (code == ErrorCode::Unsupported ? " is supported" : " was expected"),
             {{"file", m_file}, {"key", m_prefix + key}, {"found", shown}, {"expected", expected}});
    }

private:
    const Json& m_object;
    std::string m_file, m_prefix;
};

struct Attention { // what all entries of `attn` must share
    std::int64_t heads = 0, kvHeads = 0;
    bool qkvBias = false;
    double ropeTheta = 10000;
    bool operator==(const Attention&) const = default;
};

void readLayers(const FlaKeys& keys, std::int64_t window, FlaLayout& layout) {
    const Json list = keys.value("layers", {});
    if (!list.is_array())
        keys.refuse(ErrorCode::Malformed, "layers", list, "a list of layers");
    for (const auto& layer : list) {
        if (!layer.is_number_unsigned() || layer.get<std::uint64_t>() >= static_cast<std::uint64_t>(layout.layers) || !layout.attention.insert(layer.get<std::int64_t>()).second)
            keys.refuse(ErrorCode::Malformed, "layers", list, "layers 0 to " + std::to_string(layout.layers - 1) + ", none twice");
        if (window > 0)
            layout.windows[layer.get<std::int64_t>()] = window;
    }
}

Attention readAttention(const Json& attn, const FlaKeys& whole, const fs::path& file, FlaLayout& layout) {
    std::optional<Attention> all;
    for (const auto& entry : attn.is_array() ? attn : Json::array({attn})) {
        if (!entry.is_object())
            whole.refuse(ErrorCode::Malformed, "attn", attn, "null, an object or a list of objects");
        const FlaKeys keys(entry, file, "attn.");
        Attention one;
        one.heads = keys.integer("num_heads", kMostHeads);
        one.kvHeads = keys.value("num_kv_heads", {}).is_null() ? one.heads : keys.integer("num_kv_heads", kMostHeads);
        const Json bias = keys.value("qkv_bias", false), window = keys.value("window_size", {});
        if (!bias.is_boolean())
            keys.refuse(ErrorCode::Malformed, "qkv_bias", bias, "true or false");
        one.qkvBias = bias.get<bool>();
        one.ropeTheta = keys.real("rope_theta", 10000);
        readLayers(keys, window.is_null() ? 0 : keys.integer("window_size", kMostPositions), layout);
        if (all && !(*all == one))
            whole.refuse(ErrorCode::Unsupported, "attn", attn, "only one num_heads, num_kv_heads, qkv_bias and rope_theta for all softmax layers");
        all = one;
    }
    layout.qkvBias = all && all->qkvBias;
    return all.value_or(Attention{});
}

void checkLinearLayers(const FlaKeys& keys, FlaLayout& layout) {
    const std::int64_t heads = keys.integer("num_heads", kMostHeads, 6), dim = keys.integer("head_dim", kLargestHeadDim, 256);
    const Json convolution = keys.value("use_short_conv", true);
    layout.width = heads * dim;
    layout.shortConvolution = convolution != false;
    keys.only("use_short_conv", true, true, false);
    if (layout.shortConvolution)
        keys.only("conv_size", 4, 4);
    keys.only("expand_v", 2.0, 1);
    keys.only("use_gate", true, true);
    keys.only("output_gate_activation", "swish", "swish", "silu");
    keys.only("allow_neg_eigval", false, false);
    keys.only("num_v_heads", Json(), Json(), heads);
}

// GatedMLP's rule where intermediate_size is null.
std::int64_t intermediateSize(const FlaKeys& keys, std::int64_t hidden) {
    if (!keys.value("intermediate_size", {}).is_null())
        return keys.integer("intermediate_size", kLargestWidth);
    const std::int64_t ratio = keys.value("hidden_ratio", 4).is_null() ? 4 : keys.integer("hidden_ratio", 1024, 4);
    return (hidden * ratio * 2 / 3 + 255) / 256 * 256;
}

} // namespace

OpenedModel openFla(const fs::path& folder) {
    const fs::path file = folder / "config.json";
    const Json config = readJsonFile(file);
    const FlaKeys keys(config, file);
    FlaLayout layout;
    layout.layers = keys.integer("num_hidden_layers", kMostLayers, 21);
    const std::int64_t hidden = keys.integer("hidden_size", kLargestWidth, 2048);
    const Json attn = keys.value("attn", {});
    const Attention attention = attn.is_null() ? Attention{} : readAttention(attn, keys, file, layout);
    const bool linear = std::ssize(layout.attention) < layout.layers, softmax = !layout.attention.empty();
    if (softmax && hidden % attention.heads != 0)
        keys.refuse(ErrorCode::Malformed, "attn.num_heads", attention.heads, "a divisor of hidden_size, " + std::to_string(hidden) + ",");
    if (linear)
        checkLinearLayers(keys, layout);
    if (linear && softmax) { // one number of heads for all layers is what we have
        keys.only("num_heads", 6, attention.heads);
        keys.only("head_dim", 256, hidden / attention.heads);
    }
    keys.only("attnres_block_size", Json(), Json());
    keys.only("hidden_act", "swish", "swish");
    const Json heads = softmax ? Json(attention.heads) : keys.value("num_heads", 6);
    Json teacher{{"model_type", attention.qkvBias ? "qwen2" : "llama"}, {"hidden_size", hidden}, {"num_hidden_layers", layout.layers},
                 {"intermediate_size", intermediateSize(keys, hidden)}, {"vocab_size", keys.value("vocab_size", 32000)}, {"num_attention_heads", heads},
                 {"num_key_value_heads", softmax ? Json(attention.kvHeads) : heads}, {"head_dim", softmax ? Json(hidden / attention.heads) : keys.value("head_dim", 256)},
                 {"max_position_embeddings", keys.value("max_position_embeddings", 2048)}, {"rms_norm_eps", keys.real("norm_eps", 1e-6)},
                 {"rope_theta", attention.ropeTheta}, {"tie_word_embeddings", keys.value("tie_word_embeddings", false)},
                 {"bos_token_id", keys.value("bos_token_id", 1)}, {"eos_token_id", keys.value("eos_token_id", 2)}};
    for (const char* key : {"dtype", "torch_dtype", "quantization_config"})
        if (config.contains(key))
            teacher[key] = config[key];
    OpenedModel opened;
    opened.files.path = folder;
    opened.files.config = hfConfigFromJson(parseJson(teacher.dump(), file.string()), file); // its numbers as a file has them
    opened.files.weights = flaSource(openFolderWeights(folder, opened.files.config.tiedEmbeddings, opened.files.warnings, "model.embeddings.weight"), layout);
    opened.files.tokenizer = openTokenizerJson(tokenizerFolder(folder));
    opened.student = opened.files.weights;
    opened.mixer = "gated_delta_net";
    return opened;
}

} // namespace linnet::core
