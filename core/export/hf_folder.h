// The self-contained Hugging Face folder: config with auto_map, our modelling file, weights, tokenizer, recipe, report, card.
#pragma once

#include "core/export/tensor_plan.h"

namespace linnet::core {

extern const char* const kModelingPython; // resources/modeling_linnet.py, compiled in

Json ropeParameters(const ModelConfig& config);              // as transformers 5 has them
Json teacherGeneration(const Model& model);                  // generation_config.json of what the model was made from; an empty object where it has none
void addCommonKeys(Json& config, const Model& model, const std::string& dtype); // sizes, dtype, pad and end tokens, alike in all of transformers' classes
std::vector<PlannedTensor> hfPlan(const Model& model, const std::string& type); // every tensor of the folder, stored as "F32" or another
Json hfConfig(const Model& model, const std::string& dtype); // config.json; throws Unsupported where it can't be expressed
std::vector<std::string> writeRunFiles(const WriteJob& job); // recipe and report of a run, where it has them; returns their names
// config.json, tokenizer, generation config, recipe and report of a run; returns their names. The card comes last, from exportModel.
std::vector<std::string> writeBesideWeights(const WriteJob& job, const Json& config);

} // namespace linnet::core
