// What of a run goes into which plot of Curves, and how it looks: colour and line are the run's, the rest tells its lines apart.
#pragma once

#include "app/models/closed_form_model.h"
#include "app/models/curve_data.h"
#include "app/models/run_entry.h"
#include "core/convert/run_saves.h"

#include <array>
#include <set>

namespace linnet::widgets {
class CurvePlot;
}

namespace linnet::app {

struct CurveOptions {
    bool trainAndHeldOut = true; // of the loss; otherwise `quantity` alone
    bool percentiles = true;     // false: only the layers drawn by themselves
    CurveQuantity quantity = CurveQuantity::Loss;
    CurveAxis axis = CurveAxis::Step;
    std::set<std::int64_t> pinned; // layers drawn by themselves
};

struct DrawnRun {
    RunEntryPtr entry;
    bool baseline = false;
    StageCurves align{"align"}, drift{"drift"}, distill{"distill"};
    std::size_t added = 0, known = 0; // rows of the entry that the stages have; how many it had when last looked at
    LayerFits fits;
    bool fitsAsked = false;
    std::vector<core::SavePoint> saves;
    std::int64_t savesAsked = -1; // ms of the panel's clock; -1: not yet
    bool savesWhole = false;      // asked since the run ended
    std::array<StageCurves*, 3> stages() { return {&align, &drift, &distill}; }
};

constexpr std::size_t kFewLayers = 4; // so many are drawn one by one; more as 10, 50 and 90 % with the pinned ones

void drawSteps(widgets::CurvePlot& plot, const DrawnRun& run, const StageCurves& stage, const CurveOptions& options, std::int64_t fromStep = 0, std::int64_t toStep = kAllSteps);
QString layerCurve(const QString& folder, std::int64_t layer, bool heldOut); // its id; -1: all together
void drawDrift(widgets::CurvePlot& plot, const DrawnRun& run);       // over the layers: loss before and after
void drawCalibration(widgets::CurvePlot& plot, const DrawnRun& run); // over the layers: residual of the layer, and its heads' percentiles

} // namespace linnet::app
