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
    unsigned char* transitions;           // state pass: [heads][segments][N][N] tile images, (M - decay I)^T
    float* transitionDecay;               // [heads][segments], the decay of a whole segment
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
__device__ __forceinline__ void storeTokenMajor(const std::uint32_t (&words)[8][2], unsigned char* scratch, T* to, std::int64_t tokenStride, int count, int channels, int lane) {
    const int group = lane >> 2, t = lane & 3;
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const std::uint32_t mine = words[j][half];
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

// A left operand's registers as this warp's 16 rows of tile images, 64 columns each, `stride` bytes apart. By way of shared memory, because
// what reaches device memory in pieces of 16 bytes costs it several times what whole lines do.
template <int kSteps>
__device__ __forceinline__ void storeImages(const std::uint32_t (&a)[kSteps][4], unsigned char* images, int stride, unsigned char* scratch, int warp, int lane) {
    const int row = lane >> 2, t = lane & 3;
#pragma unroll
    for (int image = 0; image < kSteps / 4; ++image) {
#pragma unroll
        for (int s = 0; s < 4; ++s)
#pragma unroll
            for (int r = 0; r < 4; ++r)
                *reinterpret_cast<std::uint32_t*>(scratch + imageOffset(row + 8 * (r & 1), s * 16 + 8 * (r >> 1) + 2 * t)) = a[4 * image + s][r];
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 4; ++i)
            reinterpret_cast<uint4*>(images + image * stride + 2048 * warp)[lane + 32 * i] = reinterpret_cast<const uint4*>(scratch)[lane + 32 * i];
        __syncwarp();
    }
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
    bool identity;                       // state pass: this block carries the transition matrix, its values are zero
    float* factors;                      // kFactorBytes of this warp
    unsigned char* scratch;              // kTransposeBytes of this warp
    __device__ int t() const { return lane & 3; }
    __device__ int channel() const { return 64 * valueBlock + 16 * warp; }
};

// The chunks of a segment one after another, without a division or a table look-up for each.
struct ChunkWalk {
    int sequence, chunk, batch, token, end; // end: first token beyond the sequence
    __device__ ChunkWalk(const ChunkMap& map, const Segment& segment, bool forward) {
        sequence = segment.sequence;
        chunk = forward ? segment.firstChunk : segment.endChunk - 1;
        batch = token = end = 0;
        if (segment.firstChunk == segment.endChunk)
            return;
        const ChunkPlace here = map.place(chunk), last = map.place(map.end(sequence) - 1);
        batch = here.batch, token = here.token, end = last.token + last.count;
    }
    __device__ ChunkPlace place() const { return {sequence, batch, token, end - token < kChunk ? end - token : kChunk}; }
    __device__ void step(int direction) { chunk += direction, token += direction * kChunk; }
};

struct Tiles {
    const unsigned char *k, *q, *solve, *attention, *v;
    const float* gates;
};

// A result on its way out, rounded: stored while the next chunk's first products run.
struct Pending {
    std::uint32_t words[8][2];
    void* to;
    int count = 0; // tokens, 0: nothing to store
};

template <class T> __device__ __forceinline__ void setPending(Pending& pending, const float (&c)[8][4], const ScanParams& p, const ChunkPlace& place, const Here& here) {
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half)
            pending.words[j][half] = pack<T>(c[j][2 * half], c[j][2 * half + 1]);
    pending.to = static_cast<T*>(p.o) + place.batch * p.oStrides.batch + place.token * p.oStrides.token + here.head * p.oStrides.head + here.channel();
    pending.count = place.count;
}

template <class T> __device__ __forceinline__ void flush(Pending& pending, const ScanParams& p, const Here& here) {
    if (pending.count > 0)
        storeTokenMajor<T>(pending.words, here.scratch, static_cast<T*>(pending.to), p.oStrides.token, pending.count, p.headDim - here.channel(), here.lane);
    pending.count = 0;
}

template <int kTiles> __device__ __forceinline__ void scaleAll(float (&c)[kTiles][4], float factor) {
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
        for (int r = 0; r < 4; ++r)
            c[j][r] *= factor;
}

