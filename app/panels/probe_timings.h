// The timings page of the probe dock, drawn with Dear ImGui.
#pragma once

#include "app/models/job_timings.h"

namespace linnet::app {

void drawTimings(const QStringList& device, const std::vector<TimingTable>& tables);

} // namespace linnet::app
