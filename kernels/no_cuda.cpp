// Whether this build has CUDA kernels; where it has none, their launch functions are here and say so.
#include "linnet/kernels/gated_delta_rule.h"
#include "linnet/kernels/launch.h"

namespace linnet::kernels {

#ifdef LINNET_HAS_CUDA

bool cudaKernelsBuilt() { return true; }

#else

namespace {
constexpr LaunchError kNone = "this build has no CUDA kernels: it was configured without nvcc";
}

bool cudaKernelsBuilt() { return false; }

GatedDeltaRuleBytes gatedDeltaRuleBytes(const GatedDeltaRuleParams&) { return {}; }
LaunchError gatedDeltaRuleForward(const GatedDeltaRuleParams&) { return kNone; }
LaunchError gatedDeltaRuleBackward(const GatedDeltaRuleParams&) { return kNone; }
LaunchError gatedDeltaRuleStep(const GatedDeltaRuleParams&) { return kNone; }

#endif

} // namespace linnet::kernels
