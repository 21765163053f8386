// Shape checks shared by the forms of the recurrence; not a public header.
#pragma once

#include "core/mixers/recurrence.h"

namespace linnet::core {

// Throws Failure{Usage} naming the tensor, its shape and the expected one.
void checkRecurrenceInputs(const MixerSpec& spec, const RecurrenceInputs& in);

// Log decay as [B, T, H] or [B, T, H, Dk]; undefined where the spec has no decay.
at::Tensor expandedLogDecay(const MixerSpec& spec, const RecurrenceInputs& in);

} // namespace linnet::core
