// Tiles in shared memory and their products on tensor cores, for both kernels of attention statistics.
//
// Layout: a tile is [rows][kStride] 16-bit values, kStride = padded headDim + 8, so that the 16-byte chunks of eight rows fall into
//   different banks (an odd number of chunks a row) and every ldmatrix address is a base plus a constant.
// float32 inputs become two bf16 tiles, x = high + low; a product is high high + high low + low high (what is dropped is 2^-18 of it).
#pragma once

#include "../cuda/device.h"
#include "linnet/kernels/launch.h"

namespace linnet::kernels::statistics {

using namespace device;

template <class T> struct Element {
    using Part = T; // what the tensor cores multiply
    static constexpr int kParts = 1;
};
template <> struct Element<float> {
    using Part = BFloat16;
    static constexpr int kParts = 2;
};

// kFragments: 16-row fragments of a warp (each fragment of K or V that is loaded serves all of them). kKeys: keys of a tile.
template <class T, int kDim_, int kFragments_, int kWarps_, int kKeys_> struct Tiling {
    using Value = T;
    using Part = typename Element<T>::Part;
    static constexpr int kParts = Element<T>::kParts, kDim = kDim_, kFragments = kFragments_, kWarps = kWarps_, kKeys = kKeys_;
    static constexpr int kThreads = 32 * kWarps, kWarpRows = 16 * kFragments, kRows = kWarpRows * kWarps;
    static constexpr int kHalves = 2 * kFragments; // rows of a thread: row 8 h + lane / 4 of the warp's
    static constexpr int kStride = kDim + 8;
    static constexpr int kQueryPart = kRows * kStride, kKeyPart = kKeys * kStride; // values of one part of a tile
    static constexpr int kQueryBytes = 2 * kParts * kQueryPart, kKeyBytes = 2 * kParts * kKeyPart;
};

// A thread's part of a warp's [kWarpRows, columns] float matrix: [fragment][8 columns][2 (row half) + (column 2t or 2t + 1)].
template <class S, int kColumns> using Matrix = float[S::kFragments][kColumns / 8][4];

__device__ __forceinline__ int lane() {
    return static_cast<int>(threadIdx.x % 32);
}
__device__ __forceinline__ int warp() {
    return static_cast<int>(threadIdx.x / 32);
}

// Sums over the four lanes that share a row, over all lanes: the same order always, and the same result in each lane.
__device__ __forceinline__ float quadSum(float x) {
    x += __shfl_xor_sync(0xffffffffU, x, 1);
    return x + __shfl_xor_sync(0xffffffffU, x, 2);
}
__device__ __forceinline__ float quadMax(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 2));
}
__device__ __forceinline__ float warpSum(float x) {
    for (int offset = 16; offset > 0; offset /= 2)
        x += __shfl_xor_sync(0xffffffffU, x, offset);
    return x;
}

// x and y in two halves of a register, and what the rounding left over in two halves of another.
__device__ __forceinline__ void splitPack(float x, float y, std::uint32_t& high, std::uint32_t& low) {
    high = pack<BFloat16>(x, y);
    low = pack<BFloat16>(x - toFloat(BFloat16{static_cast<std::uint16_t>(high & 0xffffU)}),
                         y - toFloat(BFloat16{static_cast<std::uint16_t>(high >> 16)}));
}

// How the threads share the 16-byte chunks of a tile: a thread keeps its column, so that one address serves all of its rows.
template <class S> struct Chunks {
    static constexpr int kLanes = S::kDim <= 64 ? 8 : (S::kDim <= 128 ? 16 : 32), kRowsPerPass = S::kThreads / kLanes;
    static __device__ __forceinline__ int row() { return static_cast<int>(threadIdx.x) / kLanes; }
    static __device__ __forceinline__ int column() { return 8 * (static_cast<int>(threadIdx.x) % kLanes); }
    // The thread's first chunk of the tile whose first row `from` is.
    static __device__ __forceinline__ const typename S::Value* start(const typename S::Value* from, std::int64_t tokenStride) {
        return from + row() * tokenStride + column();
    }
};

