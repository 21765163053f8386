// Teachers of any shape without a file: weights are drawn from a tensor's name when they are read, the same in every dtype.
#pragma once

#include "core/torch_pch.h"

#include "core/model/model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/InferenceMode.h>

#include <cstring>

namespace linnet::tests {

class RandomWeights : public core::WeightSource {
public:
    explicit RandomWeights(const core::ModelConfig& c, double spread = 0.12) : m_spread(spread) {
        const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
            m_tensors.push_back({name, std::move(shape), "BF16", 0});
        };
        add("model.embed_tokens.weight", {c.vocabSize, c.hiddenSize});
        add("model.norm.weight", {c.hiddenSize});
        if (!c.tiedEmbeddings)
            add("lm_head.weight", {c.vocabSize, c.hiddenSize});
        const std::int64_t query = c.heads * c.headDim, key = c.kvHeads * c.headDim;
        for (std::int64_t l = 0; l < c.layers; ++l) {
            const std::string layer = "model.layers." + std::to_string(l) + ".", attention = layer + "self_attn.", mlp = layer + "mlp.";
            const auto linear = [&](const std::string& name, std::int64_t rows, std::int64_t columns, bool bias) {
                add(name + "_proj.weight", {rows, columns});
                if (bias)
                    add(name + "_proj.bias", {rows});
            };
            add(layer + "input_layernorm.weight", {c.hiddenSize});
            add(layer + "post_attention_layernorm.weight", {c.hiddenSize});
            linear(attention + "q", query, c.hiddenSize, c.qkvBias);
            linear(attention + "k", key, c.hiddenSize, c.qkvBias);
            linear(attention + "v", key, c.hiddenSize, c.qkvBias);
            linear(attention + "o", c.hiddenSize, query, c.outputBias);
            if (c.qkNorm) {
                add(attention + "q_norm.weight", {c.headDim});
                add(attention + "k_norm.weight", {c.headDim});
            }
            linear(mlp + "gate", c.intermediateSize, c.hiddenSize, c.mlpBias);
            linear(mlp + "up", c.intermediateSize, c.hiddenSize, c.mlpBias);
            linear(mlp + "down", c.hiddenSize, c.intermediateSize, c.mlpBias);
        }
    }
    const std::vector<core::TensorInfo>& tensors() const override { return m_tensors; }
    const core::TensorInfo* find(const std::string& name) const override {
        const auto found = std::find_if(m_tensors.begin(), m_tensors.end(), [&](const auto& info) { return info.name == name; });
        return found == m_tensors.end() ? nullptr : &*found;
    }
    void read(const std::string& name, core::DType dtype, void* out) const override {
        std::uint64_t seed = 17;
        for (const char letter : name)
            seed = seed * 131 + static_cast<unsigned char>(letter);
        auto generator = at::detail::createCPUGenerator(seed & 0xFFFFFFFF);
        at::Tensor values = at::randn(find(name)->shape, generator) * m_spread;
        if (name.ends_with("norm.weight"))
            values.add_(1);
        const auto type = dtype == core::DType::F16 ? at::kHalf : dtype == core::DType::BF16 ? at::kBFloat16 : at::kFloat;
        values = values.to(at::kBFloat16).to(type).contiguous();
        std::memcpy(out, values.const_data_ptr(), values.nbytes());
    }
    core::DType nativeDType() const override { return core::DType::BF16; }
    std::string hash() const override { return "random"; }

private:
    std::vector<core::TensorInfo> m_tensors;
    double m_spread;
};

// A small Llama; `change` makes another of it. No tokenizer.
inline core::ModelConfig smallConfig(const std::function<void(core::ModelConfig&)>& change = {}) {
    core::ModelConfig c;
    c.modelType = "llama";
    c.layers = 3, c.hiddenSize = 96, c.heads = 6, c.kvHeads = 2, c.headDim = 64, c.intermediateSize = 160, c.vocabSize = 517;
    c.maxPositions = 16384, c.rmsNormEps = 1e-5;
    if (change)
        change(c);
    return c;
}

inline core::ModelPtr randomModel(const core::ModelConfig& config, at::Device device, at::ScalarType dtype) {
    core::ModelFiles files;
    files.path = "random";
    files.config = config;
    files.weights = std::make_shared<RandomWeights>(config);
    return std::make_shared<const core::Model>(std::move(files), device, dtype, false, core::Mixers(), core::Control());
}

inline at::Tensor someIds(std::int64_t batch, std::int64_t tokens, std::int64_t vocabulary) { // int64 [batch, tokens], on the CPU
    return (at::arange(batch * tokens, at::kLong) * 37 + 11).remainder(vocabulary).view({batch, tokens});
}

} // namespace linnet::tests
