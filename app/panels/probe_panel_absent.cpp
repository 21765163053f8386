// In place of probe_panel.cpp in a build without Dear ImGui (LINNET_IMGUI=OFF): the window goes without the probe dock.
#include "app/panels/probe_dock.h"

namespace linnet::app {

QWidget* makeProbePanel(Session*) {
    return nullptr;
}

} // namespace linnet::app
