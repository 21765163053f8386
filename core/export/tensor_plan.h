// What a format stores, tensor by tensor: the header is known first, values are made one at a time when they are written.
#pragma once

#include "core/export/format.h"
#include "core/io/safetensors_writer.h"

namespace linnet::core {

struct PlannedTensor {
    TensorToWrite entry;
    std::function<at::Tensor()> make; // any type and device; empty: read from the model's own files
    std::string from{};               // their name for it where it is another than the entry's
};

const char* storedTypeName(const std::string& dtype); // f32 -> "F32"; throws Usage
// The converted layers under Linnet's own names, model.layers.N.linear_attn.* and .sliding_window, added to `plan`.
void planConvertedLayers(const Model& model, const std::string& type, std::vector<PlannedTensor>& plan);
std::uint64_t tensorBytes(const TensorToWrite& entry);
// Writes all of them into job.folder: model.safetensors or, above options.shardBytes, model-0000i-of-0000n.safetensors with
// model.safetensors.index.json; adds the files to `written`, whose `exact` falls where a value was not stored bit for bit (a float32 that
// `dtype` rounds). A tensor is never split: one that is larger has a shard of its own. Throws Unsupported naming the tensor where f16 can't
// hold a value. Progress: stage "export" in bytes.
void writeTensors(const WriteJob& job, const std::vector<PlannedTensor>& plan, WrittenFolder& written, const Control& control, const std::string& name = "model");

} // namespace linnet::core
