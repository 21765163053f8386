// Opens what a person calls a model: a Hugging Face folder or a .gguf file.
#pragma once

#include "core/base/json.h"
#include "core/io/model_config.h"
#include "core/io/tokenizer.h"
#include "core/io/weight_source.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace linnet::core {

struct ModelFiles {
    std::filesystem::path path;
    ModelConfig config;
    std::shared_ptr<const WeightSource> weights;
    std::shared_ptr<const Tokenizer> tokenizer;
    std::vector<std::string> warnings; // what a person should know, though the model opens: "lm_head.weight is ignored: ..."
    std::string identity{};            // where more than `weights` makes the model (a run: its teacher's and its own); "" = weights->hash()

    std::string hash() const;
};

// Reads headers, config and tokenizer, no weights; checks that every tensor that the config calls for is there, with the
// expected shape, and that none is unexpected in kind. Throws Failure naming file, tensor or key, expected and found.
ModelFiles openModelFiles(const std::filesystem::path& path);

// That part of the check: names tensor, expected and found. A spare lm_head.weight beside tied embeddings is let pass, and so
// are the inv_freq tensors of old files.
void checkTeacherTensors(const ModelConfig& config, const WeightSource& weights);

// A folder's safetensors; `warnings` gains what differs from transformers: a head of its own where config.json ties it to the embedding.
std::shared_ptr<const WeightSource> openFolderWeights(const std::filesystem::path& folder, bool tied, std::vector<std::string>& warnings,
                                                      const std::string& embedding = "model.embed_tokens.weight");

// The parts, for tests and for other readers. Each throws as above.
std::unique_ptr<WeightSource> openSafetensorsFile(const std::filesystem::path& file);     // one file, own tensor names
std::unique_ptr<WeightSource> openSafetensorsFolder(const std::filesystem::path& folder); // model.safetensors or index
std::unique_ptr<WeightSource> openGguf(const std::filesystem::path& file);                // names mapped to Hugging Face's
ModelConfig hfConfigFromJson(const Json& config, const std::filesystem::path& file);      // its text, already parsed
ModelConfig readHfConfig(const std::filesystem::path& configJson);
ModelConfig readGgufConfig(const std::filesystem::path& gguf);
std::unique_ptr<Tokenizer> openTokenizerJson(const std::filesystem::path& folder); // tokenizer.json (+ _config, chat_template)
std::unique_ptr<Tokenizer> openGgufTokenizer(const std::filesystem::path& gguf);

} // namespace linnet::core
