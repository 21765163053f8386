// The rows of a block while keys come in: shapes, the running sums, and what one tile of keys adds to them.
#pragma once

#include "attention_statistics_launch.h"
#include "attention_statistics_tiles.cuh"

namespace linnet::kernels::statistics {

constexpr float kMaskedScore = -1e30F; // times any scale that is let in: finite, far below kNoMaximum, and 2^x = 0
constexpr float kNoMaximum = -5e9F;    // the running maximum before the first key
constexpr float kMostWeight = 256.0F;  // that a thread may add up for a row and tile before the maxima are raised and all is rescaled

// The shape of the pass for a data type and head dimension.
template <class T, int kDim> struct PassShape {
    static constexpr bool kSplit = Element<T>::kParts == 2, kWide = kDim > 128;
    static constexpr int kFragments = kSplit || kWide ? 1 : 2, kWarps = kWide && !kSplit ? 8 : 4;
    static constexpr int kKeys = kSplit && kWide ? 16 : 32;
    using Tiles = Tiling<T, kDim, kFragments, kWarps, kKeys>;
    static constexpr bool kQueriesInRegisters = !kSplit && kDim <= 80; // else every tile loads them again
    static constexpr int kBlocks = kWide ? 1 : 2;                      // that share a multiprocessor
};

// Shared memory, in bytes from its start: queries, stages of keys and values, then floats: mass [bins][rows], sink [sinkKeys][rows],
// row [kRowValues][rows], sums [warps][kRowSums].
constexpr int kRowValues = 5;
template <class S> struct PassMemory {
    int stage, mass, sink, row, sums, bytes;
    __host__ __device__ PassMemory(int stages, int bins, int sinkKeys)
        : stage(S::kQueryBytes), mass(stage + stages * 2 * S::kKeyBytes), sink(mass + bins * S::kRows * 4),
          row(sink + sinkKeys * S::kRows * 4), sums(row + kRowValues * S::kRows * 4), bytes(sums + S::kWarps * kRowSums * 4) {}
};

// Where a block is: rows first .. first + kRows - 1 of a head of a sequence that starts at token `start`.
struct Place {
    int index, sequence, head, first, length, rowBlock;
    std::int64_t start;
};

// The blocks with the most keys come first, and the heads that share keys run side by side.
template <class S> __device__ __forceinline__ Place placeOf(const Arguments& g) {
    Place p;
    const int all = g.sequences * g.heads;
    p.rowBlock = g.rowBlocks - 1 - static_cast<int>(blockIdx.x) / all;
    p.index = static_cast<int>(blockIdx.x) % all;
    p.sequence = p.index / g.heads;
    p.head = p.index % g.heads;
    p.first = p.rowBlock * S::kRows;
    p.start = g.sequenceStarts ? g.sequenceStarts[p.sequence] : 0;
    p.length = g.sequenceStarts ? min(g.tokens, static_cast<int>(g.sequenceStarts[p.sequence + 1] - p.start)) : g.tokens;
    return p;
}

template <class T>
__device__ __forceinline__ const T* headOf(const Arguments& g, const Place& p, const void* base, const Strides& strides, int head) {
    return static_cast<const T*>(base) + (g.sequenceStarts ? 0 : p.sequence) * strides.batch + head * strides.head +
           p.start * strides.token;
}

// What a thread keeps of its rows, over the keys it has seen itself; only `maximum` is the whole row's. Sink keys are not in it.
template <class S> struct Rows {
    float maximum[S::kHalves];  // M, in powers of two: weights are w = 2^(x - M)
    float sum[S::kHalves];      // of w
    float weighted[S::kHalves]; // of w (x - M)
    float distance[S::kHalves]; // of w (t - s)
    float open[S::kHalves];     // of w, over the keys nearer than the next edge to come
};

// Scores of keys that do not count: later ones, and in the first tile those of the sink, which go to `sink` ([sinkKeys][rows]).
// `row`: sequence position of the thread's first row, `firstKey` of the tile's first key.
template <class S> __device__ __forceinline__ void maskScores(Matrix<S, S::kKeys>& s, int row, int firstKey, int sinkKeys, float* sink) {
#pragma unroll
    for (int h = 0; h < S::kHalves; ++h)
#pragma unroll
        for (int j = 0; j < S::kKeys / 8; ++j)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                float& x = s[h / 2][j][2 * (h % 2) + e];
                const int key = firstKey + 8 * j + 2 * (lane() % 4) + e;
                if (key > row + 8 * h)
                    x = kMaskedScore;
                if (j < kMaxSinkKeys / 8 && key < sinkKeys) {
                    sink[key * S::kRows + 8 * h] = x;
                    x = kMaskedScore;
                }
            }
}

