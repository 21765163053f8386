// What the window knows of the probe dock. Dear ImGui stays behind it: a build may go without (LINNET_IMGUI=OFF).
#pragma once

class QWidget;

namespace linnet::app {

class Session;

QWidget* makeProbePanel(Session* session); // nullptr in a build without Dear ImGui

} // namespace linnet::app
