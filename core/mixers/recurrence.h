// Three forms of the mixers' recurrence (mixer_spec.h): by token, by chunk and one step. All are differentiable in every input,
// work in the dtype they are given (float32 or float64; fp64 in tests) and throw Failure{Usage} that names a wrong shape. On a GPU the
// chunk and step forms of the delta rule with scalar decay take q, k and v in bfloat16 or float16 too (chunk_kernels.h).
#pragma once

#include "core/mixers/mixer_spec.h"

#include <ATen/ATen.h>

namespace linnet::core {

struct RecurrenceInputs {
    at::Tensor q, k;            // [B, T, H, Dk]; k of unit norm where the spec says so, q carries Dk^-0.5
    at::Tensor v;               // [B, T, H, Dv]
    at::Tensor logDecay;        // [B, T, H]; per channel [B, T, H, Dk]; constant per head also [H]; undefined: no decay. All <= 0
    at::Tensor write;           // [B, T, H]: beta in [0, 1], or the input gate before its exponential; undefined: 1
    at::Tensor state;           // [B, H, Dk, Dv]; undefined: zeros
    at::Tensor normaliserState; // [B, H, Dk], for spec.normaliser other than None; undefined: zeros
    at::Tensor maxState;        // [B, H], MaxStabilised only, >= 0: state and normaliserState are scaled by
                                // exp(-maxState); undefined: zeros
};

struct RecurrenceOutputs {
    at::Tensor o;     // [B, T, H, Dv]
    at::Tensor state; // [B, H, Dk, Dv], after the last token
    at::Tensor normaliserState;
    at::Tensor maxState;
};

// The oracle: the whole algebra, one token after another.
RecurrenceOutputs tokenRecurrence(const MixerSpec& spec, const RecurrenceInputs& in);

// Training and prefill. No or scalar decay, write gate 1 or beta, no normaliser; others throw Failure{Unsupported} that names
// the mixer. T need not be a multiple of the chunk. Only first derivatives.
RecurrenceOutputs chunkwise(const MixerSpec& spec, const RecurrenceInputs& in, int64_t chunk = 64);

// One token of decoding: T must be 1.
RecurrenceOutputs step(const MixerSpec& spec, const RecurrenceInputs& in);

} // namespace linnet::core
