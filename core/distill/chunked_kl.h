// The loss of distillation over a full vocabulary (method.md section 7), with its gradient, in pieces of tokens and vocabulary:
//     loss = klWeight * T^2 * mean KL(teacher || student at temperature T) + crossEntropyWeight * mean -log p(target)
// Means are over tokens, weighted. Memory beside inputs and gradients stays below `pieceBytes`, whatever rows and V are: the
// logits of some rows are made in the models' dtype, softmax runs over them in float32 a piece of the vocabulary at a time
// (core/model/vocabulary_scores.h), and their gradient takes the student logits' place before the next rows' turn.
#pragma once

#include "core/torch_pch.h"

#include "core/base/control.h"

namespace linnet::core {

struct DistillInput {
    at::Tensor hidden, head;               // student: [rows, hidden], [V, hidden]; gradients go to those that ask for one
    at::Tensor teacherHidden, teacherHead; // [rows, teacher's hidden], [V, teacher's hidden]; undefined: cross entropy alone
    at::Tensor targets;                    // int64 [rows], below 0: that row has no target; undefined: KL alone
    at::Tensor rowWeights;                 // float [rows] >= 0, of both means; undefined: 1
};

struct DistillOptions {
    double temperature = 1;
    double klWeight = 1, crossEntropyWeight = 0; // a term of weight 0 is measured, but has no part in loss and gradient
    std::int64_t pieceBytes = std::int64_t{256} << 20;
};

struct DistillLoss { // scalars in float32 (float64 for float64 inputs), on the device
    at::Tensor loss; // differentiable in hidden and head; backward only scales gradients made with the loss
    at::Tensor kl, crossEntropy; // the two means, T^2 included, without graph; undefined without teacher or targets; 0 where no
                                 // row has weight
};

// Checks `control` between pieces of rows; nothing waits for the device. Throws Failure{Usage} for shapes that don't fit.
DistillLoss distillLoss(const DistillInput& input, const DistillOptions& options, const Control& control = {});

// Rows of one piece and tokens of one piece of its vocabulary, from the bound in bytes.
struct PieceSizes {
    std::int64_t rows = 0, tokens = 0;
};
PieceSizes pieceSizes(std::int64_t rows, std::int64_t vocabulary, std::int64_t logitBytes, std::int64_t wideBytes,
                      std::int64_t pieceBytes);

} // namespace linnet::core
