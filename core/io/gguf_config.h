// The model configuration in a GGUF file's metadata.
#pragma once

#include "core/io/gguf_reader.h"
#include "core/io/model_config.h"

namespace linnet::core {

// Failure as readGgufConfig. A hybrid's is that of the Qwen3 teacher that it was made from.
ModelConfig ggufConfig(const GgufFile& file);
bool isGgufHybrid(const GgufFile& file); // general.architecture is llama.cpp's qwen35

} // namespace linnet::core
