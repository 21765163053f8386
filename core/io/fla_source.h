// A flash-linear-attention checkpoint (its GatedDeltaNetForCausalLM with hybrid `attn`) under the names of a teacher with converted layers: what
// core/export/fla_folder writes, or fla and flame trained, taken back.
#pragma once

#include "core/io/weight_source.h"

#include <map>
#include <set>

namespace linnet::core {

struct FlaLayout {
    std::int64_t layers = 0, width = 0;           // of a linear layer: heads * head_dim
    std::set<std::int64_t> attention;             // softmax layers; the others are linear
    std::map<std::int64_t, std::int64_t> windows; // those of them that see the last `window` keys only
    bool shortConvolution = true;
    bool qkvBias = false;
    bool qkNorm = false; // of softmax layers: Taylor-Calibrate's student class passes it on (core/model/open_student.h)
};

// Names are changed, values are not. Added: four taps [0, 0, 0, 1] where a linear layer has no short convolution (the same function), and
// model.layers.N.sliding_window (no sinks). A tensor that has no place in the layout is Unsupported, one that is not there Malformed.
std::shared_ptr<const WeightSource> flaSource(std::shared_ptr<const WeightSource> stored, const FlaLayout& layout);

} // namespace linnet::core
