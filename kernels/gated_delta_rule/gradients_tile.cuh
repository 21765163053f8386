// The pieces of gradients.cu that work on whole tiles: the plan of shared memory and of warps, copies, products.
#pragma once

#include "layout.h"

namespace linnet::kernels::gdr::gradients {

enum GradientDot { kQueryDot, kKeyDot, kQueryKeyDot, kKeepDot, kColumnDot, kDots };

// Shared memory is counted in tile images of 8 KB: V', Q and K whole, then dO, dX, S and later dS' of each value block; where there are
// four value blocks, they pass through two slots in turn.
template <int kDim> struct GradientPlan {
    static constexpr int kBlocks = kDim <= 64 ? 1 : kDim <= 128 ? 2 : 4; // N
    static constexpr int kGroups = kDim / 32;                            // groups of 32 keys, each with two warps
    static constexpr int kWarps = 2 * kGroups, kThreads = 32 * kWarps;
    static constexpr int kResident = kDim == 64 ? 3 : kDim <= 128 ? 2 : 1; // blocks on one multiprocessor
    static constexpr bool kRing = kBlocks > 2;
    static constexpr int kSlots = kBlocks == 1 ? 1 : 2;
    static constexpr int kWritten = 0, kQuery = kBlocks, kKey = 2 * kBlocks, kOutput = 3 * kBlocks, kRhs = kOutput + kSlots;
    static constexpr int kState = kRhs + kSlots, kStateAfter = kBlocks == 1 ? kState + 1 : kState;
    static constexpr int kImages = kStateAfter + kSlots * kBlocks;
    static constexpr int kE = kOutput, kF = kRhs + kSlots - 1;                      // take their places once dO and dX are used up
    static constexpr int kSmallFloats = 256, kSumFloats = kDots * kGroups * kChunk; // at D = 128 two blocks just fit
    static constexpr int kSmall = kImages * kTileBytes;
    // Row sums: in the tiles between E and F (kOutput + 1 and kRhs) where there are such, else behind everything.
    static constexpr int kSums = kBlocks == 1 ? kSmall + kSmallFloats * 4 : (kOutput + 1) * kTileBytes;
    static constexpr int kBytes = kSmall + kSmallFloats * 4 + (kBlocks == 1 ? kSumFloats * 4 : 0);
    static constexpr int kTiles = (10 + kWarps - 1) / kWarps; // tiles of the lower triangle per warp
    static_assert(kBlocks == 1 || kSumFloats * 4 <= 2 * kTileBytes);
};

// x, but what is worked out of it is worked out anew: addresses kept from the kernel's begin to its end would be spilled.
__device__ __forceinline__ int anew(int x) {
#if !defined(LINNET_EMULATED)
    asm volatile("" : "+r"(x));
#endif
    return x;
}

// ---- Copies to shared memory -------------------------------------------------------------------------------------------------------
// kDim / 8 threads copy a row of kDim values, so a round of all threads is 16 rows, and images of whole rows are 2 KB further.

constexpr int kRoundBytes = 16 * 128;

// 64 rows of kColumns values; zeros from row `count` on.
template <class T, int kColumns, int kThreads>
__device__ __forceinline__ void fetchRows(unsigned char* images, const T* from, std::int64_t tokenStride, int count) {
    constexpr int kPieces = kColumns / 8, kRows = kThreads / kPieces;
    static_assert(kRows * kPieces == kThreads && kRows % 8 == 0);
    const int thread = anew(static_cast<int>(threadIdx.x)), row = thread / kPieces, piece = thread % kPieces;
    unsigned char* to = images + piece / 8 * kTileBytes + imageOffset(row, piece % 8 * 8);
    const T* source = from + row * tokenStride + piece * 8;
#pragma unroll
    for (int i = 0; i < kChunk / kRows; ++i) {
        const bool valid = row + i * kRows < count;
        device::copyAsync16(to + i * kRows * 128, valid ? source : from, valid);
        source += kRows * tokenStride;
    }
}

// kRows rows of tile images that follow each other.
template <int kRows, int kThreads> __device__ __forceinline__ void fetchImages(unsigned char* images, const unsigned char* from) {
    static_assert(kRows * 8 % kThreads == 0);
    const int offset = static_cast<int>(threadIdx.x) * 16;
#pragma unroll
    for (int i = 0; i < kRows * 8 / kThreads; ++i)
        device::copyAsync16(images + offset + i * kThreads * 16, from + offset + i * kThreads * 16);
}

// Byte offset of a thread's first piece of a value block of a state: kDim keys in images side by side. Round i: kRoundBytes i further.
template <int kDim> __device__ __forceinline__ int statePiece() {
    constexpr int kPieces = kDim / 8;
    const int thread = anew(static_cast<int>(threadIdx.x)), row = thread / kPieces, piece = thread % kPieces;
    return piece / 8 * kTileBytes + imageOffset(row, piece % 8 * 8);
}
template <int kDim> __device__ __forceinline__ constexpr int stateRounds(int block) {
    return kDim - 64 * block < 64 ? (kDim - 64 * block) / 16 : 4;
}

template <int kDim> __device__ __forceinline__ void fetchState(unsigned char* images, const unsigned char* from, int block) {
    const int offset = statePiece<kDim>();
#pragma unroll
    for (int i = 0; i < 4; ++i)
        if (i < stateRounds<kDim>(block))
            device::copyAsync16(images + offset + i * kRoundBytes, from + offset + i * kRoundBytes);
}

// ---- Products ----------------------------------------------------------------------------------------------------------------------

// 32 rows x 32 columns of a result that belong to a warp: two row tiles of 16, {0, 3} or {1, 2} so that triangles weigh the same.
using Accumulator = float[2][4][4];

// Offsets in an image are 128 row + (lane's offset ^ 2 column) with rows in multiples of 8 and columns in multiples of 8: the swizzle
// leaves the lower three bits of the row to the lane.
struct WarpPlace {
    int rowTile[2];
    int block, column; // first column: in tile image `block`, and there in `column`
    int lane;
    int plain, transposed; // ldmatrix of 16 x 16: rows are the rows of A, or of B as (k, n); rows are the k of A
    int pair;              // two columns 2t of row `group`
};

// Taken anew by every step.
__device__ __forceinline__ WarpPlace warpPlace() {
    const int thread = anew(static_cast<int>(threadIdx.x)), warp = thread >> 5, lane = thread & 31, first = warp & 1, group = warp >> 1;
    return {{first, 3 - first},
            group >> 1,
            32 * (group & 1),
            lane,
            imageOffset(lane & 15, lane >> 4 << 3),
            imageOffset((lane & 7) + (lane >> 4 << 3), lane & 8),
            imageOffset(lane >> 2, 2 * (lane & 3))};
}

__device__ __forceinline__ void clear(Accumulator& c) {
#pragma unroll
    for (int i = 0; i < 32; ++i)
        c[i / 16][i / 4 % 4][i % 4] = 0.0F;
}

// The 16 x 16 operand A (m, k) out of an image with rows m, or rows k (transposed).
template <bool kTransposed>
__device__ __forceinline__ void loadA(std::uint32_t (&a)[4], const unsigned char* image, int m, int k, const WarpPlace& w) {
    if constexpr (kTransposed)
        device::loadMatricesTransposed(a, image + k * 128 + (w.transposed ^ 2 * m));
    else
        device::loadMatrices(a, image + m * 128 + (w.plain ^ 2 * k));
}
// B (k, n), 16 x 16, out of an image with rows k: columns 0..7 in b[0], b[1], columns 8..15 in b[2], b[3].
__device__ __forceinline__ void loadB(std::uint32_t (&b)[4], const unsigned char* image, int k, int n, const WarpPlace& w) {
    device::loadMatricesTransposed(b, image + k * 128 + (w.plain ^ 2 * n));
}
// This warp's 32 columns of it.
__device__ __forceinline__ void loadColumns(std::uint32_t (&b)[2][4], const unsigned char* image, int k, const WarpPlace& w) {
    loadB(b[0], image, k, w.column, w);
    loadB(b[1], image, k, w.column + 16, w);
}

template <class T> __device__ __forceinline__ void multiply(float (&c)[4][4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2][4]) {
#pragma unroll
    for (int n = 0; n < 4; ++n)
        device::mma<T>(c[n], a, b[n / 2][2 * (n % 2)], b[n / 2][2 * (n % 2) + 1]);
}

// query += dO S^T, key += dX S^T over 16 kSteps values; `state` is the tile image of this warp's keys.
template <class T, int kSteps>
__device__ __forceinline__ void stateRows(Accumulator& query, Accumulator& key, const unsigned char* dO, const unsigned char* dX,
                                          const unsigned char* state, const WarpPlace& w) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
        std::uint32_t a[4], b[2][4];
        loadColumns(b, state, 16 * s, w);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            loadA<false>(a, dO, 16 * w.rowTile[r], 16 * s, w);
            multiply<T>(query[r], a, b);
            loadA<true>(a, dX, 16 * w.rowTile[r], 16 * s, w);
            multiply<T>(key[r], a, b);
        }
    }
}

