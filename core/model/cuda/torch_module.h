// The module that links libtorch_cuda, liblinnet_torch_cuda.so beside the program or in its lib folder, loaded on first use.
#pragma once

#include <string>

namespace linnet::core {

void* torchModuleFunction(const char* name, std::string& why); // null, and why, where the module is missing

} // namespace linnet::core
