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
#include "gradients_rows.cuh"

namespace linnet::kernels::gdr {
namespace {

using namespace gradients;

// One block's work, step by step. Accumulators and tiles stay with the caller: registers.
template <class T, int kDim> struct GradientBlock {
    using Plan = GradientPlan<kDim>;
    static constexpr int N = Plan::kBlocks, kThreads = Plan::kThreads;

    const GradientParams& p;
    ChunkPlace place;
    int head, tile, warp; // tile = head * chunks + chunk, as all buffers count
    unsigned char* shared;

    __device__ __forceinline__ GradientBlock(const GradientParams& params, const ChunkPlace& where, int headIndex, int tileIndex)
        : p(params), place(where), head(headIndex), tile(tileIndex), warp(static_cast<int>(threadIdx.x) >> 5),
          shared(device::sharedMemory()) {}

    __device__ __forceinline__ BlockRows rows() const {
        return {static_cast<int>(place.batch * p.tokens) + place.token, head, p.heads, place.count};
    }
    // Worked out where they are used: registers are what this kernel is short of.
    __device__ __forceinline__ Gates gates() const { return {p.buffers.gates + static_cast<std::size_t>(anew(tile)) * kGateFloats}; }
    __device__ __forceinline__ const unsigned char* valueImage(const unsigned char* base, int block) const {
        return base + (static_cast<std::size_t>(tile) * N + block) * kTileBytes;
    }
    __device__ __forceinline__ const unsigned char* stateImages(const unsigned char* base, int block) const {
        return base + (static_cast<std::size_t>(anew(tile)) * N + block) * (N * kTileBytes);
    }
    __device__ __forceinline__ unsigned char* image(int index) const { return shared + index * kTileBytes; }
    __device__ __forceinline__ float* sums() const { return reinterpret_cast<float*>(shared + Plan::kSums); }
    __device__ __forceinline__ Small small() const { return {reinterpret_cast<float*>(shared + Plan::kSmall)}; }
    __device__ __forceinline__ const unsigned char* qTile(const WarpPlace& w) const { return image(Plan::kQuery + w.block); }
    __device__ __forceinline__ const unsigned char* kTile(const WarpPlace& w) const { return image(Plan::kKey + w.block); }

    template <int kColumns>
    __device__ __forceinline__ void fetchTokens(int first, const void* base, const TokenStrides& s, int h, int column) const {
        fetchRows<T, kColumns, kThreads>(image(first),
                                         static_cast<const T*>(base) + place.batch * s.batch + place.token * s.token + h * s.head + column,
                                         s.token, place.count);
    }
    __device__ __forceinline__ void fetchQuery() const { fetchTokens<kDim>(Plan::kQuery, p.q, p.qStrides, head, 0); }
    __device__ __forceinline__ void fetchKey() const { fetchTokens<kDim>(Plan::kKey, p.k, p.kStrides, head / p.group, 0); }
    __device__ __forceinline__ void fetchStates(int first, const unsigned char* base) const {
#pragma unroll
        for (int block = 0; block < N; ++block)
            fetchState<kDim>(image(first + block * N), stateImages(base, block), block);
        device::copyAsyncCommit();
    }

    // All at once, in the order of need.
    __device__ __forceinline__ void fetchAll() const {
        fetchTokens<kDim>(Plan::kOutput, p.dO, p.doStrides, head, 0);
        fetchImages<kDim, kThreads>(image(Plan::kRhs), valueImage(p.buffers.dWrittenRhs, 0));
        fetchImages<kDim, kThreads>(image(Plan::kWritten), valueImage(p.buffers.written, 0));
        device::copyAsyncCommit();
        fetchStates(Plan::kState, p.buffers.states);
        fetchQuery();
        fetchKey();
        device::copyAsyncCommit();
        if constexpr (N == 1)
            fetchStates(Plan::kStateAfter, p.buffers.dStates);
    }
    // Ring: i < N brings what value block i needs in steps 1 and 2, the next N bring dS'; Q and K come along.
    __device__ __forceinline__ void fetchRing(int i) const {
        const int slot = i & 1;
        if (i < N) {
            fetchTokens<64>(Plan::kOutput + slot, p.dO, p.doStrides, head, 64 * i);
            fetchImages<64, kThreads>(image(Plan::kRhs + slot), valueImage(p.buffers.dWrittenRhs, i));
            fetchImages<64, kThreads>(image(Plan::kWritten + i), valueImage(p.buffers.written, i));
        }
        if (i < 2 * N)
            fetchState<kDim>(image(Plan::kState + N * slot), stateImages(i < N ? p.buffers.states : p.buffers.dStates, i & (N - 1)), 0);
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
        const WarpPlace w = warpPlace();
        eachTile([&](int n, int row, int column) {
            if (kDim == 96 && block == 1)
                triangleTile<T, 2>(x[n], dO, dX, v, row, column, w);
            else
                triangleTile<T, 4>(x[n], dO, dX, v, row, column, w);
        });
    }
    __device__ __forceinline__ float finishTriangle(PackedPair (&packed)[Plan::kTiles], TrianglePair (&x)[Plan::kTiles],
                                                    const TileGates (&tileGates)[Plan::kTiles]) const {
        const int lane = static_cast<int>(threadIdx.x) & 31;
        eachTile([&](int n, int row, int column) { finishTile(x[n], tileGates[n], p, rows(), small(), row, column, lane); });
        const float scale = storageScale<T, Plan::kWarps>(x, small());
#pragma unroll
        for (int n = 0; n < Plan::kTiles; ++n)
            packTile<T>(packed[n], x[n], scale);
        return scale;
    }
    __device__ __forceinline__ void stateStep(Accumulator& dQuery, Accumulator& dKey, int block, int slot) const {
        const WarpPlace w = warpPlace();
        const unsigned char *dO = image(Plan::kOutput + slot), *dX = image(Plan::kRhs + slot),
                            *state = image(Plan::kState + N * slot + w.block);
        if (kDim == 96 && block == 1)
            stateRows<T, 2>(dQuery, dKey, dO, dX, state, w);
        else
            stateRows<T, 4>(dQuery, dKey, dO, dX, state, w);
    }

    // Steps 1 and 2; the result is what E and F are to be multiplied with when they are stored.
    __device__ __forceinline__ float firstProducts(PackedPair (&packed)[Plan::kTiles], Accumulator& dQuery, Accumulator& dKey) const {
        TrianglePair triangle[Plan::kTiles] = {};
        TileGates tileGates[Plan::kTiles];
        const auto loadTileGates = [&] {
            eachTile(
                [&](int n, int row, int column) { loadGates(tileGates[n], gates(), row, column, static_cast<int>(threadIdx.x) & 31); });
        };
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
#pragma unroll 1
            for (int block = 0; block < N; ++block)
                stateStep(dQuery, dKey, block, block);
            __syncthreads();
            if constexpr (N == 2)
                fetchStates(Plan::kStateAfter, p.buffers.dStates);
        }
        return scale;
    }

