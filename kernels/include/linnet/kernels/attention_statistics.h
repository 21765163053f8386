// What each attention head of a softmax teacher looks at: attention distance, entropy, sink / previous-token / self mass, output
// power and the histogram of attention mass by distance, all from one streaming causal pass (no tokens x tokens matrix in memory).
#pragma once

#include <cstdint>
#include <vector>

namespace linnet::kernels {

// Bins of the distance histogram: bin i holds the distances edges[i] .. edges[i + 1] - 1, the last edge is `tokens`.
// Distances 0 to 3 have a bin each, then every octave [4, 8), [8, 16) .. is split into `binsPerOctave` (>= 2) geometric bins (fewer
// where whole distances run out). binsPerOctave = 0 is exact: one bin per distance.
// Throws std::invalid_argument unless tokens >= 1 and binsPerOctave is 0 or at least 2.
std::vector<std::int64_t> distanceEdges(std::int64_t tokens, int binsPerOctave);

// A[t, s] = softmax over s <= t of scale * <q_t, k_s>; query head j reads key/value head j / (heads / kvHeads).
// "NoSink": the first sinkKeys keys dropped, the row renormalised, only rows t >= max(skipRows, sinkKeys) counted.
// Strides are in elements; the innermost dimension (headDim) is contiguous. The CUDA launch takes the same struct and a `void* stream`.
struct AttentionStatisticsParams {
    const float* q = nullptr; // [batch, heads,   tokens, headDim], after RoPE and QK-norm
    const float* k = nullptr; // [batch, kvHeads, tokens, headDim], likewise
    const float* v = nullptr; // [batch, kvHeads, tokens, headDim]
    std::int64_t qBatchStride = 0, qHeadStride = 0, qTokenStride = 0;
    std::int64_t kBatchStride = 0, kHeadStride = 0, kTokenStride = 0;
    std::int64_t vBatchStride = 0, vHeadStride = 0, vTokenStride = 0;
    std::int64_t batch = 0, heads = 0, kvHeads = 0, tokens = 0, headDim = 0;
    float scale = 1.0F; // usually 1 / sqrt(headDim)

    int sinkKeys = 4;
    int skipRows = 8;
    int binsPerOctave = 2; // see distanceEdges

    // Outputs, all required but `output`. [batch, heads]: the mean over the rows t of that sequence, so that the caller forms the mean
    // and the standard error over sequences. NaN where no row counts: entropyRelative and previousMass when tokens = 1, the NoSink
    // values when tokens <= max(skipRows, sinkKeys).
    double* distance = nullptr;        // sum_s A (t - s), tokens
    double* distanceNoSink = nullptr;  // tokens
    double* entropy = nullptr;         // -sum_s A log A, nats
    double* entropyRelative = nullptr; // entropy / log(t + 1), rows t >= 1
    double* sinkMass = nullptr;        // sum of A over the first sinkKeys keys
    double* previousMass = nullptr;    // A[t, t - 1], rows t >= 1
    double* selfMass = nullptr;        // A[t, t]
    double* outputSquare = nullptr;    // (A V)^2, mean over rows and headDim: the square of the output's RMS
    double* histogram = nullptr;       // [batch, heads, bins], bins = distanceEdges(..).size() - 1; sums to 1
    double* histogramNoSink = nullptr; // [batch, heads, bins]; sums to 1
    float* output = nullptr;           // optional: A V, [batch, tokens, heads, headDim], contiguous

    int threads = 0; // worker threads, the calling one included; 0 = one per hardware thread. Results are the same bits for any number.
    // Called on the calling thread at least every 100 ms with the fraction done (0 .. 1); false stops early. May be null, may throw.
    bool (*keepGoing)(void* user, double fraction) = nullptr;
    void* keepGoingUser = nullptr;
};

// Returns true when finished, false when keepGoing stopped it (the outputs are then incomplete).
// Throws std::invalid_argument for shapes or pointers that cannot be, std::bad_alloc, and whatever keepGoing throws.
bool attentionStatistics(const AttentionStatisticsParams& params);

} // namespace linnet::kernels
