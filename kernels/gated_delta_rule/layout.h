// Where the kernels of the gated delta rule put what they hand to each other. Chunks hold 64 tokens of one sequence (the last one
// fewer); buffers are head-major: tile (head, chunk) has index head * chunks + chunk. Dp is headDim rounded up to a multiple of 64
// that is a power of two; values beyond headDim are zero.
#pragma once

#include "../cuda/device.h"

#include "linnet/kernels/gated_delta_rule.h"

namespace linnet::kernels::gdr {

constexpr int kChunk = 64;
constexpr int kTileBytes = 64 * 64 * 2;
constexpr int kGateFloats = 4 * kChunk;

// A tile image: 64 rows of 64 two-byte values, rows of 128 bytes whose 16-byte pieces are permuted by the row (the 128-byte swizzle of
// TMA and wgmma), so that it can be copied to shared memory as it is. Shared tiles have the same form and are aligned to 1024 bytes.
__host__ __device__ inline int imageOffset(int row, int column) { // bytes
    return row * 128 + ((((column >> 3) ^ row) & 7) << 4) + (column & 7) * 2;
}

__host__ __device__ inline int paddedDim(int headDim) { return headDim <= 64 ? 64 : headDim <= 128 ? 128 : 256; }

struct ChunkPlace {
    int sequence;
    int batch;   // row of [batch, ...]
    int token;   // first token, counted in that row
    int count;   // tokens, 0: nothing here (the grid's bound is too large for these sequences)
};

// Chunks of fixed-length sequences follow from arithmetic, those of variable length are read from a table made on the device.
struct ChunkMap {
    const ChunkPlace* table = nullptr;  // variable length: [chunks]
    const int* firstChunk = nullptr;    // variable length: [sequences + 1]
    int chunks = 0;                     // bound over all sequences
    int chunksPerSequence = 0, tokens = 0;
    __device__ ChunkPlace place(int chunk) const {
        if (table)
            return table[chunk];
        const int sequence = chunk / chunksPerSequence, first = (chunk - sequence * chunksPerSequence) * kChunk;
        return {sequence, sequence, first, tokens - first < kChunk ? tokens - first : kChunk};
    }
    __device__ int first(int sequence) const { return table ? firstChunk[sequence] : sequence * chunksPerSequence; }
    __device__ int end(int sequence) const { return table ? firstChunk[sequence + 1] : (sequence + 1) * chunksPerSequence; }
};

// Pointers into `saved` (or, in inference, into the workspace). H = query heads, C = map.chunks, N = Dp / 64.
struct ChunkBuffers {
    // solve_attention [H][C][2] tile images: T = (I + A)^-1 with A = strict lower of beta_i k_i.k_j exp(G_i - G_j), rows i;
    // P = scale q_i.k_j exp(G_i - G_j) for j <= i, else 0. With k (and q) normalised where asked. Rows and columns of tokens beyond
    // the chunk's count are 0 in P and those of the identity in T.
    unsigned char* solveAttention = nullptr;
    // gates [H][C][4][64]: G = cumulative log decay within the chunk times log2(e) (so exp(G_i - G_j) = exp2 of the difference),
    // beta (at least 1e-12, for Float16 2^-14), query factor (scale, over q's norm where asked), key factor (1, or over k's norm).
    // Beyond the count: G of the last token, beta 0, factors 0.
    float* gates = nullptr;
    unsigned char* written = nullptr;  // V' transposed: [H][C][N] images, rows = value channel, columns = token
    unsigned char* states = nullptr;   // S before the chunk: [H][C][N][N] images [value block][key block], rows = value, columns = key
    unsigned char* dWrittenRhs = nullptr; // dX transposed, X = beta (v - exp(G) k S), V' = T X: like `written`
    unsigned char* dStates = nullptr;     // gradient of S after the chunk: like `states`
};

__device__ inline unsigned char* tilePair(const ChunkBuffers& b, const ChunkMap& m, int head, int chunk) {
    return b.solveAttention + (static_cast<std::size_t>(head) * m.chunks + chunk) * 2 * kTileBytes;
}
__device__ inline float* gatesOf(const ChunkBuffers& b, const ChunkMap& m, int head, int chunk) {
    return b.gates + (static_cast<std::size_t>(head) * m.chunks + chunk) * kGateFloats;
}
template <int N> __device__ unsigned char* valueTiles(unsigned char* base, const ChunkMap& m, int head, int chunk) {
    return base + (static_cast<std::size_t>(head) * m.chunks + chunk) * N * kTileBytes;
}
template <int N> __device__ unsigned char* stateTiles(unsigned char* base, const ChunkMap& m, int head, int chunk) {
    return base + (static_cast<std::size_t>(head) * m.chunks + chunk) * N * N * kTileBytes;
}

// Launches, each in its own file; T = BFloat16 or Float16 is chosen inside from p.dataType, N from p.headDim.
// prepare.cu: solveAttention and gates from q, k, g, beta.
LaunchError launchPrepare(const GatedDeltaRuleParams& p, const ChunkMap& map, const ChunkBuffers& buffers);
// gradients.cu: dq, dk, dg, dbeta from q, k, dO and all buffers. With several query heads per key head, dk (and dv, written by the
// reverse scan) come per query head in dkPerHead, dvPerHead ([B, T, H, D], dataType) and are summed in float32 into p.dk, p.dv.
// p.dALog and p.dDtBias are summed over tokens in a fixed order from gatePartials ([H][C][2] floats).
struct GradientScratch {
    void *dkPerHead = nullptr, *dvPerHead = nullptr; // null where heads == kvHeads: dk and dv are written directly
    float* gatePartials = nullptr;
};
LaunchError launchGradients(const GatedDeltaRuleParams& p, const ChunkMap& map, const ChunkBuffers& buffers, const GradientScratch& scratch);

} // namespace linnet::kernels::gdr
