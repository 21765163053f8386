// A Qwen3.5-dense text checkpoint (transformers' Qwen3_5ForCausalLM) under the names and in the layout of a teacher with converted
// layers: what core/export/qwen35_folder writes, taken back; others where they say the same (no output gate in their softmax layers).
#pragma once

#include "core/io/model_config.h"
#include "core/io/weight_source.h"

namespace linnet::core {

enum class NormsStored { LessOne, Plain }; // block norms, q_norm and k_norm as w - 1 (the class's own) or as w (llama.cpp's files)

// Stored -> given: norms + 1; self_attn.q_proj less its gate rows, which must be zero (Unsupported when read), and then o_proj / 2, as a gate
// of zero lets half pass; linear_attn.in_proj_qkv and conv1d in three, in_proj_{z,a,b}, norm and out_proj as linear_attn.{g,a,b}_proj,
// o_norm and o_proj. All else as it is. Linear layers have the config's heads and head_dim for keys and values alike.
// A config without QK-norm: the softmax layers are lifted (core/io/eps_lift.h). Then q_norm and k_norm are not given, biases only where the config
// has them, q and k are unscaled, and what the lift takes for granted is checked where a tensor is read (Unsupported).
std::shared_ptr<const WeightSource> qwen35Source(std::shared_ptr<const WeightSource> stored, const ModelConfig& config, NormsStored norms = NormsStored::LessOne);

} // namespace linnet::core
