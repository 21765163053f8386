// Whether this build has CUDA kernels; where it has none, their launch functions are here and say so.
#include "linnet/kernels/attention_statistics.h"
#include "linnet/kernels/gated_delta_rule.h"
#include "linnet/kernels/launch.h"
#include "linnet/kernels/linear_layer.h"

namespace linnet::kernels {

#ifdef LINNET_HAS_CUDA

bool cudaKernelsBuilt() { return true; }

#else

namespace {
constexpr LaunchError kNone = "this build has no CUDA kernels: it was configured without nvcc";
}

bool cudaKernelsBuilt() { return false; }

std::size_t attentionStatisticsCudaWorkspace(const AttentionStatisticsCudaParams&) { return 0; }
LaunchError attentionStatisticsCuda(const AttentionStatisticsCudaParams&) { return kNone; }

GatedDeltaRuleBytes gatedDeltaRuleBytes(const GatedDeltaRuleParams&) { return {}; }
LaunchError gatedDeltaRuleForward(const GatedDeltaRuleParams&) { return kNone; }
LaunchError gatedDeltaRuleBackward(const GatedDeltaRuleParams&) { return kNone; }
LaunchError gatedDeltaRuleStep(const GatedDeltaRuleParams&) { return kNone; }

LaunchError gatherRows(const GatherRowsParams&) { return kNone; }
std::int64_t shortConvolutionWorkspace(const ShortConvolutionParams&) { return 0; }
LaunchError shortConvolutionForward(const ShortConvolutionParams&) { return kNone; }
LaunchError shortConvolutionBackward(const ShortConvolutionParams&) { return kNone; }
LaunchError gatesForward(const GatesParams&) { return kNone; }
LaunchError gatesBackward(const GatesParams&) { return kNone; }
std::int64_t gatedNormWorkspace(const GatedNormParams&) { return 0; }
LaunchError gatedNormForward(const GatedNormParams&) { return kNone; }
LaunchError gatedNormBackward(const GatedNormParams&) { return kNone; }
LaunchError squareError(const SquareErrorParams&) { return kNone; }
LaunchError alignUpdate(const AlignUpdateParams&) { return kNone; }

#endif

} // namespace linnet::kernels
