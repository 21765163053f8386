// Causal attention of whole sequences whose gradient has the same bits each time: torch's own backward passes on a GPU add up
// their parts in any order. Not a public header.
#pragma once

#include "core/torch_pch.h"

namespace linnet::core {

// q [B, H, T, D] over k, v [B, K, T, D], scale D^-0.5 -> [B, T, H D]. Differentiable. Half precision on a GPU runs in
// FlashAttention; all else takes attend()'s forward pass and a backward pass of batched products, some heads at a time.
inline constexpr std::int64_t kRepeatableAttentionBytes = std::int64_t{128} << 20; // what the latter takes at a time
at::Tensor repeatableAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

} // namespace linnet::core
