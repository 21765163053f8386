// The windows that a run kept, as TEXT of eval and profile: its samples.safetensors and one of the tensors in it.
#pragma once

#include "core/data/text_data.h"
#include "core/model/model_api.h"

#include <string>
#include <vector>

namespace linnet::core {

// Whether TEXT is a file of token windows rather than text. Throws Usage where one stands among others.
bool namesSlices(const std::vector<std::string>& text);

// The windows of one slice (calibration, selection, evaluation, training), as the run used them. seqLen > 0 cuts the same tokens into
// windows of that length, as a recipe's evaluate.seq_len does; tokens > 0 takes the first tokens / seqLen windows.
// Throws Failure naming file and tensor where the slice is absent, or where its ids are not the model's: the run's teacher has another
// vocabulary, or an id lies beyond it.
TokenWindows windowsOfSlice(const Model& model, const std::filesystem::path& file, const std::string& slice, std::int64_t seqLen = 0, std::int64_t tokens = 0);

} // namespace linnet::core
