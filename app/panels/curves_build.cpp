// How CurvesPanel draws what its runs have: in slices, so that a long run is read and drawn between other events.
#include "app/models/session.h"
#include "app/panels/curves_panel.h"
#include "widgets/curve_plot.h"

#include <QComboBox>
#include <algorithm>
#include <map>
#include <span>
#include <utility>

namespace linnet::app {
namespace {

constexpr int kSliceMs = 10;              // of work at a time
constexpr std::size_t kRowsAtOnce = 4000; // a millisecond or two

} // namespace

void CurvesPanel::rebuild(bool keepViews) { // where a person has zoomed to
    std::optional<widgets::CurvePlot::View> views[Stages];
    for (int stage = 0; stage < Stages; ++stage) {
        if (keepViews && !m_plots[stage]->followsData())
            views[stage] = m_plots[stage]->view();
        m_plots[stage]->clear();
        const auto quantity = m_quantity->currentIndex() == 0 ? tr("loss") : m_quantity->currentText();
        m_plots[stage]->setWholeX(overLayers(stage) || options().axis != CurveAxis::Time); // there is no half step
        m_plots[stage]->setAxisLabels(overLayers(stage) ? tr("layer") : m_axis->currentText(), stage == Calibration ? tr("residual") : stage == Drift ? tr("loss") : quantity);
    }
    for (int stage = 0; stage < Stages; ++stage)
        if (const auto& view = views[stage])
            m_plots[stage]->setView(view->xFrom, view->xTo, view->yFrom, view->yTo);
    m_work.clear();
    const auto with = options();
    m_pinnedLayers = with.pinned;
    for (const bool current : {false, true}) // the current run above the others
        for (const auto& [folder, run] : m_runs)
            if ((run->entry == m_session->currentRun()) == current)
                queueDrawing(*run, with);
    work(); // what is short is drawn at once
}

void CurvesPanel::redrawPinned() {
    if (m_runs.empty())
        return;
    if (!m_work.empty())
        return rebuild(true);
    auto with = options();
    if (with.pinned == std::exchange(m_pinnedLayers, with.pinned))
        return;
    with.percentiles = false;
    for (const auto& [folder, each] : m_runs)
        for (const auto& [stage, curves] : {std::pair{Align, &each->align}, {Distill, &each->distill}}) {
            if (curves->layers().size() <= kFewLayers)
                continue;
            for (const auto layer : curves->layers())
                for (const bool heldOut : {false, true})
                    m_plots[stage]->removeCurve(layerCurve(folder, layer, heldOut));
            m_work.push_back([this, run = each.get(), stage = stage, curves = curves, with] { return drawSteps(*m_plots[stage], *run, *curves, with), true; });
        }
    work();
}

void CurvesPanel::queueDrawing(DrawnRun& run, const CurveOptions& with) {
    m_work.push_back([this, &run] { return addSome(run); });
    m_work.push_back([this, &run] {
        drawCalibration(*m_plots[Calibration], run);
        drawDrift(*m_plots[Drift], run);
        return true;
    });
    for (const auto& [stage, curves] : {std::pair{Align, &run.align}, {Distill, &run.distill}})
        m_work.push_back([this, &run, stage = stage, curves = curves, with, from = std::int64_t{0}]() mutable {
            const auto steps = static_cast<std::int64_t>(kRowsAtOnce / std::max<std::size_t>(1, curves->layers().size())) + 1;
            drawSteps(*m_plots[stage], run, *curves, with, from, from + steps);
            return (from += steps) >= curves->steps();
        });
}

bool CurvesPanel::addSome(DrawnRun& run) {
    const std::span rows(run.entry->metrics);
    run.known = rows.size();
    const auto next = rows.subspan(run.added, std::min(kRowsAtOnce, rows.size() - run.added));
    for (auto* stage : run.stages())
        stage->add(next);
    run.added += next.size();
    return run.added == rows.size();
}

void CurvesPanel::work() {
    const auto begin = m_clock.elapsed();
    while (!m_work.empty()) {
        if (m_work.front()())
            m_work.pop_front();
        if (m_clock.elapsed() - begin >= kSliceMs && !m_work.empty())
            return m_workTimer.start();
    }
    drawMarks();
    showPlots();
    m_valuesTimer.start();
}

void CurvesPanel::drawRun(const DrawnRun& run, std::int64_t fromStep) {
    if (fromStep == 0 && run.align.layers().size() == kFewLayers + 1)
        for (const auto layer : run.align.layers())
            for (int heldOut = 0; heldOut < 2; ++heldOut)
                m_plots[Align]->removeCurve(layerCurve(run.entry->folder, layer, heldOut));
    const auto with = options();
    drawCalibration(*m_plots[Calibration], run);
    drawSteps(*m_plots[Align], run, run.align, with, fromStep);
    drawDrift(*m_plots[Drift], run);
    drawSteps(*m_plots[Distill], run, run.distill, with, fromStep);
}

// Of the chosen run: where it was saved, the last time with a name, and over time where its stages begin.
void CurvesPanel::drawMarks() {
    for (auto* plot : m_plots)
        plot->clearMarks();
    const auto current = m_session->currentRun();
    const auto found = current ? m_runs.find(current->folder) : m_runs.end();
    if (found == m_runs.end())
        return;
    auto& run = *found->second;
    askSaves(run);
    const auto axis = options().axis;
    const std::tuple<int, const StageCurves*, QString> stages[] = {{Align, &run.align, tr("alignment")}, {Drift, &run.drift, tr("drift")}, {Distill, &run.distill, tr("distillation")}};
    for (const auto& [stage, curves, name] : stages) {
        if (axis == CurveAxis::Time)
            if (const auto begin = curves->positionOfStep(0, axis))
                for (auto* plot : {m_plots[Align], m_plots[Distill]})
                    plot->addMark(*begin, name);
        if (overLayers(stage))
            continue;
        std::optional<double> newest;
        for (const auto& save : run.saves)
            if (save.stage == curves->stage())
                if (const auto at = axis == CurveAxis::Time ? std::optional(save.time) : curves->positionAfter(save.step, save.layer, axis)) {
                    m_plots[stage]->addMark(*at, {}, true);
                    newest = at;
                }
        if (current->disk.savedStep && current->disk.stage == curves->stage()) // also of runs that did not note them
            newest = curves->positionAfter(*current->disk.savedStep, -1, axis);
        if (newest && current->state != QLatin1String("done"))
            m_plots[stage]->addMark(*newest, tr("checkpoint"));
    }
    if (current->report)
        markKept(run.align, current->report->aligned);
}

// Where the state lies that alignment kept of each layer; of many layers, the median.
void CurvesPanel::markKept(const StageCurves& curves, const std::vector<core::AlignedLayer>& layers) {
    const auto place = [&](std::int64_t step, std::int64_t layer) { return step == 0 ? curves.positionOfStep(0, options().axis) : curves.positionAfter(step, layer, options().axis); };
    if (layers.size() <= kFewLayers) {
        std::map<double, QStringList> starts, kept; // by place: labels of one place would cover each other
        for (const auto& layer : layers)
            if (const auto at = place(layer.keptStep, layer.layer))
                (layer.keptStep == 0 ? starts : kept)[*at] << QString::number(layer.layer);
        for (const auto& [at, those] : starts)
            m_plots[Align]->addMark(at, those.size() == 1 ? tr("layer %1: its start is kept").arg(those.front()) : tr("layers %1: their starts are kept").arg(those.join(QStringLiteral(", "))));
        for (const auto& [at, those] : kept)
            m_plots[Align]->addMark(at, those.size() == 1 ? tr("layer %1: kept").arg(those.front()) : tr("layers %1: kept").arg(those.join(QStringLiteral(", "))));
        return;
    }
    std::vector<std::int64_t> steps;
    for (const auto& layer : layers)
        steps.push_back(layer.keptStep);
    std::nth_element(steps.begin(), steps.begin() + std::ssize(steps) / 2, steps.end());
    if (const auto at = place(steps[steps.size() / 2], -1))
        m_plots[Align]->addMark(*at, tr("kept (median)"));
}

} // namespace linnet::app