    // Step 3: dq.
    __device__ __forceinline__ void finishRows(const PackedPair (&packed)[Plan::kTiles], float scale, Accumulator& dQuery,
                                               Accumulator& dKey) const {
        unsigned char *e = image(Plan::kE), *f = image(Plan::kF);
        const WarpPlace w = warpPlace();
        eachTile([&](int n, int row, int column) { storeTile(e, f, packed[n], row, column, w.lane); });
        scaleRows(dQuery, w, [&](int i) { return scale * gates().query(i) * device::exp2Fast(gates().decay(i)); });
        scaleRows(dKey, w, [&](int i) { return -scale * gates().key(i) * gates().beta(i) * device::exp2Fast(gates().decay(i)); });
        device::copyAsyncWait<Plan::kRing ? 2 : 1>();
        __syncthreads();
        triangleRows<T>(dQuery, dKey, e, f, kTile(w), w);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            RowPairs q, k;
            loadPairs(q, qTile(w), i, w);
            writePart<kDim>(sums(), kQueryDot, i, rowDot<T>(dQuery, q, i), w);
            loadPairs(k, kTile(w), i, w);
            writePart<kDim>(sums(), kKeyDot, i, rowDot<T>(dKey, k, i), w);
            if (p.normalise)
                writePart<kDim>(sums(), kQueryKeyDot, i,
                                (pairDot<T>(q[0], k[0]) + pairDot<T>(q[1], k[1])) + (pairDot<T>(q[2], k[2]) + pairDot<T>(q[3], k[3])), w);
        }
        __syncthreads();
        finishQuery(1.0F / scale, dQuery);
    }
    __device__ __forceinline__ void finishQuery(float unscale, const Accumulator& dQuery) const {
        const WarpPlace w = warpPlace();
        float pulls[4] = {};
        if (p.normalise)
            perRow(pulls, w, [&](int i) { return pull(i, gates().query(i) / p.scale, unscale * rowSum<kDim>(sums(), kQueryDot, i)); });
        storeGradient(p.dq, dQuery, unscale, qTile(w), kTile(w), pulls, w);
    }

