// Named float32 tensors in a safetensors file, written atomically.
#pragma once

#include "core/torch_pch.h"

#include <filesystem>

namespace linnet::core {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
void saveTensors(const std::filesystem::path& file, const NamedTensors& tensors);
NamedTensors loadTensors(const std::filesystem::path& file, at::Device device);

} // namespace linnet::core
