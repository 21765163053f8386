// The rows of a block while keys come in: shapes, the running sums, and what one tile of keys adds to them.
#pragma once

#include "attention_statistics_launch.h"
#include "attention_statistics_tiles.cuh"

namespace linnet::kernels::statistics {

constexpr float kMaskedScore = -1e30F; // times any scale that is let in: finite, far below kNoMaximum, and 2^x = 0
constexpr float kNoMaximum = -5e9F;    // the running maximum before the first key
constexpr float kSlack = 8.0F;         // powers of two by which a score may exceed the running maximum before everything is rescaled

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

// Raises the maxima where a score is more than kSlack above, and rescales what was summed so far, the warp's finished bins with it.
template <class S>
__device__ __forceinline__ void raiseMaxima(Rows<S>& rows, Matrix<S, S::kDim>& o, const float (&best)[S::kHalves], float* mass,
                                            int finishedBins, float* factors) {
#pragma unroll
    for (int h = 0; h < S::kHalves; ++h) {
        const float next = fmaxf(rows.maximum[h], quadMax(best[h]));
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
    if (finishedBins > 0) {
        __syncwarp();
        if (lane() < S::kWarpRows)
            for (int bin = 0; bin < finishedBins; ++bin)
                mass[bin * S::kRows + lane()] *= factors[lane()];
    }
    __syncwarp();
}

// Edge e ends a bin for row t at key t - e: of the tile's keys, those after it belong to the bin. `past`: t - e - firstKey.
template <class S> __device__ __forceinline__ void closeBin(float& open, const Matrix<S, S::kKeys>& s, int h, int past, float* mass) {
    const bool here = past >= 0 && past < S::kKeys;
    const float offset = static_cast<float>(2 * (lane() % 4) - past);
    float inside = 0.0F;
#pragma unroll
    for (int j = 0; j < S::kKeys / 8; ++j) {
        inside += saturate(offset + static_cast<float>(8 * j)) * s[h / 2][j][2 * (h % 2)];
        inside += saturate(offset + static_cast<float>(8 * j + 1)) * s[h / 2][j][2 * (h % 2) + 1];
    }
    const float all = quadSum(open + inside);
    if (here) {
        open = -inside; // the tile's sum comes on top
        if (lane() % 4 == 0)
            *mass = all;
    }
}

// Scores to weights in place, and their sums.
template <class S>
__device__ __forceinline__ void weigh(Rows<S>& rows, Matrix<S, S::kKeys>& s, float scale, int row, int firstKey,
                                      float (&tile)[S::kHalves]) {
    const int toFirst = row - firstKey - 2 * (lane() % 4); // distance of the thread's first key
#pragma unroll
    for (int h = 0; h < S::kHalves; ++h) {
        float sum = 0.0F, weighted = 0.0F, moment = 0.0F;
#pragma unroll
        for (int j = 0; j < S::kKeys / 8; ++j)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                float& x = s[h / 2][j][2 * (h % 2) + e];
                const float power = fmaf(x, scale, -rows.maximum[h]);
                x = exp2Fast(power);
                sum += x;
                weighted = fmaf(x, power, weighted);
                moment = fmaf(x, static_cast<float>(8 * j + e), moment);
            }
        rows.sum[h] += sum;
        rows.weighted[h] += weighted;
        rows.distance[h] += fmaf(static_cast<float>(toFirst + 8 * h), sum, -moment);
        tile[h] = sum;
    }
}

// One tile of keys, of which the warp sees at least one. `edge`: the first edge that can still end a bin.
template <class S>
__device__ __forceinline__ void addTile(const Arguments& g, Rows<S>& rows, Matrix<S, S::kDim>& o, Matrix<S, S::kKeys>& s,
                                        const typename S::Part* values, int warpRow, int firstKey, int& edge, float* mass, float* sink,
                                        float* factors) {
    const int row = warpRow + lane() / 4, lastRow = warpRow + S::kWarpRows - 1;
    if (firstKey + S::kKeys - 1 > warpRow || firstKey < g.sinkKeys)
        maskScores<S>(s, row, firstKey, g.sinkKeys, sink + lane() / 4);
    float best[S::kHalves];
    bool above = false;
#pragma unroll
    for (int h = 0; h < S::kHalves; ++h) {
        best[h] = s[h / 2][0][2 * (h % 2)];
#pragma unroll
        for (int j = 0; j < S::kKeys / 8; ++j)
            best[h] = fmaxf(best[h], fmaxf(s[h / 2][j][2 * (h % 2)], s[h / 2][j][2 * (h % 2) + 1]));
        best[h] *= g.scale;
        above = above || best[h] > rows.maximum[h] + kSlack;
    }
    if (__any_sync(0xffffffffU, above)) {
        int finished = 0; // bins that an earlier (later in keys) tile may have ended
        while (finished + 1 < g.bins && g.edges[finished + 1] <= lastRow - firstKey - S::kKeys)
            ++finished;
        raiseMaxima<S>(rows, o, best, mass, finished, factors);
    }
    float tile[S::kHalves];
    weigh<S>(rows, s, g.scale, row, firstKey, tile);

    while (edge < g.bins && g.edges[edge] < warpRow - firstKey - (S::kKeys - 1))
        ++edge;
    if (edge < g.bins && g.edges[edge] <= lastRow - firstKey) {
#pragma unroll
        for (int h = 0; h < S::kHalves; ++h) {
            const int nearest = warpRow + 8 * h - firstKey - (S::kKeys - 1), farthest = warpRow + 8 * h + 7 - firstKey;
            for (int i = edge; i < g.bins && g.edges[i] <= farthest; ++i)
                if (g.edges[i] >= nearest)
                    closeBin<S>(rows.open[h], s, h, row + 8 * h - firstKey - g.edges[i], mass + (i - 1) * S::kRows + 8 * h + lane() / 4);
        }
    }
#pragma unroll
    for (int h = 0; h < S::kHalves; ++h)
        rows.open[h] += tile[h];

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
