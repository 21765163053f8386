// A .gguf of llama.cpp's architecture qwen35, which runs hybrids of softmax layers with QK-norm and Gated DeltaNet layers in any order.
// Sources: llama.cpp's src/models/qwen35.cpp and conversion scripts (keys, tensors, what the graph multiplies), ggml's docs/gguf.md.
// core/io/gguf_hybrid.h is the way back.
#pragma once

#include "core/export/format.h"
#include "core/io/gguf_writer.h"

namespace linnet::core {

inline constexpr const char* kGgufFile = "model.gguf";

// general.* and qwen35.*: sizes, rotary positions, which layers are recurrent.
GgufMetadata ggufModelKeys(const Model& model, const std::string& dtype);

} // namespace linnet::core
