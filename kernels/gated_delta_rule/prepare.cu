// What a chunk of 64 tokens needs before the scan, and what does not depend on the state:
//     G = cumulative sum of log2(e) g       A_ij = beta_i k_i.k_j exp2(G_i - G_j), j < i       T = (I + A)^-1
//     P_ij = scale q_i.k_j exp2(G_i - G_j), j <= i                                             with k, q over their norms where asked
// Written: T and P as tile images, and gates (layout.h).
//
// Grid: chunk x head, four warps, three barriers, several blocks on one multiprocessor. Warp w owns rows 16 w .. 16 w + 15 (block w).
//  1. cp.async brings K and Q; meanwhile warp 0 turns the raw gates into G and beta.                                        barrier
//  2. Products of the blocks of the lower triangle: warp w makes A^T_(w, i) for i >= w and P_(w, j) for j <= w, five blocks of 16 x 16
//     for every warp, from one ldmatrix per operand (a row-major A operand is also, in other order, the B operand of its transpose).
//     The diagonals of K K^T and Q Q^T are the squared norms.                                                               barrier
//  3. P is written out. Block (w, w) of T: forward substitution in float32, one column per lane. A_(i, w) and T_(w, w) go to the other
//     warps through shared memory, in B fragment order. Neumann series or doubling would be mma only, but their terms grow like
//     binomials when keys repeat with beta near 1.                                                                          barrier
//  4. Warp w finishes its block row: T_wj = -(sum over j < k <= w of T_wk A_kj) T_jj for j = w - 1 .. 0. An accumulator is the next
//     product's A operand as it stands; operands are bf16 pairs high + low (about 2^-17), so T is exact to its own rounding.
// Numbers are float32 until T and P are rounded to T. Every exponent of a kept entry is G_i - G_j with j <= i, never positive for
// g <= 0; decay is bounded per token (gates.h), so strong decay ends in 0, not in NaN. Limits: headDim <= 256, a multiple of 8.
#include "gates.h"
#include "layout.h"
#include "prepare_blocks.cuh"

