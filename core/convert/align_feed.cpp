#include "core/torch_pch.h"

#include "core/convert/align_feed.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace linnet::core {

at::Tensor hostTensor(at::IntArrayRef sizes, at::ScalarType type, at::Device device) {
    return at::empty(sizes, at::TensorOptions(at::kCPU).dtype(type).pinned_memory(device.is_cuda()));
}

AlignGroupShape AlignFeed::onDevice(AlignGroupShape shape, std::int64_t heldOut) {
    shape.windows = 2 * shape.batch + heldOut;
    return shape;
}

AlignFeed::AlignFeed(const AlignGroupShape& shape, std::int64_t heldOut, at::Device device, AlignStep& step)
    : m_shape(shape), m_heldOut(heldOut), m_device(device), m_step(step) {
    for (at::Tensor* t : {&inputs, &targets})
        *t = hostTensor({shape.layers, shape.windows, shape.tokens, shape.linear.hidden}, step.inputs.scalar_type(), device);
    if (!device.is_cuda())
        return;
    m_stream = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, false);
    for (auto* events : {&m_arrived, &m_used})
        for (auto& event : *events)
            event.emplace(device.type());
}

AlignFeed::~AlignFeed() {
    try {
        if (m_stream)
            m_stream->synchronize();
    } catch (const std::exception&) { // a device in error: the exception on its way, or the next call, says so
    }
}

void AlignFeed::begin() {
    const auto from = m_shape.windows - m_heldOut;
    for (const auto& [to, source] : {std::pair(&m_step.inputs, &inputs), std::pair(&m_step.targets, &targets)})
        to->narrow(1, heldOutPlace(0), m_heldOut).copy_(source->narrow(1, from, m_heldOut));
    for (const std::int64_t parity : {0, 1}) // the places' memory may be another's until now
        used(parity);
}

void AlignFeed::ahead(std::int64_t step, const std::vector<std::int64_t>& windows) {
    std::optional<c10::StreamGuard> guard;
    const auto parity = static_cast<std::size_t>(step % 2);
    if (m_stream) {
        m_used[parity]->block(*m_stream);
        guard.emplace(*m_stream);
    }
    for (std::int64_t l = 0; l < m_shape.layers; ++l)
        for (std::int64_t b = 0; b < m_shape.batch; ++b) {
            const auto window = windows[static_cast<std::size_t>(l * m_shape.batch + b)];
            m_step.inputs[l][place(step, b)].copy_(inputs[l][window], true);
            m_step.targets[l][place(step, b)].copy_(targets[l][window], true);
        }
    if (m_stream)
        m_arrived[parity]->record(*m_stream);
}

void AlignFeed::arrived(std::int64_t step) {
    if (m_stream)
        m_arrived[static_cast<std::size_t>(step % 2)]->block(c10::impl::VirtualGuardImpl(m_device.type()).getStream(m_device));
}

void AlignFeed::used(std::int64_t step) {
    if (m_stream)
        m_used[static_cast<std::size_t>(step % 2)]->record(c10::impl::VirtualGuardImpl(m_device.type()).getStream(m_device));
}

} // namespace linnet::core
