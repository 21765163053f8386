// The scans over chunks: forward (X, V', O, S) and reverse (dX, dV, dS), and both as state passes of the two-level scan.
// gated_delta_rule.md has the mathematics; everything is transposed here: rows are value channels, columns tokens or keys, so that
//     (K S)^T = S^T K^T      V'^T = X^T T^T      O^T = S^T Q^T + V'^T P^T      S'^T = S^T + V'^T K
// chain from accumulator to left operand within a warp's registers. A block owns one segment of one sequence, one query head and
// kGroups value blocks of 64 channels (a warpgroup each); the state stays in registers in float32 from the first chunk to the last.
#pragma once

#include "scan_engine.cuh"

namespace linnet::kernels::gdr {

struct Segment {
    int sequence, firstChunk, endChunk;
    bool first, last; // of its sequence
};

struct SegmentMap {
    const int4* table = nullptr;       // variable length: {sequence (-1: none), first chunk, end chunk, index in its sequence | last << 30}
    const int* firstSegment = nullptr; // variable length: [sequences + 1]
    int segments = 0;                  // bound over all sequences
    int perSequence = 0, chunks = 0;
    __device__ int first(int sequence) const { return table ? firstSegment[sequence] : sequence * perSequence; }
    __device__ int end(int sequence) const { return table ? firstSegment[sequence + 1] : (sequence + 1) * perSequence; }
    __device__ Segment segment(int index, const ChunkMap& map) const {
        if (table) {
            const int4 s = table[index];
            return {s.x, s.y, s.z, (s.w & 0x3fffffff) == 0, (s.w >> 30) != 0};
        }
        const int sequence = index / perSequence, i = index - sequence * perSequence;
        const int from = map.first(sequence) + i * chunks, end = map.end(sequence);
        return {sequence, from, from + chunks < end ? from + chunks : end, i == 0, i + 1 == perSequence};
    }
};

struct ScanParams {
    const void *q, *k, *v;                // v: dO in the reverse scan
    TokenStrides qStrides, kStrides, vStrides, oStrides;
    void* o;                              // O, or dV per query head in the reverse scan
    const float* start;                   // [sequences, heads, D, D] key-major, before the first (after the last) chunk; null: zeros
    float* finish;                        // the state at the other end; null: not wanted
    const float* segmentStart;            // [heads][segments][Dp][Dp] value-major, from the chaining kernel; null: `start`
    float* local;                         // state pass: a segment's state from zero, like segmentStart
    unsigned char* transitions;           // state pass: [heads][segments][N][N][2] tile images, M^T in two 16-bit parts
    ChunkBuffers buffers;
    ChunkMap map;
    SegmentMap segments;
    int heads, group, headDim;
    std::int64_t batch, tokens;
    bool keep;                            // forward: write V' and S of every chunk for the backward pass
};

constexpr int kForward = 0, kReverse = 1;

// Shared memory of one stage, in tiles of 8 KB: K, Q, T, P, one V per value block, then 1 KB of gates.
template <int N, int kGroups> struct Stage {
    static constexpr int kK = 0, kQ = N, kT = 2 * N, kP = 2 * N + 1, kV = 2 * N + 2, kTiles = 2 * N + 2 + kGroups;
    static constexpr int kGates = kTiles * kTileBytes, kBytes = kGates + kGateFloats * 4;
};
constexpr int kFactorBytes = 4 * 64 * 4;      // per warp: the column factors of a chunk
constexpr int kTransposeBytes = 64 * 16 * 2;  // per warp: one 16 x 64 result on its way to token-major rows

// One 64 x 64 tile of rows [token][channel] into a shared tile, by kThreads threads.
template <class T, int kThreads>
__device__ __forceinline__ void fetchRows(unsigned char* tile, const void* base, const TokenStrides& s, const ChunkPlace& place, int head, int column, int headDim, int thread) {
    const T* from = static_cast<const T*>(base) + place.batch * s.batch + place.token * s.token + head * s.head + column;
#pragma unroll
    for (int i = 0; i < 512 / kThreads; ++i) {
        const int piece = thread + i * kThreads, row = piece >> 3, c = (piece & 7) * 8;
        const bool valid = row < place.count && column + c < headDim;
        device::copyAsync16(tile + imageOffset(row, c), valid ? from + row * s.token + c : static_cast<const T*>(base), valid);
    }
}

template <int kThreads> __device__ __forceinline__ void fetchImage(unsigned char* to, const unsigned char* from, int bytes, int thread) {
    for (int i = thread * 16; i < bytes; i += kThreads * 16)
        device::copyAsync16(to + i, from + i);
}

// A 16 x 64 result (rows = this warp's channels, columns = tokens) as token-major rows of 16 channels.
template <class T>
__device__ __forceinline__ void storeTokenMajor(const float (&c)[8][4], unsigned char* scratch, T* to, std::int64_t tokenStride, int count, int channels, int lane) {
    const int group = lane >> 2, t = lane & 3;
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const std::uint32_t mine = pack<T>(c[j][2 * half], c[j][2 * half + 1]);
            const std::uint32_t other = __shfl_xor_sync(0xffffffffU, mine, 4);
            // even groups take the first token of the pair, odd ones the second: two channels of one token each
            const std::uint32_t word = group & 1 ? (other >> 16 | (mine & 0xffff0000U)) : ((mine & 0xffffU) | other << 16);
            const int token = 8 * j + 2 * t + (group & 1);
            *reinterpret_cast<std::uint32_t*>(scratch + token * 32 + ((half ^ (token >> 2 & 1)) << 4) + (group >> 1) * 4) = word;
        }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int token = i * 16 + (lane >> 1), half = lane & 1;
        if (token < count && half * 8 < channels)
            *reinterpret_cast<uint4*>(to + token * tokenStride + half * 8) = *reinterpret_cast<const uint4*>(scratch + token * 32 + ((half ^ (token >> 2 & 1)) << 4));
    }
    __syncwarp();
}

