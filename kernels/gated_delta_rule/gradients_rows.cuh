// The pieces of gradients.cu that work on entries and rows: gates, E and F from their products, row sums, storing, dg.
#pragma once

#include "gates.h"
#include "gradients_tile.cuh"

#include <type_traits>

namespace linnet::kernels::gdr::gradients {

// ---- Rows of results ---------------------------------------------------------------------------------------------------------------
// A lane's accumulators lie in four rows, index 2 r + half; lanes 4 group .. 4 group + 3 share them.

__device__ __forceinline__ int rowOf(const WarpPlace& w, int index) {
    return 16 * w.rowTile[index / 2] + 8 * (index % 2) + (w.lane >> 2);
}

// f(row) of the four rows: each lane works out one.
template <class F> __device__ __forceinline__ void perRow(float (&x)[4], const WarpPlace& w, F&& f) {
    const int tile = w.lane & 2 ? w.rowTile[1] : w.rowTile[0];
    const float mine = f(16 * tile + 8 * (w.lane & 1) + (w.lane >> 2));
#pragma unroll
    for (int i = 0; i < 4; ++i)
        x[i] = __shfl_sync(0xffffffffU, mine, (w.lane & 28) + i);
}

template <class F> __device__ __forceinline__ void scaleRows(Accumulator& c, const WarpPlace& w, F&& f) {
    float factor[4];
    perRow(factor, w, f);
#pragma unroll
    for (int i = 0; i < 32; ++i)
        c[i / 16][i / 4 % 4][i % 4] *= factor[i / 16 * 2 + i % 4 / 2];
}

template <class T> __device__ __forceinline__ float2 unpack(std::uint32_t bits) {
    return make_float2(device::toFloat(T{static_cast<std::uint16_t>(bits)}), device::toFloat(T{static_cast<std::uint16_t>(bits >> 16)}));
}
template <class T> __device__ __forceinline__ float pairDot(std::uint32_t a, std::uint32_t b) {
    const float2 x = unpack<T>(a), y = unpack<T>(b);
    return x.x * y.x + x.y * y.y;
}

// What of a tile lies where an accumulator's entries of row `index` do: [n], two values each. Loaded again for every use: it is
// registers that are scarce.
using RowPairs = std::uint32_t[4];

__device__ __forceinline__ void loadPairs(RowPairs& x, const unsigned char* image, int index, const WarpPlace& w) {
#pragma unroll
    for (int n = 0; n < 4; ++n)
        x[n] = *reinterpret_cast<const std::uint32_t*>(image + (16 * w.rowTile[index / 2] + 8 * (index % 2)) * 128 +
                                                       (w.pair ^ 2 * (w.column + 8 * n)));
}

// Sums over a row lie in parts [dot][column group][row].
template <int kDim> __device__ __forceinline__ float rowSum(const float* sums, int dot, int row) {
    float sum = 0.0F;
#pragma unroll
    for (int group = 0; group < GradientPlan<kDim>::kGroups; ++group)
        sum += sums[(dot * GradientPlan<kDim>::kGroups + group) * kChunk + row];
    return sum;
}

// `part` summed over the lanes of row `index` goes to sums.
template <int kDim> __device__ __forceinline__ void writePart(float* sums, int dot, int index, float part, const WarpPlace& w) {
    part += __shfl_xor_sync(0xffffffffU, part, 1);
    part += __shfl_xor_sync(0xffffffffU, part, 2);
    if ((w.lane & 3) == 0)
        sums[(dot * GradientPlan<kDim>::kGroups + 2 * w.block + w.column / 32) * kChunk + rowOf(w, index)] = part;
}

// Row `index` of an accumulator times what lies there of a tile.
template <class T> __device__ __forceinline__ float rowDot(const Accumulator& c, const RowPairs& x, int index) {
    float sum = 0.0F;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
        const float2 y = unpack<T>(x[n]);
        sum += c[index / 2][n][index % 2 * 2] * y.x + c[index / 2][n][index % 2 * 2 + 1] * y.y;
    }
    return sum;
}
template <class T, int kDim>
__device__ __forceinline__ void rowDots(float* sums, int dot, const Accumulator& c, const unsigned char* image, const WarpPlace& w) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        RowPairs x;
        loadPairs(x, image, i, w);
        writePart<kDim>(sums, dot, i, rowDot<T>(c, x, i), w);
    }
}