// Rows first .. first + kTileRows - 1 of a [rows, headDim] matrix into a tile; zeros beyond its rows and columns. 16-bit values come
// asynchronously (copyAsyncCommit and copyAsyncWait are the caller's), float32 at once. `start`: Chunks::start of row `first`, which may
// lie outside.
template <class S, int kTileRows>
__device__ __forceinline__ void loadTile(typename S::Part* tile, const typename S::Value* start, std::int64_t tokenStride, int first,
                                         int rows, int headDim) {
    using C = Chunks<S>;
    static_assert(kTileRows % C::kRowsPerPass == 0);
    if (8 * C::kLanes > S::kDim && C::column() >= S::kDim)
        return;
    [[maybe_unused]] constexpr int kUnroll = S::kParts == 1 ? kTileRows : 2; // float32 in flight takes registers
#pragma unroll kUnroll
    for (int i = 0; i < kTileRows / C::kRowsPerPass; ++i) {
        const int row = C::row() + i * C::kRowsPerPass;
        const bool valid = static_cast<unsigned>(first + row) < static_cast<unsigned>(rows) && C::column() < headDim;
        const auto* source = start + i * C::kRowsPerPass * tokenStride;
        auto* target = tile + row * S::kStride + C::column();
        if constexpr (S::kParts == 1) {
            copyAsync16(target, source, valid);
        } else {
            const float4 a = valid ? *reinterpret_cast<const float4*>(source) : make_float4(0, 0, 0, 0);
            const float4 b = valid ? *reinterpret_cast<const float4*>(source + 4) : make_float4(0, 0, 0, 0);
            uint4 high, low;
            splitPack(a.x, a.y, high.x, low.x);
            splitPack(a.z, a.w, high.y, low.y);
            splitPack(b.x, b.y, high.z, low.z);
            splitPack(b.z, b.w, high.w, low.w);
            *reinterpret_cast<uint4*>(target) = high;
            *reinterpret_cast<uint4*>(target + kTileRows * S::kStride) = low;
        }
    }
}

// A fragments of the warp's query rows for one step of 16 dimensions; `tile` is the warp's first row.
template <class S>
__device__ __forceinline__ void loadQueries(std::uint32_t (&a)[S::kFragments][S::kParts][4], const typename S::Part* tile, int step) {
    const auto* row = tile + (lane() % 16) * S::kStride + 8 * (lane() / 16) + 16 * step;
#pragma unroll
    for (int f = 0; f < S::kFragments; ++f)
#pragma unroll
        for (int part = 0; part < S::kParts; ++part)
            loadMatrices(a[f][part], row + f * 16 * S::kStride + part * S::kQueryPart);
}

// c += a b for the two 8-column matrices in b.
template <class S>
__device__ __forceinline__ void multiply(float (&c)[4], float (&next)[4], const std::uint32_t (&a)[S::kParts][4],
                                         const std::uint32_t (&b)[S::kParts][4]) {
    using Part = typename S::Part;
    mma<Part>(c, a[0], b[0][0], b[0][1]);
    mma<Part>(next, a[0], b[0][2], b[0][3]);
    if constexpr (S::kParts == 2) {
        mma<Part>(c, a[0], b[1][0], b[1][1]);
        mma<Part>(next, a[0], b[1][2], b[1][3]);
        mma<Part>(c, a[1], b[0][0], b[0][1]);
        mma<Part>(next, a[1], b[0][2], b[0][3]);
    }
}

// One step of s += q k^T.
template <class S>
__device__ __forceinline__ void scoresStep(Matrix<S, S::kKeys>& s, const std::uint32_t (&a)[S::kFragments][S::kParts][4],
                                           const typename S::Part* keys, int step) {
    const auto* row = keys + (lane() % 8 + 8 * (lane() / 16)) * S::kStride + 8 * (lane() / 8 % 2) + 16 * step;
#pragma unroll
    for (int pair = 0; pair < S::kKeys / 16; ++pair) {
        std::uint32_t b[S::kParts][4];
#pragma unroll
        for (int part = 0; part < S::kParts; ++part)
            loadMatrices(b[part], row + pair * 16 * S::kStride + part * S::kKeyPart);
#pragma unroll
        for (int f = 0; f < S::kFragments; ++f)
            multiply<S>(s[f][2 * pair], s[f][2 * pair + 1], a[f], b);
    }
}

// One step of o += p v: 16 keys, of which the caller has put the weights into A fragments; `values` is the first key's row.
template <class S>
__device__ __forceinline__ void valuesStep(Matrix<S, S::kDim>& o, const std::uint32_t (&a)[S::kFragments][S::kParts][4],
                                           const typename S::Part* values) {
    const auto* row = values + (lane() % 16) * S::kStride + 8 * (lane() / 16);
#pragma unroll
    for (int pair = 0; pair < S::kDim / 16; ++pair) {
        std::uint32_t b[S::kParts][4];
#pragma unroll
        for (int part = 0; part < S::kParts; ++part)
            loadMatricesTransposed(b[part], row + pair * 16 + part * S::kKeyPart);
#pragma unroll
        for (int f = 0; f < S::kFragments; ++f)
            multiply<S>(o[f][2 * pair], o[f][2 * pair + 1], a[f], b);
    }
}

// A register of an A fragment from two weights of neighbouring keys.
template <class S> __device__ __forceinline__ void setWeights(std::uint32_t (&a)[S::kParts][4], int index, float x, float y) {
    if constexpr (S::kParts == 1)
        a[0][index] = pack<typename S::Part>(x, y);
    else
        splitPack(x, y, a[0][index], a[1][index]);
}

} // namespace linnet::kernels::statistics
