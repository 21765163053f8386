// A stream beside the default one, which no graph can be captured on. Not a public header.
#pragma once

#include "core/torch_pch.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace linnet::core {

// On a GPU the current stream, until destruction: one of its own, ordered after what was queued before and before what comes after.
class SideStream {
public:
    explicit SideStream(at::Device device) {
        if (!device.is_cuda())
            return;
        const c10::impl::VirtualGuardImpl guard(device.type());
        m_before = guard.getStream(device);
        const c10::Stream side = guard.getStreamFromGlobalPool(device, true);
        c10::Event ready(device.type());
        ready.record(*m_before);
        ready.block(side);
        m_guard.emplace(side);
    }
    ~SideStream() {
        if (!m_before)
            return;
        try {
            const c10::impl::VirtualGuardImpl guard(m_before->device_type());
            c10::Event done(m_before->device_type());
            done.record(guard.getStream(m_before->device()));
            m_guard.reset();
            done.block(*m_before);
        } catch (const std::exception&) { // a device in error: the exception on its way, or the next call, says so
        }
    }
    SideStream(const SideStream&) = delete;
    SideStream& operator=(const SideStream&) = delete;

private:
    std::optional<c10::Stream> m_before;
    std::optional<c10::StreamGuard> m_guard;
};

} // namespace linnet::core
