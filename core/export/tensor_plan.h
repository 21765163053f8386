// What a format stores, tensor by tensor: the header is known first, values are made one at a time when they are written.
#pragma once

#include "core/io/safetensors_writer.h"
#include "core/model/model.h"

namespace linnet::core {

struct PlannedTensor {
    TensorToWrite entry;
    std::function<at::Tensor()> make; // any type and device; empty: read from the model's own files under that name
};

const char* storedTypeName(const std::string& dtype); // f32 -> "F32"; throws Usage
// Writes all of them; false where a value was not stored bit for bit (a float32 that `dtype` rounds). Throws Unsupported naming the tensor
// where f16 can't hold a value.
bool writeTensors(const Model& model, const std::filesystem::path& file, const std::string& dtype, const std::vector<PlannedTensor>& plan, const Control& control);

} // namespace linnet::core
