// A block of CUDA threads on the host, for tests only: every thread is a fiber, warps meet at collectives, the block at barriers.
// Slow and single-threaded, but the index arithmetic, the fragments and the barriers are those of the kernel itself. A barrier or a
// collective that not all threads reach ends in std::logic_error instead of a hang.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

#define __global__
#define __device__
#define __host__
#define __shared__ static_assert(false, "use sharedMemory()");
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define __grid_constant__

struct uint3 { unsigned x, y, z; };
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

namespace linnet::kernels::device {

constexpr bool kEmulated = true;

struct ThreadPlace {
    uint3 threadIdx, blockIdx;
    dim3 blockDim, gridDim;
};
ThreadPlace& here();
unsigned char* sharedMemory();
void blockBarrier();
// All 32 lanes hand in a pointer; the last to come runs `action(pointers)` for the warp.
void warpCollective(void* mine, void (*action)(void* const* lanes));
const char* runGrid(const std::function<void()>& thread, dim3 grid, dim3 block, std::size_t sharedBytes);

inline float toFloat(BFloat16 x) {
    const std::uint32_t bits = static_cast<std::uint32_t>(x.bits) << 16;
    float y;
    std::memcpy(&y, &bits, 4);
    return y;
}
inline float toFloat(Float16 x) {
    _Float16 h;
    std::memcpy(&h, &x.bits, 2);
    return static_cast<float>(h);
}
inline float toFloat(float x) { return x; }
template <class T> T fromFloat(float x);
template <> inline BFloat16 fromFloat<BFloat16>(float x) {
    std::uint32_t bits;
    std::memcpy(&bits, &x, 4);
    if (std::isnan(x))
        return {0x7fff};
    return {static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}
template <> inline Float16 fromFloat<Float16>(float x) {
    const auto h = static_cast<_Float16>(x);
    Float16 y;
    std::memcpy(&y.bits, &h, 2);
    return y;
}
template <> inline float fromFloat<float>(float x) { return x; }
template <class T> std::uint32_t pack(float low, float high) {
    return fromFloat<T>(low).bits | static_cast<std::uint32_t>(fromFloat<T>(high).bits) << 16;
}

void loadMatrices(std::uint32_t (&r)[4], const void* row);
void loadMatricesTransposed(std::uint32_t (&r)[4], const void* row);
void mmaFloats(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1, float (*value)(std::uint16_t));
template <class T> void mma(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
    mmaFloats(c, a, b0, b1, [](std::uint16_t bits) { return toFloat(T{bits}); });
}

inline void copyAsync16(void* shared, const void* global, bool valid = true) {
    valid ? static_cast<void>(std::memcpy(shared, global, 16)) : static_cast<void>(std::memset(shared, 0, 16));
}
inline void copyAsyncCommit() {}
template <int kPending> void copyAsyncWait() {}
inline void storeGlobal16(void* global, std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
    const std::uint32_t values[4] = {a, b, c, d};
    std::memcpy(global, values, 16);
}
inline float exp2Fast(float x) { return std::exp2(x); }
inline float saturate(float x) { return x > 0.0F ? (x < 1.0F ? x : 1.0F) : 0.0F; }

template <class... P, class... A>
const char* launch(void (*kernel)(P...), dim3 grid, dim3 block, std::size_t sharedBytes, void*, A... arguments) {
    return runGrid([&] { kernel(static_cast<P>(arguments)...); }, grid, block, sharedBytes);
}

float shuffleFrom(float value, int lane);
bool anyLane(bool mine);
template <class T> T shuffled(T value, int lane) {
    static_assert(sizeof(T) == 4);
    float bits;
    std::memcpy(&bits, &value, 4);
    bits = shuffleFrom(bits, lane);
    std::memcpy(&value, &bits, 4);
    return value;
}
inline int laneIndex() { return static_cast<int>((here().threadIdx.x + here().blockDim.x * here().threadIdx.y) % 32); }

} // namespace linnet::kernels::device

#define threadIdx (linnet::kernels::device::here().threadIdx)
#define blockIdx (linnet::kernels::device::here().blockIdx)
#define blockDim (linnet::kernels::device::here().blockDim)
#define gridDim (linnet::kernels::device::here().gridDim)
#define __syncthreads() linnet::kernels::device::blockBarrier()
#define __syncwarp() linnet::kernels::device::warpCollective(nullptr, nullptr)
#define __any_sync(mask, predicate) linnet::kernels::device::anyLane(predicate)
#define __shfl_sync(mask, value, lane) linnet::kernels::device::shuffled(value, lane)
#define __shfl_xor_sync(mask, value, offset) linnet::kernels::device::shuffled(value, linnet::kernels::device::laneIndex() ^ (offset))
#define __shfl_down_sync(mask, value, offset) linnet::kernels::device::shuffled(value, linnet::kernels::device::laneIndex() + (offset))
#define __shfl_up_sync(mask, value, offset) linnet::kernels::device::shuffled(value, linnet::kernels::device::laneIndex() - (offset))
template <class T> T __ldg(const T* pointer) { return *pointer; }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float rsqrtf(float x) { return 1.0F / std::sqrt(x); }
template <class T> T min(T a, T b) { return a < b ? a : b; }
template <class T> T max(T a, T b) { return a > b ? a : b; }
