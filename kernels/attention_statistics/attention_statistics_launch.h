// What the translation units of the CUDA form share: one for the host side, one for the kernels of each data type.
#pragma once

#include "linnet/kernels/launch.h"

#include <cstddef>
#include <cstdint>

namespace linnet::kernels::statistics {

constexpr int kMaxPassBins = 128;   // of the one-pass kernel
constexpr int kMaxFoldedBins = 896; // of the second pass, unless every distance has a bin: kernel parameters hold their edges
constexpr int kMaxSinkKeys = 16;    // the keys of one tensor core step
constexpr std::int32_t kNoEdge = 0x7fffffff;
constexpr int kRowSums = 6; // distance, distanceNoSink, entropy, entropyRelative, sink, square

struct Strides {
    std::int64_t batch, head, token;
};

// Kernel parameters. "Sequence": a batch entry, or a stretch of tokens between two sequenceStarts.
struct Arguments {
    const void *q, *k, *v;
    void* output;
    Strides qStrides, kStrides, vStrides;
    const std::int32_t* sequenceStarts;
    int sequences, heads, kvHeads, headDim;
    int tokens;    // of a sequence, or of the longest one
    int rowBlocks; // of the longest sequence
    int sinkKeys, firstNoSinkRow;
    float scale;      // log2(e) times the softmax scale: weights are powers of two
    int bins, stages; // bins = 0: the histogram is the second pass's
    float* partials;  // [sequences * heads][rowBlocks][kRowSums + 2 bins]
    float* logSums;   // [2][sequences * heads][tokens], bins = 0 only: log2 of the sum of 2^(scale <q, k>), with and without the sink
    float* masses;    // [2][sequences * heads][tokens], bins = 0 only: mass by distance, summed over the rows
    std::int32_t edges[kMaxPassBins + 2]; // 0, 1, .. and from edges[bins] on kNoEdge
};

// Rows of a block, which is what the workspace depends on.
int blockRows(DataType type, std::int64_t headDim);
// Whether `bins` bins fit the shared memory of a block.
bool fitsOnePass(DataType type, std::int64_t headDim, int bins, int sinkKeys);

// Both passes of one data type: attention_statistics_<type>.cu. Sets arguments.stages.
LaunchError launchBFloat16(Arguments& arguments, void* stream);
LaunchError launchFloat16(Arguments& arguments, void* stream);
LaunchError launchFloat32(Arguments& arguments, void* stream);

} // namespace linnet::kernels::statistics
