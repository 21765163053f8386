// What a status line shows of memory, and giving back what is not used. Plain data, no torch.
#pragma once

#include <cstdint>
#include <string>

namespace linnet::core {

struct DeviceMemory { // bytes
    std::string device;          // "GPU 0" or "RAM"
    std::uint64_t own = 0;       // taken by this process: by its tensors and the allocator's spare blocks, or resident
    std::uint64_t peak = 0;      // the most of it since the process began
    std::uint64_t used = 0;      // of the device, by everybody
    std::uint64_t total = 0;     // of the device; 0: it does not say
};
// Of the GPU that `device` names (as RunOptions or ModelInfo::device do); of main memory where that is none or nothing was put on it yet. From any thread.
DeviceMemory deviceMemory(const std::string& device);
// Blocks that the allocator keeps for later, and cuBLAS' workspaces, go back to the GPU: other programs see them free. Only when no other thread computes. Costs the next job some milliseconds.
void releaseDeviceMemory();

} // namespace linnet::core
