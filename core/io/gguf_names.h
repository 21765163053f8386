// GGUF's names of tensors and Hugging Face's for the same. Source: llama.cpp's src/llama-arch.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace linnet::core {

// Which tensors there are: those of Llama, Qwen2 and Qwen3, or those of llama.cpp's architecture qwen35 as transformers' Qwen3_5ForCausalLM
// calls them.
enum class GgufNames { Teacher, Qwen35 };

// blk.3.attn_q.weight -> model.layers.3.self_attn.q_proj.weight; nothing for names that no supported model has.
std::optional<std::string> huggingFaceName(std::string_view ggufName, std::int64_t layers, GgufNames names = GgufNames::Teacher);

// The way back, for qwen35. Failure{Internal} for a name that it does not have.
std::string qwen35GgufName(std::string_view huggingFaceName);

} // namespace linnet::core
