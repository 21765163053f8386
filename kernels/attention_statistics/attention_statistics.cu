// Attention statistics on a GPU: what attention_statistics_cpu.cpp computes, in one pass beside a causal attention forward.
//
// Maths, for row t with scores x_s = scale log2(e) <q_t, k_s>, s <= t, and S sink keys. Over the keys s >= S, with a running maximum M:
//   w_s = 2^(x_s - M), and the sums of w_s, w_s (x_s - M), w_s (t - s), w_s v_s, and of w_s by distance bin. The sink's scores are kept.
//   At the end the sink's keys join under the joint maximum: all sums are multiplied with f = 2^(M - M'), and A_s = f w_s / Z.
//   A sink that takes nearly everything so cannot underflow what is left, and nothing is ever subtracted.
//   Entropy = ln 2 (log2 Z - (sum of weight x power) / Z). Self and previous mass are the first two bins.
// Bins: keys come from the diagonal back to the first, so a row's bins fill one after the other, and each (row, bin) is written once, when
//   its edge is passed. A tile that no edge crosses costs a row sum that is needed anyway; one that is crossed costs two operations
//   a weight and edge, but only for the eight rows whose edge lies in the tile.
// Rescaling: nobody looks for maxima but in a warp's first tile. A later tile is weighed with M as it is; if its weights add up to more
//   than 256, its scores are formed again, M raised, and everything so far rescaled (outputs, sums, finished bins). That is rare.
// Layout: a block has 128 query rows (64 for float32), a warp 32 of them as two fragments (16 where registers forbid), keys and values in
//   tiles of 32 (16 where shared memory forbids) through two or three stages of cp.async. Scores stay in registers and become the weights'
//   fragments.
// Parallel plan: blocks are (row block, head), long ones first. Each leaves its rows' sums (float) in the workspace; a second kernel adds
//   them in a fixed order in double. More bins than fit: the pass leaves log sums, and attention_statistics_distances.cuh follows.
// Limits: as in the header. 2^x and the sums are float32; weights meet v in 16 bits (two 16-bit parts for float32 inputs).

#include "attention_statistics_kernels.cuh"
#include "linnet/kernels/attention_statistics.h"

#include <algorithm>