// A left operand's registers as rows of tile images: rows = this warp's 16 rows of the tile, 64 columns per image, images `stride` bytes apart.
template <int kSteps>
__device__ __forceinline__ void storeImages(const std::uint32_t (&a)[kSteps][4], unsigned char* images, int row, int stride, int t) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s)
#pragma unroll
        for (int r = 0; r < 4; ++r)
            *reinterpret_cast<std::uint32_t*>(images + (s / 4) * stride + imageOffset(row + 8 * (r & 1), (s % 4) * 16 + 8 * (r >> 1) + 2 * t)) = a[s][r];
}

// State [value][key] of a warp from or to global memory. Key-major: element (key, value) at key * D + value.
template <int kTiles, bool kKeyMajor, class F>
__device__ __forceinline__ void eachStateElement(float (&c)[kTiles][4], int firstRow, int dim, int lane, F&& f) {
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const int value = firstRow + (lane >> 2) + 8 * (r >> 1), key = 8 * j + 2 * (lane & 3) + (r & 1);
            if (value < dim && key < dim)
                f(c[j][r], kKeyMajor ? static_cast<std::size_t>(key) * dim + value : static_cast<std::size_t>(value) * dim + key);
        }
}

template <class T> __device__ __forceinline__ T lowPart(float x) { return device::fromFloat<T>(x - device::toFloat(device::fromFloat<T>(x))); }

// A state pass ends with the state in float32, or with the transition matrix as high and low 16-bit parts.
template <class T, int N> __device__ void storeTransition(float (&state)[8 * N][4], unsigned char* images, int row, int t) {
    std::uint32_t high[4 * N][4], low[4 * N][4];
    asOperand<T>(high, state);
#pragma unroll
    for (int j = 0; j < 8 * N; ++j)
#pragma unroll
        for (int r = 0; r < 4; ++r)
            state[j][r] = device::toFloat(lowPart<T>(state[j][r]));
    asOperand<T>(low, state);
    storeImages(high, images, row, 2 * kTileBytes, t);
    storeImages(low, images + kTileBytes, row, 2 * kTileBytes, t);
}

// The factors of a chunk's columns, one warp's own copy: 0: exp(G) beta key, 1: exp(G) query, 2: exp(G_C - G) key, 3: beta.
__device__ __forceinline__ float chunkFactors(float* factors, const float* gates, int lane) {
    const float last = gates[63];
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int token = lane + 32 * i;
        const float G = gates[token], beta = gates[64 + token], query = gates[128 + token], key = gates[192 + token];
        const float decay = device::exp2Fast(G);
        factors[token] = decay * beta * key;
        factors[64 + token] = decay * query;
        factors[128 + token] = device::exp2Fast(last - G) * key;
        factors[192 + token] = beta;
    }
    __syncwarp();
    return device::exp2Fast(last);
}

// Where a warp is and what it works on.
struct Here {
    int lane, warp;                      // warp within its warpgroup
    int head, valueBlock, chunk;
    ChunkPlace place;
    bool identity;                       // state pass: this block carries the transition matrix, its values are zero
    float* factors;                      // kFactorBytes of this warp
    unsigned char* scratch;              // kTransposeBytes of this warp
    __device__ int t() const { return lane & 3; }
    __device__ int row() const { return 16 * warp + (lane >> 2); }
    __device__ int channel() const { return 64 * valueBlock + 16 * warp; }
};

struct Tiles {
    const unsigned char *k, *q, *solve, *attention, *v;
    const float* gates;
};