namespace linnet::kernels::gdr {
namespace {

constexpr int kThreads = 128;

struct PrepareParams {
    const void *q, *k;
    const float *g, *beta, *aLog, *dtBias;
    TokenStrides qStrides, kStrides;
    ChunkMap map;
    ChunkBuffers buffers;
    std::int64_t tokens;
    float scale, normEps;
    int heads, groupSize, headDim; // groupSize: query heads per key head
    bool betaIsLogit, normalise;
};

// Shared memory: Q tiles (later the exchange), K tiles (later 2 KB per warp to arrange rows in), gates.
template <int N> struct Shared {
    static constexpr int kK = N * kTileBytes > kExchangeBytes ? N * kTileBytes : 11 * 1024;
    static constexpr int kGates = kK + N * kTileBytes;
    static constexpr int kBytes = kGates + kGateFloats * 4;
};

// 64 rows into N tiles side by side, zeros beyond count and headDim.
template <int N>
__device__ __forceinline__ void fetch(unsigned char* tiles, const void* source, std::int64_t tokenStride, int count, int headDim) {
    constexpr int kPieces = 8 * N, kRows = kThreads / kPieces; // 16-byte pieces per row; rows per round
    const int piece = static_cast<int>(threadIdx.x) % kPieces, firstRow = static_cast<int>(threadIdx.x) / kPieces;
    const auto* from = static_cast<const unsigned char*>(source);
    unsigned char* tile = tiles + piece / 8 * kTileBytes;
#pragma unroll
    for (int round = 0; round < 64 / kRows; ++round) {
        const int row = firstRow + round * kRows;
        const bool valid = row < count && 8 * piece < headDim;
        device::copyAsync16(tile + imageOffset(row, 8 * (piece % 8)), valid ? from + 2 * (row * tokenStride + 8 * piece) : from, valid);
    }
}

// Warp 0: lane l takes tokens l and l + 32. gates[0..63] = G, gates[64..] = beta.
template <class T>
__device__ __forceinline__ void makeGates(float* gates, const PrepareParams& p, int head, int count, float (&raw)[2], float (&beta)[2]) {
    const int lane = static_cast<int>(threadIdx.x) & 31;
    float sum[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const bool valid = lane + 32 * i < count;
        sum[i] = valid ? logDecay(raw[i], p.aLog, p.dtBias, head) : 0.0F;
        const float strength = writeStrength(beta[i], p.betaIsLogit);
        gates[kChunk + 32 * i + lane] = !valid ? 0.0F : strength < smallestBeta<T>() ? smallestBeta<T>() : strength;
    }
#pragma unroll
    for (int step = 1; step < 32; step *= 2)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const float below = __shfl_up_sync(0xffffffffU, sum[i], step);
            sum[i] += lane >= step ? below : 0.0F;
        }
    gates[lane] = sum[0];
    gates[32 + lane] = sum[1] + __shfl_sync(0xffffffffU, sum[0], 31);
}

// Of two 16 x 8 accumulators that make a 16 x 16 block: entry (row, row) of the rows group and group + 8; only lanes with
// t = group / 2 hold it.
__device__ __forceinline__ float2 diagonal(const float (&left)[4], const float (&right)[4], int group) {
    return group & 1 ? make_float2(left[1], right[3]) : make_float2(left[0], right[2]);
}

// acc[b] for b <= kWarp: Q_w K_b^T; acc[b + 1] for b >= kWarp: K_w K_b^T, the transpose of block (b, w). Then the factors of q's and
// k's rows of this warp.
template <class T, int N, int kWarp>
__device__ __forceinline__ void products(float (&acc)[5][2][4], const unsigned char* q, const unsigned char* k, float* gates,
                                         const PrepareParams& p, int count) {
    const int lane = static_cast<int>(threadIdx.x) & 31, group = lane >> 2, t = lane & 3;
    float qq[2][4] = {};
#pragma unroll
    for (int slot = 0; slot < 5; ++slot)
#pragma unroll
        for (int i = 0; i < 8; ++i)
            acc[slot][i / 4][i % 4] = 0.0F;
    const int row = (lane & 15) * 128;
#pragma unroll 1
    for (int tile = 0; tile < N; ++tile) {
#pragma unroll
        for (int step = 0; step < 4; ++step) {
            const int offset = tile * kTileBytes + row + ((((2 * step + (lane >> 4)) ^ lane) & 7) << 4);
            std::uint32_t qw[4], kw[4], kb[4];
            device::loadMatrices(qw, q + offset + 2048 * kWarp);
            if (p.normalise) {
                device::mma<T>(qq[0], qw, qw[0], qw[2]);
                device::mma<T>(qq[1], qw, qw[1], qw[3]);
            }
#pragma unroll
            for (int b = 0; b < 4; ++b) {
                device::loadMatrices(kb, k + offset + 2048 * b);
                if (b == kWarp) {
#pragma unroll
                    for (int i = 0; i < 4; ++i)
                        kw[i] = kb[i];
                }
                if (b <= kWarp) {
                    device::mma<T>(acc[b][0], qw, kb[0], kb[2]);
                    device::mma<T>(acc[b][1], qw, kb[1], kb[3]);
                }
                if (b >= kWarp) {
                    device::mma<T>(acc[b + 1][0], kw, kb[0], kb[2]);
                    device::mma<T>(acc[b + 1][1], kw, kb[1], kb[3]);
                }
            }
        }
    }
    if (t == group >> 1) {
        const float2 q2 = diagonal(qq[0], qq[1], group), k2 = diagonal(acc[kWarp + 1][0], acc[kWarp + 1][1], group);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int token = 16 * kWarp + 8 * half + group;
            const float queryScale = p.normalise ? p.scale * rsqrtf((half ? q2.y : q2.x) + p.normEps) : p.scale;
            const float keyScale = p.normalise ? rsqrtf((half ? k2.y : k2.x) + p.normEps) : 1.0F;
            gates[2 * kChunk + token] = token < count ? queryScale : 0.0F;
            gates[3 * kChunk + token] = token < count ? keyScale : 0.0F;
        }
    }
}

// P's rows of this warp: acc[b], b <= warp, times factors, written out.
template <class T>
__device__ __forceinline__ void finishAttention(float (&acc)[5][2][4], const float* gates, unsigned char* rows, unsigned char* to, int warp,
                                                int lane) {
    const int group = lane >> 2, t = lane & 3;
    float gRow[2], factorRow[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        gRow[half] = gates[16 * warp + 8 * half + group];
        factorRow[half] = gates[2 * kChunk + 16 * warp + 8 * half + group];
    }
#pragma unroll
    for (int b = 0; b < 4; ++b) {
        if (b > warp)
            break;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int column = 16 * b + 8 * h + 2 * t;
            const float2 g = *reinterpret_cast<const float2*>(gates + column);
            const float2 factor = *reinterpret_cast<const float2*>(gates + 3 * kChunk + column);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const bool kept = b < warp || 8 * h + 2 * t + (i & 1) <= group + 8 * (i >> 1);
                const float decay = device::exp2Fast(gRow[i >> 1] - (i & 1 ? g.y : g.x));
                acc[b][h][i] = kept ? acc[b][h][i] * factorRow[i >> 1] * (i & 1 ? factor.y : factor.x) * decay : 0.0F;
            }
        }
        arrange<T>(rows, acc[b], b, group, t);
    }
    writeRows(to, rows, warp, lane);
}

