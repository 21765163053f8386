// How the teacher's makers would have text drawn (generation_config.json), as llama.cpp's keys general.sampling.* (gguf-py's constants.py).
#pragma once

#include "core/io/gguf_writer.h"
#include "core/model/model.h"

namespace linnet::core {

// Adds the keys; `notes` gains what has none.
void addSamplingKeys(GgufMetadata& keys, const Model& model, std::vector<std::string>& notes);

} // namespace linnet::core
