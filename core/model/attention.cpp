#include "core/torch_pch.h"

#include "core/model/attention.h"

namespace linnet::core {
namespace {

constexpr std::int64_t kWindowTile = 256; // queries of one tile of a sliding window

// One key/value head and its G query heads become one batch entry; keys are broadcast over G by a stride of 0.
at::Tensor scaledAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::optional<at::Tensor>& mask,
                           bool causal) {
    const std::int64_t batch = q.size(0), heads = q.size(1), tokens = q.size(2), kvHeads = k.size(1), group = heads / kvHeads;
    const auto spread = [&](const at::Tensor& t) {
        return t.reshape({batch * kvHeads, 1, t.size(2), t.size(3)}).expand({-1, group, -1, -1});
    };
    const at::Tensor out = at::scaled_dot_product_attention(q.reshape({batch * kvHeads, group, tokens, q.size(3)}), spread(k),
                                                            spread(v), mask, 0.0, causal);
    return out.reshape({batch, heads, tokens, v.size(3)});
}

// Torch's fused kernels (FlashAttention, cuDNN) take these as they lie, grouped heads included, without a mask.
bool flashTakes(const at::Tensor& q) {
    const bool half = q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf;
    return q.is_cuda() && half && q.size(3) % 8 == 0 && q.size(3) <= 256;
}

// The last query sees every key: `window` and sinks leave nothing out.
bool seesAll(const Visibility& visible, std::int64_t tokens) {
    return visible.window == 0 || (visible.dropped == 0 && visible.queryStart + tokens - visible.window <= visible.sinks);
}

// Causal with the last query at the last key. Whole sequences: torch picks the fastest kernel. Pieces over a cache and single
// tokens: flash attention itself, whose causal mask ends at the last key; cuDNN would plan anew for every number of keys.
at::Tensor flashAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    const bool grouped = q.size(1) != k.size(1), one = q.size(2) == 1;
    if (q.size(2) == k.size(2) && !one)
        return at::scaled_dot_product_attention(q, k, v, {}, 0.0, true, {}, grouped);
    return std::get<0>(at::_scaled_dot_product_flash_attention(q, k, v, 0.0, !one));
}

// One query per head over all keys: two batched products, keys and values are read once per key/value head.
at::Tensor oneToken(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    const std::int64_t batch = q.size(0), heads = q.size(1), dim = q.size(3), kvHeads = k.size(1), keys = k.size(2);
    const double scale = 1 / std::sqrt(static_cast<double>(dim));
    const at::Tensor scores = at::bmm((q * scale).reshape({batch * kvHeads, heads / kvHeads, dim}),
                                      k.reshape({batch * kvHeads, keys, dim}).transpose(1, 2));
    const at::Tensor weights = scores.scalar_type() == at::kFloat ? scores.softmax(-1) : scores.softmax(-1, at::kFloat).to(v.scalar_type());
    return at::bmm(weights, v.reshape({batch * kvHeads, keys, dim})).reshape({batch, heads, 1, dim});
}

at::Tensor additive(const at::Tensor& visible, at::ScalarType dtype) {
    const auto options = visible.options().dtype(dtype);
    return at::where(visible, at::zeros({}, options), at::full({}, -std::numeric_limits<double>::infinity(), options));
}

// Queries [first, first + count) of q: their sinks and the keys that one of them has in its window.
at::Tensor windowTile(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Visibility& visible, std::int64_t first,
                      std::int64_t count) {
    const std::int64_t from = visible.queryStart + first, to = from + count; // positions
    const std::int64_t end = to - visible.dropped;                           // key index after the last query's own
    const std::int64_t sinks = std::min(visible.sinks, end);
    const std::int64_t local = std::clamp(from - visible.window + 1 - visible.dropped, sinks, end);
    const auto keysOf = [&](const at::Tensor& t) {
        const at::Tensor recent = t.narrow(2, local, end - local);
        if (local == sinks)
            return t.narrow(2, 0, end);
        return sinks == 0 ? recent : at::cat({t.narrow(2, 0, sinks), recent}, 2);
    };
    const auto options = q.options().dtype(at::kLong);
    const at::Tensor keyPositions = at::cat({at::arange(sinks, options), at::arange(local, end, options) + visible.dropped});
    const at::Tensor seen = visibleKeys(at::arange(from, to, options), keyPositions, visible.window, visible.sinks);
    return scaledAttention(q.narrow(2, first, count), keysOf(k), keysOf(v), additive(seen, q.scalar_type()), false);
}

at::Tensor windowAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Visibility& visible) {
    std::vector<at::Tensor> tiles;
    for (std::int64_t first = 0; first < q.size(2); first += kWindowTile)
        tiles.push_back(windowTile(q, k, v, visible, first, std::min(kWindowTile, q.size(2) - first)));
    return tiles.size() == 1 ? tiles.front() : at::cat(tiles, 2);
}

} // namespace

at::Tensor visibleKeys(const at::Tensor& queryPositions, const at::Tensor& keyPositions, std::int64_t window, std::int64_t sinks) {
    const at::Tensor query = queryPositions.unsqueeze(1), key = keyPositions.unsqueeze(0);
    const at::Tensor causal = key <= query;
    return window == 0 ? causal : causal.logical_and((key > query - window).logical_or(key < sinks));
}

at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Visibility& visible) {
    const std::int64_t tokens = q.size(2), keys = k.size(2);
    at::Tensor heads;
    if (flashTakes(q) && seesAll(visible, tokens)) {
        heads = flashAttention(q, k, v);
    } else if (visible.window > 0) {
        heads = windowAttention(q, k, v, visible);
    } else if (tokens == 1) {
        heads = oneToken(q, k, v);
    } else if (keys == tokens) {
        heads = scaledAttention(q, k, v, std::nullopt, true);
    } else {
        const auto options = q.options().dtype(at::kLong);
        const at::Tensor seen = visibleKeys(at::arange(keys - tokens, keys, options), at::arange(keys, options), 0, 0);
        heads = scaledAttention(q, k, v, additive(seen, q.scalar_type()), false);
    }
    return heads.transpose(1, 2).reshape({q.size(0), tokens, -1});
}

} // namespace linnet::core
