// One micro-batch of distillation: the loss between teacher and student, and its gradient in the student's masters.
#pragma once

#include "core/distill/chunked_kl.h"
#include "core/model/model.h"

namespace linnet::core {

struct DistillStudent {
    const Model& teacher;
    const MixerSpec& spec;
    std::map<std::int64_t, LinearLayer> masters; // float32 leaves that ask for gradients, by layer
};

// ids [B, T] on the teacher's device. Adds share * d loss / d masters to the masters' grad(); nothing else gets a gradient.
// Blocks before the first converted one run once for teacher and student. The graphs of the last `storedBlocks` blocks are kept
// for the backward pass, the others are made again from their inputs, to the same bits. Checks `control` before each block and
// piece.
DistillLoss addDistillGradients(const DistillStudent& student, const at::Tensor& ids, const DistillOptions& options,
                                double share, std::int64_t storedBlocks, const Control& control);

} // namespace linnet::core
