// The folder that transformers' own Qwen3_5ForCausalLM loads (text only, no remote code), and with it vLLM and SGLang: Qwen3 teachers exactly.
// Sources: transformers 5 models/qwen3_5; core/io/qwen35_source.h is its way back.
#pragma once

#include "core/export/hf_folder.h"

namespace linnet::core {

Json qwen35Config(const Model& model, const std::string& dtype);

} // namespace linnet::core
