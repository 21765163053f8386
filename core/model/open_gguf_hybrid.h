// A .gguf hybrid (core/io/gguf_hybrid.h) as a model, and folders that hold a .gguf.
#pragma once

#include "core/model/opened_model.h"

namespace linnet::core {

// The .gguf that `path` is, or the only one in a folder without config.json (an export; what a download left); "" where there is none. Usage
// where such a folder has several.
std::filesystem::path ggufIn(const std::filesystem::path& path);

OpenedModel openGgufHybridModel(const std::filesystem::path& file); // throws Failure

} // namespace linnet::core
