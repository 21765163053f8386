// The gated delta rule on a GPU: kernels/gated_delta_rule behind LibTorch's tensors and its automatic differentiation.
#pragma once

#include "core/mixers/recurrence.h"

namespace linnet::core {

// Delta rule with scalar, constant or no decay, write gate beta or 1, no normaliser; q, k and v in bfloat16 or float16 on a GPU with
// head dimension 64, 96, 128 or 256 (keys and values alike). Gates and states may be of any floating type; they are taken in float32.
bool chunkKernelsTake(const MixerSpec& spec, const RecurrenceInputs& in);

// As chunkwise(): differentiable in every input; o in q's dtype, state in float32. k and v may have fewer heads than q (query head j
// reads key/value head j / r). Throws Failure{Usage} for wrong shapes, Failure{Internal} where the launch fails.
RecurrenceOutputs chunkKernels(const MixerSpec& spec, const RecurrenceInputs& in);

// One token without gradients: as step().
RecurrenceOutputs stepKernel(const MixerSpec& spec, const RecurrenceInputs& in);

} // namespace linnet::core
