// A student on the study's evaluation slice, compared with the teacher.
#pragma once

#include "core/evaluate/evaluate_model.h"

namespace linnet::core {

// Windows of one document are alike, so that standard errors come from blocks of neighbouring windows, each about a document, not from
// windows: of the difference of both models' losses, which is the logarithm of the ratio of their perplexities.
class StudyMeasure {
public:
    StudyMeasure(const Model& teacher, const TokenWindows& windows, std::int64_t blockWindows, const Control& control);

    Json measure(const Mixers& mixers) const; // loss, perplexity, ratio, log_ratio, log_ratio_se, kl, kl_se, top1, predictions, seconds
    std::size_t blocks() const { return m_blocks.size(); }

private:
    struct Block {
        TokenWindows windows;
        TeacherReference reference;
        double teacherLoss = 0;
    };
    const Model& m_teacher;
    const Control& m_control;
    std::vector<Block> m_blocks;
};

} // namespace linnet::core
