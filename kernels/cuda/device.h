// What the kernels need of CUDA, in one place, so that the same kernel source is compiled twice: by nvcc for a GPU, and by the host
// compiler with LINNET_EMULATED for the tests of machines without one (emulator.h runs a block's threads as fibers).
// Register fragments are those of mma.m16n8k16 (PTX ISA, "Matrix fragments for mma.m16n8k16"); lane = 4 group + t:
//     A 16 x 16: a[0] = (group, 2t..), a[1] = (group + 8, 2t..), a[2] = (group, 8 + 2t..), a[3] = (group + 8, 8 + 2t..)
//     B 16 x 8 (k, n): b0 = (2t.., group), b1 = (8 + 2t.., group)       C 16 x 8: c[0..1] = (group, 2t..), c[2..3] = (group + 8, 2t..)
#pragma once

#include <cstddef>
#include <cstdint>

namespace linnet::kernels {
struct BFloat16 { std::uint16_t bits; };
struct Float16 { std::uint16_t bits; };
} // namespace linnet::kernels

#if defined(LINNET_EMULATED)
#include "emulator.h"
#elif !defined(__CUDACC__) // a host file that needs only the types and layouts of the kernels' headers
#if !defined(__host__)
#define __host__
#define __device__
#endif
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace linnet::kernels::device {

constexpr bool kEmulated = false;

__device__ inline unsigned char* sharedMemory() {
    extern __shared__ __align__(1024) unsigned char linnetSharedMemory[];
    return linnetSharedMemory;
}

__device__ inline std::uint32_t sharedAddress(const void* pointer) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline float toFloat(BFloat16 x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16); }
__device__ inline float toFloat(Float16 x) { return __half2float(__ushort_as_half(x.bits)); }
__device__ inline float toFloat(float x) { return x; }
template <class T> __device__ T fromFloat(float x);
template <> __device__ inline BFloat16 fromFloat<BFloat16>(float x) { return {__bfloat16_as_ushort(__float2bfloat16_rn(x))}; }
template <> __device__ inline Float16 fromFloat<Float16>(float x) { return {__half_as_ushort(__float2half_rn(x))}; }
template <> __device__ inline float fromFloat<float>(float x) { return x; }

// Two values in one register, `low` in the lower half.
template <class T> __device__ std::uint32_t pack(float low, float high);
template <> __device__ inline std::uint32_t pack<BFloat16>(float low, float high) {
    std::uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}
template <> __device__ inline std::uint32_t pack<Float16>(float low, float high) {
    std::uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

// Four 8 x 8 matrices of 2-byte values; lane l gives the address of row l % 8 of matrix l / 8 (16 bytes, 16-byte aligned).
__device__ inline void loadMatrices(std::uint32_t (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(sharedAddress(row)) : "memory");
}
__device__ inline void loadMatricesTransposed(std::uint32_t (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(sharedAddress(row)) : "memory");
}

template <class T> __device__ void mma(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1);
template <> __device__ inline void mma<BFloat16>(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <> __device__ inline void mma<Float16>(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// 16 bytes from global to shared memory, asynchronously; zeros where not `valid` (the address is then not read).
__device__ inline void copyAsync16(void* shared, const void* global, bool valid = true) {
    const int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(sharedAddress(shared)), "l"(global), "r"(bytes) : "memory");
}
__device__ inline void copyAsyncCommit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending> __device__ void copyAsyncWait() { asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory"); }

__device__ inline float saturate(float x) { return __saturatef(x); } // into 0 .. 1; folds into the addition before it

// One 16-byte store; the compiler makes four of a uint4 that was put together from values of its own.
__device__ inline void storeGlobal16(void* global, std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(global), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

__device__ inline float exp2Fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Launches on `stream`; null when it went well, else the driver's words.
template <class... P, class... A>
const char* launch(void (*kernel)(P...), dim3 grid, dim3 block, std::size_t sharedBytes, void* stream, A... arguments) {
    if (sharedBytes > 48 * 1024) {
        const auto set = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(sharedBytes));
        if (set != cudaSuccess)
            return cudaGetErrorString(set);
    }
    kernel<<<grid, block, sharedBytes, static_cast<cudaStream_t>(stream)>>>(static_cast<P>(arguments)...);
    const auto error = cudaGetLastError();
    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

} // namespace linnet::kernels::device
#endif
