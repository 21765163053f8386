// Hopper's own instructions (compute capability 9.0a): warpgroup products, mbarriers, bulk and tensor copies. PTX ISA 8.0 and later.
#pragma once

#include "device.h"

#include "linnet/kernels/launch.h"

#include <cuda.h>

namespace linnet::kernels::device {

using TensorMap = CUtensorMap;

// A tensor map over [batch, token, head, dim] whose boxes are 64 tokens of 64 channels of one head, 128-byte swizzled; zeros outside.
// False where the driver refuses (or has no such call).
inline bool makeTensorMap(TensorMap& map, bool bf16, const void* base, std::int64_t dim, std::int64_t heads, std::int64_t tokens, std::int64_t batch, const TokenStrides& s) {
    using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
                                CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    static const auto encode = [] {
        void* address = nullptr;
        cudaDriverEntryPointQueryResult found{};
        if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &address, 12000, cudaEnableDefault, &found) != cudaSuccess || found != cudaDriverEntryPointSuccess)
            address = nullptr;
        return reinterpret_cast<Encode>(address);
    }();
    if (!encode)
        return false;
    const cuuint64_t sizes[4] = {static_cast<cuuint64_t>(dim), static_cast<cuuint64_t>(heads), static_cast<cuuint64_t>(tokens), static_cast<cuuint64_t>(batch)};
    // the stride of a dimension of size 1 says nothing; any legal value will do
    const cuuint64_t strides[3] = {static_cast<cuuint64_t>(heads > 1 ? s.head : 8) * 2, static_cast<cuuint64_t>(tokens > 1 ? s.token : 8) * 2, static_cast<cuuint64_t>(batch > 1 ? s.batch : 8) * 2};
    const cuuint32_t box[4] = {64, 1, 64, 1}, steps[4] = {1, 1, 1, 1};
    return encode(&map, bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, const_cast<void*>(base), sizes, strides, box, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

#if defined(__CUDACC__)

// A shared tile of rows of 128 bytes, 128-byte swizzled, 1024-byte aligned. Eight rows are 1024 bytes apart in either reading.
__device__ inline std::uint64_t matrixDescriptor(const void* tile) {
    return static_cast<std::uint64_t>((sharedAddress(tile) & 0x3ffff) >> 4) | std::uint64_t{64} << 16 | std::uint64_t{64} << 32 | std::uint64_t{1} << 62;
}

// Registers move between warpgroups: a producer's leftovers to the consumers. Whole warpgroups, one branch each.
template <int kCount> __device__ inline void releaseRegisters() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount)); }
template <int kCount> __device__ inline void claimRegisters() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount)); }

__device__ inline void groupFence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void groupCommit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending> __device__ inline void groupWait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory"); }
template <int kTiles> __device__ __forceinline__ void keepRegisters(float (&c)[kTiles][4]) {
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
        for (int r = 0; r < 4; ++r)
            asm volatile("" : "+f"(c[j][r])::"memory");
}

#define LINNET_WGMMA(TYPE, ADD, SIGN)                                                                                                                  \
    asm volatile("{\n\t.reg .pred add;\n\tsetp.ne.b32 add, " ADD ", 0;\n\t"                                                                              \
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " "                                                                       \
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "           \
                 "{%32,%33,%34,%35}, %36, add, 1, 1, %37;\n\t}"                                                                                        \
                 : SIGN(c[0][0]), SIGN(c[0][1]), SIGN(c[0][2]), SIGN(c[0][3]), SIGN(c[1][0]), SIGN(c[1][1]), SIGN(c[1][2]), SIGN(c[1][3]),             \
                   SIGN(c[2][0]), SIGN(c[2][1]), SIGN(c[2][2]), SIGN(c[2][3]), SIGN(c[3][0]), SIGN(c[3][1]), SIGN(c[3][2]), SIGN(c[3][3]),             \
                   SIGN(c[4][0]), SIGN(c[4][1]), SIGN(c[4][2]), SIGN(c[4][3]), SIGN(c[5][0]), SIGN(c[5][1]), SIGN(c[5][2]), SIGN(c[5][3]),             \
                   SIGN(c[6][0]), SIGN(c[6][1]), SIGN(c[6][2]), SIGN(c[6][3]), SIGN(c[7][0]), SIGN(c[7][1]), SIGN(c[7][2]), SIGN(c[7][3])              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(descriptor), "n"(kTransposed))
#define LINNET_UPDATED "+f"
#define LINNET_WRITTEN "=f"

// c [64 x 64] += a [64 x 16] B (fresh: c = a B); kTransposed 0: the tile's rows are B's columns, 1: its rows are B's rows.
template <class T, int kTransposed> __device__ __forceinline__ void groupMma(float (&c)[8][4], const std::uint32_t (&a)[4], std::uint64_t descriptor) {
    if constexpr (__is_same(T, BFloat16))
        LINNET_WGMMA("bf16", "1", LINNET_UPDATED);
    else
        LINNET_WGMMA("f16", "1", LINNET_UPDATED);
}
template <class T, int kTransposed> __device__ __forceinline__ void groupMmaFresh(float (&c)[8][4], const std::uint32_t (&a)[4], std::uint64_t descriptor) {
    if constexpr (__is_same(T, BFloat16))
        LINNET_WGMMA("bf16", "0", LINNET_WRITTEN);
    else
        LINNET_WGMMA("f16", "0", LINNET_WRITTEN);
}
#undef LINNET_UPDATED
#undef LINNET_WRITTEN
#undef LINNET_WGMMA

__device__ inline void barrierInit(std::uint64_t* barrier, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sharedAddress(barrier)), "r"(count) : "memory");
}
__device__ inline void barrierInitFence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ inline void barrierExpect(std::uint64_t* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(sharedAddress(barrier)), "r"(bytes) : "memory");
}
__device__ inline void barrierArrive(std::uint64_t* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(sharedAddress(barrier)) : "memory");
}
__device__ inline void barrierWait(std::uint64_t* barrier, int parity) {
    asm volatile("{\n\t"
                 ".reg .pred done;\n\t"
                 "WAIT: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
                 "@done bra DONE;\n\t"
                 "bra WAIT;\n\t"
                 "DONE:\n\t"
                 "}" ::"r"(sharedAddress(barrier)), "r"(parity) : "memory");
}
__device__ inline void bulkLoad(void* shared, const void* global, int bytes, std::uint64_t* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(sharedAddress(shared)), "l"(global), "r"(bytes),
                 "r"(sharedAddress(barrier)) : "memory");
}
__device__ inline void tensorLoad(void* shared, const TensorMap* map, std::uint64_t* barrier, int channel, int head, int token, int batch) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(sharedAddress(shared)),
                 "l"(map), "r"(sharedAddress(barrier)), "r"(channel), "r"(head), "r"(token), "r"(batch) : "memory");
}

#endif

} // namespace linnet::kernels::device
