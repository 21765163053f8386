#include "core/torch_pch.h"

#include "core/evaluate/score_rows.h"

#include <limits>
#include <numeric>

namespace linnet::core {
namespace {

// Rows of logits made at once: a product large enough to run at speed, a tensor small enough for memory (CPU: 32 MiB of
// float32).
std::int64_t pieceRows(const Model& model) {
    const std::int64_t elements = std::int64_t{1} << (model.device().is_cuda() ? 26 : 23);
    return std::clamp<std::int64_t>(elements / model.config().vocabSize, 32, 4096);
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
        auto student = model.logits(hidden.narrow(0, from, rows)).to(at::kFloat);
        const auto wanted = student.gather(-1, targets.narrow(0, from, rows).unsqueeze(-1)).squeeze(-1);
        const auto studentSum = student.logsumexp(-1, true);
        loss.push_back(onHost(studentSum.squeeze(-1) - wanted));
        if (!teacherHidden.defined())
            continue;
        const auto teacherRows = teacherHidden.narrow(0, from, rows);
        auto teacher =
            (teacherHead.defined() ? at::linear(teacherRows, teacherHead) : model.logits(teacherRows)).to(at::kFloat);
        agreement.push_back(onHost(student.argmax(-1) == teacher.argmax(-1)));
        // Both normalised before they are subtracted: logits may share a large offset that would cost digits.
        const auto teacherSum = teacher.logsumexp(-1, true);
        teacher.sub_(teacherSum);
        student.sub_(studentSum).neg_().add_(teacher); // log p_teacher - log p_student
        kl.push_back(onHost(teacher.exp_().mul_(student).sum(-1)));
    }
    RowScores scores;
    scores.loss = at::cat(loss);
    if (teacherHidden.defined())
        scores.kl = at::cat(kl), scores.agreement = at::cat(agreement);
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
