#include "core/torch_pch.h"

#include "core/model/cache.h"

namespace linnet::core {

Cache::Cache(const Model& model) : m_layers(static_cast<std::size_t>(model.config().layers)) {}

// Keys that no later query can see make room, but only when as many as a window's worth have gathered, so that a decoding step
// moves nothing on most tokens.
void Cache::dropOld(Layer& layer, std::int64_t window, std::int64_t sinks) {
    const std::int64_t gone = layer.count - sinks - window;
    if (gone < 2 * window)
        return;
    for (at::Tensor* t : {&layer.k, &layer.v}) // source and target don't overlap: gone >= window
        t->narrow(2, sinks, window).copy_(t->narrow(2, layer.count - window, window));
    layer.count = sinks + window;
    layer.dropped += gone;
}

void Cache::reserve(Layer& layer, const at::Tensor& like, std::int64_t tokens) {
    const std::int64_t needed = layer.count + tokens, capacity = layer.k.defined() ? layer.k.size(2) : 0;
    if (needed <= capacity)
        return;
    const std::int64_t grown = std::max<std::int64_t>({needed, 2 * capacity, 64});
    for (at::Tensor* t : {&layer.k, &layer.v}) {
        at::Tensor larger = at::empty({like.size(0), like.size(1), grown, like.size(3)}, like.options());
        if (layer.count > 0)
            larger.narrow(2, 0, layer.count).copy_(t->narrow(2, 0, layer.count));
        *t = larger;
    }
}

Cache::KeysValues Cache::append(std::int64_t index, const at::Tensor& k, const at::Tensor& v, std::int64_t window, std::int64_t sinks) {
    Layer& layer = m_layers[static_cast<std::size_t>(index)];
    if (window > 0)
        dropOld(layer, window, sinks);
    const std::int64_t tokens = k.size(2);
    reserve(layer, k, tokens);
    layer.k.narrow(2, layer.count, tokens).copy_(k);
    layer.v.narrow(2, layer.count, tokens).copy_(v);
    layer.count += tokens;
    return {layer.k.narrow(2, 0, layer.count), layer.v.narrow(2, 0, layer.count), layer.dropped};
}

std::uint64_t Cache::bytes() const {
    std::uint64_t total = 0;
    for (const Layer& layer : m_layers)
        for (const at::Tensor* t : {&layer.k, &layer.v, &layer.linear.conv, &layer.linear.recurrent})
            total += t->defined() ? t->nbytes() : 0;
    return total;
}

} // namespace linnet::core
