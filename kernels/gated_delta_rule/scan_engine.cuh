// Products of the scans: accumulators and left operands live in registers, right operands in shared tiles. Every warp owns 16 rows
// (value channels); a warpgroup of four owns the 64 rows of a value block. Accumulator tile j holds columns 8 j .. 8 j + 7
// (fragments as in cuda/device.h). Two engines with the same signatures:
//   WarpEngine   mma.m16n8k16 per warp, right operands by ldmatrix; compute capability 8.0 and later
//   GroupEngine  wgmma.m64nNk16 per warpgroup, right operands by shared-memory descriptors; 9.0a only (scan_hopper.cuh)
#pragma once

#include "layout.h"

namespace linnet::kernels::gdr {

using device::mma;
using device::pack;

// Which 16 x 16 blocks of a triangular right operand are not zero: kLower: k block <= n block, kUpper: k block >= n block.
enum class Blocks { kAll, kLower, kUpper };

template <class T> __device__ __forceinline__ float2 unpack(std::uint32_t pair) {
    return make_float2(device::toFloat(T{static_cast<std::uint16_t>(pair)}), device::toFloat(T{static_cast<std::uint16_t>(pair >> 16)}));
}

// The accumulators of columns 16 s .. 16 s + 15 as the left operand of k-step s, rounded to T, scaled by one factor per column.
template <class T, int kTiles> __device__ __forceinline__ void asOperand(std::uint32_t (&a)[kTiles / 2][4], const float (&c)[kTiles][4]) {
#pragma unroll
    for (int s = 0; s < kTiles / 2; ++s) {
        a[s][0] = pack<T>(c[2 * s][0], c[2 * s][1]);
        a[s][1] = pack<T>(c[2 * s][2], c[2 * s][3]);
        a[s][2] = pack<T>(c[2 * s + 1][0], c[2 * s + 1][1]);
        a[s][3] = pack<T>(c[2 * s + 1][2], c[2 * s + 1][3]);
    }
}

template <int kTiles> __device__ __forceinline__ void clear(float (&c)[kTiles][4]) {
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
        for (int r = 0; r < 4; ++r)
            c[j][r] = 0.0F;
}

// c[:, j] *= factors[column]; factors in shared memory, one per column.
template <int kTiles> __device__ __forceinline__ void scaleColumns(float (&c)[kTiles][4], const float* factors, int t) {
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
        const float2 f = *reinterpret_cast<const float2*>(factors + 8 * j + 2 * t);
        c[j][0] *= f.x, c[j][1] *= f.y, c[j][2] *= f.x, c[j][3] *= f.y;
    }
}

struct WarpEngine {
    static constexpr bool kHopper = false;

    // c += a B (kFresh: c = a B), B[k][n] = tile(row n, column k): tiles of 64 rows n; k runs over kSteps x 16 columns, 64 to a tile.
    template <class T, int kSteps, bool kFresh, Blocks kBlocks = Blocks::kAll>
    static __device__ __forceinline__ void rows(float (&c)[8][4], const std::uint32_t (&a)[kSteps][4], const unsigned char* tiles, int lane) {
        if (kFresh)
            clear(c);
        const int row = (lane >> 4) * 8 + (lane & 7), column = (lane >> 3 & 1) * 8;
#pragma unroll
        for (int s = 0; s < kSteps; ++s)
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                if ((kBlocks == Blocks::kLower && s > n) || (kBlocks == Blocks::kUpper && s < n))
                    continue;
                std::uint32_t b[4];
                device::loadMatrices(b, tiles + (s / 4) * kTileBytes + imageOffset(16 * n + row, (s % 4) * 16 + column));
                mma<T>(c[2 * n], a[s], b[0], b[1]);
                mma<T>(c[2 * n + 1], a[s], b[2], b[3]);
            }
    }

    // Likewise with B[k][n] = tile(row k, column n): four k-steps of 16 rows; n runs over kTiles x 8 columns, 64 to a tile.
    template <class T, int kTiles, bool kFresh, Blocks kBlocks = Blocks::kAll>
    static __device__ __forceinline__ void columns(float (&c)[kTiles][4], const std::uint32_t (&a)[4][4], const unsigned char* tiles, int lane) {
        if (kFresh)
            clear(c);
        const int row = (lane >> 3 & 1) * 8 + (lane & 7), column = (lane >> 4) * 8;
#pragma unroll
        for (int s = 0; s < 4; ++s)
#pragma unroll
            for (int n = 0; n < kTiles / 2; ++n) {
                if ((kBlocks == Blocks::kLower && s > n) || (kBlocks == Blocks::kUpper && s < n))
                    continue;
                std::uint32_t b[4];
                device::loadMatricesTransposed(b, tiles + (n / 4) * kTileBytes + imageOffset(16 * s + row, (n % 4) * 16 + column));
                mma<T>(c[2 * n], a[s], b[0], b[1]);
                mma<T>(c[2 * n + 1], a[s], b[2], b[3]);
            }
    }

    // Products run when they are called; the other engine's are queued: begin(c) before the first product into c after its registers
    // changed (begin() where the product is fresh), commit() closes a group, wait<n>() returns when at most the n latest groups are unfinished and makes c readable.
    template <int kTiles> static __device__ __forceinline__ void begin(float (&)[kTiles][4]) {}
    static __device__ __forceinline__ void begin() {}
    static __device__ __forceinline__ void commit() {}
    template <int kPending, int kTiles> static __device__ __forceinline__ void wait(float (&)[kTiles][4]) {}
};

} // namespace linnet::kernels::gdr
