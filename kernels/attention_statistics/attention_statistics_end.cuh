// The rows of a block once all keys are in: the sink joins, the output is written, the block is summed up.
#pragma once

#include "attention_statistics_rows.cuh"

namespace linnet::kernels::statistics {

// The row of one lane once all keys are in: its share of the block's sums, and what its mass and output are multiplied with.
struct RowEnd {
    float toTop = 0.0F, inverse = 0.0F, noSinkInverse = 0.0F; // weights to those under the maximum with the sink; to A; without the sink
    float sums[kRowSums] = {};
};

// `t` is a row of the sequence. sink[key * kRows] holds its scores of the sink keys and gets their weights under the joint maximum.
template <class S>
__device__ __forceinline__ RowEnd endRow(const Arguments& g, int t, float maximum, float sum, float weighted, float distance, float* sink,
                                         std::int64_t row, std::int64_t rows) {
    RowEnd end;
    const int sinks = min(g.sinkKeys, t + 1);
    float top = maximum;
    for (int key = 0; key < sinks; ++key)
        top = fmaxf(top, sink[key * S::kRows] * g.scale);
    const float change = maximum - top;
    end.toTop = exp2Fast(change);
    float all = end.toTop * sum, allWeighted = end.toTop * (weighted + change * sum), allDistance = end.toTop * distance, sinkSum = 0.0F;
    for (int key = 0; key < g.sinkKeys; ++key) {
        float weight = 0.0F;
        if (key < sinks) {
            const float power = fmaf(sink[key * S::kRows], g.scale, -top);
            weight = exp2Fast(power);
            allWeighted += weight * power;
            allDistance += weight * static_cast<float>(t - key);
            sinkSum += weight;
        }
        sink[key * S::kRows] = weight;
    }
    all += sinkSum;
    end.inverse = 1.0F / all;
    const bool counts = t >= g.firstNoSinkRow;
    end.noSinkInverse = counts ? 1.0F / sum : 0.0F;
    const float entropy = 0.69314718F * (log2f(all) - allWeighted * end.inverse);
    end.sums[0] = allDistance * end.inverse;
    end.sums[1] = counts ? distance * end.noSinkInverse : 0.0F;
    end.sums[2] = entropy;
    end.sums[3] = t > 0 ? entropy / logf(static_cast<float>(t + 1)) : 0.0F;
    end.sums[4] = sinkSum * end.inverse;
    if (g.bins == 0) {
        g.logSums[row] = top + log2f(all);
        g.logSums[rows + row] = maximum + log2f(sum);
    }
    return end;
}

__device__ __forceinline__ int binOf(const Arguments& g, int distance) {
    int bin = 0;
    while (bin + 1 < g.bins && g.edges[bin + 1] <= distance)
        ++bin;
    return bin;
}

// Adds the sink's keys, turns sums of weights into A V, writes it where it is wanted. Returns the thread's sum of squares.
template <class S>
__device__ __forceinline__ float finishOutput(const Arguments& g, const Place& p, Matrix<S, S::kDim>& o, const typename S::Part* values,
                                              int warpRow, const float* sink, const float* toTop, const float* inverse) {
    using T = typename S::Value;
    const int group = lane() / 4, pair = 2 * (lane() % 4);
#pragma unroll
    for (int h = 0; h < S::kHalves; ++h) {
        const float factor = toTop[8 * h + group];
#pragma unroll
        for (int j = 0; j < S::kDim / 8; ++j) {
            o[h / 2][j][2 * (h % 2)] *= factor;
            o[h / 2][j][2 * (h % 2) + 1] *= factor;
        }
    }
    if (g.sinkKeys > 0) {
        std::uint32_t a[S::kFragments][S::kParts][4];
        const auto weight = [&](int key, int h) { return key < g.sinkKeys ? sink[key * S::kRows + 8 * h + group] : 0.0F; };
#pragma unroll
        for (int f = 0; f < S::kFragments; ++f)
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                const int key = 8 * (r / 2) + pair, h = 2 * f + r % 2;
                setWeights<S>(a[f], r, weight(key, h), weight(key + 1, h));
            }
        valuesStep<S>(o, a, values);
    }
    float square = 0.0F;
#pragma unroll
    for (int h = 0; h < S::kHalves; ++h) {
        const int t = warpRow + 8 * h + group;
        if (t >= p.length)
            continue;
        const float factor = inverse[8 * h + group];
        const std::int64_t token = (g.sequenceStarts ? 0 : std::int64_t{p.sequence} * g.tokens) + p.start + t;
        T* out = static_cast<T*>(g.output) + (token * g.heads + p.head) * g.headDim + pair;
#pragma unroll
        for (int j = 0; j < S::kDim / 8; ++j) {
            const float x = o[h / 2][j][2 * (h % 2)] * factor, y = o[h / 2][j][2 * (h % 2) + 1] * factor;
            square += x * x + y * y; // 0 beyond headDim
            if (g.output == nullptr || 8 * j >= g.headDim)
                continue;
            if constexpr (S::kParts == 1)
                *reinterpret_cast<std::uint32_t*>(out + 8 * j) = pack<T>(x, y);
            else
                *reinterpret_cast<float2*>(out + 8 * j) = make_float2(x, y);
        }
    }
    return square;
}

