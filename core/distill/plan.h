// What a distillation step takes in memory, and how it fits: micro-batches whose gradients add up, and blocks that run again in
// the backward pass in place of keeping their graph.
#pragma once

#include "core/torch_pch.h"

#include "core/io/model_config.h"

#include <set>

namespace linnet::core {

struct DistillBytes {        // beside the teacher's weights, counted in formulas: a bound that is near
    std::uint64_t fixed = 0; // masters, moments, gradients, rounded projections
    // Of one sequence:
    std::uint64_t between = 0;         // hidden states between the blocks and at the end
    std::vector<std::uint64_t> graphs; // of each block from the first converted one on
    std::uint64_t backward = 0;        // beside its graph, while a block's gradient is made
    std::uint64_t loss = 0;            // what the loss would take in one piece
    // Tokens of a micro-batch from which on the device's work, not what comes with each launch, takes the time.
    std::int64_t enoughTokens = 1;
};
// Blocks run in `dtype` on `device`; `converted` must not be empty.
DistillBytes distillBytes(const ModelConfig& config, const std::set<std::int64_t>& converted, std::int64_t seqLen,
                          at::ScalarType dtype, at::Device device);

struct DistillPlan {
    std::int64_t sequences = 1;    // of a micro-batch; the last one may be smaller
    std::int64_t storedBlocks = 0; // of the last blocks: their graphs are kept, the others' made again
    std::int64_t pieceBytes = 0;   // of the loss
    std::uint64_t bytes = 0;       // what a step takes by distillBytes
};
// Micro-batches no larger than helps, all graphs stored where they still have enoughTokens; otherwise graphs are made again,
// and as many stored as fit. memoryBytes 0: no limit known. One sequence with nothing stored is the least: it may take more.
DistillPlan distillPlan(const DistillBytes& bytes, std::int64_t batch, std::int64_t seqLen, std::uint64_t memoryBytes,
                        at::Device device);

} // namespace linnet::core
