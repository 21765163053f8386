// A Qwen3.5-dense text checkpoint (transformers' Qwen3_5ForCausalLM) under the names and in the layout of a Qwen3 teacher with converted
// layers: what core/export/qwen35_folder writes, taken back; others where they say the same (no output gate in their softmax layers).
#pragma once

#include "core/io/model_config.h"
#include "core/io/weight_source.h"

namespace linnet::core {

// Stored -> given: norms + 1; self_attn.q_proj less its gate rows, which must be zero (Unsupported when read), and then o_proj / 2, as a gate
// of zero lets half pass; linear_attn.in_proj_qkv and conv1d in three, in_proj_{z,a,b}, norm and out_proj as linear_attn.{g,a,b}_proj,
// o_norm and o_proj. All else as it is. Linear layers have the config's heads and head_dim for keys and values alike.
std::shared_ptr<const WeightSource> qwen35Source(std::shared_ptr<const WeightSource> stored, const ModelConfig& config);

} // namespace linnet::core