// One chunk forward. Products are queued as early as their operands exist, and what does not feed the state (outputs, what the backward
// pass will read) is done while they run: the path from one state to the next is K S, X, V', S. Returns exp(G_C).
template <class T, int N, bool kStatePass, class Engine>
__device__ __forceinline__ float forwardChunk(float (&state)[8 * N][4], Pending& pending, const ScanParams& p, const Tiles& tiles, const ChunkPlace& place, const Here& here) {
    const int lane = here.lane, t = here.t();
    float x[8][4], out[8][4];
    std::uint32_t s[4 * N][4], a[4][4], b[4][4];
    asOperand<T>(s, state);
    Engine::begin();
    Engine::template rows<T, 4 * N, true>(x, s, tiles.k, lane);
    Engine::commit();
    if (!kStatePass) {
        Engine::begin();
        Engine::template rows<T, 4 * N, true>(out, s, tiles.q, lane);
        Engine::commit();
    }
    const float decay = chunkFactors(here.factors, tiles.gates, lane);
    if (!kStatePass) {
        flush<T>(pending, p, here);
        if (p.keep)
            storeImages(s, stateTiles<N>(p.buffers.states, p.map, here.head, here.chunk) + here.valueBlock * N * kTileBytes, kTileBytes, here.scratch, here.warp, lane);
    }
    std::uint32_t v[4][4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        if (kStatePass && here.identity)
            v[j][0] = v[j][1] = v[j][2] = v[j][3] = 0;
        else
            device::loadMatricesTransposed(v[j], tiles.v + imageOffset(16 * j + (lane >> 4) * 8 + (lane & 7), 16 * here.warp + (lane >> 3 & 1) * 8));
    }
    Engine::template wait<kStatePass ? 0 : 1>(x);
    // X = beta V - exp(G) beta (K S)
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        const float2 f = *reinterpret_cast<const float2*>(here.factors + 8 * j + 2 * t);
        const float2 beta = *reinterpret_cast<const float2*>(here.factors + 192 + 8 * j + 2 * t);
        const float2 low = unpack<T>(v[j / 2][2 * (j % 2)]), high = unpack<T>(v[j / 2][2 * (j % 2) + 1]);
        x[j][0] = beta.x * low.x - f.x * x[j][0];
        x[j][1] = beta.y * low.y - f.y * x[j][1];
        x[j][2] = beta.x * high.x - f.x * x[j][2];
        x[j][3] = beta.y * high.y - f.y * x[j][3];
    }
    asOperand<T>(a, x);
    Engine::begin();
    Engine::template rows<T, 4, true, Blocks::kLower>(x, a, tiles.solve, lane); // V'
    Engine::commit();
    scaleAll(state, decay);
    if (!kStatePass) {
        Engine::template wait<1>(out);
        scaleColumns(out, here.factors + 64, t);
    }
    Engine::template wait<0>(x);
    if (!kStatePass)
        asOperand<T>(b, x);
    scaleColumns(x, here.factors + 128, t);
    asOperand<T>(a, x);
    Engine::begin(state);
    Engine::template columns<T, 8 * N, false>(state, a, tiles.k, lane);
    Engine::commit();
    if (!kStatePass) {
        Engine::begin(out);
        Engine::template rows<T, 4, false, Blocks::kLower>(out, b, tiles.attention, lane);
        Engine::commit();
        if (p.keep)
            storeImages(b, valueTiles<N>(p.buffers.written, p.map, here.head, here.chunk) + here.valueBlock * kTileBytes, 0, here.scratch, here.warp, lane);
        Engine::template wait<0>(out);
        setPending<T>(pending, out, p, place, here);
        if (N == 4) // no registers to wait in
            flush<T>(pending, p, here);
    }
    Engine::template wait<0>(state);
    return decay;
}