template <int kFragments, int kColumns> __device__ __forceinline__ void clear(float (&x)[kFragments][kColumns][4]) {
#pragma unroll
    for (int f = 0; f < kFragments; ++f)
#pragma unroll
        for (int j = 0; j < kColumns; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                x[f][j][i] = 0.0F;
}

// Raises the maxima to those of the tile and rescales what was summed so far, the warp's finished bins with it. `farthest`: the largest
// distance in the tile.
template <class S>
__device__ __forceinline__ void raiseMaxima(const Arguments& g, Rows<S>& rows, Matrix<S, S::kDim>& o, const Matrix<S, S::kKeys>& s,
                                            float* mass, int farthest, float* factors) {
#pragma unroll
    for (int h = 0; h < S::kHalves; ++h) {
        float best = s[h / 2][0][2 * (h % 2)];
#pragma unroll
        for (int j = 0; j < S::kKeys / 8; ++j)
            best = fmaxf(best, fmaxf(s[h / 2][j][2 * (h % 2)], s[h / 2][j][2 * (h % 2) + 1]));
        const float next = fmaxf(rows.maximum[h], quadMax(best) * g.scale);
        const float change = rows.maximum[h] - next, factor = exp2Fast(change);
        rows.maximum[h] = next;
        rows.weighted[h] = factor * (rows.weighted[h] + change * rows.sum[h]);
        rows.sum[h] *= factor;
        rows.distance[h] *= factor;
        rows.open[h] *= factor;
#pragma unroll
        for (int j = 0; j < S::kDim / 8; ++j) {
            o[h / 2][j][2 * (h % 2)] *= factor;
            o[h / 2][j][2 * (h % 2) + 1] *= factor;
        }
        if (lane() % 4 == 0)
            factors[8 * h + lane() / 4] = factor;
    }
    __syncwarp();
    for (int i = 1; g.edges[i] <= farthest - S::kKeys; ++i) // ended, for some of the rows, by a tile before
        if (lane() < S::kWarpRows)
            mass[(i - 1) * S::kRows + lane()] *= factors[lane()];
    __syncwarp();
}

// What one tile adds to a thread's rows. moment: of w (key - the thread's first key).
template <class S> struct TileSums { float sum[S::kHalves], weighted[S::kHalves], moment[S::kHalves]; };

// Scores to weights in place, and their sums. True where the maxima turn out to be too low: then all of it has to be done again.
template <class S> __device__ __forceinline__ bool weigh(const Rows<S>& rows, Matrix<S, S::kKeys>& s, float scale, TileSums<S>& sums) {
    constexpr int kGroups = S::kKeys / 8;
    bool above = false;
#pragma unroll
    for (int h = 0; h < S::kHalves; ++h) {
        float weighted = 0.0F, odd = 0.0F, later = 0.0F, groups = 0.0F;
#pragma unroll
        for (int j = kGroups - 1; j >= 0; --j) {
            float(&c)[4] = s[h / 2][j];
            float pair = 0.0F;
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                float& x = c[2 * (h % 2) + e];
                const float power = fmaf(x, scale, -rows.maximum[h]);
                x = exp2Fast(power);
                weighted = fmaf(x, power, weighted);
                pair += x;
            }
            odd += c[2 * (h % 2) + 1];
            later += pair; // of this group of eight keys and the later ones: the sum of those over j >= 1 is the sum of j w
            groups += j > 0 ? later : 0.0F;
        }
        sums.sum[h] = later;
        sums.weighted[h] = weighted;
        sums.moment[h] = fmaf(groups, 8.0F, odd);
        above = above || later > kMostWeight;
    }
    return __any_sync(0xffffffffU, above);
}

// The first edge that still ends a bin for one of the warp's rows, and its distance.
struct Edge {
    int index, distance;
};

