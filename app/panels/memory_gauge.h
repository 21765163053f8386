// Status line: what the teacher's device has taken of its memory, "GPU 0 1.3 of 139 GiB, peak 4.1".
#pragma once

#include "app/models/session.h"

#include <QLabel>

namespace linnet::app {

class MemoryGauge : public QLabel {
    Q_OBJECT
public:
    explicit MemoryGauge(Session* session);

private:
    void show(const core::DeviceMemory& memory);
};

} // namespace linnet::app
