// Softmax attention over grouped heads: whole sequences, pieces over a cache, single tokens, sliding windows with sinks.
#pragma once

#include "core/model/cache.h"

namespace linnet::core {

// q [B, H, T, D] over k, v [B, K, n, D], scale D^-0.5 -> heads' outputs [B, T, H D]. Keys and values aren't copied per query
// head. Differentiable. Windows are worked off in tiles of queries, so no [T, T] mask exists; a GPU takes all else in half
// precision through flash attention.
at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Visibility& visible);

// Bool [queries, keys]: which of the keys at `keyPositions` a query at each of `queryPositions` sees.
at::Tensor visibleKeys(const at::Tensor& queryPositions, const at::Tensor& keyPositions, std::int64_t window, std::int64_t sinks);

} // namespace linnet::core
