// Softmax over a vocabulary whose logits come in pieces: cross entropy, KL, agreement and the gradient of the logits. Running
// maxima and sums (online softmax, arXiv 1805.02867) stand in for the normalised rows, so no [R, V] float tensor is needed.
#pragma once

#include "core/torch_pch.h"

namespace linnet::core {

// Sums are kept in float32 (float64 for float64 logits) whatever the logits' type is.
class VocabularyScores {
public:
    struct Options {
        double temperature = 1;    // of KL; cross entropy is always taken at 1
        bool agreement = false;    // keeps both models' most likely tokens
    };
    // targets int64 [R] or undefined (no cross entropy); those below 0 count as 0.
    VocabularyScores(Options options, at::Tensor targets) : m_options(options), m_targets(std::move(targets)) {}

    // Logits [R, n] of the tokens first, first + 1, ..; each token once, in any order. teacher: likewise, or undefined always.
    void add(const at::Tensor& student, const at::Tensor& teacher, std::int64_t first);

    at::Tensor crossEntropy() const; // [R] -log p(target), nats; 0 where the target is below 0
    at::Tensor kl() const;           // [R] KL(teacher || student) of logits / temperature, nats; exactly 0 for equal logits
    at::Tensor agreement() const;    // bool [R]: the most likely token is the same

    // After the last add: the same student logits (any piece) become, in place, the gradient of
    //     sum over rows of klScale * temperature^2 * kl + crossScale * crossEntropy      with scales [R, 1].
    void replaceByGradient(at::Tensor student, const at::Tensor& teacher, std::int64_t first, const at::Tensor& klScale,
                           const at::Tensor& crossScale) const;

private:
    struct Row {                      // all [R, 1]
        at::Tensor max, sum;          // sum of exp((z - max) / temperature)
        at::Tensor token;             // argmax, where agreement is asked for
    };
    // Takes the piece's maxima into `row` and returns z - max; `shrink` is exp((old max - new max) / temperature).
    at::Tensor shifted(Row& row, const at::Tensor& z, std::int64_t first, at::Tensor& maxRise) const;
    bool tempered() const { return m_options.temperature != 1; }
    std::pair<at::Tensor, at::Tensor> targetsWithin(std::int64_t first, std::int64_t count) const; // index, 1 where it is inside

    Options m_options;
    at::Tensor m_targets;
    Row m_student, m_teacher;
    at::Tensor m_plainSum;    // the student's sum at temperature 1 [R, 1], where that is another one
    at::Tensor m_cross;       // sum over tokens of exp(dt) (dt - ds), d = (z - max) / temperature [R, 1]
    at::Tensor m_targetLogit; // [R, 1]
};

} // namespace linnet::core
