// A tokenizer as GGUF metadata (ggml's docs/gguf.md, "Tokenizer"): what llama.cpp cuts text with. core/io/gguf_tokenizer.cpp is the way back.
#pragma once

#include "core/io/gguf_writer.h"
#include "core/io/model_config.h"
#include "core/io/tokenizer.h"

namespace linnet::core {

// Keys tokenizer.ggml.* and tokenizer.chat_template: one token for each of the embedding's rows. `notes` gains what the format can't say of this
// tokenizer. Unsupported where its pre-tokeniser has no name there, or its post-processor adds more than BOS and EOS.
GgufMetadata ggufTokenizer(const Tokenizer& tokenizer, const ModelConfig& config, std::vector<std::string>& notes);

} // namespace linnet::core
