// The one pass of attention statistics: attention_statistics.cu has the mathematics and the plan.
#pragma once

#include "attention_statistics_end.cuh"

namespace linnet::kernels::statistics {

template <class T, int kDim>
__global__ void __launch_bounds__(PassShape<T, kDim>::Tiles::kThreads, PassShape<T, kDim>::kBlocks)
    statisticsPass(const __grid_constant__ Arguments g) {
    using Shape = PassShape<T, kDim>;
    using S = typename Shape::Tiles;
    using Part = typename S::Part;
    const Place p = placeOf<S>(g);
    if (p.first >= p.length)
        return;
    unsigned char* memory = sharedMemory();
    const PassMemory<S> at(g.stages, g.bins, g.sinkKeys);
    auto* queries = reinterpret_cast<Part*>(memory);
    auto* floats = reinterpret_cast<float*>(memory);
    float *mass = floats + at.mass / 4, *sink = floats + at.sink / 4, *row = floats + at.row / 4, *sums = floats + at.sums / 4;

    const int kvHead = p.head / (g.heads / g.kvHeads);
    const T *k = headOf<T>(g, p, g.k, g.kStrides, kvHead), *v = headOf<T>(g, p, g.v, g.vStrides, kvHead);
    const int tiles = (min(p.length, p.first + S::kRows) + S::kKeys - 1) / S::kKeys;
    const auto stageOf = [&](int stage) { return reinterpret_cast<Part*>(memory + at.stage + stage * 2 * S::kKeyBytes); };
    const auto load = [&](int tile, int stage) {
        if (tile >= 0) {
            loadTile<S, S::kKeys>(stageOf(stage), k, g.kStrides.token, tile * S::kKeys, p.length, g.headDim);
            loadTile<S, S::kKeys>(stageOf(stage) + S::kParts * S::kKeyPart, v, g.vStrides.token, tile * S::kKeys, p.length, g.headDim);
        }
        copyAsyncCommit();
    };
    loadTile<S, S::kRows>(queries, headOf<T>(g, p, g.q, g.qStrides, p.head), g.qStrides.token, p.first, p.length, g.headDim);
    for (int i = 0; i < g.stages - 1; ++i)
        load(tiles - 1 - i, i);
    for (int i = static_cast<int>(threadIdx.x); i < (g.bins + g.sinkKeys) * S::kRows; i += S::kThreads)
        mass[i] = 0.0F; // and the sink behind it

    const int warpFirst = warp() * S::kWarpRows, warpRow = p.first + warpFirst;
    queries += warpFirst * S::kStride;
    mass += warpFirst, sink += warpFirst, row += warpFirst;
    Rows<S> rows;
    Matrix<S, S::kDim> o;
#pragma unroll
    for (int h = 0; h < S::kHalves; ++h) {
        rows.maximum[h] = kNoMaximum;
        rows.sum[h] = rows.weighted[h] = rows.distance[h] = rows.open[h] = 0.0F;
    }
#pragma unroll
    for (int f = 0; f < S::kFragments; ++f)
#pragma unroll
        for (int j = 0; j < S::kDim / 8; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                o[f][j][i] = 0.0F;
    constexpr int kHeld = Shape::kQueriesInRegisters ? S::kDim / 16 : 1;
    std::uint32_t q[kHeld][S::kFragments][S::kParts][4];
    int edge = 1, stage = 0;
    for (int tile = tiles - 1; tile >= 0; --tile) { // from the diagonal back to the first key
        if (g.stages > 2)
            copyAsyncWait<1>();
        else
            copyAsyncWait<0>();
        __syncthreads();
        if constexpr (Shape::kQueriesInRegisters)
            if (tile == tiles - 1)
#pragma unroll
                for (int step = 0; step < S::kDim / 16; ++step)
                    loadQueries<S>(q[step], queries, step);
        load(tile - (g.stages - 1), stage == 0 ? g.stages - 1 : stage - 1);
        const Part* keys = stageOf(stage);
        stage = stage + 1 == g.stages ? 0 : stage + 1;
        if (tile * S::kKeys > warpRow + S::kWarpRows - 1 || warpRow >= p.length)
            continue;
        Matrix<S, S::kKeys> s;
#pragma unroll
        for (int f = 0; f < S::kFragments; ++f)
#pragma unroll
            for (int j = 0; j < S::kKeys / 8; ++j)
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    s[f][j][i] = 0.0F;
#pragma unroll
        for (int step = 0; step < S::kDim / 16; ++step) {
            if constexpr (!Shape::kQueriesInRegisters)
                loadQueries<S>(q[0], queries, step);
            scoresStep<S>(s, q[Shape::kQueriesInRegisters ? step : 0], keys, step);
        }
        addTile<S>(g, rows, o, s, keys + S::kParts * S::kKeyPart, warpRow, tile * S::kKeys, edge, mass, sink, row);
    }
    const Part* values = stageOf(stage == 0 ? g.stages - 1 : stage - 1) + S::kParts * S::kKeyPart; // of the last tile
    endWarp<S>(g, p, rows, o, values, warpRow, mass, sink, row, sums + warp() * kRowSums);
    sumBlock<S>(g, p, mass - warpFirst, sink - warpFirst, row - warpFirst, sums);
}

} // namespace linnet::kernels::statistics