// Eight products.
template <class T> __device__ __forceinline__ float pieceDot(const uint4& a, const uint4& b) {
    return (pairDot<T>(a.x, b.x) + pairDot<T>(a.y, b.y)) + (pairDot<T>(a.z, b.z) + pairDot<T>(a.w, b.w));
}

// The four lanes of a row hold pairs of four 8-column tiles each; afterwards each lane holds the 8 columns of one tile.
__device__ __forceinline__ void gatherColumns(std::uint32_t (&x)[4], int lane) {
    const bool odd = lane & 1, upper = lane & 2;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const std::uint32_t other = __shfl_xor_sync(0xffffffffU, odd ? x[i] : x[i + 1], 1);
        x[i] = odd ? other : x[i];
        x[i + 1] = odd ? x[i + 1] : other;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const std::uint32_t other = __shfl_xor_sync(0xffffffffU, upper ? x[i] : x[i + 2], 2);
        x[i] = upper ? other : x[i];
        x[i + 2] = upper ? x[i + 2] : other;
    }
}

// ---- Gates, E and F ----------------------------------------------------------------------------------------------------------------

struct GradientParams {
    const void *q, *k, *dO;
    TokenStrides qStrides, kStrides, doStrides;
    ChunkMap map;
    ChunkBuffers buffers;
    const float *g, *beta, *aLog, *dtBias;
    void *dq, *dk; // [B, T, H, D]
    float *dg, *dbeta, *gatePartials;
    std::int64_t tokens;
    float scale;
    int heads, group; // group: query heads per key head
    bool betaIsLogit, normalise;
};

// The four rows of `gates`.
struct Gates {
    const float* rows;
    __device__ float decay(int i) const { return rows[i]; }
    __device__ float beta(int i) const { return rows[kChunk + i]; }
    __device__ float query(int i) const { return rows[2 * kChunk + i]; }
    __device__ float key(int i) const { return rows[3 * kChunk + i]; }
};

// Floats in shared memory: E's diagonal, per token the log decay and its derivative in g, one number per warp (twice).
struct Small {
    float* base;
    __device__ float* diagonal() const { return base; }
    __device__ float* logDecay() const { return base + kChunk; }
    __device__ float* slope() const { return base + 2 * kChunk; }
    __device__ float* largest() const { return base + 3 * kChunk; }
    __device__ float* stateDots() const { return base + 3 * kChunk + 16; }
};

// Where this block's rows are in [B, T, H] tensors.
struct BlockRows {
    int token, head, heads, count; // token: counted over the batch; there are fewer than 2^31
    __device__ std::int64_t at(int row) const { return static_cast<std::int64_t>(anew(token) + row) * heads + head; }
};

// One warp, while the tiles are on their way.
__device__ __forceinline__ void prepareGates(const GradientParams& p, const BlockRows& rows, const Small& small, int lane) {
    if (!p.aLog)
        return;
    const int head = rows.head;
    const float rate = -expf(p.aLog[head]), bias = p.dtBias ? p.dtBias[head] : 0.0F;
#pragma unroll
    for (int row = lane; row < kChunk; row += 32) {
        const float raw = row < rows.count ? p.g[rows.at(row)] : 0.0F;
        small.logDecay()[row] = logDecay(raw, p.aLog, p.dtBias, head) / kLog2E;
        small.slope()[row] = rate / (1.0F + expf(-(raw + bias)));
    }
}

// What a lane needs of the gates for its part of a tile of E and F: two rows, two pairs of columns.
struct TileGates {
    float decay[2], query[2], key[2], beta[2];
    float2 columnDecay[2], columnKey[2];
};

