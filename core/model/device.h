// Devices and dtypes by name. The CUDA half of LibTorch is loaded here, on first need.
#pragma once

#include "core/torch_pch.h"

#include "core/model/model_api.h"

namespace linnet::core {

bool cudaAvailable();                           // loads libtorch_cuda once where a driver is found
at::Device deviceFromName(const std::string& name); // throws Usage (unknown name) or Unsupported (no such GPU)
at::ScalarType dtypeFromName(const std::string& name);
std::string deviceDescription(const at::Device& device); // "cpu, 2 threads" or the GPU's name and memory
std::uint64_t peakDeviceBytes(const at::Device& device); // CUDA: allocator's peak; CPU: peak resident memory
std::uint64_t deviceMemoryBytes(const at::Device& device); // in all; of a GPU whose driver does not say: 0
void setThreads(int threads);                   // 0 = all cores

} // namespace linnet::core
