// The files that hold a teacher's weights, and a hash of every byte of them (WeightSource::hash reads samples).
#pragma once

#include "core/base/control.h"

#include <filesystem>
#include <string>
#include <vector>

namespace linnet::core {

// Of a model that opens: a .gguf file itself; of a Hugging Face folder model.safetensors, or the shards that its index names, by name.
std::vector<std::filesystem::path> weightFiles(const std::filesystem::path& model);
// Reads all of them once. Their names do not matter. Progress: stage "load", a step for each.
std::string weightContents(const std::filesystem::path& model, const Control& control = {});

} // namespace linnet::core