namespace linnet::kernels {

namespace statistics {
namespace {

constexpr int kFinishThreads = 256;

struct Outputs {
    double *distance, *distanceNoSink, *entropy, *entropyRelative, *sinkMass, *previousMass, *selfMass, *outputSquare, *histogram,
        *histogramNoSink;
};

// Rows that count, of one sequence. 0 / 0 is NaN on purpose: "no row counts" must not read as a value.
struct Counts {
    double rows, laterRows, noSinkRows;
    __device__ Counts(const Arguments& g, int index) {
        const int sequence = index / g.heads;
        const int length = g.sequenceStarts ? min(g.tokens, g.sequenceStarts[sequence + 1] - g.sequenceStarts[sequence]) : g.tokens;
        rows = length;
        laterRows = max(0, length - 1);
        noSinkRows = max(0, length - g.firstNoSinkRow);
    }
};

// One block a head: every value is the sum over the row blocks, in order.
__global__ void finishStatistics(const __grid_constant__ Arguments g, const __grid_constant__ Outputs out, int rowsOfBlock) {
    const int index = static_cast<int>(blockIdx.x), values = kRowSums + 2 * g.bins;
    const Counts counts(g, index);
    const int blocks = (static_cast<int>(counts.rows) + rowsOfBlock - 1) / rowsOfBlock;
    const float* partials = g.partials + std::int64_t{index} * g.rowBlocks * values;
    for (int i = static_cast<int>(threadIdx.x); i < values; i += kFinishThreads) {
        double sum = 0.0;
#pragma unroll 8
        for (int block = 0; block < blocks; ++block)
            sum += static_cast<double>(partials[std::int64_t{block} * values + i]);
        const int bin = i - kRowSums, noSinkBin = bin - g.bins;
        if (i == 0)
            out.distance[index] = sum / counts.rows;
        else if (i == 1)
            out.distanceNoSink[index] = sum / counts.noSinkRows;
        else if (i == 2)
            out.entropy[index] = sum / counts.rows;
        else if (i == 3)
            out.entropyRelative[index] = sum / counts.laterRows;
        else if (i == 4)
            out.sinkMass[index] = sum / counts.rows;
        else if (i == 5)
            out.outputSquare[index] = sum / (counts.rows * g.headDim);
        else if (noSinkBin >= 0)
            out.histogramNoSink[std::int64_t{index} * g.bins + noSinkBin] = sum / counts.noSinkRows;
        else
            out.histogram[std::int64_t{index} * g.bins + bin] = sum / counts.rows;
        if (bin == 0)
            out.selfMass[index] = sum / counts.rows;
        if (bin == 1 || (bin == 0 && g.bins == 1))
            out.previousMass[index] = (bin == 1 ? sum : 0.0) / counts.laterRows;
    }
}

struct Edges {
    int bins; // 0: a bin for every distance
    std::int32_t edges[kMaxFoldedBins + 1];
};

// The second pass's masses by distance into bins; a block is a head.
__global__ void foldDistances(const __grid_constant__ Arguments g, const __grid_constant__ Outputs out, const __grid_constant__ Edges e) {
    const int index = static_cast<int>(blockIdx.x);
    const std::int64_t heads = std::int64_t{g.sequences} * g.heads;
    const Counts counts(g, index);
    const float* mass = g.masses + std::int64_t{index} * g.tokens;
    const float* noSinkMass = mass + heads * g.tokens;
    const int bins = e.bins > 0 ? e.bins : g.tokens;
    for (int bin = static_cast<int>(threadIdx.x); bin < bins; bin += kFinishThreads) {
        double sum = 0.0, noSinkSum = 0.0;
        for (int d = e.bins > 0 ? e.edges[bin] : bin, end = e.bins > 0 ? e.edges[bin + 1] : bin + 1; d < end; ++d) {
            sum += static_cast<double>(mass[d]);
            noSinkSum += static_cast<double>(noSinkMass[d]);
        }
        out.histogram[std::int64_t{index} * bins + bin] = sum / counts.rows;
        out.histogramNoSink[std::int64_t{index} * bins + bin] = noSinkSum / counts.noSinkRows;
    }
    if (threadIdx.x == 0) {
        out.selfMass[index] = static_cast<double>(mass[0]) / counts.rows;
        out.previousMass[index] = (g.tokens > 1 ? static_cast<double>(mass[1]) : 0.0) / counts.laterRows;
    }
}

template <class F> auto withType(DataType type, F&& f) {
    if (type == DataType::Float32)
        return f(float());
    if (type == DataType::Float16)
        return f(Float16());
    return f(BFloat16());
}

} // namespace

int blockRows(DataType type, std::int64_t headDim) {
    return withType(type, [&](auto value) {
        return withHeadDim(headDim, [](auto dim) { return PassShape<decltype(value), decltype(dim)::value>::Tiles::kRows; });
    });
}

bool fitsOnePass(DataType type, std::int64_t headDim, int bins, int sinkKeys) {
    return bins <= kMaxPassBins && withType(type, [&](auto value) {
               return withHeadDim(headDim, [&](auto dim) {
                   return PassMemory<typename PassShape<decltype(value), decltype(dim)::value>::Tiles>(2, bins, sinkKeys).bytes <=
                          sharedLimits().block;
               });
           });
}

namespace {

using Params = AttentionStatisticsCudaParams;

std::int64_t sequencesOf(const Params& p) {
    return p.sequenceStarts ? p.sequences : p.batch;
}
std::int64_t longestOf(const Params& p) {
    return p.sequenceStarts ? p.maxTokens : p.tokens;
}

// Null, or why the launch refuses. Everything but the pointers, so that the workspace can be asked for before there are any.
const char* refusal(const Params& p) {
    constexpr std::int64_t kMost = 1 << 30;
    const auto size = [](std::int64_t x) { return x >= 1 && x <= kMost; };
    if (p.dataType != DataType::Float32 && p.dataType != DataType::Float16 && p.dataType != DataType::BFloat16)
        return "attentionStatisticsCuda: unknown data type";
    if (!size(p.batch) || !size(p.heads) || !size(p.kvHeads) || !size(p.tokens) || !size(p.headDim))
        return "attentionStatisticsCuda: every size must be at least 1";
    if (p.sequenceStarts && (p.batch != 1 || !size(p.sequences) || !size(p.maxTokens) || p.maxTokens > p.tokens))
        return "attentionStatisticsCuda: sequenceStarts needs batch = 1, sequences >= 1 and 1 <= maxTokens <= tokens";
    if (p.heads % p.kvHeads != 0)
        return "attentionStatisticsCuda: heads must be a multiple of kvHeads";
    if (p.headDim % 8 != 0 || p.headDim > 256)
        return "attentionStatisticsCuda: headDim must be a multiple of 8 up to 256";
    if (p.sinkKeys < 0 || p.sinkKeys > kMaxSinkKeys || p.skipRows < 0)
        return "attentionStatisticsCuda: sinkKeys must be 0 to 16 and skipRows not negative";
    if (!(p.scale >= 0.0F && p.scale <= 1e6F))
        return "attentionStatisticsCuda: scale must be 0 to 1e6";
    if (p.binsPerOctave < 0 || p.binsPerOctave == 1)
        return "attentionStatisticsCuda: binsPerOctave must be 0 or at least 2";
    if (p.binsPerOctave > kMaxFoldedBins ||
        (p.binsPerOctave > 0 && std::ssize(distanceEdges(longestOf(p), p.binsPerOctave)) - 1 > kMaxFoldedBins))
        return "attentionStatisticsCuda: more than 896 bins; use binsPerOctave = 0 and add up";
    constexpr std::int64_t kMostBlocks = 0x7fffffff;
    if (const auto rowBlocks = (longestOf(p) + 63) / 64;
        sequencesOf(p) > kMostBlocks / p.heads || sequencesOf(p) * p.heads > kMostBlocks / rowBlocks)
        return "attentionStatisticsCuda: more than 2^31 - 1 blocks of rows";
    const std::int64_t unit = p.dataType == DataType::Float32 ? 4 : 8;
    for (const auto stride : {p.qBatchStride, p.qHeadStride, p.qTokenStride, p.kBatchStride, p.kHeadStride, p.kTokenStride, p.vBatchStride,
                              p.vHeadStride, p.vTokenStride})
        if (stride % unit != 0)
            return "attentionStatisticsCuda: strides must be multiples of 16 bytes";
    return nullptr;
}

const char* pointerRefusal(const Params& p) {
    if (!p.q || !p.k || !p.v || !p.workspace)
        return "attentionStatisticsCuda: q, k, v and the workspace must be given";
    for (const void* x : {p.q, p.k, p.v, static_cast<const void*>(p.workspace), static_cast<const void*>(p.output)})
        if (reinterpret_cast<std::uintptr_t>(x) % 16 != 0)
            return "attentionStatisticsCuda: q, k, v, output and the workspace must be aligned to 16 bytes";
    if (!p.distance || !p.distanceNoSink || !p.entropy || !p.entropyRelative || !p.sinkMass || !p.previousMass || !p.selfMass ||
        !p.outputSquare || !p.histogram || !p.histogramNoSink)
        return "attentionStatisticsCuda: every output but `output` must be given";
    return nullptr;
}

// The sizes as the kernels want them, and where the workspace's parts lie. `edges`: of the histogram that is asked for.
struct Plan {
    Arguments g = {};
    Edges folded = {};
    std::size_t bytes = 0;

