#include "core/io/fla_source.h"

#include "core/base/result.h"
#include "core/io/dtype_convert.h"
#include "core/io/renamed_source.h"
#include "core/io/text_checks.h"

#include <unordered_map>

namespace linnet::core {
namespace {

constexpr std::int64_t kTaps = 4;

struct Given {
    TensorInfo info;
    std::string stored;        // "": made of `values`, repeated
    std::vector<float> values;
};

// Their name and ours, for each tensor of the layout.
std::vector<std::pair<std::string, std::string>> namesOf(const FlaLayout& layout) {
    std::vector<std::pair<std::string, std::string>> names{{"model.embeddings.weight", "model.embed_tokens.weight"}};
    for (std::int64_t l = 0; l < layout.layers; ++l) {
        const auto prefix = "model.layers." + std::to_string(l) + ".";
        const bool softmax = layout.attention.contains(l);
        const auto attention = [&](const std::string& name) { names.emplace_back(prefix + "attn." + name, prefix + (softmax ? "self_attn." : "linear_attn.") + name); };
        names.emplace_back(prefix + "attn_norm.weight", prefix + "input_layernorm.weight");
        for (const std::string name : {"q", "k", "v", "o"})
            attention(name + "_proj.weight");
        for (const std::string name : {"q", "k", "v"}) {
            if (softmax && layout.qkvBias)
                attention(name + "_proj.bias");
            if (softmax && layout.qkNorm && name != "v")
                attention(name + "_norm.weight");
            if (!softmax && layout.shortConvolution)
                attention(name + "_conv1d.weight");
        }
        if (!softmax)
            for (const char* name : {"a_proj.weight", "b_proj.weight", "g_proj.weight", "A_log", "dt_bias", "o_norm.weight"})
                attention(name);
        names.emplace_back(prefix + "mlp_norm.weight", prefix + "post_attention_layernorm.weight");
        for (const char* name : {"mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight"})
            names.emplace_back(prefix + name, prefix + name);
    }
    names.emplace_back("model.norm.weight", "model.norm.weight");
    return names;
}

class FlaSource : public RenamedSource<Given> {
public:
    FlaSource(std::shared_ptr<const WeightSource> stored, const FlaLayout& layout) : RenamedSource(std::move(stored)) {
        std::unordered_map<std::string, std::string> known{{"lm_head.weight", "lm_head.weight"}}; // may be left out where it is tied
        for (const auto& [theirs, ours] : namesOf(layout)) {
            if (!this->stored().find(theirs))
                fail(ErrorCode::Malformed, "tensor " + theirs + " is missing from this gated_deltanet model", {{"tensor", theirs}, {"found", "nothing"}});
            known.emplace(theirs, ours);
        }
        for (const auto& info : this->stored().tensors()) {
            if (info.name.ends_with(".rotary.inv_freq")) // releases before 0.2 stored it
                continue;
            const auto found = known.find(info.name);
            if (found == known.end())
                fail(ErrorCode::Unsupported, "tensor " + printable(info.name) + " has no place in a gated_deltanet model of this configuration", {{"tensor", info.name}});
            add({info, info.name, {}}, found->second);
        }
        for (std::int64_t l = 0; l < layout.layers; ++l) {
            const auto prefix = "model.layers." + std::to_string(l) + ".";
            if (!layout.attention.contains(l) && !layout.shortConvolution)
                for (const char* name : {"linear_attn.q_conv1d.weight", "linear_attn.k_conv1d.weight", "linear_attn.v_conv1d.weight"})
                    add({{{}, {layout.width, 1, kTaps}, "F32", 0}, {}, {0, 0, 0, 1}}, prefix + name);
            if (const auto window = layout.windows.find(l); window != layout.windows.end())
                add({{{}, {2}, "F32", 0}, {}, {static_cast<float>(window->second), 0}}, prefix + "sliding_window");
        }
    }

    void read(const std::string& name, DType dtype, void* out) const override {
        const auto& [info, theirs, values] = given(name);
        if (!theirs.empty())
            return stored().read(theirs, dtype, out);
        std::vector<float> all(static_cast<std::size_t>(info.shape[0] * (info.shape.size() == 3 ? kTaps : 1)));
        for (std::size_t i = 0; i < all.size(); ++i)
            all[i] = values[i % values.size()];
        convertFloats(all.data(), all.size(), dtype, out);
    }
};

} // namespace

std::shared_ptr<const WeightSource> flaSource(std::shared_ptr<const WeightSource> stored, const FlaLayout& layout) {
    return std::make_shared<FlaSource>(std::move(stored), layout);
}

} // namespace linnet::core
