// A hybrid as a GGUF file of llama.cpp's architecture qwen35: softmax layers and Gated DeltaNet layers in any order. What
// core/export/gguf_folder writes, and others' where they say the same: a Qwen3 teacher's layers with no output gate, linear layers with its heads.
#pragma once

#include "core/io/model_config.h"
#include "core/io/weight_source.h"

#include <filesystem>
#include <set>

namespace linnet::core {

struct GgufHybrid {
    ModelConfig config;                          // of the teacher
    std::shared_ptr<const WeightSource> weights; // as a Qwen3 teacher's with converted layers (core/io/qwen35_source.h)
    std::set<std::int64_t> linearLayers;
};

bool isGgufHybrid(const std::filesystem::path& file); // a .gguf whose architecture is qwen35; other files that open at all: false
// Failure as openModelFiles: Malformed or Unsupported names the key or the tensor that we can't take.
GgufHybrid openGgufHybrid(const std::filesystem::path& file);

} // namespace linnet::core
