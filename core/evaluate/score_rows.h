// From final hidden states to losses, a piece of rows at a time.
#pragma once

#include "core/model/model.h"

namespace linnet::core {

struct RowScores {        // float64 on the host, [rows]; the last two only with a teacher
    at::Tensor loss;      // -log p(target)
    at::Tensor kl;        // KL(teacher || model), nats
    at::Tensor agreement; // 1 where both have the same most likely token
};

// hidden [rows, hidden size] and targets int64 [rows], both on the model's device; teacherHidden [rows, teacher's hidden size]
// or undefined, teacherHead [V, teacher's hidden size] or undefined (the model's own head). Softmax in float32
// (core/model/vocabulary_scores.h). Checks `control` between pieces; at most two [piece, V] tensors exist at a time.
RowScores scoreRows(const Model& model, const at::Tensor& hidden, const at::Tensor& targets, const at::Tensor& teacherHidden,
                    const at::Tensor& teacherHead, const Control& control);

// Sequences of `length` tokens that one forward takes: bounds its memory.
std::int64_t forwardBatch(const Model& model, std::int64_t length);

// Standard error of `total(values) / total(weights)` over units, each with its sum and its weight (a ratio of means; with equal
// weights the sample standard deviation over sqrt(n)). NaN with one unit.
double ratioStandardError(const std::vector<double>& sums, const std::vector<double>& weights);

void checkTokenIds(const Model& model, const std::vector<TokenId>& ids); // throws Usage naming the first outside the vocabulary

} // namespace linnet::core
