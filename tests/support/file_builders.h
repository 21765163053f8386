// Bytes of small GGUF and safetensors files, right or wrong on purpose.
#pragma once

#include "core/base/json.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace linnet::tests {

template <class T> std::string raw(T value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}

inline std::string ggufString(std::string_view text) {
    return raw<std::uint64_t>(text.size()) + std::string(text);
}

inline void writeBytes(const std::filesystem::path& file, std::string_view bytes) {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// A safetensors file: length, header text as given, data.
inline std::string safetensorsBytes(std::string_view header, std::string_view data) {
    return raw<std::uint64_t>(header.size()) + std::string(header) + std::string(data);
}

// Metadata and tensors in the order of the calls; every part can be replaced by hand before `bytes`.
class GgufBuilder {
public:
    std::uint32_t magic = 0x46554747, version = 3;
    std::uint64_t alignment = 32;
    std::int64_t extraTensors = 0, extraKeys = 0; // added to the announced counts

    GgufBuilder& key(std::string_view name, std::uint32_t type, std::string_view value) {
        m_keys += ggufString(name) + raw(type) + std::string(value);
        ++m_keyCount;
        return *this;
    }
    GgufBuilder& text(std::string_view name, std::string_view value) { return key(name, 8, ggufString(value)); }
    GgufBuilder& u32(std::string_view name, std::uint32_t value) { return key(name, 4, raw(value)); }
    GgufBuilder& f32(std::string_view name, float value) { return key(name, 6, raw(value)); }
    GgufBuilder& texts(std::string_view name, const std::vector<std::string>& values) {
        std::string bytes = raw<std::uint32_t>(8) + raw<std::uint64_t>(values.size());
        for (const auto& value : values)
            bytes += ggufString(value);
        return key(name, 9, bytes);
    }
    // Data follows in the order of the calls, padded; `offset` -1: where it really lies.
    GgufBuilder& tensor(std::string_view name, const std::vector<std::int64_t>& dims, std::uint32_t type, std::string_view data,
                        std::int64_t offset = -1) {
        m_infos += ggufString(name) + raw<std::uint32_t>(static_cast<std::uint32_t>(dims.size()));
        for (const auto dim : dims)
            m_infos += raw(dim);
        m_infos += raw(type) + raw<std::uint64_t>(offset < 0 ? m_data.size() : static_cast<std::uint64_t>(offset));
        m_data += data;
        m_data.resize((m_data.size() + alignment - 1) / alignment * alignment, '\0');
        ++m_tensorCount;
        return *this;
    }
    std::string bytes() const {
        std::string all =
            raw(magic) + raw(version) + raw(m_tensorCount + extraTensors) + raw(m_keyCount + extraKeys) + m_keys + m_infos;
        if (!m_data.empty())
            all.resize((all.size() + alignment - 1) / alignment * alignment, '\0');
        return all + m_data;
    }

private:
    std::string m_keys, m_infos, m_data;
    std::int64_t m_keyCount = 0, m_tensorCount = 0;
};

inline std::string zeros(std::int64_t floats) {
    return std::string(static_cast<std::size_t>(floats) * 4, '\0');
}

// The tensors of a one-layer model with hidden size 8, two heads of 4, one key/value head, 16 in the middle, 6 tokens.
inline void addTinyTensors(GgufBuilder& builder, const std::string& without = {}) {
    const std::vector<std::pair<std::string, std::vector<std::int64_t>>> kTensors{
        {"token_embd.weight", {8, 6}},      {"blk.0.attn_norm.weight", {8}},    {"blk.0.attn_q.weight", {8, 8}},
        {"blk.0.attn_k.weight", {8, 4}},    {"blk.0.attn_v.weight", {8, 4}},    {"blk.0.attn_output.weight", {8, 8}},
        {"blk.0.ffn_norm.weight", {8}},     {"blk.0.ffn_gate.weight", {8, 16}}, {"blk.0.ffn_up.weight", {8, 16}},
        {"blk.0.ffn_down.weight", {16, 8}}, {"output_norm.weight", {8}},
    };
    for (const auto& [name, dims] : kTensors)
        if (name != without)
            builder.tensor(name, dims, 0, zeros(dims[0] * (dims.size() > 1 ? dims[1] : 1)));
}

inline GgufBuilder tinyGgufKeys(const std::string& without = {}, const std::string& architecture = "llama") {
    GgufBuilder builder;
    builder.text("general.architecture", architecture);
    const std::vector<std::pair<std::string, std::uint32_t>> kNumbers{
        {"block_count", 1},          {"context_length", 64},      {"embedding_length", 8},
        {"feed_forward_length", 16}, {"attention.head_count", 2}, {"attention.head_count_kv", 1},
    };
    for (const auto& [key, value] : kNumbers)
        if (key != without)
            builder.u32(architecture + "." + key, value);
    if (without != "attention.layer_norm_rms_epsilon")
        builder.f32(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
    return builder;
}

// config.json of the same model.
inline core::Json tinyConfig() {
    return {{"model_type", "llama"},
            {"architectures", {"LlamaForCausalLM"}},
            {"hidden_size", 8},
            {"num_hidden_layers", 1},
            {"num_attention_heads", 2},
            {"num_key_value_heads", 1},
            {"intermediate_size", 16},
            {"vocab_size", 6},
            {"rms_norm_eps", 1e-5},
            {"max_position_embeddings", 64},
            {"tie_word_embeddings", true},
            {"torch_dtype", "float32"}};
}

} // namespace linnet::tests