// The block's rows summed up: without the sink straight from the masses, then with the sink's keys in their bins.
template <class S>
__device__ __forceinline__ void sumBlock(const Arguments& g, const Place& p, float* mass, const float* sink, const float* row,
                                         const float* sums) {
    float* out = g.partials + (std::int64_t{p.index} * g.rowBlocks + p.rowBlock) * (kRowSums + 2 * g.bins);
    const float *toTop = row, *inverse = row + S::kRows, *noSinkInverse = row + 2 * S::kRows;
    __syncthreads();
    if (threadIdx.x < kRowSums) {
        float sum = 0.0F;
        for (int w = 0; w < S::kWarps; ++w)
            sum += sums[w * kRowSums + static_cast<int>(threadIdx.x)];
        out[threadIdx.x] = sum;
    }
    if (g.bins == 0)
        return;
    for (int bin = warp(); bin < g.bins; bin += S::kWarps) {
        float noSink = 0.0F;
        for (int r = lane(); r < S::kRows; r += 32) {
            const float x = mass[bin * S::kRows + r];
            noSink += x * noSinkInverse[r];
            mass[bin * S::kRows + r] = x * toTop[r] * inverse[r];
        }
        noSink = warpSum(noSink);
        if (lane() == 0)
            out[kRowSums + g.bins + bin] = noSink;
    }
    __syncthreads();
    for (int r = static_cast<int>(threadIdx.x); r < min(S::kRows, p.length - p.first); r += S::kThreads)
        for (int key = 0, bin = binOf(g, p.first + r); key < min(g.sinkKeys, p.first + r + 1); ++key) {
            while (g.edges[bin] > p.first + r - key)
                --bin;
            mass[bin * S::kRows + r] += sink[key * S::kRows + r] * inverse[r];
        }
    __syncthreads();
    for (int bin = warp(); bin < g.bins; bin += S::kWarps) {
        float sum = 0.0F;
        for (int r = lane(); r < S::kRows; r += 32)
            sum += mass[bin * S::kRows + r];
        sum = warpSum(sum);
        if (lane() == 0)
            out[kRowSums + bin] = sum;
    }
}

// A warp's rows after the last tile (keys 0 .. kKeys - 1, whose values are still in `values`).
template <class S>
__device__ __forceinline__ void endWarp(const Arguments& g, const Place& p, Rows<S>& rows, Matrix<S, S::kDim>& o,
                                        const typename S::Part* values, int warpRow, float* mass, float* sink, float* row, float* sums) {
    if (warpRow >= p.length) { // nothing was seen
        if (lane() < S::kWarpRows)
            for (int i = 0; i < 3; ++i)
                row[i * S::kRows + lane()] = 0.0F;
        if (lane() < kRowSums)
            sums[lane()] = 0.0F;
        return;
    }
#pragma unroll
    for (int h = 0; h < S::kHalves; ++h) {
        const float values4[] = {quadSum(rows.sum[h]), quadSum(rows.weighted[h]), quadSum(rows.distance[h]), quadSum(rows.open[h]),
                                 rows.maximum[h]};
        if (lane() % 4 == 0)
#pragma unroll
            for (int i = 0; i < kRowValues; ++i)
                row[i * S::kRows + 8 * h + lane() / 4] = values4[i];
    }
    __syncwarp();
    const int t = warpRow + lane();
    const bool mine = lane() < S::kWarpRows;
    RowEnd end;
    if (mine && t < p.length) {
        const float* x = row + lane();
        if (g.bins > 0)
            mass[binOf(g, t) * S::kRows + lane()] = x[3 * S::kRows];
        end = endRow<S>(g, t, x[4 * S::kRows], x[0], x[S::kRows], x[2 * S::kRows], sink + lane(), std::int64_t{p.index} * g.tokens + t,
                        std::int64_t{g.sequences} * g.heads * g.tokens);
    }
    __syncwarp();
    if (mine) {
        row[lane()] = end.toTop;
        row[S::kRows + lane()] = end.inverse;
        row[2 * S::kRows + lane()] = end.noSinkInverse;
    }
    __syncwarp();
    end.sums[5] = finishOutput<S>(g, p, o, values, warpRow, sink, row, row + S::kRows);
#pragma unroll
    for (int i = 0; i < kRowSums; ++i) {
        const float sum = warpSum(end.sums[i]);
        if (lane() == 0)
            sums[i] = sum;
    }
}

} // namespace linnet::kernels::statistics
