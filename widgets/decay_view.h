// How far a head looks, and how far a decay lets it: measured mass by distance with the kernel of a half-life drawn on it (Dear ImGui).
#pragma once

#include "widgets/theme.h"

#include <imgui.h>
#include <vector>

namespace linnet::widgets {

struct DecayPicture {
    std::vector<double> edges, mass; // tokens, one edge more than mass; bin i holds edges[i] <= distance < edges[i + 1]
    double halfLife = 0;             // tokens; infinity: no decay, no kernel
};
// In a frame, at ImGui's cursor. Nothing measured: says so.
void drawDecay(const DecayPicture& picture, ImVec2 size, const PlotColors& colors);

} // namespace linnet::widgets
