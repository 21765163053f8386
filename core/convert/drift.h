// Against drift: alignment is teacher-forced, so a layer never saw what the converted layers below it do to its inputs. Here the chosen
// layers are visited in order on the student's own inputs.
//     target_l = teacher's attention output + kDriftShare (teacher's stream - student's stream), both before the layer's addition
// (all of the gap overfits; half of it was best on every set measured, tests/study). Tokens weigh as 1 / mean square of the teacher's stream.
#pragma once

#include "core/convert/align_group.h"

namespace linnet::core {

struct DriftJob {
    const Model& teacher;
    const Recipe& recipe; // align.drift: refit | align, align.driftSteps
    const TokenWindows& calibration;
    const Control& control;
    // Of refit, towards the present o_proj, share of the mean diagonal. Unset: 1e-2 after alignment; 1e-3 for a closed form, which has more to
    // gain and less to lose.
    std::optional<double> ridge{};
    // Stage "drift", step 0: refit, loss before and heldOutLoss after (of the held-out windows; of all where nothing is held out), neither
    // weighted. Steps 1 to driftSteps: align.
    std::function<void(const MetricRow&)> onMetric;
    std::function<void(const std::string&)> onLog;
    std::uint64_t budget = 0; // bytes of a GPU above the teacher; what does not fit lies in host memory. 0: all fits
};

// refit: o_proj of each converted layer by ridge regression, streamed normal equations in float64, never [tokens, H D] of all tokens at
// once; kept where it lowers the weighted error of the held-out windows.
// align: then driftSteps more steps of alignment of that layer on those inputs and targets, kDriftRate times the recipe's rates; the best
// state by held-out loss, the one before among them. Locked targets stay as they are.
// `student` holds float32 layers on any device and gets the new ones. Softmax layers and the teacher stay untouched.
void correctDrift(const DriftJob& job, Mixers& student);

} // namespace linnet::core
