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
    float *mass = floats + at.mass / 4, *sink = floats + at.sink / 4, *row = floats + at.row / 4, *warpSums = floats + at.sums / 4;

    const int kvHead = p.head / (g.heads / g.kvHeads);
    const int tiles = (min(p.length, p.first + S::kRows) + S::kKeys - 1) / S::kKeys;
    const auto lastKey = std::int64_t{tiles - 1} * S::kKeys;
    // The thread's first chunk of the next tile to load, of which the last comes first.
    const T* k = Chunks<S>::start(headOf<T>(g, p, g.k, g.kStrides, kvHead) + lastKey * g.kStrides.token, g.kStrides.token);
    const T* v = Chunks<S>::start(headOf<T>(g, p, g.v, g.vStrides, kvHead) + lastKey * g.vStrides.token, g.vStrides.token);
    const auto stageOf = [&](int stage) { return reinterpret_cast<Part*>(memory + at.stage + stage * 2 * S::kKeyBytes); };
    const auto load = [&](int tile, int stage) {
        if (tile >= 0) {
            loadTile<S, S::kKeys>(stageOf(stage), k, g.kStrides.token, tile * S::kKeys, p.length, g.headDim);
            loadTile<S, S::kKeys>(stageOf(stage) + S::kParts * S::kKeyPart, v, g.vStrides.token, tile * S::kKeys, p.length, g.headDim);
            k -= S::kKeys * g.kStrides.token;
            v -= S::kKeys * g.vStrides.token;
        }
        copyAsyncCommit();
    };
    const T* q0 = headOf<T>(g, p, g.q, g.qStrides, p.head) + p.first * g.qStrides.token;
    loadTile<S, S::kRows>(queries, Chunks<S>::start(q0, g.qStrides.token), g.qStrides.token, p.first, p.length, g.headDim);
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
    clear(o);
    constexpr int kHeld = Shape::kQueriesInRegisters ? S::kDim / 16 : 1;
    std::uint32_t q[kHeld][S::kFragments][S::kParts][4];
    Edge edge = {1, g.edges[1]};
    int stage = 0;
    bool measure = true; // the maxima: with the warp's first tile, and where a tile turns out to be far above them
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
        const int firstKey = tile * S::kKeys;
        if (firstKey > warpRow + S::kWarpRows - 1 || warpRow >= p.length)
            continue;
        Matrix<S, S::kKeys> s;
        TileSums<S> sums;
        for (;;) {
            clear(s);
#pragma unroll
            for (int step = 0; step < S::kDim / 16; ++step) {
                if constexpr (!Shape::kQueriesInRegisters)
                    loadQueries<S>(q[0], queries, step);
                scoresStep<S>(s, q[Shape::kQueriesInRegisters ? step : 0], keys, step);
            }
            if (firstKey + S::kKeys - 1 > warpRow || firstKey < g.sinkKeys)
                maskScores<S>(s, warpRow + lane() / 4, firstKey, g.sinkKeys, sink + lane() / 4);
            if (measure)
                raiseMaxima<S>(g, rows, o, s, mass, warpRow + S::kWarpRows - 1 - firstKey, row);
            const bool above = weigh<S>(rows, s, g.scale, sums);
            const bool done = measure || !above; // above maxima just raised: scores past what float32 tells apart, for ever
            measure = !done;
            if (done)
                break;
        }
        addTile<S>(g, rows, o, s, sums, keys + S::kParts * S::kKeyPart, warpRow, firstKey, edge, mass);
    }
    const Part* values = stageOf(stage == 0 ? g.stages - 1 : stage - 1) + S::kParts * S::kKeyPart; // of the last tile
    endWarp<S>(g, p, rows, o, values, warpRow, mass, sink, row, warpSums + warp() * kRowSums);
    sumBlock<S>(g, p, mass - warpFirst, sink - warpFirst, row - warpFirst, warpSums);
}

} // namespace linnet::kernels::statistics
