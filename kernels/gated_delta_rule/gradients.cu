// Gradients of q, k, g and beta from what prepare and the scans left behind, one chunk of one head at a time. With V', dX, S (before the
// chunk) and dS' (gradient of the state after it), Gamma_ij = exp(G_i - G_j), all for j <= i only:
//     E = Gamma (dO V'^T)      F = -beta_i Gamma (dX V'^T), j < i
//     dQ = exp(G) dO S^T + E K                                 dK = -exp(G) beta dX S^T + F K + exp(G_C - G) V' dS'^T + E^T Q + F^T K
//     dbeta_i = dX_i.V'_i / beta_i
//     dG_i = q_i.dQ_i + k_i.(first two terms of dK) - k_i.(last two),  E without its diagonal
//     dg_i = sum of dG from i on + sum over j < i of k_j.(exp(G_C - G_j) V' dS'^T)_j + exp(G_C) <S, dS'>
// The sums over M = E (Q K^T) + F (K K^T) of gated_delta_rule.md are row products with results that are there anyway. What would cancel
// exactly is left out (E's diagonal joins dQ and dK at the end; the sum over j < i instead of all minus those from i on), so that dg
// keeps its digits under strong decay. Q and K in memory are raw: q_i = f_i raw_i with the factors of `gates`. They go into the rows
// and columns of E and F, so that every sum here is already f_i times the gradient and each product takes the raw tiles.
//
// Grid: chunk x head, heads fastest (they share keys and the sectors of g and beta). A warp owns 32 rows x 32 keys of dQ and dK.
//  1. E and F, lower triangle, ten tiles of 16 x 16 over the warps.     2. dO S^T and dX S^T.
//  3. E and F, rounded, to where dO and dX were; E K, F K; row products; dq is finished and stored while dS' arrives where S was.
//  4. V' dS'^T, then E^T Q + F^T K; row products; dk, dbeta, dg.
// So there are never more than two 32 x 32 accumulators per warp, which lets two or three blocks share a multiprocessor: one computes
// while another waits. For D = 256 value blocks pass through a ring of two slots and steps 1 and 2 are one loop.
// Rows of q, k and of the results beyond the chunk's count are zeros and not stored. Small kernels at the end: sums over chunks for
// dALog and dDtBias, sums over the query heads of a key head, both in fixed order.
// Limits: shared memory 60, 113 and 193 KB for D = 64, 96 or 128, and 256.
#include "gates.h"
#include "gradients_tile.cuh"

#include <type_traits>