    // V' dS'^T of one value block, and its part of <S, dS'>: S is read once more, from L2 where dS' has taken its place.
    __device__ __forceinline__ void columnStep(Accumulator& dKey, float& stateDot, int block, int slot) const {
        const WarpPlace w = warpPlace();
        const unsigned char* before = N == 1 ? image(Plan::kState) : stateImages(p.buffers.states, block);
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

    // Step 4: dk and dg. dKeyRows: the first two terms of dK.
    __device__ __forceinline__ void finishColumns(float scale, const Accumulator& dKeyRows) const {
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
        const WarpPlace w = warpPlace();
#pragma unroll
        for (int step = 16; step > 0; step /= 2)
            stateDot += __shfl_xor_sync(0xffffffffU, stateDot, step);
        if (w.lane == 0)
            small().stateDots()[warp] = stateDot;
        const float last = gates().decay(kChunk - 1), unscale = 1.0F / scale;
        scaleRows(dKey, w, [&](int i) { return scale * gates().key(i) * device::exp2Fast(last - gates().decay(i)); });
        rowDots<T, kDim>(sums(), kKeepDot, dKey, kTile(w), w);
        triangleColumns<T>(dKey, image(Plan::kE), image(Plan::kF), qTile(w), kTile(w), w);
        rowDots<T, kDim>(sums(), kColumnDot, dKey, kTile(w), w);
#pragma unroll
        for (int i = 0; i < 32; ++i)
            dKey[i / 16][i / 4 % 4][i % 4] += dKeyRows[i / 16][i / 4 % 4][i % 4];
        __syncthreads();
        if (warp == 0)
            finishGates<kDim>(p, rows(), tile, last, sums(), small(), unscale, w.lane);
        float pulls[4] = {};
        if (p.normalise)
            perRow(pulls, w, [&](int i) {
                return pull(i, gates().key(i), unscale * (rowSum<kDim>(sums(), kKeyDot, i) + rowSum<kDim>(sums(), kColumnDot, i)));
            });
        storeGradient(p.dk, dKey, unscale, kTile(w), qTile(w), pulls, w);
    }

    // How much of the row itself the normalisation takes out of its gradient; dot: row with gradient, but for E's diagonal.
    __device__ __forceinline__ float pull(int row, float inverseNorm, float dot) const {
        return inverseNorm * inverseNorm * (dot + small().diagonal()[row] * rowSum<kDim>(sums(), kQueryKeyDot, row));
    }
    __device__ __forceinline__ void storeGradient(void* to, const Accumulator& c, float unscale, const unsigned char* own,
                                                  const unsigned char* other, const float (&pulls)[4], const WarpPlace& w) const {
        if (to)
            storeRows<T>(static_cast<T*>(to) + rows().at(0) * kDim, static_cast<std::int64_t>(p.heads) * kDim, place.count, c, unscale, own,
                         other, small().diagonal(), pulls, w);
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
    const GradientBlock<T, kDim> block(p, place, head, head * p.map.chunks + chunk);
    if constexpr (GradientPlan<kDim>::kRing) {
        block.fetchRing(0);
        block.fetchRing(1);
    } else {
        block.fetchAll();
    }
    if (block.warp == 0)
        prepareGates(p, block.rows(), block.small(), static_cast<int>(threadIdx.x) & 31);
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
    reinterpret_cast<uint4*>(to)[index] = make_uint4(device::pack<T>(sum[0], sum[1]), device::pack<T>(sum[2], sum[3]),
                                                     device::pack<T>(sum[4], sum[5]), device::pack<T>(sum[6], sum[7]));
}

template <class T, int kDim> LaunchError launchFor(const GradientParams& p, unsigned blocks, void* stream) {
    return device::launch(gradientsKernel<T, kDim>, dim3(blocks), dim3(GradientPlan<kDim>::kThreads), GradientPlan<kDim>::kBytes, stream,
                          p);
}

template <class T>
LaunchError launchType(const GatedDeltaRuleParams& params, const GradientParams& p, const GradientScratch& scratch, unsigned blocks) {
    const auto launchDim = [&] {
        switch (params.headDim) {
        case 64:
            return launchFor<T, 64>(p, blocks, params.stream);
        case 96:
            return launchFor<T, 96>(p, blocks, params.stream);
        case 128:
            return launchFor<T, 128>(p, blocks, params.stream);
        case 256:
            return launchFor<T, 256>(p, blocks, params.stream);
        default:
            return "gated delta rule: headDim must be 64, 96, 128 or 256";
        }
    };
    if (const LaunchError error = launchDim())
        return error;
    if (params.heads == params.kvHeads || (!params.dk && !params.dv))
        return nullptr;
    const std::int64_t pieces = params.batch * params.tokens * params.kvHeads * params.headDim / 8;
    const dim3 grid(static_cast<unsigned>((pieces + kSumThreads - 1) / kSumThreads), 2);
    return device::launch(sumHeads<T>, grid, dim3(kSumThreads), 0, params.stream, static_cast<const T*>(scratch.dkPerHead),
                          static_cast<const T*>(scratch.dvPerHead), static_cast<T*>(params.dk), static_cast<T*>(params.dv), pieces, p.group,
                          static_cast<int>(params.headDim / 8));
}

} // namespace

LaunchError launchGradients(const GatedDeltaRuleParams& params, const ChunkMap& map, const ChunkBuffers& buffers,
                            const GradientScratch& scratch) {
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
    const LaunchError error = params.dataType == DataType::Float16
                                  ? launchType<Float16>(params, p, scratch, static_cast<unsigned>(blocks))
                                  : launchType<BFloat16>(params, p, scratch, static_cast<unsigned>(blocks));
    if (error || !gates)
        return error;
    return device::launch(sumGatePartials, dim3(static_cast<unsigned>(params.heads)), dim3(kSumThreads), kSumThreads * sizeof(float2),
                          params.stream, scratch.gatePartials, map.chunks, params.dALog, params.dDtBias);
}

} // namespace linnet::kernels::gdr