// key += V' dS'^T
template <class T, int kSteps>
__device__ __forceinline__ void stateColumns(Accumulator& key, const unsigned char* written, const unsigned char* state,
                                             const WarpPlace& w) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
        std::uint32_t a[4], b[2][4];
        loadColumns(b, state, 16 * s, w);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            loadA<true>(a, written, 16 * w.rowTile[r], 16 * s, w);
            multiply<T>(key[r], a, b);
        }
    }
}

// query += E K, key += F K; k and q are the tile images of this warp's keys.
template <class T>
__device__ __forceinline__ void triangleRows(Accumulator& query, Accumulator& key, const unsigned char* e, const unsigned char* f,
                                             const unsigned char* k, const WarpPlace& w) {
#pragma unroll
    for (int s = 0; s < 4; ++s) {
        if (s > w.rowTile[1])
            break;
        std::uint32_t a[4], b[2][4];
        loadColumns(b, k, 16 * s, w);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            if (s > w.rowTile[r])
                continue;
            loadA<false>(a, e, 16 * w.rowTile[r], 16 * s, w);
            multiply<T>(query[r], a, b);
            loadA<false>(a, f, 16 * w.rowTile[r], 16 * s, w);
            multiply<T>(key[r], a, b);
        }
    }
}

// key += E^T Q + F^T K
template <class T>
__device__ __forceinline__ void triangleColumns(Accumulator& key, const unsigned char* e, const unsigned char* f, const unsigned char* q,
                                                const unsigned char* k, const WarpPlace& w) {
#pragma unroll
    for (int s = 0; s < 4; ++s) {
        if (s < w.rowTile[0])
            continue;
        std::uint32_t a[4], b[2][4], c[2][4];
        loadColumns(b, q, 16 * s, w);
        loadColumns(c, k, 16 * s, w);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            if (s < w.rowTile[r])
                continue;
            loadA<true>(a, e, 16 * w.rowTile[r], 16 * s, w);
            multiply<T>(key[r], a, b);
            loadA<true>(a, f, 16 * w.rowTile[r], 16 * s, w);
            multiply<T>(key[r], a, c);
        }
    }
}

