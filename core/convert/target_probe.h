// What a head's targets do to it, before anything runs: the closed form's own residual of one head, at once (torch-free).
#pragma once

#include "core/convert/convert.h"

#include <memory>

namespace linnet::core {

struct ProbedOption { // torch-free twin of HeadTrial
    double halfLife = 0, beta = 0;
    bool histogramTaps = false, foldRope = false, centredKeys = false;
    double residual = 0;
};
struct ProbedHead {
    ProbedOption chosen;             // with the recipe's targets of this head
    ProbedOption automatic;          // without them
    std::vector<ProbedOption> tried;
};

// Keeps one layer's captures and what it has measured: a new value of a head takes a third of a second on a CPU, another head a second, another
// layer a teacher forward up to it.
class TargetProbe {
public:
    TargetProbe(ModelPtr teacher, const TokenWindows& calibration); // the first recipe.closedForm.sequences windows are used
    ~TargetProbe();
    Result<ProbedHead> probe(const Recipe& recipe, std::int64_t layer, std::int64_t head, const Control& control = {});

    struct State;
    State& state() { return *m_state; } // core/convert/target_probe_state.h: what is measured of a layer serves other questions too

private:
    std::unique_ptr<State> m_state;
};

} // namespace linnet::core
