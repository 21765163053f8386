// Versions of the libraries that only widgets/ sees.
#pragma once

#include <QString>

namespace linnet::widgets {

QString plotVersion();  // QCustomPlot
QString imGuiVersion(); // Dear ImGui; "not in this build" where there is none

} // namespace linnet::widgets
