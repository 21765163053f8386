// The folder that transformers' own Qwen3_5ForCausalLM loads (text only, no remote code), and with it vLLM and SGLang: Qwen3 teachers exactly.
// Sources: transformers 5 models/qwen3_5; core/io/qwen35_source.h is its way back.
#pragma once

#include "core/export/hf_folder.h"
#include "core/export/tensor_plan.h"
#include "core/io/qwen35_source.h"

namespace linnet::core {

// Every tensor of the class by its name there. The model outlives the plan. With `dtype` f32 nothing is folded into the matrices.
std::vector<PlannedTensor> qwen35Plan(const Model& model, const std::string& dtype, NormsStored norms);

Json qwen35Config(const Model& model, const std::string& dtype);

} // namespace linnet::core