template <class T, int N, bool kStatePass, class Engine>
__device__ __forceinline__ void forwardChunk(float (&state)[8 * N][4], const ScanParams& p, const Tiles& tiles, const Here& here) {
    const int lane = here.lane, t = here.t();
    const float decay = chunkFactors(here.factors, tiles.gates, lane);
    float x[8][4], out[8][4];
    {
        std::uint32_t a[4 * N][4];
        asOperand<T>(a, state);
        if (!kStatePass && p.keep)
            storeImages(a, stateTiles<N>(p.buffers.states, p.map, here.head, here.chunk) + here.valueBlock * N * kTileBytes, here.row(), kTileBytes, t);
        clear(x);
        Engine::begin(x);
        Engine::template rows<T, 4 * N>(x, a, tiles.k, lane);
        if (!kStatePass) {
            clear(out);
            Engine::begin(out);
            Engine::template rows<T, 4 * N>(out, a, tiles.q, lane);
            Engine::finish(out);
        }
        Engine::finish(x);
    }
    // X = beta V - exp(G) beta (K S)
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
        std::uint32_t v[4] = {0, 0, 0, 0};
        if (!kStatePass || !here.identity)
            device::loadMatricesTransposed(v, tiles.v + imageOffset(8 * j + (lane >> 4) * 8 + (lane & 7), 16 * here.warp + (lane >> 3 & 1) * 8));
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const float2 f = *reinterpret_cast<const float2*>(here.factors + 8 * (j + h) + 2 * t);
            const float2 beta = *reinterpret_cast<const float2*>(here.factors + 192 + 8 * (j + h) + 2 * t);
            const float2 low = unpack<T>(v[2 * h]), high = unpack<T>(v[2 * h + 1]);
            x[j + h][0] = beta.x * low.x - f.x * x[j + h][0];
            x[j + h][1] = beta.y * low.y - f.y * x[j + h][1];
            x[j + h][2] = beta.x * high.x - f.x * x[j + h][2];
            x[j + h][3] = beta.y * high.y - f.y * x[j + h][3];
        }
    }
    std::uint32_t a[4][4];
    asOperand<T>(a, x);
    clear(x);
    Engine::begin(x);
    Engine::template rows<T, 4, Blocks::kLower>(x, a, tiles.solve, lane); // V'
    Engine::finish(x);
    if (!kStatePass) {
        asOperand<T>(a, x);
        if (p.keep)
            storeImages(a, valueTiles<N>(p.buffers.written, p.map, here.head, here.chunk) + here.valueBlock * kTileBytes, here.row(), 0, t);
        scaleColumns(out, here.factors + 64, t);
        Engine::begin(out);
        Engine::template rows<T, 4, Blocks::kLower>(out, a, tiles.attention, lane);
        Engine::finish(out);
        T* to = static_cast<T*>(p.o) + here.place.batch * p.oStrides.batch + here.place.token * p.oStrides.token + here.head * p.oStrides.head + here.channel();
        storeTokenMajor(out, here.scratch, to, p.oStrides.token, here.place.count, p.headDim - here.channel(), lane);
    }
    scaleColumns(x, here.factors + 128, t);
    asOperand<T>(a, x);
#pragma unroll
    for (int j = 0; j < 8 * N; ++j)
#pragma unroll
        for (int r = 0; r < 4; ++r)
            state[j][r] *= decay;
    Engine::begin(state);
    Engine::template columns<T, 8 * N>(state, a, tiles.k, lane);
    Engine::finish(state);
}

// `state` is the gradient of S after the chunk on entry, before it on return; tiles.v holds dO.
template <class T, int N, bool kStatePass, class Engine>
__device__ __forceinline__ void reverseChunk(float (&state)[8 * N][4], const ScanParams& p, const Tiles& tiles, const Here& here) {
    const int lane = here.lane, t = here.t();
    const float decay = chunkFactors(here.factors, tiles.gates, lane);
    float d[8][4];
    clear(d);
    {
        std::uint32_t a[4 * N][4];
        asOperand<T>(a, state);
        if (!kStatePass)
            storeImages(a, stateTiles<N>(p.buffers.dStates, p.map, here.head, here.chunk) + here.valueBlock * N * kTileBytes, here.row(), kTileBytes, t);
        Engine::begin(d);
        Engine::template rows<T, 4 * N>(d, a, tiles.k, lane);
        Engine::finish(d);
    }
    scaleColumns(d, here.factors + 128, t);
    std::uint32_t dO[4][4], a[4][4];
#pragma unroll
    for (int s = 0; s < 4; ++s)
        device::loadMatricesTransposed(dO[s], tiles.v + imageOffset(16 * s + (lane >> 4) * 8 + (lane & 7), 16 * here.warp + (lane >> 3 & 1) * 8));
    Engine::begin(d);
    Engine::template columns<T, 8, Blocks::kUpper>(d, dO, tiles.attention, lane); // dV' = P^T dO + ...
    Engine::finish(d);
    asOperand<T>(a, d);
    clear(d);
    Engine::begin(d);
    Engine::template columns<T, 8, Blocks::kUpper>(d, a, tiles.solve, lane); // dX = T^T dV'
    Engine::finish(d);
    // the state: exp(G_C) dS' + (exp(G) Q)^T dO - (exp(G) beta K)^T dX
#pragma unroll
    for (int s = 0; s < 4; ++s)
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const float2 f = *reinterpret_cast<const float2*>(here.factors + 64 + 16 * s + 8 * (r >> 1) + 2 * t);
            const float2 x = unpack<T>(dO[s][r]);
            dO[s][r] = pack<T>(x.x * f.x, x.y * f.y);
        }
