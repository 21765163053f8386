// What generation carries from token to token: keys and values of softmax layers, states of linear layers.
#pragma once

#include "core/model/model.h"

#include <vector>

namespace linnet::core {

// Which keys a query sees. Positions count from the start of the sequence.
struct Visibility {
    std::int64_t queryStart = 0; // position of the first query
    std::int64_t window = 0;     // 0: every key up to the query's own; else the last `window` of them, itself included,
    std::int64_t sinks = 0;      //    and the first `sinks`
    std::int64_t dropped = 0;    // key i stands at position i for i < sinks, else at i + dropped (keys a window has left behind)
};

// Key/value memory grows by doubling; nothing is moved but then. A sliding-window layer keeps its sinks and at most three windows.
class Cache {
public:
    explicit Cache(const Model& model);

    std::int64_t length() const { return m_length; } // tokens seen
    void advance(std::int64_t tokens) { m_length += tokens; }

    struct KeysValues {
        at::Tensor k, v; // [B, K, n, D], views of the cache; valid until the next append to this layer
        std::int64_t dropped = 0;
    };
    // Appends k, v [B, K, T, D] and returns all that is kept, the new ones last. window 0: everything is kept.
    KeysValues append(std::int64_t layer, const at::Tensor& k, const at::Tensor& v, std::int64_t window = 0, std::int64_t sinks = 0);
    LinearState& linear(std::int64_t layer) { return m_layers[static_cast<std::size_t>(layer)].linear; }
    std::uint64_t bytes() const; // allocated

private:
    struct Layer {
        at::Tensor k, v; // [B, K, capacity, D]
        std::int64_t count = 0, dropped = 0;
        LinearState linear;
    };
    static void dropOld(Layer& layer, std::int64_t window, std::int64_t sinks);
    static void reserve(Layer& layer, const at::Tensor& like, std::int64_t tokens);
    std::vector<Layer> m_layers;
    std::int64_t m_length = 0;
};

} // namespace linnet::core