__device__ __forceinline__ void loadGates(TileGates& x, const Gates& gates, int row, int column, int lane) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int at = row + 8 * i + (lane >> 2), pair = column + 8 * i + 2 * (lane & 3);
        x.decay[i] = gates.decay(at);
        x.query[i] = gates.query(at);
        x.key[i] = gates.key(at);
        x.beta[i] = gates.beta(at);
        x.columnDecay[i] = *reinterpret_cast<const float2*>(gates.rows + pair);
        x.columnKey[i] = *reinterpret_cast<const float2*>(gates.rows + 3 * kChunk + pair);
    }
}

// dO V'^T and dX V'^T become E and F with the factors of q and k; E's diagonal goes to `small`, that of dX V'^T makes dbeta.
__device__ __forceinline__ void finishTile(TrianglePair& x, const TileGates& gates, const GradientParams& p, const BlockRows& rows,
                                           const Small& small, int row, int column, int lane) {
    if (row == column) {
#pragma unroll
        for (int half = 0; half < 2; ++half) { // the entry (i, i) is in the lane of its row's pair of columns
            const int i = lane >> 2, token = row + 8 * half + i;
            if (i >> 1 != (lane & 3))
                continue;
            const float e = i & 1 ? x.e[half][2 * half + 1] : x.e[half][2 * half],
                        f = i & 1 ? x.f[half][2 * half + 1] : x.f[half][2 * half];
            small.diagonal()[token] = e * gates.query[half] * gates.key[half];
            if (p.dbeta && token < rows.count) // the slope of the sigmoid is beta (1 - beta)
                p.dbeta[rows.at(token)] = p.betaIsLogit ? f * (1.0F - gates.beta[half]) : f / gates.beta[half];
        }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int i = row + 8 * half + (lane >> 2);
        const float query = gates.query[half], write = -gates.beta[half] * gates.key[half];
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            float &e = x.e[n / 2][2 * half + n % 2], &f = x.f[n / 2][2 * half + n % 2];
            const float decay = n % 2 ? gates.columnDecay[n / 2].y : gates.columnDecay[n / 2].x;
            const float key = n % 2 ? gates.columnKey[n / 2].y : gates.columnKey[n / 2].x;
            const bool kept = column + 8 * (n / 2) + 2 * (lane & 3) + n % 2 < i;
            const float gamma = kept ? key * device::exp2Fast(gates.decay[half] - decay) : 0.0F;
            e *= gamma * query;
            f *= gamma * write;
        }
    }
}

// Float16 has little room below 1, and the factors of normalised rows make E and F small: they are stored times a power of two that
// brings the largest near 2^12. BFloat16 needs none.
template <class T, int kWarps, int kTiles>
__device__ __forceinline__ float storageScale(const TrianglePair (&x)[kTiles], const Small& small) {
    if constexpr (std::is_same_v<T, BFloat16>)
        return 1.0F;
    float largest = 0.0F;
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int i = 0; i < 8; ++i)
            largest = fmaxf(largest, fmaxf(fabsf(x[n].e[i / 4][i % 4]), fabsf(x[n].f[i / 4][i % 4])));
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, step));
    if ((threadIdx.x & 31) == 0)
        small.largest()[threadIdx.x >> 5] = largest;
    __syncthreads();
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp)
        largest = fmaxf(largest, small.largest()[warp]);
    const int exponent = largest > 0.0F ? 12 - ilogbf(largest) : 0;
    return scalbnf(1.0F, exponent > 60 ? 60 : exponent < -60 ? -60 : exponent);
}

// A tile of E and F, rounded.
struct PackedPair {
    std::uint32_t e[4], f[4];
};

template <class T> __device__ __forceinline__ void packTile(PackedPair& to, const TrianglePair& x, float scale) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        to.e[i] = device::pack<T>(scale * x.e[i / 2][2 * (i % 2)], scale * x.e[i / 2][2 * (i % 2) + 1]);
        to.f[i] = device::pack<T>(scale * x.f[i / 2][2 * (i % 2)], scale * x.f[i / 2][2 * (i % 2) + 1]);
    }
}
__device__ __forceinline__ void storeTile(unsigned char* e, unsigned char* f, const PackedPair& x, int row, int column, int lane) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int offset = imageOffset(row + 8 * (i % 2) + (lane >> 2), column + 8 * (i / 2) + 2 * (lane & 3));
        *reinterpret_cast<std::uint32_t*>(e + offset) = x.e[i];
        *reinterpret_cast<std::uint32_t*>(f + offset) = x.f[i];
    }
}