// Edge `edge` ends a bin for row t at key t - distance: of the tile's keys, those after it belong to the bin. Whether a row's key lies in
// this tile is asked for each eight rows, as only they need to look at their weights.
template <class S>
__device__ __forceinline__ void closeBins(Rows<S>& rows, const Matrix<S, S::kKeys>& s, Edge edge, int warpRow, int firstKey, float* mass) {
    const int past = warpRow - edge.distance - firstKey; // of the warp's first row: the key within the tile
    float bin[S::kHalves];
#pragma unroll
    for (int h = 0; h < S::kHalves; ++h) {
        bin[h] = 0.0F;
        if (past + 8 * h + 7 < 0 || past + 8 * h >= S::kKeys)
            continue;
        const int own = past + 8 * h + lane() / 4;
        const float offset = static_cast<float>(2 * (lane() % 4) - own);
        float inside = 0.0F;
#pragma unroll
        for (int j = 0; j < S::kKeys / 8; ++j) {
            inside = fmaf(saturate(offset + static_cast<float>(8 * j)), s[h / 2][j][2 * (h % 2)], inside);
            inside = fmaf(saturate(offset + static_cast<float>(8 * j + 1)), s[h / 2][j][2 * (h % 2) + 1], inside);
        }
        bin[h] = rows.open[h] + inside;
        if (static_cast<unsigned>(own) < static_cast<unsigned>(S::kKeys))
            rows.open[h] = -inside; // the tile's sum comes on top
    }
    // Sums over the four lanes of a row, of which lane q gets row half q.
    const bool odd = lane() % 2 == 1, upper = lane() / 2 % 2 == 1;
    float mine = (odd ? bin[1] : bin[0]) + __shfl_xor_sync(0xffffffffU, odd ? bin[0] : bin[1], 1);
    int half = lane() % 2;
    if constexpr (S::kHalves == 4) {
        const float other = (odd ? bin[3] : bin[2]) + __shfl_xor_sync(0xffffffffU, odd ? bin[2] : bin[3], 1);
        mine = (upper ? other : mine) + __shfl_xor_sync(0xffffffffU, upper ? mine : other, 2);
        half = lane() % 4;
    } else {
        mine += __shfl_xor_sync(0xffffffffU, mine, 2);
    }
    const int row = 8 * half + lane() / 4;
    if (static_cast<unsigned>(past + row) < static_cast<unsigned>(S::kKeys))
        mass[(edge.index - 1) * S::kRows + row] = mine;
}

// One tile of keys, of which the warp sees at least one: its sums, the bins that end in it, its values.
template <class S>
__device__ __forceinline__ void addTile(const Arguments& g, Rows<S>& rows, Matrix<S, S::kDim>& o, const Matrix<S, S::kKeys>& s,
                                        const TileSums<S>& sums, const typename S::Part* values, int warpRow, int firstKey, Edge& edge,
                                        float* mass) {
    const float toFirst = static_cast<float>(warpRow + lane() / 4 - firstKey - 2 * (lane() % 4)); // distance of the thread's first key
    for (Edge e = edge; e.distance <= warpRow + S::kWarpRows - 1 - firstKey;) {
        closeBins<S>(rows, s, e, warpRow, firstKey, mass);
        const bool done = e.distance <= warpRow - firstKey; // the first row comes last
        e = {e.index + 1, g.edges[e.index + 1]};
        if (done)
            edge = e;
    }
#pragma unroll
    for (int h = 0; h < S::kHalves; ++h) {
        rows.sum[h] += sums.sum[h];
        rows.weighted[h] += sums.weighted[h];
        rows.distance[h] += fmaf(toFirst + static_cast<float>(8 * h), sums.sum[h], -sums.moment[h]);
        rows.open[h] += sums.sum[h];
    }
#pragma unroll
    for (int step = 0; step < S::kKeys / 16; ++step) {
        std::uint32_t a[S::kFragments][S::kParts][4];
#pragma unroll
        for (int f = 0; f < S::kFragments; ++f)
#pragma unroll
            for (int r = 0; r < 4; ++r)
                setWeights<S>(a[f], r, s[f][2 * step + r / 2][2 * (r % 2)], s[f][2 * step + r / 2][2 * (r % 2) + 1]);
        valuesStep<S>(o, a, values + step * 16 * S::kStride);
    }
}

} // namespace linnet::kernels::statistics
