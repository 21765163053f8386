#include "core/torch_pch.h"

#include "core/model/device_memory.h"

#include "core/base/files.h"
#include "core/model/cuda/torch_module.h"
#include "core/model/device.h"

#include <c10/core/CachingDeviceAllocator.h>

namespace linnet::core {
namespace {

// nullptr as long as nothing was put on a GPU: asking would make a context of some 500 MB.
c10::DeviceAllocator* gpuAllocator() {
    if (!cudaAvailable())
        return nullptr;
    auto* allocator = c10::getDeviceAllocator(at::kCUDA);
    return allocator->initialized() ? allocator : nullptr;
}

DeviceMemory mainMemory() {
    DeviceMemory memory{"RAM", residentMemoryBytes(), peakResidentMemoryBytes(), 0, deviceMemoryBytes(at::kCPU)};
    memory.used = memory.total - std::min(memory.total, availableMemoryBytes());
    return memory;
}

} // namespace

DeviceMemory deviceMemory(const std::string& device) {
    const auto at = device.find("cuda"); // "NVIDIA H200, 139 GiB (cuda:0)"
    auto* allocator = at != device.npos ? gpuAllocator() : nullptr;
    if (!allocator)
        return mainMemory();
    const auto index = deviceFromName(device.substr(at, device.find(')', at) - at)).index();
    const auto reserved = allocator->getDeviceStats(index).reserved_bytes[0]; // 0: over all pools
    const auto [free, total] = allocator->getMemoryInfo(index);
    return {"GPU " + std::to_string(index), static_cast<std::uint64_t>(reserved.current), static_cast<std::uint64_t>(reserved.peak), total - free, total};
}

void releaseDeviceMemory() {
    auto* allocator = gpuAllocator();
    if (!allocator)
        return;
    std::string ignored;
    if (void* const clear = torchModuleFunction("linnetClearWorkspaces", ignored))
        reinterpret_cast<void (*)()>(clear)();
    allocator->emptyCache();
}

} // namespace linnet::core
