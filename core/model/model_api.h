// What the command line and the window see of a model: plain data, no torch.
#pragma once

#include "core/base/control.h"
#include "core/base/result.h"
#include "core/io/model_config.h"
#include "core/io/tokenizer.h"
#include "core/model/export_choices.h"

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace linnet::core {

class Model; // core/model/model.h
using ModelPtr = std::shared_ptr<const Model>;

struct RunOptions {
    std::string device = "auto"; // cpu | cuda | cuda:i | auto (cuda where there is one)
    std::string dtype;           // f32 | bf16 | f16; "" = f32 on the CPU, the stored float type (bf16 for quantised files) on CUDA
    int threads = 0;             // CPU threads; 0 = all cores
    bool streamed = false;       // layers are read from the file when used and dropped afterwards (teacher larger than memory)
};

struct ModelInfo {
    std::filesystem::path path;
    ModelConfig config;
    std::string hash;
    std::int64_t parameters = 0; // of the teacher, tied embeddings counted once
    std::string tokenizerType;
    std::int64_t tokenizerVocabSize = 0;
    std::vector<std::string> layerKinds; // "softmax", "gated_delta_net", ...
    std::uint64_t weightBytes = 0;       // in the dtype it runs in
    std::uint64_t cacheBytesPerToken = 0; // KV cache of the softmax layers, one sequence
    std::uint64_t stateBytes = 0;        // of the linear layers, one sequence
    std::string device, dtype;           // "" before the weights are loaded
    std::vector<ExportChoice> exports;
    std::vector<std::string> warnings;
};

// Opens a Hugging Face folder, a .gguf file, a run folder (its newest student) or an exported folder.
Result<ModelInfo> readModelInfo(const std::filesystem::path& path); // headers only, milliseconds
Result<ModelPtr> openModel(const std::filesystem::path& path, const RunOptions& options, const Control& control = {});
ModelInfo modelInfo(const Model& model);
const Tokenizer& modelTokenizer(const Model& model);
std::shared_ptr<const Tokenizer> openTokenizer(const std::filesystem::path& path); // of any MODEL, no weights; throws Failure

// Logits of one sequence, row-major [ids, vocabSize] float32.
Result<std::vector<float>> sequenceLogits(const Model& model, const std::vector<TokenId>& ids, const Control& control = {});

struct GenerateOptions {
    std::int64_t tokens = 64;
    bool greedy = true;
    double temperature = 1.0; // > 0
    double topP = 1.0;        // (0, 1]
    std::int64_t topK = 0;    // 0 = off
    std::uint64_t seed = 0;
};

struct Generation {
    std::vector<TokenId> ids; // new tokens only
    std::string text;
    double tokensPerSecond = 0, prefillSeconds = 0, decodeSeconds = 0;
    bool endOfText = false; // ended at an end-of-text token (which is among the ids)
};

// `onToken` gets each token's text as it appears (UTF-8 complete pieces).
Result<Generation> generate(const Model& model, const std::vector<TokenId>& prompt, const GenerateOptions& options,
                            const std::function<void(const std::string&)>& onToken = {}, const Control& control = {});

// N sequences of `length` tokens sampled from the model (temperature 1), the text `self:N` of recipes. Row-major [N, length].
Result<std::vector<TokenId>> sampleSequences(const Model& model, std::int64_t count, std::int64_t length, std::uint64_t seed,
                                             const Control& control = {});

} // namespace linnet::core
