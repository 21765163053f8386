#include "app/panels/memory_gauge.h"

namespace linnet::app {
namespace {

QString gigabytes(std::uint64_t bytes) {
    const double value = static_cast<double>(bytes) / 1e9;
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
    setText(tr("%1 %2 of %3 GB, peak %4").arg(device, gigabytes(memory.own), gigabytes(memory.total), gigabytes(memory.peak)));
    setToolTip(tr("%1: %2 GB taken by this window (%3 GB at most so far), %4 GB by all programs, of %5 GB")
                   .arg(device, gigabytes(memory.own), gigabytes(memory.peak), gigabytes(memory.used), gigabytes(memory.total)));
}

} // namespace linnet::app
