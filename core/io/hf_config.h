// Parts of a Hugging Face config.json that the weights' reader needs as well.
#pragma once

#include "core/base/json.h"
#include "core/io/safetensors_source.h"

#include <string>

namespace linnet::core {

// The block of FP8 weights where quantization_config says so, 128 x 128 where there is none; every other method (gptq, awq,
// bitsandbytes, compressed-tensors, ...) is Failure{Unsupported} naming it. `origin` names the file.
BlockSize quantisationBlock(const Json& config, const std::string& origin);

} // namespace linnet::core
