#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/model/diagnose.h"

#include "core/model/device.h"

#include <torch/headeronly/version.h>

namespace linnet::core {

std::vector<std::pair<std::string, std::string>> diagnose(const std::string& device) {
    return {{"device", deviceDescription(deviceFromName(device))},
            {"cuda", cudaAvailable() ? "available" : "no NVIDIA driver or no LibTorch CUDA library: the CPU is used"},
            {"threads", std::to_string(at::get_num_threads())},
            {"libtorch", TORCH_VERSION}};
}

std::string diagnoseDevice() {
    return deviceFromName("auto").is_cuda() ? "cuda" : "cpu";
}

void useThreads(int threads) {
    setThreads(threads);
}

} // namespace linnet::core
