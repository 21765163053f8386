// What of a run goes into which plot of Curves, and how it looks: colour and line are the run's, the rest tells its lines apart.
#pragma once

#include "app/models/closed_form_model.h"
#include "app/models/curve_data.h"
#include "app/models/run_entry.h"

#include <set>

namespace linnet::widgets {
class CurvePlot;
}

namespace linnet::app {

struct CurveOptions {
    bool trainAndHeldOut = true; // of the loss; otherwise `quantity` alone
    CurveQuantity quantity = CurveQuantity::Loss;
    CurveAxis axis = CurveAxis::Step;
    std::set<std::int64_t> pinned; // layers drawn by themselves
};

struct DrawnRun {
    RunEntryPtr entry;
    bool baseline = false;
    StageCurves align{"align"}, drift{"drift"}, distill{"distill"};
    LayerFits fits;
    bool fitsAsked = false;
};

constexpr std::size_t kFewLayers = 4; // so many are drawn one by one; more as 10, 50 and 90 % with the pinned ones

void drawSteps(widgets::CurvePlot& plot, const DrawnRun& run, const StageCurves& stage, const CurveOptions& options, std::int64_t fromStep = 0);
void drawDrift(widgets::CurvePlot& plot, const DrawnRun& run);       // over the layers: loss before and after
void drawCalibration(widgets::CurvePlot& plot, const DrawnRun& run); // over the layers: residual of the layer, and its heads' percentiles

} // namespace linnet::app
