// What `doctor` and `bench` tell of this machine; torch-free.
#pragma once

#include "core/base/control.h"

#include <string>
#include <utility>
#include <vector>

namespace linnet::core {

std::vector<std::pair<std::string, std::string>> diagnose(const std::string& device); // device, threads, LibTorch, CUDA
std::string diagnoseDevice();  // what "auto" means here: cpu or cuda
void useThreads(int threads);  // 0 = all cores

} // namespace linnet::core