// One 16 x 16 tile of dO V'^T and of dX V'^T, over 16 kSteps values.
struct TrianglePair {
    float e[2][4], f[2][4];
};

template <class T, int kSteps>
__device__ __forceinline__ void triangleTile(TrianglePair& x, const unsigned char* dO, const unsigned char* dX,
                                             const unsigned char* written, int row, int column, const WarpPlace& w) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
        std::uint32_t a[4], b[4];
        loadB(b, written, 16 * s, column, w);
        loadA<false>(a, dO, row, 16 * s, w);
        device::mma<T>(x.e[0], a, b[0], b[1]);
        device::mma<T>(x.e[1], a, b[2], b[3]);
        loadA<true>(a, dX, row, 16 * s, w);
        device::mma<T>(x.f[0], a, b[0], b[1]);
        device::mma<T>(x.f[1], a, b[2], b[3]);
    }
}

// Tile `index` of the lower triangle's ten, row by row.
__device__ __forceinline__ int triangleRow(int index) {
    return index < 1 ? 0 : index < 3 ? 1 : index < 6 ? 2 : 3;
}
__device__ __forceinline__ int triangleColumn(int index) {
    return index - triangleRow(index) * (triangleRow(index) + 1) / 2;
}

} // namespace linnet::kernels::gdr::gradients
