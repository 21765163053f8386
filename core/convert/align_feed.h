// Inputs and targets of a group that does not fit on the device: they lie in host memory, pinned where the device is a GPU, and a step's
// windows are copied a step ahead, on a stream of their own. The device holds two batches of places (of even and odd steps) and the
// held-out windows. The same values reach the same products: the numbers are those of a group that fits.
#pragma once

#include "core/convert/align_step.h"

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <array>

namespace linnet::core {

at::Tensor hostTensor(at::IntArrayRef sizes, at::ScalarType type, at::Device device); // pinned where the device is a GPU

class AlignFeed {
public:
    // `shape`: of the whole group, windows of the calibration set included. `step` has the places: its shape is onDevice(shape, heldOut).
    AlignFeed(const AlignGroupShape& shape, std::int64_t heldOut, at::Device device, AlignStep& step);
    ~AlignFeed(); // waits for copies on their way

    static AlignGroupShape onDevice(AlignGroupShape shape, std::int64_t heldOut);
    // Of layer `layer`'s inputs and targets on the device.
    std::int64_t place(std::int64_t step, std::int64_t sequence) const { return step % 2 * m_shape.batch + sequence; }
    std::int64_t heldOutPlace(std::int64_t window) const { return 2 * m_shape.batch + window; }

    at::Tensor inputs, targets; // [L, windows, T, hidden] in host memory: to be filled

    void begin();                                                            // held-out windows, when all is filled; then step after step:
    void ahead(std::int64_t step, const std::vector<std::int64_t>& windows); // [L B] of a step, before the one before it is queued
    void arrived(std::int64_t step);                                         // before the step is queued: it waits for its windows
    void used(std::int64_t step);                                            // after

private:
    AlignGroupShape m_shape;
    std::int64_t m_heldOut;
    at::Device m_device;
    AlignStep& m_step;
    std::optional<c10::Stream> m_stream; // of copies; none on the CPU
    std::array<std::optional<c10::Event>, 2> m_arrived, m_used; // by a step's parity
};

} // namespace linnet::core
