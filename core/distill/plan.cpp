#include "core/torch_pch.h"

#include "core/distill/plan.h"

#include "core/distill/repeatable_attention.h"

#include <numeric>

namespace linnet::core {
namespace {

constexpr std::uint64_t kChunk = 64;    // tokens of a chunk of the recurrence
constexpr std::int64_t kLossPasses = 5; // float32 tensors [rows, V] beside the logits (chunked_kl.cpp)
constexpr std::int64_t kPieceBytes = std::int64_t{256} << 20, kLeastPieceBytes = std::int64_t{4} << 20;

// A micro-batch's size. CPU: products of 512 rows are as fast a row as larger ones, and a stop is heard soon. GPU: a block's
// launches take the host about 4 ms there and back, in which a GPU multiplies kLaunchWork weights and tokens (H200, measured).
constexpr std::int64_t kCpuTokens = 512, kGpuTokens = 2048, kMostGpuTokens = 16384;
constexpr std::uint64_t kLaunchWork = 300'000'000'000;

struct Widths {
    std::uint64_t hidden, inner, heads, query, key, headDim; // query = H D, key = K D
    std::uint64_t bytes;                                     // of a value between products
    bool half, kernels;                                      // 16 bits a value; kernels of the recurrence take it
};

bool kernelsTake(std::int64_t headDim) { // as chunkKernelsTake()
    return headDim == 64 || headDim == 96 || headDim == 128 || headDim == 256;
}

Widths widthsOf(const ModelConfig& c, at::ScalarType dtype, at::Device device) {
    const auto of = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
    const bool half = at::elementSize(dtype) == 2;
    return {of(c.hiddenSize),
            of(c.intermediateSize),
            of(c.heads),
            of(c.heads * c.headDim),
            of(c.kvHeads * c.headDim),
            of(c.headDim),
            at::elementSize(dtype),
            half,
            device.is_cuda() && half && kernelsTake(c.headDim)};
}

// What a token's graph holds in one block, input included: block input, hidden states after the mixer, gate, up and SiLU(gate).
std::uint64_t feedForwardGraph(const Widths& w) {
    return w.bytes * (2 * w.hidden + 3 * w.inner);
}

std::uint64_t softmaxGraph(const Widths& w) { // fused projection, q and k rotated, v where it is copied, output
    return feedForwardGraph(w) + w.bytes * (3 * w.query + 4 * w.key) + 8 * w.heads;
}

std::uint64_t linearGraph(const Widths& w) {
    // Three convolutions keep 3 tensors each, norm and gate 5, all in float32; the projections their input.
    std::uint64_t bytes = w.bytes * (w.hidden + w.query) + 4 * 14 * w.query + 4 * 8 * w.heads;
    if (w.kernels) // q, k, v and o; V', states, 128 x 64 values a chunk
        bytes += 2 * (5 * w.query + w.query * w.headDim / kChunk + 2 * kChunk * w.heads);
    else // seven like q, states, three triangles a chunk
        bytes += 4 * (7 * w.query + w.query * w.headDim / kChunk + 3 * kChunk * w.heads);
    return feedForwardGraph(w) + bytes;
}

// Gradients and scratch of one block's backward pass beside its graph, a token's. The MLP's part of the graph is freed before
// the mixer's turn.
std::uint64_t softmaxBackward(const Widths& w) {
    return w.bytes * (3 * w.hidden + std::max(5 * w.inner, 6 * w.query));
}
std::uint64_t linearBackward(const Widths& w) {
    const std::uint64_t mixer = (w.kernels ? 4 * 8 : 4 * 20) * w.query + 4 * 4 * kChunk * w.heads,
                        freed = w.bytes * 3 * w.inner;
    return std::max(softmaxBackward(w), mixer - std::min(mixer, freed));
}

std::uint64_t layerParameters(const Widths& w) {
    return 5 * w.query * w.hidden + 2 * w.heads * w.hidden + 3 * 4 * w.query + 2 * w.heads + w.headDim;
}

// No more than one of the graphs that are made again exists at a time, and none while those stored do.
std::uint64_t planned(const DistillBytes& bytes, std::int64_t sequences, std::int64_t storedBlocks, std::int64_t pieceBytes) {
    const auto n = static_cast<std::uint64_t>(sequences);
    const auto stored = std::accumulate(bytes.graphs.end() - storedBlocks, bytes.graphs.end(), std::uint64_t{0});
    const auto graphs = std::max(stored, *std::max_element(bytes.graphs.begin(), bytes.graphs.end()));
    return bytes.fixed + n * (bytes.between + graphs) +
           std::max(std::min(static_cast<std::uint64_t>(pieceBytes), n * bytes.loss), n * bytes.backward);
}

} // namespace

DistillBytes distillBytes(const ModelConfig& config, const std::set<std::int64_t>& converted, std::int64_t seqLen,
                          at::ScalarType dtype, at::Device device) {
    const Widths w = widthsOf(config, dtype, device);
    const auto tokens = (static_cast<std::uint64_t>(seqLen) + kChunk - 1) / kChunk * kChunk,
               layers = static_cast<std::uint64_t>(converted.size());
    DistillBytes bytes;
    bytes.fixed = layerParameters(w) * (layers * (4 * 4 + (w.half ? w.bytes : 0)) + 2 * 4);
    if (device.is_cuda()) // the plain one, or what FlashAttention's ordered sums take
        bytes.fixed += static_cast<std::uint64_t>(kRepeatableAttentionBytes);
    for (auto layer = *converted.begin(); layer < config.layers; ++layer)
        bytes.graphs.push_back(tokens * (converted.contains(layer) ? linearGraph(w) : softmaxGraph(w)));
    // the teacher's and the student's last hidden states, their gradient wide and narrow
    bytes.between = tokens * w.hidden * (w.bytes * (bytes.graphs.size() + 6) + 2 * 4);
    bytes.backward = tokens * linearBackward(w);
    bytes.loss = static_cast<std::uint64_t>(seqLen * config.vocabSize) * (2 * w.bytes + 4 * kLossPasses);
    const auto launched = static_cast<std::int64_t>(kLaunchWork / (layerParameters(w) + 3 * w.hidden * w.inner));
    bytes.enoughTokens = device.is_cuda() ? std::clamp(launched, kGpuTokens, kMostGpuTokens) : 1;
    return bytes;
}

DistillPlan distillPlan(const DistillBytes& bytes, std::int64_t batch, std::int64_t seqLen, std::uint64_t memoryBytes,
                        at::Device device) {
    const auto all = std::ssize(bytes.graphs);
    const auto useful = device.is_cuda() ? 2 * bytes.enoughTokens : kCpuTokens;
    const auto most = std::clamp<std::int64_t>(useful / seqLen, 1, batch);
    DistillPlan plan{most, all, kPieceBytes, 0};
    if (memoryBytes > 0)
        plan.pieceBytes = std::clamp(static_cast<std::int64_t>(memoryBytes / 8), kLeastPieceBytes, kPieceBytes);
    const auto fits = [&](std::int64_t sequences, std::int64_t stored) {
        return memoryBytes == 0 || planned(bytes, sequences, stored, plan.pieceBytes) <= memoryBytes;
    };
    const auto shrink = [&](std::int64_t sequences, std::int64_t stored) {
        while (sequences > 1 && !fits(sequences, stored))
            --sequences;
        return sequences;
    };
    const auto enough = std::min(most, (bytes.enoughTokens + seqLen - 1) / seqLen);
    plan.sequences = shrink(most, all);
    if (plan.sequences < enough || !fits(plan.sequences, all)) {
        plan.sequences = shrink(enough, 0);
        plan.storedBlocks = 0;
        while (plan.storedBlocks < all && fits(plan.sequences, plan.storedBlocks + 1))
            ++plan.storedBlocks;
    }
    const auto pieces = (batch + plan.sequences - 1) / plan.sequences;
    plan.sequences = (batch + pieces - 1) / pieces; // as even as can be
    plan.bytes = planned(bytes, plan.sequences, plan.storedBlocks, plan.pieceBytes);
    return plan;
}

} // namespace linnet::core