namespace linnet::kernels::gdr {
namespace {

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

__device__ __forceinline__ std::int64_t gateIndex(const GradientParams& p, const ChunkPlace& place, int head, int row) {
    return (static_cast<std::int64_t>(place.batch) * p.tokens + place.token + row) * p.heads + head;
}

// One warp, while the tiles are on their way.
__device__ __forceinline__ void prepareGates(const GradientParams& p, const ChunkPlace& place, int head, const Small& small, int lane) {
    if (!p.aLog)
        return;
    const float rate = -expf(p.aLog[head]), bias = p.dtBias ? p.dtBias[head] : 0.0F;
#pragma unroll
    for (int row = lane; row < kChunk; row += 32) {
        const float raw = row < place.count ? p.g[gateIndex(p, place, head, row)] : 0.0F;
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
__device__ __forceinline__ void finishTile(TrianglePair& x, const TileGates& gates, const GradientParams& p, const ChunkPlace& place, int head, const Small& small,
                                           int row, int column, int lane) {
    if (row == column) {
#pragma unroll
        for (int half = 0; half < 2; ++half) { // the entry (i, i) is in the lane of its row's pair of columns
            const int i = lane >> 2, token = row + 8 * half + i;
            if (i >> 1 != (lane & 3))
                continue;
            const float e = i & 1 ? x.e[half][2 * half + 1] : x.e[half][2 * half], f = i & 1 ? x.f[half][2 * half + 1] : x.f[half][2 * half];
            small.diagonal()[token] = e * gates.query[half] * gates.key[half];
            if (p.dbeta && token < place.count) // the slope of the sigmoid is beta (1 - beta)
                p.dbeta[gateIndex(p, place, head, token)] = p.betaIsLogit ? f * (1.0F - gates.beta[half]) : f / gates.beta[half];
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
__device__ __forceinline__ void storeRows(T* to, std::int64_t tokenStride, int count, const Accumulator& c, float unscale, const Pairs& own, const Pairs& other,
                                          const float* diagonal, const float (&pull)[4], const WarpPlace& w) {
    to += 64 * w.block + w.column + 8 * (w.lane & 3);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int row = rowOf(w, i);
        const float d = diagonal[row];
        std::uint32_t packed[4];
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            const float2 x = unpack<T>(own[i][n]), y = unpack<T>(other[i][n]);
            const float(&a)[4] = c[i / 2][n];
            packed[n] = device::pack<T>(unscale * a[i % 2 * 2] + d * y.x - pull[i] * x.x, unscale * a[i % 2 * 2 + 1] + d * y.y - pull[i] * x.y);
        }
        const uint4 columns = gatherColumns(packed, w.lane);
        if (row < count)
            *reinterpret_cast<uint4*>(to + row * tokenStride) = columns;
    }
}

// Warp 0: row sums become dg. Lane l takes tokens l and l + 32. decayDot = exp(G_C) <S, dS'>.
template <int kDim>
__device__ void finishGates(const GradientParams& p, const ChunkPlace& place, int head, int chunk, const Gates& gates, float* sums, const Small& small, float unscale,
                            int lane) {
    float decayDot = 0.0F;
    for (int warp = 0; warp < GradientPlan<kDim>::kWarps; ++warp)
        decayDot += small.stateDots()[warp];
    decayDot *= device::exp2Fast(gates.decay(kChunk - 1));
    float later[2], earlier[2]; // sums from the token on, and, of what is kept for dS', up to it
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int row = lane + 32 * i;
        const float keep = rowSum<kDim>(sums, kKeepDot, row);
        later[i] = unscale * (rowSum<kDim>(sums, kQueryDot, row) + rowSum<kDim>(sums, kKeyDot, row) - (rowSum<kDim>(sums, kColumnDot, row) - keep));
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
        if (row >= place.count)
            continue;
        float dg = later[i] + before + decayDot;
        if (p.aLog) {
            aLogPart += dg * small.logDecay()[row];
            dg *= small.slope()[row];
            biasPart += dg;
        }
        if (p.dg)
            p.dg[gateIndex(p, place, head, row)] = dg;
    }
    if (!p.gatePartials)
        return;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        aLogPart += __shfl_xor_sync(0xffffffffU, aLogPart, step);
        biasPart += __shfl_xor_sync(0xffffffffU, biasPart, step);
    }
    if (lane == 0)
        reinterpret_cast<float2*>(p.gatePartials)[static_cast<std::size_t>(head) * p.map.chunks + chunk] = make_float2(aLogPart, biasPart);
}

// One block's work, step by step. Accumulators and tiles stay with the caller: registers.
template <class T, int kDim> struct GradientBlock {
    using Plan = GradientPlan<kDim>;
    static constexpr int N = Plan::kBlocks, kThreads = Plan::kThreads;

    const GradientParams& p;
    ChunkPlace place;
    int head, chunk, warp;
    WarpPlace w;
    Gates gates;
    unsigned char* shared;
    const unsigned char *written, *dWrittenRhs, *states, *dStates;

    __device__ __forceinline__ GradientBlock(const GradientParams& params, const ChunkPlace& where, int headIndex, int chunkIndex)
        : p(params), place(where), head(headIndex), chunk(chunkIndex), warp(static_cast<int>(threadIdx.x) >> 5), w(warpPlace()),
          gates{gatesOf(p.buffers, p.map, head, chunk)}, shared(device::sharedMemory()), written(valueTiles<N>(p.buffers.written, p.map, head, chunk)),
          dWrittenRhs(valueTiles<N>(p.buffers.dWrittenRhs, p.map, head, chunk)), states(stateTiles<N>(p.buffers.states, p.map, head, chunk)),
          dStates(stateTiles<N>(p.buffers.dStates, p.map, head, chunk)) {}

    __device__ __forceinline__ unsigned char* image(int index) const { return shared + index * kTileBytes; }
    __device__ __forceinline__ float* sums() const { return reinterpret_cast<float*>(shared + Plan::kSums); }
    __device__ __forceinline__ Small small() const { return {reinterpret_cast<float*>(shared + Plan::kSmall)}; }
    __device__ __forceinline__ const unsigned char* qTile() const { return image(Plan::kQuery + w.block); }
    __device__ __forceinline__ const unsigned char* kTile() const { return image(Plan::kKey + w.block); }

    template <int kColumns> __device__ __forceinline__ void fetchTokens(int first, const void* base, const TokenStrides& s, int h, int column) const {
        fetchRows<T, kColumns, kThreads>(image(first), static_cast<const T*>(base) + place.batch * s.batch + place.token * s.token + h * s.head + column, s.token,
                                         place.count);
    }
    __device__ __forceinline__ void fetchQuery() const { fetchTokens<kDim>(Plan::kQuery, p.q, p.qStrides, head, 0); }
    __device__ __forceinline__ void fetchKey() const { fetchTokens<kDim>(Plan::kKey, p.k, p.kStrides, head / p.group, 0); }
    __device__ __forceinline__ void fetchStates(int first, const unsigned char* from) const {
#pragma unroll
        for (int block = 0; block < N; ++block)
            fetchState<kDim>(image(first + block * N), from + block * N * kTileBytes, block);
        device::copyAsyncCommit();
    }

    // All at once, in the order of need.
    __device__ __forceinline__ void fetchAll() const {
        fetchTokens<kDim>(Plan::kOutput, p.dO, p.doStrides, head, 0);
        fetchImages<kDim, kThreads>(image(Plan::kRhs), dWrittenRhs);
        fetchImages<kDim, kThreads>(image(Plan::kWritten), written);
        device::copyAsyncCommit();
        fetchStates(Plan::kState, states);
        fetchQuery();
        fetchKey();
        device::copyAsyncCommit();
        if constexpr (N == 1)
            fetchStates(Plan::kStateAfter, dStates);
    }
    // Ring: i < N brings what value block i needs in steps 1 and 2, the next N bring dS'; Q and K come along.
    __device__ __forceinline__ void fetchRing(int i) const {
        const int slot = i & 1;
        if (i < N) {
            fetchTokens<64>(Plan::kOutput + slot, p.dO, p.doStrides, head, 64 * i);
            fetchImages<64, kThreads>(image(Plan::kRhs + slot), dWrittenRhs + i * kTileBytes);
            fetchImages<64, kThreads>(image(Plan::kWritten + i), written + i * kTileBytes);
        }
        if (i < 2 * N)
            fetchState<kDim>(image(Plan::kState + N * slot), (i < N ? states : dStates) + (i & (N - 1)) * N * kTileBytes, 0);
        if (i == 2)
            fetchQuery();
        if (i == 3)
            fetchKey();
        device::copyAsyncCommit();
    }

    // f(n, row, column) for this warp's tiles of the lower triangle.
    template <class F> __device__ __forceinline__ void eachTile(F&& f) const {
#pragma unroll
        for (int n = 0; n < Plan::kTiles; ++n) {
            const int index = warp + n * Plan::kWarps;
            if (index < 10)
                f(n, 16 * triangleRow(index), 16 * triangleColumn(index));
        }
    }
    __device__ __forceinline__ void triangleStep(TrianglePair (&x)[Plan::kTiles], int block, int slot) const {
        const unsigned char *dO = image(Plan::kOutput + slot), *dX = image(Plan::kRhs + slot), *v = image(Plan::kWritten + block);
        eachTile([&](int n, int row, int column) {
            if (kDim == 96 && block == 1)
                triangleTile<T, 2>(x[n], dO, dX, v, row, column, w);
            else
                triangleTile<T, 4>(x[n], dO, dX, v, row, column, w);
        });
    }
    __device__ __forceinline__ float finishTriangle(PackedPair (&packed)[Plan::kTiles], TrianglePair (&x)[Plan::kTiles], const TileGates (&tileGates)[Plan::kTiles]) const {
        eachTile([&](int n, int row, int column) { finishTile(x[n], tileGates[n], p, place, head, small(), row, column, w.lane); });
        const float scale = storageScale<T, Plan::kWarps>(x, small());
#pragma unroll
        for (int n = 0; n < Plan::kTiles; ++n)
            packTile<T>(packed[n], x[n], scale);
        return scale;
    }
    __device__ __forceinline__ void stateStep(Accumulator& dQuery, Accumulator& dKey, int block, int slot) const {
        const unsigned char *dO = image(Plan::kOutput + slot), *dX = image(Plan::kRhs + slot), *state = image(Plan::kState + N * slot + w.block);
        if (kDim == 96 && block == 1)
            stateRows<T, 2>(dQuery, dKey, dO, dX, state, w);
        else
            stateRows<T, 4>(dQuery, dKey, dO, dX, state, w);
    }

    // Steps 1 and 2; the result is what E and F are to be multiplied with when they are stored.
    __device__ __forceinline__ float firstProducts(PackedPair (&packed)[Plan::kTiles], Accumulator& dQuery, Accumulator& dKey) const {
        TrianglePair triangle[Plan::kTiles] = {};
        TileGates tileGates[Plan::kTiles];
        const auto loadTileGates = [&] { eachTile([&](int n, int row, int column) { loadGates(tileGates[n], gates, row, column, w.lane); }); };
        float scale;
        if constexpr (Plan::kRing) {
            clear(dQuery);
            clear(dKey);
#pragma unroll 1
            for (int block = 0; block < N; ++block) {
                device::copyAsyncWait<1>();
                __syncthreads();
                triangleStep(triangle, block, block & 1);
                stateStep(dQuery, dKey, block, block & 1);
                __syncthreads();
                fetchRing(block + 2);
            }
            loadTileGates();
            scale = finishTriangle(packed, triangle, tileGates);
        } else {
            constexpr int kLate = N == 1 ? 1 : 0; // dS' is on its way from the start
            loadTileGates();
            device::copyAsyncWait<2 + kLate>();
            __syncthreads();
#pragma unroll
            for (int block = 0; block < N; ++block)
                triangleStep(triangle, block, block);
            scale = finishTriangle(packed, triangle, tileGates);
            clear(dQuery);
            clear(dKey);
            device::copyAsyncWait<1 + kLate>();
            __syncthreads();
#pragma unroll
            for (int block = 0; block < N; ++block)
                stateStep(dQuery, dKey, block, block);
            __syncthreads();
            if constexpr (N == 2)
                fetchStates(Plan::kStateAfter, dStates);
        }
        return scale;
    }

    // Step 3: dq.
    __device__ __forceinline__ void finishRows(const PackedPair (&packed)[Plan::kTiles], float scale, Accumulator& dQuery, Accumulator& dKey) const {
        unsigned char *e = image(Plan::kE), *f = image(Plan::kF);
        eachTile([&](int n, int row, int column) { storeTile(e, f, packed[n], row, column, w.lane); });
        scaleRows(dQuery, w, [&](int i) { return scale * gates.query(i) * device::exp2Fast(gates.decay(i)); });
        scaleRows(dKey, w, [&](int i) { return -scale * gates.key(i) * gates.beta(i) * device::exp2Fast(gates.decay(i)); });
        device::copyAsyncWait<Plan::kRing ? 2 : 1>();
        __syncthreads();
        triangleRows<T>(dQuery, dKey, e, f, kTile(), w);
        Pairs q, k;
        loadPairs(q, qTile(), w);
        loadPairs(k, kTile(), w);
        rowDots<T, kDim>(sums(), kQueryDot, dQuery, q, w);
        rowDots<T, kDim>(sums(), kKeyDot, dKey, k, w);
        tileDots<T, kDim>(sums(), kQueryKeyDot, q, k, w);
        __syncthreads();
        const float unscale = 1.0F / scale;
        float pulls[4] = {};
        if (p.normalise)
            perRow(pulls, w, [&](int i) { return pull(i, gates.query(i) / p.scale, unscale * rowSum<kDim>(sums(), kQueryDot, i)); });
        storeGradient(p.dq, dQuery, unscale, q, k, pulls);
    }

    // V' dS'^T of one value block, and its part of <S, dS'>: S is read once more, from L2 where dS' has taken its place.
    __device__ __forceinline__ void columnStep(Accumulator& dKey, float& stateDot, int block, int slot) const {
        const unsigned char* before = N == 1 ? image(Plan::kState) : states + block * N * kTileBytes;
        const unsigned char* after = image(Plan::kStateAfter + N * slot);
        uint4 s[4];
        const int piece = statePiece<kDim>();
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (i < stateRounds<kDim>(block))
                s[i] = *reinterpret_cast<const uint4*>(before + piece + i * kRoundBytes);
        if (kDim == 96 && block == 1)
            stateColumns<T, 2>(dKey, image(Plan::kWritten + block), after + w.block * kTileBytes, w);
        else
            stateColumns<T, 4>(dKey, image(Plan::kWritten + block), after + w.block * kTileBytes, w);
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (i < stateRounds<kDim>(block))
                stateDot += pieceDot<T>(s[i], *reinterpret_cast<const uint4*>(after + piece + i * kRoundBytes));
    }

    // Step 4: dk and dg. rows: the first two terms of dK.
    __device__ __forceinline__ void finishColumns(float scale, const Accumulator& rows) const {
        float stateDot = 0.0F;
        Accumulator dKey;
        clear(dKey);
        if constexpr (Plan::kRing) {
#pragma unroll 1
            for (int block = 0; block < N; ++block) {
                device::copyAsyncWait<1>();
                __syncthreads();
                columnStep(dKey, stateDot, block, block & 1);
                __syncthreads();
                fetchRing(N + block + 2);
            }
        } else {
            device::copyAsyncWait<0>();
            __syncthreads();
#pragma unroll
            for (int block = 0; block < N; ++block)
                columnStep(dKey, stateDot, block, block);
        }
#pragma unroll
        for (int step = 16; step > 0; step /= 2)
            stateDot += __shfl_xor_sync(0xffffffffU, stateDot, step);
        if (w.lane == 0)
            small().stateDots()[warp] = stateDot;
        const float last = gates.decay(kChunk - 1), unscale = 1.0F / scale;
        scaleRows(dKey, w, [&](int i) { return scale * gates.key(i) * device::exp2Fast(last - gates.decay(i)); });
        Pairs k, q;
        loadPairs(k, kTile(), w);
        rowDots<T, kDim>(sums(), kKeepDot, dKey, k, w);
        triangleColumns<T>(dKey, image(Plan::kE), image(Plan::kF), qTile(), kTile(), w);
        rowDots<T, kDim>(sums(), kColumnDot, dKey, k, w);
        __syncthreads();
        if (warp == 0)
            finishGates<kDim>(p, place, head, chunk, gates, sums(), small(), unscale, w.lane);
#pragma unroll
        for (int i = 0; i < 32; ++i)
            dKey[i / 16][i / 4 % 4][i % 4] += rows[i / 16][i / 4 % 4][i % 4];
        float pulls[4] = {};
        if (p.normalise)
            perRow(pulls, w, [&](int i) {
                return pull(i, gates.key(i), unscale * (rowSum<kDim>(sums(), kKeyDot, i) + rowSum<kDim>(sums(), kColumnDot, i)));
            });
        loadPairs(q, qTile(), w);
        storeGradient(p.dk, dKey, unscale, k, q, pulls);
    }

    // How much of the row itself the normalisation takes out of its gradient; dot: row with gradient, but for E's diagonal.
    __device__ __forceinline__ float pull(int row, float inverseNorm, float dot) const {
        return inverseNorm * inverseNorm * (dot + small().diagonal()[row] * rowSum<kDim>(sums(), kQueryKeyDot, row));
    }
    __device__ __forceinline__ void storeGradient(void* to, const Accumulator& c, float unscale, const Pairs& own, const Pairs& other, const float (&pulls)[4]) const {
        if (to)
            storeRows<T>(static_cast<T*>(to) + gateIndex(p, place, head, 0) * kDim, static_cast<std::int64_t>(p.heads) * kDim, place.count, c, unscale, own, other,
                         small().diagonal(), pulls, w);
    }
};

template <class T, int kDim>
__global__ void __launch_bounds__(GradientPlan<kDim>::kThreads, GradientPlan<kDim>::kResident) gradientsKernel(const GradientParams p) {
    const int chunk = static_cast<int>(blockIdx.x) / p.heads, head = static_cast<int>(blockIdx.x) - chunk * p.heads;
    const ChunkPlace place = p.map.place(chunk);
    if (place.count <= 0) {
        if (p.gatePartials && threadIdx.x == 0)
            reinterpret_cast<float2*>(p.gatePartials)[static_cast<std::size_t>(head) * p.map.chunks + chunk] = make_float2(0.0F, 0.0F);
        return;
    }
    const GradientBlock<T, kDim> block(p, place, head, chunk);
    if constexpr (GradientPlan<kDim>::kRing) {
        block.fetchRing(0);
        block.fetchRing(1);
    } else {
        block.fetchAll();
    }
    if (block.warp == 0)
        prepareGates(p, place, head, block.small(), block.w.lane);
    Accumulator dKeyRows;
    float scale;
    {
        Accumulator dQuery;
        PackedPair packed[GradientPlan<kDim>::kTiles];
        scale = block.firstProducts(packed, dQuery, dKeyRows);
        block.finishRows(packed, scale, dQuery, dKeyRows);
    }
    block.finishColumns(scale, dKeyRows);
}

// dALog and dDtBias of one head: sums over chunks, every thread its own, then a tree.
constexpr int kSumThreads = 256;
__global__ void sumGatePartials(const float* partials, int chunks, float* dALog, float* dDtBias) {
    float2* mine = reinterpret_cast<float2*>(device::sharedMemory());
    const auto* from = reinterpret_cast<const float2*>(partials) + static_cast<std::size_t>(blockIdx.x) * chunks;
    const int thread = static_cast<int>(threadIdx.x);
    float2 sum = make_float2(0.0F, 0.0F);
    for (int chunk = thread; chunk < chunks; chunk += kSumThreads) {
        const float2 x = from[chunk];
        sum = make_float2(sum.x + x.x, sum.y + x.y);
    }
    mine[thread] = sum;
    for (int half = kSumThreads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half)
            mine[thread] = make_float2(mine[thread].x + mine[thread + half].x, mine[thread].y + mine[thread + half].y);
    }
    if (thread != 0)
        return;
    if (dALog)
        dALog[blockIdx.x] = mine[0].x;
    if (dDtBias)
        dDtBias[blockIdx.x] = mine[0].y;
}

// [B, T, H, D] to [B, T, K, D]: eight values a thread, query heads of a key head in order. y: dk or dv.
template <class T>
__global__ void sumHeads(const T* dkFrom, const T* dvFrom, T* dk, T* dv, std::int64_t pieces, int group, int piecesPerHead) {
    const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kSumThreads + threadIdx.x;
    const T* from = blockIdx.y == 0 ? dkFrom : dvFrom;
    T* to = blockIdx.y == 0 ? dk : dv;
    if (index >= pieces || !to)
        return;
    const std::int64_t row = index / piecesPerHead;
    const auto* in = reinterpret_cast<const uint4*>(from) + row * group * piecesPerHead + (index - row * piecesPerHead);
    float sum[8] = {};
    for (int h = 0; h < group; ++h) {
        const uint4 x = in[static_cast<std::int64_t>(h) * piecesPerHead];
        const float2 a = unpack<T>(x.x), b = unpack<T>(x.y), c = unpack<T>(x.z), d = unpack<T>(x.w);
        sum[0] += a.x, sum[1] += a.y, sum[2] += b.x, sum[3] += b.y;
        sum[4] += c.x, sum[5] += c.y, sum[6] += d.x, sum[7] += d.y;
    }
    reinterpret_cast<uint4*>(to)[index] = make_uint4(device::pack<T>(sum[0], sum[1]), device::pack<T>(sum[2], sum[3]), device::pack<T>(sum[4], sum[5]),
                                                     device::pack<T>(sum[6], sum[7]));
}

template <class T, int kDim> LaunchError launchFor(const GradientParams& p, unsigned blocks, void* stream) {
    return device::launch(gradientsKernel<T, kDim>, dim3(blocks), dim3(GradientPlan<kDim>::kThreads), GradientPlan<kDim>::kBytes, stream, p);
}

template <class T> LaunchError launchType(const GatedDeltaRuleParams& params, const GradientParams& p, const GradientScratch& scratch, unsigned blocks) {
    const auto launchDim = [&] {
        switch (params.headDim) {
        case 64: return launchFor<T, 64>(p, blocks, params.stream);
        case 96: return launchFor<T, 96>(p, blocks, params.stream);
        case 128: return launchFor<T, 128>(p, blocks, params.stream);
        case 256: return launchFor<T, 256>(p, blocks, params.stream);
        default: return "gated delta rule: headDim must be 64, 96, 128 or 256";
        }
    };
    if (const LaunchError error = launchDim())
        return error;
    if (params.heads == params.kvHeads || (!params.dk && !params.dv))
        return nullptr;
    const std::int64_t pieces = params.batch * params.tokens * params.kvHeads * params.headDim / 8;
    const dim3 grid(static_cast<unsigned>((pieces + kSumThreads - 1) / kSumThreads), 2);
    return device::launch(sumHeads<T>, grid, dim3(kSumThreads), 0, params.stream, static_cast<const T*>(scratch.dkPerHead), static_cast<const T*>(scratch.dvPerHead),
                          static_cast<T*>(params.dk), static_cast<T*>(params.dv), pieces, p.group, static_cast<int>(params.headDim / 8));
}

} // namespace

LaunchError launchGradients(const GatedDeltaRuleParams& params, const ChunkMap& map, const ChunkBuffers& buffers, const GradientScratch& scratch) {
    const std::int64_t blocks = map.chunks * params.heads;
    if (blocks > 0x7fffffff)
        return "gated delta rule: too many chunks times heads";
    if (blocks <= 0)
        return nullptr;
    const bool shared = params.heads != params.kvHeads, gates = params.aLog && (params.dALog || params.dDtBias);
    if ((shared && ((params.dk && !scratch.dkPerHead) || (params.dv && !scratch.dvPerHead))) || (gates && !scratch.gatePartials))
        return "gated delta rule: no memory for partial gradients";
    GradientParams p{};
    p.q = params.q, p.k = params.k, p.dO = params.dO;
    p.qStrides = params.qStrides, p.kStrides = params.kStrides, p.doStrides = params.doStrides;
    p.map = map, p.buffers = buffers;
    p.g = params.g, p.beta = params.beta, p.aLog = params.aLog, p.dtBias = params.dtBias;
    p.dq = params.dq, p.dk = shared && params.dk ? scratch.dkPerHead : params.dk;
    p.dg = params.dg, p.dbeta = params.dbeta, p.gatePartials = gates ? scratch.gatePartials : nullptr;
    p.tokens = params.tokens, p.scale = params.scale;
    p.heads = static_cast<int>(params.heads), p.group = static_cast<int>(params.heads / params.kvHeads);
    p.betaIsLogit = params.betaIsLogit, p.normalise = params.normalise;
    const LaunchError error = params.dataType == DataType::Float16 ? launchType<Float16>(params, p, scratch, static_cast<unsigned>(blocks))
                                                                   : launchType<BFloat16>(params, p, scratch, static_cast<unsigned>(blocks));
    if (error || !gates)
        return error;
    return device::launch(sumGatePartials, dim3(static_cast<unsigned>(params.heads)), dim3(kSumThreads), kSumThreads * sizeof(float2), params.stream, scratch.gatePartials,
                          map.chunks, params.dALog, params.dDtBias);
}

} // namespace linnet::kernels::gdr