// Rows of the gradient of q or k, finished and stored: unscale c + diagonal other - pull own; own and other are q and k, or k and q.
template <class T>
__device__ __forceinline__ void storeRows(T* to, std::int64_t tokenStride, int count, const Accumulator& c, float unscale,
                                          const unsigned char* own, const unsigned char* other, const float* diagonal,
                                          const float (&pull)[4], const WarpPlace& w) {
    to += 64 * w.block + w.column + 8 * (w.lane & 3);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int row = rowOf(w, i);
        const float d = diagonal[row];
        RowPairs mine, others;
        loadPairs(mine, own, i, w);
        loadPairs(others, other, i, w);
        std::uint32_t packed[4];
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            const float2 x = unpack<T>(mine[n]), y = unpack<T>(others[n]);
            const float(&a)[4] = c[i / 2][n];
            packed[n] =
                device::pack<T>(unscale * a[i % 2 * 2] + d * y.x - pull[i] * x.x, unscale * a[i % 2 * 2 + 1] + d * y.y - pull[i] * x.y);
        }
        gatherColumns(packed, w.lane);
        if (row < count)
            device::storeGlobal16(to + row * tokenStride, packed[0], packed[1], packed[2], packed[3]);
    }
}

// Warp 0: row sums become dg. Lane l takes tokens l and l + 32. decayDot = exp(G_C) <S, dS'>.
template <int kDim>
__device__ void finishGates(const GradientParams& p, const BlockRows& rows, int tile, float lastDecay, float* sums, const Small& small,
                            float unscale, int lane) {
    float decayDot = 0.0F;
    for (int warp = 0; warp < GradientPlan<kDim>::kWarps; ++warp)
        decayDot += small.stateDots()[warp];
    decayDot *= device::exp2Fast(lastDecay);
    float later[2], earlier[2]; // sums from the token on, and, of what is kept for dS', up to it
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int row = lane + 32 * i;
        const float keep = rowSum<kDim>(sums, kKeepDot, row);
        later[i] = unscale *
                   (rowSum<kDim>(sums, kQueryDot, row) + rowSum<kDim>(sums, kKeyDot, row) - (rowSum<kDim>(sums, kColumnDot, row) - keep));
        earlier[i] = unscale * keep;
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
            const float above = __shfl_down_sync(0xffffffffU, later[i], step), below = __shfl_up_sync(0xffffffffU, earlier[i], step);
            later[i] += lane + step < 32 ? above : 0.0F;
            earlier[i] += lane >= step ? below : 0.0F;
        }
    }
    later[0] += __shfl_sync(0xffffffffU, later[1], 0);
    const float firstHalf = __shfl_sync(0xffffffffU, earlier[0], 31);
    float aLogPart = 0.0F, biasPart = 0.0F;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int row = lane + 32 * i;
        // From the lane below, because earlier - keep would not be exact.
        float before = __shfl_up_sync(0xffffffffU, earlier[i], 1);
        before = (lane == 0 ? 0.0F : before) + (i == 1 ? firstHalf : 0.0F);
        if (row >= rows.count)
            continue;
        float dg = later[i] + before + decayDot;
        if (p.aLog) {
            aLogPart += dg * small.logDecay()[row];
            dg *= small.slope()[row];
            biasPart += dg;
        }
        if (p.dg)
            p.dg[rows.at(row)] = dg;
    }
    if (!p.gatePartials)
        return;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        aLogPart += __shfl_xor_sync(0xffffffffU, aLogPart, step);
        biasPart += __shfl_xor_sync(0xffffffffU, biasPart, step);
    }
    if (lane == 0)
        reinterpret_cast<float2*>(p.gatePartials)[anew(tile)] = make_float2(aLogPart, biasPart);
}

} // namespace linnet::kernels::gdr::gradients
