// What a decoder-only teacher looks like, read from config.json (old and new keys) or GGUF metadata.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace linnet::core {

struct RopeConfig {
    std::string type = "default"; // default | linear | llama3
    double theta = 10000;
    double factor = 1;                 // linear and llama3
    double lowFrequencyFactor = 1;     // llama3
    double highFrequencyFactor = 4;    // llama3
    double originalMaxPositions = 8192; // llama3
    std::vector<double> frequencyDivisors; // GGUF's rope_freqs: the llama3 scaling as numbers [headDim / 2]; else empty
};

struct ModelConfig {
    std::string modelType; // llama | qwen2 | qwen3
    std::int64_t layers = 0, hiddenSize = 0, heads = 0, kvHeads = 0, headDim = 0, intermediateSize = 0, vocabSize = 0;
    std::int64_t maxPositions = 0;
    double rmsNormEps = 1e-6;
    RopeConfig rope;
    bool tiedEmbeddings = false;
    bool qkNorm = false;   // RMSNorm over head_dim on q and k, before RoPE (Qwen3)
    bool qkvBias = false;  // Qwen2
    bool outputBias = false; // o_proj.bias (Llama with attention_bias)
    bool mlpBias = false;    // gate_proj, up_proj and down_proj .bias (Llama with mlp_bias)
    std::optional<std::int64_t> bosToken;
    std::vector<std::int64_t> endTokens;
    std::string storedDType; // "float32", "bfloat16", ..., "Q4_1": as info prints it

    std::int64_t groupSize() const { return heads / kvHeads; } // query heads that share one key/value head
};

} // namespace linnet::core