// `state` is the gradient of S after the chunk on entry, before it on return; tiles.v holds dO.
template <class T, int N, bool kStatePass, class Engine>
__device__ __forceinline__ float reverseChunk(float (&state)[8 * N][4], Pending& pending, const ScanParams& p, const Tiles& tiles, const ChunkPlace& place, const Here& here) {
    const int lane = here.lane, t = here.t();
    float d[8][4], e[8][4];
    std::uint32_t s[4 * N][4], dO[4][4], a[4][4];
    asOperand<T>(s, state);
    Engine::begin();
    Engine::template rows<T, 4 * N, true>(d, s, tiles.k, lane);
    Engine::commit();
#pragma unroll
    for (int i = 0; i < 4; ++i)
        device::loadMatricesTransposed(dO[i], tiles.v + imageOffset(16 * i + (lane >> 4) * 8 + (lane & 7), 16 * here.warp + (lane >> 3 & 1) * 8));
    Engine::begin();
    Engine::template columns<T, 8, true, Blocks::kUpper>(e, dO, tiles.attention, lane); // P^T dO
    Engine::commit();
    const float decay = chunkFactors(here.factors, tiles.gates, lane);
    if (!kStatePass) {
        flush<T>(pending, p, here);
        storeImages(s, stateTiles<N>(p.buffers.dStates, p.map, here.head, here.chunk) + here.valueBlock * N * kTileBytes, kTileBytes, here.scratch, here.warp, lane);
    }
    Engine::template wait<0>(d);
    Engine::template wait<0>(e);
    // dV' = P^T dO + exp(G_C - G) K dS'
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        const float2 f = *reinterpret_cast<const float2*>(here.factors + 128 + 8 * j + 2 * t);
        d[j][0] = e[j][0] + f.x * d[j][0], d[j][1] = e[j][1] + f.y * d[j][1];
        d[j][2] = e[j][2] + f.x * d[j][2], d[j][3] = e[j][3] + f.y * d[j][3];
    }
    asOperand<T>(a, d);
    Engine::begin();
    Engine::template columns<T, 8, true, Blocks::kUpper>(d, a, tiles.solve, lane); // dX = T^T dV'
    Engine::commit();
    // the state: exp(G_C) dS' + (exp(G) Q)^T dO - (exp(G) beta K)^T dX
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const float2 f = *reinterpret_cast<const float2*>(here.factors + 64 + 16 * i + 8 * (r >> 1) + 2 * t);
            const float2 x = unpack<T>(dO[i][r]);
            dO[i][r] = pack<T>(x.x * f.x, x.y * f.y);
        }
    scaleAll(state, decay);
    Engine::begin(state);
    Engine::template columns<T, 8 * N, false>(state, dO, tiles.q, lane);
    Engine::commit();
    Engine::template wait<1>(d);
    std::uint32_t b[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const float2 f = *reinterpret_cast<const float2*>(here.factors + 16 * i + 8 * (r >> 1) + 2 * t);
            const int j = 2 * i + (r >> 1), c = 2 * (r & 1);
            b[i][r] = pack<T>(-f.x * d[j][c], -f.y * d[j][c + 1]);
        }
    Engine::begin(state);
    Engine::template columns<T, 8 * N, false>(state, b, tiles.k, lane);
    Engine::commit();
    if (!kStatePass) {
        asOperand<T>(a, d);
        storeImages(a, valueTiles<N>(p.buffers.dWrittenRhs, p.map, here.head, here.chunk) + here.valueBlock * kTileBytes, 0, here.scratch, here.warp, lane);
        scaleColumns(d, here.factors + 192, t); // dV = beta dX
        setPending<T>(pending, d, p, place, here);
        if (N == 4)
            flush<T>(pending, p, here);
    }
    Engine::template wait<0>(state);
    return decay;
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
__device__ __forceinline__ void storeState(float (&state)[8 * N][4], float decay, const ScanParams& p, const Segment& segment, int index, const Here& here, bool statePass, bool atEnd) {
    constexpr int kDim = 64 * N;
    const std::size_t slot = static_cast<std::size_t>(here.head) * p.segments.segments + index;
    if (statePass) {
        if (here.identity) {
            // M = decay I + R. R is what is rounded: M itself, near the identity, would lose more there than the scan loses in a chunk.
            eachStateElement<8 * N, false>(state, here.channel(), kDim, here.lane, [&](float& x, std::size_t at) { x -= at / kDim == at % kDim ? decay : 0.0F; });
            std::uint32_t rounded[4 * N][4];
            asOperand<T>(rounded, state);
            storeImages(rounded, p.transitions + (slot * N + here.valueBlock) * N * kTileBytes, kTileBytes, here.scratch, here.warp, here.lane);
            if (here.valueBlock == 0 && here.warp == 0 && here.lane == 0)
                p.transitionDecay[slot] = decay;
        } else
            eachStateElement<8 * N, false>(state, here.channel(), kDim, here.lane, [&](float& x, std::size_t at) { p.local[slot * kDim * kDim + at] = x; });
    } else if (p.finish && atEnd) {
        float* to = p.finish + (static_cast<std::size_t>(segment.sequence) * p.heads + here.head) * p.headDim * p.headDim;
        eachStateElement<8 * N, true>(state, here.channel(), p.headDim, here.lane, [&](float& x, std::size_t at) { to[at] = x; });
    }
}

} // namespace linnet::kernels::gdr
