#include "core/io/gguf_names.h"

#include "core/base/result.h"

#include <charconv>
#include <span>

namespace linnet::core {
namespace {

struct Pair {
    std::string_view gguf, huggingFace;
};

constexpr Pair kWhole[] = {
    {"token_embd.weight", "model.embed_tokens.weight"}, {"output_norm.weight", "model.norm.weight"}, {"output.weight", "lm_head.weight"}};
constexpr Pair kMlp[] = {{"ffn_gate", "mlp.gate_proj"}, {"ffn_up", "mlp.up_proj"}, {"ffn_down", "mlp.down_proj"}};
constexpr Pair kAttention[] = {{"attn_norm", "input_layernorm"},     {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
                               {"attn_v", "self_attn.v_proj"},       {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
                               {"attn_k_norm", "self_attn.k_norm"}};
constexpr Pair kTeacherNorm[] = {{"ffn_norm", "post_attention_layernorm"}};
constexpr Pair kLinear[] = {{"post_attention_norm", "post_attention_layernorm"}, {"attn_qkv", "linear_attn.in_proj_qkv"},
                            {"attn_gate", "linear_attn.in_proj_z"},              {"ssm_conv1d", "linear_attn.conv1d"},
                            {"ssm_alpha", "linear_attn.in_proj_a"},              {"ssm_beta", "linear_attn.in_proj_b"},
                            {"ssm_norm", "linear_attn.norm"},                    {"ssm_out", "linear_attn.out_proj"}};
constexpr Pair kLinearWhole[] = {{"ssm_a", "linear_attn.A_log"}, {"ssm_dt.bias", "linear_attn.dt_bias"}}; // with no suffix, or another

using Tables = std::initializer_list<std::span<const Pair>>;

const std::string_view* lookUp(std::span<const Pair> pairs, std::string_view Pair::*from, std::string_view Pair::*to, std::string_view name) {
    for (const auto& pair : pairs)
        if (pair.*from == name)
            return &(pair.*to);
    return nullptr;
}

// What follows "<prefix>N.", and N: "blk." or "model.layers.".
std::optional<std::pair<std::int64_t, std::string_view>> inLayer(std::string_view name, std::string_view prefix) {
    if (!name.starts_with(prefix))
        return std::nullopt;
    const auto rest = name.substr(prefix.size());
    std::int64_t layer = -1;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), layer);
    const auto digits = static_cast<std::size_t>(end - rest.data());
    if (error != std::errc{} || layer < 0 || rest.substr(0, digits) != std::to_string(layer) || rest.substr(digits, 1) != ".")
        return std::nullopt;
    return std::pair(layer, rest.substr(digits + 1));
}

// "attn_q.bias" by the tables for what stands before ".weight" or ".bias".
std::optional<std::string> translated(std::string_view part, const Tables& tables, std::string_view Pair::*from, std::string_view Pair::*to) {
    const auto dot = part.rfind('.');
    if (dot == part.npos || (part.substr(dot) != ".weight" && part.substr(dot) != ".bias"))
        return std::nullopt;
    for (const auto& table : tables)
        if (const auto* found = lookUp(table, from, to, part.substr(0, dot)))
            return std::string(*found) + std::string(part.substr(dot));
    return std::nullopt;
}

} // namespace

std::optional<std::string> huggingFaceName(std::string_view ggufName, std::int64_t layers, GgufNames names) {
    if (const auto* whole = lookUp(kWhole, &Pair::gguf, &Pair::huggingFace, ggufName))
        return std::string(*whole);
    const auto place = inLayer(ggufName, "blk.");
    if (!place || place->first >= layers)
        return std::nullopt;
    const auto& [layer, part] = *place;
    const auto prefix = "model.layers." + std::to_string(layer) + ".";
    const bool hybrid = names == GgufNames::Qwen35;
    if (const auto* whole = hybrid ? lookUp(kLinearWhole, &Pair::gguf, &Pair::huggingFace, part) : nullptr)
        return prefix + std::string(*whole);
    const auto found = translated(part, {kAttention, kMlp, hybrid ? std::span<const Pair>(kLinear) : std::span<const Pair>(kTeacherNorm)}, &Pair::gguf, &Pair::huggingFace);
    return found ? std::optional(prefix + *found) : std::nullopt;
}

std::string qwen35GgufName(std::string_view huggingFaceName) {
    if (const auto* whole = lookUp(kWhole, &Pair::huggingFace, &Pair::gguf, huggingFaceName))
        return std::string(*whole);
    if (const auto place = inLayer(huggingFaceName, "model.layers.")) {
        const auto prefix = "blk." + std::to_string(place->first) + ".";
        if (const auto* whole = lookUp(kLinearWhole, &Pair::huggingFace, &Pair::gguf, place->second))
            return prefix + std::string(*whole);
        if (const auto found = translated(place->second, {kAttention, kMlp, kLinear}, &Pair::huggingFace, &Pair::gguf))
            return prefix + *found;
    }
    fail(ErrorCode::Internal, "GGUF has no name for tensor " + std::string(huggingFaceName), {{"tensor", std::string(huggingFaceName)}});
}

} // namespace linnet::core
