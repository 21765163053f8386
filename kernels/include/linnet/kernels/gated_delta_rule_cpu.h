// The gated delta rule on the CPU, token by token in float64: what machines without a GPU run, and what tests compare the GPU with.
#pragma once

#include "linnet/kernels/gated_delta_rule.h"

namespace linnet::kernels {

// As gated_delta_rule.h has them, but all pointers are host pointers, dataType may also be Float32, headDim is any positive number,
// and path, segmentChunks, workspace, saved and stream are not looked at: backward computes forward's states anew. Runs on all
// hardware threads, done when it returns; results are the same bits for any number of threads. States are kept in float64 every
// sqrt(tokens) tokens. Null, or what is wrong with the parameters; throws std::bad_alloc.
LaunchError gatedDeltaRuleForwardCpu(const GatedDeltaRuleParams& params);
LaunchError gatedDeltaRuleBackwardCpu(const GatedDeltaRuleParams& params);
LaunchError gatedDeltaRuleStepCpu(const GatedDeltaRuleParams& params); // tokens = 1; finalState may be initialState

} // namespace linnet::kernels
