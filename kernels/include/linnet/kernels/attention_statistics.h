// What each attention head of a softmax teacher looks at: attention distance, entropy, sink / previous-token / self mass, output
// power and the histogram of attention mass by distance, all from one streaming causal pass (no tokens x tokens matrix in memory).
#pragma once

#include "linnet/kernels/launch.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace linnet::kernels {

// Bins of the distance histogram: bin i holds the distances edges[i] .. edges[i + 1] - 1, the last edge is `tokens`.
// Distances 0 to 3 have a bin each, then every octave [4, 8), [8, 16) .. is split into `binsPerOctave` (>= 2) geometric bins (fewer
// where whole distances run out). binsPerOctave = 0 is exact: one bin per distance.
// Throws std::invalid_argument unless tokens >= 1 and binsPerOctave is 0 or at least 2.
std::vector<std::int64_t> distanceEdges(std::int64_t tokens, int binsPerOctave);

// What the CPU and the CUDA form share.
// A[t, s] = softmax over s <= t of scale * <q_t, k_s>; query head j reads key/value head j / (heads / kvHeads).
// "NoSink": the first sinkKeys keys dropped, the row renormalised, only rows t >= max(skipRows, sinkKeys) counted.
// Strides are in elements; the innermost dimension (headDim) is contiguous.
struct AttentionStatisticsShape {
    std::int64_t qBatchStride = 0, qHeadStride = 0, qTokenStride = 0;
    std::int64_t kBatchStride = 0, kHeadStride = 0, kTokenStride = 0;
    std::int64_t vBatchStride = 0, vHeadStride = 0, vTokenStride = 0;
    std::int64_t batch = 0, heads = 0, kvHeads = 0, tokens = 0, headDim = 0;
    float scale = 1.0F; // usually 1 / sqrt(headDim)

    int sinkKeys = 4;
    int skipRows = 8;
    int binsPerOctave = 2; // see distanceEdges

    // Outputs, all required. [batch, heads]: the mean over the rows t of that sequence, so that the caller forms the mean
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
};

struct AttentionStatisticsParams : AttentionStatisticsShape {
    const float* q = nullptr; // [batch, heads,   tokens, headDim], after RoPE and QK-norm
    const float* k = nullptr; // [batch, kvHeads, tokens, headDim], likewise
    const float* v = nullptr; // [batch, kvHeads, tokens, headDim]
    float* output = nullptr;  // optional: A V, [batch, tokens, heads, headDim], contiguous

    int threads = 0; // worker threads, the calling one included; 0 = one per hardware thread. Results are the same bits for any number.
    // Called on the calling thread at least every 100 ms with the fraction done (0 .. 1); false stops early. May be null, may throw.
    bool (*keepGoing)(void* user, double fraction) = nullptr;
    void* keepGoingUser = nullptr;
};

// Returns true when finished, false when keepGoing stopped it (the outputs are then incomplete).
// Throws std::invalid_argument for shapes or pointers that cannot be, std::bad_alloc, and whatever keepGoing throws.
bool attentionStatistics(const AttentionStatisticsParams& params);

// The same on a GPU of compute capability 8.0 or later; every pointer is a device pointer.
// headDim a multiple of 8 up to 256 (64, 80, 96, 128 and 256 lose nothing to padding), sinkKeys up to 16, 0 <= scale <= 1e6; strides
// multiples of 16 bytes, q, k and v aligned to 16 bytes. Up to 128 bins (8 an octave up to 32768 tokens) come from the one pass, if they
// fit the multiprocessor; more, and binsPerOctave = 0, cost a second pass over q and k. At most 896 bins unless binsPerOctave = 0.
// Against the CPU form: about 1e-4 relative in float32, in 16 bits on the same rounded inputs the same but for outputSquare and `output`
// (the weights are rounded to that type before they meet v). Non-finite scores give NaN, and those beyond 1e7 numbers of little worth.
struct AttentionStatisticsCudaParams : AttentionStatisticsShape {
    const void *q = nullptr, *k = nullptr, *v = nullptr; // [batch, heads or kvHeads, tokens, headDim] in dataType, any strides as above
    void* output = nullptr;                              // optional: A V, [batch, tokens, heads, headDim] in dataType, contiguous
    // Sequences of different lengths: batch = 1 and sequence n is tokens sequenceStarts[n] .. sequenceStarts[n + 1] - 1 of it. The outputs
    // are then [sequences, heads (, bins)] with the bins of `maxTokens`, the longest length or more; an empty sequence gives NaN.
    const std::int32_t* sequenceStarts = nullptr; // device, [sequences + 1]; null: every sequence has `tokens` tokens
    std::int64_t sequences = 0, maxTokens = 0;    // read with sequenceStarts only
    void* workspace = nullptr;                    // attentionStatisticsCudaWorkspace(params) bytes, aligned to 16
    void* stream = nullptr;                       // cudaStream_t
    DataType dataType = DataType::BFloat16;
};

// Bytes of scratch: 4 floats a row of a head and 6 + 2 bins floats for every 64 or 128 rows.
// 0 for parameters that the launch refuses.
std::size_t attentionStatisticsCudaWorkspace(const AttentionStatisticsCudaParams& params);

// Queues the work on the stream; the same bits every time.
LaunchError attentionStatisticsCuda(const AttentionStatisticsCudaParams& params);

} // namespace linnet::kernels
