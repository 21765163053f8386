// Blocks of a student in training, differentiable in hidden states and masters; not a public header.
#pragma once

#include "core/model/model.h"

namespace linnet::core {

// The type that a converted layer's projections run in: the teacher's on a GPU, float32 on the CPU.
at::ScalarType distillType(const Model& teacher);

at::Tensor convertedBlock(const Model& teacher, const LayerWeights& weights, const MixerSpec& spec, const LinearLayer& masters,
                          const at::Tensor& hidden);
at::Tensor keptBlock(const Model& teacher, const LayerWeights& weights, const Mixer* mixer, const at::Tensor& hidden);

} // namespace linnet::core
