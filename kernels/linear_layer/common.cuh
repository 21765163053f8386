// Small pieces that the kernels of this folder share: vectors of four values, warp and block sums in a fixed order, launches by type.
#pragma once

#include "../cuda/device.h"

#include "linnet/kernels/linear_layer.h"

namespace linnet::kernels::ll {

using namespace device;

constexpr int kThreads = 256, kWarps = kThreads / 32;

template <class T> __device__ inline void load4(const T* from, float (&v)[4]) {
    const uint2 bits = *reinterpret_cast<const uint2*>(from);
    v[0] = toFloat(T{static_cast<std::uint16_t>(bits.x & 0xffffU)});
    v[1] = toFloat(T{static_cast<std::uint16_t>(bits.x >> 16)});
    v[2] = toFloat(T{static_cast<std::uint16_t>(bits.y & 0xffffU)});
    v[3] = toFloat(T{static_cast<std::uint16_t>(bits.y >> 16)});
}
template <> __device__ inline void load4<float>(const float* from, float (&v)[4]) {
    const float4 x = *reinterpret_cast<const float4*>(from);
    v[0] = x.x, v[1] = x.y, v[2] = x.z, v[3] = x.w;
}
template <class T> __device__ inline void store4(T* to, const float (&v)[4]) {
    *reinterpret_cast<uint2*>(to) = make_uint2(pack<T>(v[0], v[1]), pack<T>(v[2], v[3]));
}
template <> __device__ inline void store4<float>(float* to, const float (&v)[4]) {
    *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
}

template <class T> __device__ inline void load2(const T* from, float& a, float& b) {
    const auto bits = *reinterpret_cast<const std::uint32_t*>(from);
    a = toFloat(T{static_cast<std::uint16_t>(bits & 0xffffU)});
    b = toFloat(T{static_cast<std::uint16_t>(bits >> 16)});
}
template <> __device__ inline void load2<float>(const float* from, float& a, float& b) {
    const float2 x = *reinterpret_cast<const float2*>(from);
    a = x.x, b = x.y;
}
template <class T> __device__ inline void store2(T* to, float a, float b) { *reinterpret_cast<std::uint32_t*>(to) = pack<T>(a, b); }
template <> __device__ inline void store2<float>(float* to, float a, float b) { *reinterpret_cast<float2*>(to) = make_float2(a, b); }

__device__ inline float sigmoid(float x) { return 1.0F / (1.0F + __expf(-x)); }

__device__ inline float warpSum(float x) { // in every lane
    for (int offset = 16; offset > 0; offset >>= 1)
        x += __shfl_xor_sync(0xffffffffU, x, offset);
    return x;
}

// Of kThreads threads, in every thread; `shared` holds kWarps floats.
__device__ inline float blockSum(float x, float* shared) {
    x = warpSum(x);
    __syncthreads(); // an earlier sum has been read
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = x;
    __syncthreads();
    float sum = 0;
    for (int warp = 0; warp < kWarps; ++warp)
        sum += shared[warp];
    return sum;
}

// `run(T{})` with the element type.
template <class Run> LaunchError byType(DataType type, const Run& run) {
    switch (type) {
    case DataType::Float32: return run(float{});
    case DataType::Float16: return run(Float16{});
    case DataType::BFloat16: return run(BFloat16{});
    }
    return "unknown data type";
}

inline LaunchError refusedGroup(const LayerGroup& g) {
    if (g.layers < 1 || g.batch < 1 || g.tokens < 1 || g.layers * g.batch > 65535)
        return "layers, batch and tokens must be at least 1, layers x batch at most 65535";
    return nullptr;
}

// out[l][i] = sum over p of partials[l][p][i], in the order of p.
LaunchError sumPartials(const float* partials, float* out, std::int64_t layers, std::int64_t parts, std::int64_t count, std::int64_t outStride,
                        void* stream);

} // namespace linnet::kernels::ll