#pragma unroll
    for (int j = 0; j < 8 * N; ++j)
#pragma unroll
        for (int r = 0; r < 4; ++r)
            state[j][r] *= decay;
    Engine::begin(state);
    Engine::template columns<T, 8 * N>(state, dO, tiles.q, lane);
    if (!kStatePass) {
        asOperand<T>(a, d);
        storeImages(a, valueTiles<N>(p.buffers.dWrittenRhs, p.map, here.head, here.chunk) + here.valueBlock * kTileBytes, here.row(), 0, t);
    }
#pragma unroll
    for (int s = 0; s < 4; ++s)
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const float2 f = *reinterpret_cast<const float2*>(here.factors + 16 * s + 8 * (r >> 1) + 2 * t);
            const int j = 2 * s + (r >> 1), c = 2 * (r & 1);
            a[s][r] = pack<T>(-f.x * d[j][c], -f.y * d[j][c + 1]);
        }
    Engine::begin(state);
    Engine::template columns<T, 8 * N>(state, a, tiles.k, lane);
    Engine::finish(state);
    if (!kStatePass) {
        scaleColumns(d, here.factors + 192, t); // dV = beta dX
        T* to = static_cast<T*>(p.o) + here.place.batch * p.oStrides.batch + here.place.token * p.oStrides.token + here.head * p.oStrides.head + here.channel();
        storeTokenMajor(d, here.scratch, to, p.oStrides.token, here.place.count, p.headDim - here.channel(), lane);
    }
}

// The state that a segment starts from.
template <int N>
__device__ __forceinline__ void loadState(float (&state)[8 * N][4], const ScanParams& p, const Segment& segment, int index, const Here& here, bool statePass) {
    constexpr int kDim = 64 * N;
    clear(state);
    if (statePass) {
        if (here.identity)
            eachStateElement<8 * N, false>(state, here.channel(), kDim, here.lane, [&](float& x, std::size_t at) { x = at / kDim == at % kDim ? 1.0F : 0.0F; });
    } else if (p.segmentStart) {
        const float* from = p.segmentStart + (static_cast<std::size_t>(here.head) * p.segments.segments + index) * kDim * kDim;
        eachStateElement<8 * N, false>(state, here.channel(), kDim, here.lane, [&](float& x, std::size_t at) { x = from[at]; });
    } else if (p.start) {
        const float* from = p.start + (static_cast<std::size_t>(segment.sequence) * p.heads + here.head) * p.headDim * p.headDim;
        eachStateElement<8 * N, true>(state, here.channel(), p.headDim, here.lane, [&](float& x, std::size_t at) { x = from[at]; });
    }
}

template <class T, int N>
__device__ __forceinline__ void storeState(float (&state)[8 * N][4], const ScanParams& p, const Segment& segment, int index, const Here& here, bool statePass, bool atEnd) {
    constexpr int kDim = 64 * N;
    const std::size_t slot = static_cast<std::size_t>(here.head) * p.segments.segments + index;
    if (statePass) {
        if (here.identity)
            storeTransition<T, N>(state, p.transitions + (slot * N + here.valueBlock) * N * 2 * kTileBytes, here.row(), here.t());
        else
            eachStateElement<8 * N, false>(state, here.channel(), kDim, here.lane, [&](float& x, std::size_t at) { p.local[slot * kDim * kDim + at] = x; });
    } else if (p.finish && atEnd) {
        float* to = p.finish + (static_cast<std::size_t>(segment.sequence) * p.heads + here.head) * p.headDim * p.headDim;
        eachStateElement<8 * N, true>(state, here.channel(), p.headDim, here.lane, [&](float& x, std::size_t at) { to[at] = x; });
    }
}

} // namespace linnet::kernels::gdr