// A^T_(w, i) = acc[i + 1], i >= w, times factors: the diagonal block to scratch as A, the others to the exchange.
__device__ __forceinline__ void finishSolve(float (&acc)[5][2][4], const float* gates, float* scratch, unsigned char* exchange, int warp,
                                            int lane) {
    const int group = lane >> 2, t = lane & 3;
    float gRow[2], factorRow[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        gRow[half] = gates[16 * warp + 8 * half + group];
        factorRow[half] = gates[3 * kChunk + 16 * warp + 8 * half + group];
    }
#pragma unroll
    for (int b = 0; b < 4; ++b) {
        if (b < warp)
            continue;
        float(&c)[2][4] = acc[b + 1];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int token = 16 * b + 8 * h + 2 * t; // the later one, i
            const float2 g = *reinterpret_cast<const float2*>(gates + token);
            const float2 beta = *reinterpret_cast<const float2*>(gates + kChunk + token);
            const float2 factor = *reinterpret_cast<const float2*>(gates + 3 * kChunk + token);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const bool kept = b > warp || 8 * h + 2 * t + (i & 1) > group + 8 * (i >> 1);
                const float decay = device::exp2Fast((i & 1 ? g.y : g.x) - gRow[i >> 1]);
                c[h][i] = kept ? c[h][i] * (factorRow[i >> 1] * (i & 1 ? beta.y * factor.y : beta.x * factor.x)) * decay : 0.0F;
                if (b == warp)
                    scratch[(8 * h + 2 * t + (i & 1)) * kScratchPitch + group + 8 * (i >> 1)] = c[h][i];
            }
        }
        if (b == warp)
            continue;
        Operand x; // rows i of A_(b, w) run along the registers' pairs
#pragma unroll
        for (int i = 0; i < 4; ++i)
            split(c[i % 2][2 * (i / 2)], c[i % 2][2 * (i / 2) + 1], x.high[i], x.low[i]);
        writeSlot(exchange + slotOf(b, warp), x, lane);
    }
    __syncwarp();
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads, N == 4 ? 3 : 6) prepareKernel(const PrepareParams p) {
    using S = Shared<N>;
    unsigned char* shared = device::sharedMemory();
    unsigned char *q = shared, *k = shared + S::kK;
    float* gates = reinterpret_cast<float*>(shared + S::kGates);
    // Heads run fastest: blocks side by side share the sectors of g and beta and, with several query heads per key head, k.
    const int chunk = static_cast<int>(blockIdx.x) / p.heads, head = static_cast<int>(blockIdx.x) - chunk * p.heads;
    const int thread = static_cast<int>(threadIdx.x), lane = thread & 31, warp = thread >> 5, group = lane >> 2, t = lane & 3;
    const ChunkPlace place = p.map.place(chunk);
    if (place.count <= 0)
        return;

    float raw[2], beta[2];
    if (warp == 0) {
        const std::int64_t first = (static_cast<std::int64_t>(place.batch) * p.tokens + place.token) * p.heads + head;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const bool valid = lane + 32 * i < place.count;
            const std::int64_t at = first + static_cast<std::int64_t>(valid ? lane + 32 * i : 0) * p.heads;
            raw[i] = p.g[at];
            beta[i] = p.beta[at];
        }
    }
    const auto* qSource = static_cast<const T*>(p.q) + place.batch * p.qStrides.batch + place.token * p.qStrides.token +
        head * p.qStrides.head;
    const auto* kSource = static_cast<const T*>(p.k) + place.batch * p.kStrides.batch + place.token * p.kStrides.token +
        head / p.groupSize * p.kStrides.head;
    fetch<N>(k, kSource, p.kStrides.token, place.count, p.headDim);
    fetch<N>(q, qSource, p.qStrides.token, place.count, p.headDim);
    device::copyAsyncCommit();
    if (warp == 0)
        makeGates<T>(gates, p, head, place.count, raw, beta);
    device::copyAsyncWait<0>();
    __syncthreads(); // 1: K, Q, G and beta are here

    float acc[5][2][4];
    switch (warp) { // the split of the triangle is known to the compiler
    case 0: products<T, N, 0>(acc, q, k, gates, p, place.count); break;
    case 1: products<T, N, 1>(acc, q, k, gates, p, place.count); break;
    case 2: products<T, N, 2>(acc, q, k, gates, p, place.count); break;
    default: products<T, N, 3>(acc, q, k, gates, p, place.count); break;
    }
    __syncthreads(); // 2: factors are here, nobody reads K and Q any more

    unsigned char* exchange = q;
    unsigned char* rows = k + 2048 * warp;
    unsigned char* tiles = tilePair(p.buffers, p.map, head, chunk) + 2048 * warp;
    if (thread < kGateFloats / 4)
        reinterpret_cast<float4*>(gatesOf(p.buffers, p.map, head, chunk))[thread] = reinterpret_cast<const float4*>(gates)[thread];
    finishAttention<T>(acc, gates, rows, tiles + kTileBytes, warp, lane);
    float* scratch = reinterpret_cast<float*>(rows);
    finishSolve(acc, gates, scratch, exchange, warp, lane);
    invertDiagonal(scratch, lane);

    float own[2][4]; // T_ww, then T_wj, as accumulators
    Operand right;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 pair = *reinterpret_cast<const float2*>(scratch + (group + 8 * (i % 2)) * kScratchPitch + 8 * (i / 2) + 2 * t);
        own[i / 2][2 * (i % 2)] = pair.x;
        own[i / 2][2 * (i % 2) + 1] = pair.y;
        const float* column = scratch + (8 * (i % 2) + 2 * t) * kScratchPitch + group + 8 * (i / 2);
        split(column[0], column[kScratchPitch], right.high[i], right.low[i]);
    }
    writeSlot(exchange + slotOf(warp, warp), right, lane);
    __syncthreads(); // 3: the triangle is in the exchange

    arrange<T>(rows, own, warp, group, t);
    Operand done[3]; // T_(w, w - d)
