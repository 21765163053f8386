#include "core/torch_pch.h"

#include "core/evaluate/score_rows.h"

#include "core/model/vocabulary_scores.h"

#include <limits>
#include <numeric>

namespace linnet::core {
namespace {

// Logits made at once: a product large enough to run at speed, a tensor small enough for memory (CPU: 32 MiB of float32).
std::int64_t pieceElements(const Model& model) {
    return std::int64_t{1} << (model.device().is_cuda() ? 26 : 23);
}

std::int64_t pieceRows(const Model& model) {
    return std::clamp<std::int64_t>(pieceElements(model) / model.config().vocabSize, 32, 4096);
}

// Softmax over a part of them at a time: on a CPU its passes stay in the cache, on a GPU launches cost more than passes.
std::int64_t softmaxPieces(const Model& model) {
    return model.device().is_cuda() ? 2 : 8;
}

at::Tensor onHost(const at::Tensor& x) {
    return x.to(at::kCPU, at::kDouble);
}

} // namespace

RowScores scoreRows(const Model& model, const at::Tensor& hidden, const at::Tensor& targets, const at::Tensor& teacherHidden,
                    const at::Tensor& teacherHead, const Control& control) {
    std::vector<at::Tensor> loss, kl, agreement;
    const auto step = pieceRows(model);
    for (std::int64_t from = 0; from < hidden.size(0); from += step) {
        control.checkpoint();
        const auto rows = std::min(step, hidden.size(0) - from);
        const auto student = model.logits(hidden.narrow(0, from, rows));
        at::Tensor teacher;
        if (teacherHidden.defined()) {
            const auto teacherRows = teacherHidden.narrow(0, from, rows);
            teacher = teacherHead.defined() ? at::linear(teacherRows, teacherHead) : model.logits(teacherRows);
        }
        VocabularyScores scores({.agreement = teacher.defined()}, targets.narrow(0, from, rows));
        const auto tokens = std::max<std::int64_t>(1, pieceElements(model) / softmaxPieces(model) / rows);
        for (std::int64_t first = 0; first < student.size(-1); first += tokens) {
            const auto piece = [&](const at::Tensor& z) {
                return z.defined() ? z.narrow(-1, first, std::min(tokens, z.size(-1) - first)) : at::Tensor();
            };
            scores.add(piece(student), piece(teacher), first);
        }
        loss.push_back(scores.crossEntropy());
        if (!teacher.defined())
            continue;
        agreement.push_back(scores.agreement());
        kl.push_back(scores.kl());
    }
    RowScores scores;
    scores.loss = onHost(at::cat(loss)); // a GPU is waited for once
    if (teacherHidden.defined())
        scores.kl = onHost(at::cat(kl)), scores.agreement = onHost(at::cat(agreement));
    return scores;
}

std::int64_t forwardBatch(const Model& model, std::int64_t length) {
    const std::int64_t tokens = model.device().is_cuda() || model.streamed() ? 16384 : 512; // CPU: progress every second or so
    return std::max<std::int64_t>(1, tokens / length);
}

double ratioStandardError(const std::vector<double>& sums, const std::vector<double>& weights) {
    const auto n = static_cast<double>(sums.size());
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    const double ratio = std::accumulate(sums.begin(), sums.end(), 0.0) / total;
    double squares = 0;
    for (std::size_t i = 0; i < sums.size(); ++i)
        squares += std::pow(sums[i] - ratio * weights[i], 2);
    return sums.size() < 2 ? std::numeric_limits<double>::quiet_NaN() : std::sqrt(n / (n - 1) * squares) / total;
}

void checkTokenIds(const Model& model, const std::vector<TokenId>& ids) {
    const auto vocabulary = model.config().vocabSize;
    for (const TokenId id : ids)
        if (id < 0 || id >= vocabulary)
            fail(ErrorCode::Usage, "token id " + std::to_string(id) + " is outside the vocabulary of " +
                                       model.files().path.string() + " (" + std::to_string(vocabulary) + " tokens)");
}

} // namespace linnet::core
