#include "core/torch_pch.h"

#include "core/model/vocabulary_scores.h"

namespace linnet::core {
namespace {

at::ScalarType wideType(const at::Tensor& logits) {
    return logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// (z - max) / temperature as a new wide tensor: one pass over narrow logits, which are widened as they are read.
at::Tensor distances(const at::Tensor& z, const at::Tensor& max, double temperature) {
    at::Tensor d = at::sub(z, max);
    return temperature == 1 ? d : d.mul_(1 / temperature);
}

} // namespace

at::Tensor VocabularyScores::shifted(Row& row, const at::Tensor& z, std::int64_t first, at::Tensor& maxRise) const {
    at::Tensor max;
    if (m_options.agreement) {
        auto [best, index] = z.max(-1, true);
        max = best.to(wideType(z));
        index += first;
        // Ties go to the lowest token, as argmax over the whole row would have it.
        row.token = row.max.defined()
                        ? at::where(max > row.max, index, at::where(max == row.max, at::minimum(index, row.token), row.token))
                        : index;
    } else {
        max = z.amax(-1, true).to(wideType(z));
    }
    if (row.max.defined()) {
        max = at::maximum(max, row.max);
        maxRise = max - row.max;
    }
    row.max = max;
    return at::sub(z, max);
}

void VocabularyScores::add(const at::Tensor& student, const at::Tensor& teacher, std::int64_t first) {
    const double scale = 1 / m_options.temperature;
    at::Tensor rise, teacherRise; // undefined at the first piece
    at::Tensor ds = shifted(m_student, student, first, rise);
    if (m_targets.defined()) {
        const auto [index, inside] = targetsWithin(first, student.size(1));
        const at::Tensor found = student.gather(1, index).to(wideType(student)) * inside;
        m_targetLogit = m_targetLogit.defined() ? m_targetLogit + found : found;
    }
    const auto addUp = [&](at::Tensor& sum, const at::Tensor& terms, const at::Tensor& by, double factor) {
        const at::Tensor part = terms.sum(-1, true);
        sum = sum.defined() ? (by * -factor).exp_().mul_(sum).add_(part) : part;
    };
    if (tempered()) {
        if (m_targets.defined())
            addUp(m_plainSum, ds.exp(), rise, 1);
        ds.mul_(scale);
    }
    if (!teacher.defined()) {
        addUp(m_student.sum, ds.exp_(), rise, scale);
        return;
    }
    addUp(m_student.sum, ds.exp(), rise, scale);
    at::Tensor dt = shifted(m_teacher, teacher, first, teacherRise);
    if (tempered())
        dt.mul_(scale);
    const at::Tensor weights = dt.exp();
    // Each model's logits are taken from its own maximum before they are subtracted: a large common offset would cost digits.
    const at::Tensor part = dt.sub_(ds).mul_(weights).sum(-1, true);
    if (m_cross.defined()) { // sum exp(dt) (dt - ds) with the new maxima, from the sums with the old ones
        const at::Tensor shrink = (teacherRise * -scale).exp_();
        m_cross = (rise - teacherRise).mul_(scale).mul_(m_teacher.sum).add_(m_cross).mul_(shrink).add_(part);
    } else {
        m_cross = part;
    }
    addUp(m_teacher.sum, weights, teacherRise, scale);
}

std::pair<at::Tensor, at::Tensor> VocabularyScores::targetsWithin(std::int64_t first, std::int64_t count) const {
    const at::Tensor index = m_targets.unsqueeze(1) - first;
    const at::Tensor inside = (index >= 0).logical_and_(index < count).logical_and_(m_targets.unsqueeze(1) >= 0);
    return {index.clamp(0, count - 1), inside};
}

at::Tensor VocabularyScores::crossEntropy() const {
    const at::Tensor& sum = tempered() ? m_plainSum : m_student.sum;
    const at::Tensor loss = (sum.log() + m_student.max - m_targetLogit).squeeze(1);
    return loss.masked_fill(m_targets < 0, 0);
}

at::Tensor VocabularyScores::kl() const {
    // KL = sum p_t (log p_t - log p_s) with log p = d - log sum.
    return (m_cross / m_teacher.sum + m_student.sum.log() - m_teacher.sum.log()).squeeze(1);
}

at::Tensor VocabularyScores::agreement() const {
    return (m_student.token == m_teacher.token).squeeze(1);
}

void VocabularyScores::replaceByGradient(at::Tensor student, const at::Tensor& teacher, std::int64_t first,
                                         const at::Tensor& klScale, const at::Tensor& crossScale) const {
    const double t = m_options.temperature;
    at::Tensor gradient; // of T^2 KL: T (p_s - p_t); of cross entropy: p_s(T = 1) - [target]
    if (teacher.defined()) {
        at::Tensor factor = klScale * t;
        at::Tensor teacherPart = distances(teacher, m_teacher.max, t).exp_().mul_(factor / m_teacher.sum);
        if (m_targets.defined() && !tempered())
            factor = factor + crossScale; // one softmax serves both
        gradient = distances(student, m_student.max, t).exp_().mul_(factor / m_student.sum).sub_(teacherPart);
    }
    if (m_targets.defined()) {
        if (!gradient.defined() || tempered()) {
            const at::Tensor& sum = tempered() ? m_plainSum : m_student.sum;
            const at::Tensor part = distances(student, m_student.max, 1).exp_().mul_(crossScale / sum);
            gradient = gradient.defined() ? gradient.add_(part) : part;
        }
        const auto [index, inside] = targetsWithin(first, student.size(1));
        gradient.scatter_(1, index, gradient.gather(1, index) - crossScale * inside);
    }
    student.copy_(gradient);
}

} // namespace linnet::core