#pragma unroll
    for (int d = 0; d < 3; ++d) {
        if (d >= warp)
            break;
        done[d] = leftOperand(own);
        const int column = warp - d - 1;
        float sum[2][4] = {};
#pragma unroll
        for (int e = 0; e < 3; ++e)
            if (e <= d)
                multiplyAdd(sum, done[e], exchange + slotOf(warp - e, column), lane);
        const Operand left = leftOperand(sum);
#pragma unroll
        for (int i = 0; i < 8; ++i)
            own[i / 4][i % 4] = 0.0F;
        multiplyAdd(own, left, exchange + slotOf(column, column), lane);
#pragma unroll
        for (int i = 0; i < 8; ++i)
            own[i / 4][i % 4] = -own[i / 4][i % 4];
        arrange<T>(rows, own, column, group, t);
    }
    writeRows(tiles, rows, warp, lane);
}

template <class T, int N> LaunchError launchFor(const PrepareParams& p, unsigned blocks, void* stream) {
    return device::launch(prepareKernel<T, N>, dim3(blocks), dim3(kThreads), Shared<N>::kBytes, stream, p);
}

template <class T> LaunchError launchType(const PrepareParams& p, unsigned blocks, void* stream) {
    switch (paddedDim(p.headDim)) {
    case 64: return launchFor<T, 1>(p, blocks, stream);
    case 128: return launchFor<T, 2>(p, blocks, stream);
    default: return launchFor<T, 4>(p, blocks, stream);
    }
}

} // namespace

LaunchError launchPrepare(const GatedDeltaRuleParams& params, const ChunkMap& map, const ChunkBuffers& buffers) {
    const std::int64_t blocks = map.chunks * params.heads;
    if (blocks > 0x7fffffff)
        return "gated delta rule: too many chunks times heads";
    if (blocks <= 0)
        return nullptr;
    PrepareParams p{};
    p.q = params.q, p.k = params.k, p.g = params.g, p.beta = params.beta, p.aLog = params.aLog, p.dtBias = params.dtBias;
    p.qStrides = params.qStrides, p.kStrides = params.kStrides;
    p.map = map, p.buffers = buffers, p.tokens = params.tokens;
    p.scale = params.scale, p.normEps = params.normEps;
    p.heads = static_cast<int>(params.heads), p.groupSize = static_cast<int>(params.heads / params.kvHeads);
    p.headDim = static_cast<int>(params.headDim), p.betaIsLogit = params.betaIsLogit, p.normalise = params.normalise;
    const auto count = static_cast<unsigned>(blocks);
    return params.dataType == DataType::BFloat16 ? launchType<BFloat16>(p, count, params.stream)
                                                 : launchType<Float16>(p, count, params.stream);
}

} // namespace linnet::kernels::gdr
