// The model configuration in a GGUF file's metadata, and Hugging Face's names for its tensors.
#pragma once

#include "core/io/gguf_reader.h"
#include "core/io/model_config.h"

#include <optional>
#include <string>
#include <string_view>

namespace linnet::core {

ModelConfig ggufConfig(const GgufFile& file); // Failure as readGgufConfig

// blk.3.attn_q.weight -> model.layers.3.self_attn.q_proj.weight; nothing for names that no supported model has.
std::optional<std::string> huggingFaceName(std::string_view ggufName, std::int64_t layers);

} // namespace linnet::core