    explicit Plan(const Params& p) {
        constexpr float kSmallest = 1e-20F; // a scale of 0 must still tell masked scores from others
        g.q = p.q, g.k = p.k, g.v = p.v, g.output = p.output;
        g.qStrides = {p.qBatchStride, p.qHeadStride, p.qTokenStride};
        g.kStrides = {p.kBatchStride, p.kHeadStride, p.kTokenStride};
        g.vStrides = {p.vBatchStride, p.vHeadStride, p.vTokenStride};
        g.sequenceStarts = p.sequenceStarts;
        g.sequences = static_cast<int>(sequencesOf(p));
        g.heads = static_cast<int>(p.heads), g.kvHeads = static_cast<int>(p.kvHeads), g.headDim = static_cast<int>(p.headDim);
        g.tokens = static_cast<int>(longestOf(p));
        const int rows = blockRows(p.dataType, p.headDim);
        g.rowBlocks = (g.tokens + rows - 1) / rows;
        g.sinkKeys = p.sinkKeys, g.firstNoSinkRow = std::max(p.skipRows, p.sinkKeys);
        g.scale = std::max(kSmallest, p.scale * 1.44269504F);
        if (p.binsPerOctave > 0) {
            const auto edges = distanceEdges(g.tokens, p.binsPerOctave);
            const int bins = static_cast<int>(edges.size()) - 1;
            const bool onePass = fitsOnePass(p.dataType, p.headDim, bins, p.sinkKeys);
            g.bins = onePass ? bins : 0;
            folded.bins = bins;
            for (int i = 0; i <= bins; ++i)
                folded.edges[i] = static_cast<std::int32_t>(edges[static_cast<std::size_t>(i)]);
        }
        std::fill(std::begin(g.edges), std::end(g.edges), kNoEdge);
        std::copy_n(folded.edges, g.bins, g.edges);
        const std::size_t heads = static_cast<std::size_t>(sequencesOf(p) * p.heads), perRow = heads * static_cast<std::size_t>(g.tokens);
        g.logSums = static_cast<float*>(p.workspace);
        g.masses = g.logSums + 2 * perRow;
        g.partials = g.masses + 2 * perRow;
        bytes = 4 * (4 * perRow + heads * static_cast<std::size_t>(g.rowBlocks) * static_cast<std::size_t>(kRowSums + 2 * folded.bins));
    }
};

} // namespace
} // namespace statistics

std::size_t attentionStatisticsCudaWorkspace(const AttentionStatisticsCudaParams& params) {
    return statistics::refusal(params) ? 0 : statistics::Plan(params).bytes;
}

LaunchError attentionStatisticsCuda(const AttentionStatisticsCudaParams& p) {
    using namespace statistics;
    if (const auto error = refusal(p))
        return error;
    if (const auto error = pointerRefusal(p))
        return error;
    Plan plan(p);
    Arguments& g = plan.g;
    const auto pass = p.dataType == DataType::Float32 ? launchFloat32 : (p.dataType == DataType::Float16 ? launchFloat16 : launchBFloat16);
    if (const auto error = pass(g, p.stream))
        return error;
    const Outputs out{p.distance,     p.distanceNoSink, p.entropy,      p.entropyRelative, p.sinkMass,
                      p.previousMass, p.selfMass,       p.outputSquare, p.histogram,       p.histogramNoSink};
    const dim3 heads(static_cast<unsigned>(g.sequences * g.heads));
    if (const auto error =
            device::launch(finishStatistics, heads, dim3(kFinishThreads), 0, p.stream, g, out, blockRows(p.dataType, p.headDim)))
        return error;
    return g.bins > 0 ? nullptr : device::launch(foldDistances, heads, dim3(kFinishThreads), 0, p.stream, g, out, plan.folded);
}

} // namespace linnet::kernels
