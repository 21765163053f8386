// The four sliders of the probe dock: where a value lies on its slider, and how they are drawn and moved (Dear ImGui).
#pragma once

#include "app/models/probe_model.h"
#include "widgets/theme.h"

namespace linnet::widgets {
class ImGuiHost;
}

namespace linnet::app {

// Position 0..1. Half-life: octaves from 0.5 to 8192 tokens, the end means no decay. Beta: even in log odds. Value scale: octaves 1/16 to 16.
// Output gate: quadratic, 0 to 4. Values beyond the ends lie at the ends.
double sliderPosition(TargetField field, double value);
double sliderValue(TargetField field, double position); // three digits: what a recipe shows
QString sliderText(TargetField field, double value);    // "half-life  12.5 tokens"

class ProbeSliders {
public:
    explicit ProbeSliders(ProbeModel* model) : m_model(model) {}
    float height() const; // in a frame
    void draw(float width, const widgets::PlotColors& colors, int focused); // focused: of kTargetFields, -1: none
    bool step(TargetField field, int key, bool query); // a key of the focused slider: moves it; true: it is one
    void escape(); // back to where the drag began; the button may still be down

private:
    void drawOne(TargetField field, float width, const widgets::PlotColors& colors, bool focused);
    ProbeModel* m_model;
    bool m_escaped = false;
};

} // namespace linnet::app
