// 16 x 16 blocks of the triangular solve in prepare.cu: products of operands split in bf16 pairs high + low (three mma, about 2^-17),
// the exchange of such operands between warps, the inverse of a diagonal block, and rows of tile images on their way out.
#pragma once

#include "layout.h"

namespace linnet::kernels::gdr {

constexpr int kSlotBytes = 1024;                // one 16 x 16 block: 512 bytes of high parts, 512 of low ones
constexpr int kExchangeBytes = 10 * kSlotBytes; // the lower triangle
constexpr int kScratchPitch = 20;               // floats per row of a diagonal block

// Two floats as bf16 pairs: high, and what the rounding left.
__device__ __forceinline__ void split(float x, float y, std::uint32_t& high, std::uint32_t& low) {
    high = device::pack<BFloat16>(x, y);
    low = device::pack<BFloat16>(x - device::toFloat(BFloat16{static_cast<std::uint16_t>(high)}),
                                 y - device::toFloat(BFloat16{static_cast<std::uint16_t>(high >> 16)}));
}

// A 16 x 16 operand as bf16 pairs.
struct Operand {
    std::uint32_t high[4], low[4];
};

// An accumulator block as the A operand of a product.
__device__ __forceinline__ Operand leftOperand(const float (&c)[2][4]) {
    Operand x;
#pragma unroll
    for (int i = 0; i < 4; ++i)
        split(c[i / 2][2 * (i % 2)], c[i / 2][2 * (i % 2) + 1], x.high[i], x.low[i]);
    return x;
}

// c += left right; right's registers: columns 0..7 (b0, b1), columns 8..15 (b0, b1). low x low is below float32's own rounding.
__device__ __forceinline__ void multiplyAdd(float (&c)[2][4], const Operand& left, const unsigned char* slot, int lane) {
    const uint4 high = reinterpret_cast<const uint4*>(slot)[lane], low = reinterpret_cast<const uint4*>(slot + kSlotBytes / 2)[lane];
    device::mma<BFloat16>(c[0], left.high, low.x, low.y);
    device::mma<BFloat16>(c[1], left.high, low.z, low.w);
    device::mma<BFloat16>(c[0], left.low, high.x, high.y);
    device::mma<BFloat16>(c[1], left.low, high.z, high.w);
    device::mma<BFloat16>(c[0], left.high, high.x, high.y);
    device::mma<BFloat16>(c[1], left.high, high.z, high.w);
}

__device__ __forceinline__ void writeSlot(unsigned char* slot, const Operand& x, int lane) {
    reinterpret_cast<uint4*>(slot)[lane] = make_uint4(x.high[0], x.high[1], x.high[2], x.high[3]);
    reinterpret_cast<uint4*>(slot + kSlotBytes / 2)[lane] = make_uint4(x.low[0], x.low[1], x.low[2], x.low[3]);
}

__device__ __forceinline__ int slotOf(int row, int column) { return (row * (row + 1) / 2 + column) * kSlotBytes; }

// This warp's 16 rows of a tile image, rounded, into shared memory: block column `column`.
template <class T> __device__ __forceinline__ void arrange(unsigned char* rows, const float (&c)[2][4], int column, int group, int t) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int h = 0; h < 2; ++h)
            *reinterpret_cast<std::uint32_t*>(rows + imageOffset(group + 8 * half, 16 * column + 8 * h + 2 * t)) =
                device::pack<T>(c[h][2 * half], c[h][2 * half + 1]);
}

// The rows to global memory, 16 bytes a lane; zeros right of block `warp`.
__device__ __forceinline__ void writeRows(unsigned char* to, const unsigned char* rows, int warp, int lane) {
    __syncwarp();
#pragma unroll
    for (int round = 0; round < 4; ++round) {
        const int piece = lane + 32 * round, column = (piece ^ (piece >> 3)) & 7; // the column's eighth
        reinterpret_cast<uint4*>(to)[piece] = column <= 2 * warp + 1 ? reinterpret_cast<const uint4*>(rows)[piece] : make_uint4(0, 0, 0, 0);
    }
    __syncwarp();
}

// (I + A)^-1 of a 16 x 16 block in place; scratch holds the strict lower part of A, rows of kScratchPitch floats. Lane c: column c.
__device__ __forceinline__ void invertDiagonal(float* scratch, int lane) {
    const int column = lane & 15;
    float x[16];
    x[0] = column == 0 ? 1.0F : 0.0F;
#pragma unroll
    for (int row = 1; row < 16; ++row) {
        float sum = column == row ? 1.0F : 0.0F;
#pragma unroll
        for (int m = 0; m < row; m += 4) {
            const float4 a = *reinterpret_cast<const float4*>(scratch + row * kScratchPitch + m);
            sum -= a.x * x[m];
            if (m + 1 < row)
                sum -= a.y * x[m + 1];
            if (m + 2 < row)
                sum -= a.z * x[m + 2];
            if (m + 3 < row)
                sum -= a.w * x[m + 3];
        }
        x[row] = sum;
    }
    __syncwarp();
    if (lane < 16)
#pragma unroll
        for (int row = 0; row < 16; ++row)
            scratch[row * kScratchPitch + column] = x[row];
    __syncwarp();
}

} // namespace linnet::kernels::gdr
