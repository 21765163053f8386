#include "app/panels/memory_gauge.h"

namespace linnet::app {
namespace {

QString gibibytes(std::uint64_t bytes) {
    const double value = static_cast<double>(bytes) / (1 << 30);
    return QLocale::c().toString(value, 'f', value < 9.95 ? 1 : 0);
}

} // namespace

MemoryGauge::MemoryGauge(Session* session) {
    setObjectName(QStringLiteral("memoryGauge"));
    setAccessibleName(tr("Memory"));
    connect(session, &Session::memoryChanged, this, [this, session] { show(*session->memory()); });
}

void MemoryGauge::show(const core::DeviceMemory& memory) {
    const auto device = QString::fromStdString(memory.device);
    setText(tr("%1 %2 of %3 GiB, peak %4").arg(device, gibibytes(memory.own), gibibytes(memory.total), gibibytes(memory.peak)));
    setToolTip(tr("%1: %2 GiB taken by this window (%3 GiB at most so far), %4 GiB by all programs, of %5 GiB")
                   .arg(device, gibibytes(memory.own), gibibytes(memory.peak), gibibytes(memory.used), gibibytes(memory.total)));
}

} // namespace linnet::app
