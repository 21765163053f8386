// What all CUDA launches of this library share.
#pragma once

#include <cstdint>

namespace linnet::kernels {

enum class DataType : std::int32_t { Float32 = 0, Float16 = 1, BFloat16 = 2 };

// Portable: mma.sync, compute capability 8.0 and later. Hopper: wgmma, bulk copies and warp specialisation, capability 9.0 only.
enum class Path : std::int32_t { Automatic = 0, Portable = 1, Hopper = 2 };

// Element strides of a [batch, token, head, dim] tensor; dim is contiguous. Multiples of 8 elements, and the base is aligned to 16 bytes.
struct TokenStrides {
    std::int64_t batch = 0, token = 0, head = 0;
};

// Launch functions return null when everything was queued on the stream, else what is wrong: a static text or one of the calling
// thread's, valid until its next launch. Nothing is queued when the parameters are refused.
using LaunchError = const char*;

// Whether this build has CUDA kernels; without them every launch says so.
bool cudaKernelsBuilt();

} // namespace linnet::kernels
