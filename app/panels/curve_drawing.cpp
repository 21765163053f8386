#include "app/panels/curve_drawing.h"

#include "widgets/curve_plot.h"

#include <QCoreApplication>
#include <algorithm>
#include <cmath>
#include <limits>

namespace linnet::app {
namespace {

using widgets::CurveLook;
using widgets::Marker;

class Text {
    Q_DECLARE_TR_FUNCTIONS(CurveDrawing)
};

QString nameOf(const DrawnRun& run) {
    return run.baseline ? Text::tr("%1 (baseline)").arg(run.entry->name) : run.entry->name;
}

CurveLook lookOf(const DrawnRun& run) {
    const auto own = widgets::runLook(run.entry->look);
    CurveLook look;
    look.group = nameOf(run);
    look.color = own.color;
    look.style = run.baseline ? Qt::DashLine : own.style;
    look.width = run.baseline ? 2 : 1.5;
    look.marker = own.marker;
    return look;
}

CurveLook edgeOf(CurveLook look) { // of a band
    look.width = 0;
    look.marker = Marker::None;
    look.legend = false;
    return look;
}

CurveLook heldOutOf(CurveLook look) { // few points, each with its marker
    look.width = 1;
    look.style = Qt::DotLine;
    look.smooth = false;
    return look;
}

void put(widgets::CurvePlot& plot, const QString& id, const QString& name, const CurveLook& look, const std::vector<double>& x, const std::vector<double>& y) {
    if (x.empty())
        return;
    if (!plot.hasCurve(id))
        plot.addCurve(id, name, look);
    plot.append(id, x, y);
}

void drawLayer(widgets::CurvePlot& plot, const DrawnRun& run, const StageCurves& stage, std::int64_t layer, int nth, CurveQuantity quantity, const CurveOptions& options, std::int64_t fromStep, std::int64_t toStep) {
    static constexpr Marker markers[] = {Marker::Disc, Marker::Square, Marker::Triangle, Marker::Diamond};
    static constexpr Qt::PenStyle lines[] = {Qt::SolidLine, Qt::DashLine, Qt::DotLine, Qt::DashDotLine};
    const bool heldOut = quantity == CurveQuantity::HeldOut;
    auto look = lookOf(run);
    if (layer >= 0) {
        look.marker = markers[nth % 4];
        look.style = lines[nth % 4];
        look.width = 1.2;
    }
    if (heldOut)
        look = heldOutOf(look);
    const auto points = stage.layer(layer, quantity, options.axis, fromStep, toStep);
    auto name = layer < 0 ? nameOf(run) : Text::tr("%1, layer %2").arg(nameOf(run)).arg(layer);
    if (heldOut)
        name = Text::tr("%1, held out").arg(name);
    put(plot, layerCurve(run.entry->folder, layer, heldOut), name, look, points.x, points.y);
}

void drawPercentiles(widgets::CurvePlot& plot, const DrawnRun& run, const StageCurves& stage, CurveQuantity quantity, const CurveOptions& options, std::int64_t fromStep, std::int64_t toStep) {
    const auto points = stage.percentiles(quantity, options.axis, fromStep, toStep);
    const bool heldOut = quantity == CurveQuantity::HeldOut;
    const auto look = lookOf(run);
    const auto id = [&](const char* part) { return run.entry->folder + QStringLiteral("|%1|%2").arg(QLatin1String(part)).arg(heldOut ? 1 : 0); };
    const auto name = [&](const QString& part) { return (heldOut ? Text::tr("%1, %2 of %3 layers, held out") : Text::tr("%1, %2 of %3 layers")).arg(nameOf(run), part).arg(stage.layers().size()); };
    const bool begins = !plot.hasCurve(id("p50"));
    if (!heldOut) { // one band is enough
        put(plot, id("p10"), name(Text::tr("10 %")), edgeOf(look), points.x, points.p10);
        put(plot, id("p90"), name(Text::tr("90 %")), edgeOf(look), points.x, points.p90);
    }
    put(plot, id("p50"), name(Text::tr("median")), heldOut ? heldOutOf(look) : look, points.x, points.p50);
    if (begins && !heldOut)
        plot.setBand(id("p10"), id("p90"));
}

} // namespace

QString layerCurve(const QString& folder, std::int64_t layer, bool heldOut) {
    return folder + QStringLiteral("|%1|%2").arg(layer).arg(heldOut ? 1 : 0);
}

void drawSteps(widgets::CurvePlot& plot, const DrawnRun& run, const StageCurves& stage, const CurveOptions& options, std::int64_t fromStep, std::int64_t toStep) {
    std::vector<CurveQuantity> quantities{options.quantity};
    if (options.quantity == CurveQuantity::Loss && options.trainAndHeldOut)
        quantities.push_back(CurveQuantity::HeldOut);
    const auto layers = stage.layers();
    for (const auto quantity : quantities) {
        if (layers.size() > kFewLayers && options.percentiles)
            drawPercentiles(plot, run, stage, quantity, options, fromStep, toStep);
        int nth = 0;
        for (const auto layer : layers)
            if (layers.size() <= kFewLayers || options.pinned.contains(layer))
                drawLayer(plot, run, stage, layer, nth++, quantity, options, fromStep, toStep);
    }
}

void drawDrift(widgets::CurvePlot& plot, const DrawnRun& run) {
    std::vector<double> x, before, after;
    for (const auto layer : run.drift.layers()) {
        const auto loss = run.drift.layer(layer, CurveQuantity::Loss, CurveAxis::Step), heldOut = run.drift.layer(layer, CurveQuantity::HeldOut, CurveAxis::Step);
        if (loss.y.empty())
            continue;
        x.push_back(static_cast<double>(layer));
        before.push_back(loss.y.front());
        after.push_back(heldOut.y.empty() ? loss.y.back() : heldOut.y.back());
    }
    auto look = lookOf(run);
    look.smooth = false;
    auto first = look;
    first.style = Qt::DotLine;
    first.width = 1;
    const auto put2 = [&](const char* part, const QString& name, const CurveLook& with, const std::vector<double>& y) {
        const auto id = run.entry->folder + QLatin1Char('|') + QLatin1String(part);
        plot.clearPoints(id); // a layer's later rows replace what is shown of it
        put(plot, id, name, with, x, y);
    };
    put2("before", Text::tr("%1, before").arg(nameOf(run)), first, before);
    put2("after", Text::tr("%1, after").arg(nameOf(run)), look, after);
}

void drawCalibration(widgets::CurvePlot& plot, const DrawnRun& run) {
    constexpr double kHalfBand = 0.3, kGap = std::numeric_limits<double>::quiet_NaN();
    std::vector<double> x, bandX, p10, p50, p90, layers, whole;
    double ridge = kGap;
    for (const auto& [layer, fit] : run.fits) {
        std::vector<double> heads;
        for (const auto& head : fit.heads)
            if (std::isfinite(head.chosen.residual))
                heads.push_back(head.chosen.residual);
        if (std::isfinite(fit.residual)) {
            layers.push_back(layer);
            whole.push_back(fit.residual);
            ridge = fit.ridge;
        }
        if (heads.empty())
            continue;
        x.push_back(layer);
        p50.push_back(percentile(heads, 0.5));
        for (const double side : {-kHalfBand, kHalfBand}) { // a band of its own for each layer: none where nothing was converted
            bandX.push_back(layer + side);
            p10.push_back(percentile(heads, 0.1));
            p90.push_back(percentile(heads, 0.9));
        }
        bandX.push_back(layer + 0.5);
        p10.push_back(kGap), p90.push_back(kGap);
    }
    auto look = lookOf(run);
    look.smooth = false;
    const auto id = [&](const char* part) { return run.entry->folder + QLatin1Char('|') + QLatin1String(part); };
    for (const char* part : {"p10", "p90", "p50", "layer"})
        plot.clearPoints(id(part));
    put(plot, id("p10"), Text::tr("%1, heads 10 %").arg(nameOf(run)), edgeOf(look), bandX, p10);
    put(plot, id("p90"), Text::tr("%1, heads 90 %").arg(nameOf(run)), edgeOf(look), bandX, p90);
    look.style = Qt::NoPen; // points: between two converted layers there may be others
    put(plot, id("p50"), Text::tr("%1, median of the heads").arg(nameOf(run)), look, x, p50);
    auto ofLayer = heldOutOf(look);
    ofLayer.style = Qt::NoPen;
    ofLayer.marker = look.marker == Marker::Diamond ? Marker::Square : Marker::Diamond;
    put(plot, id("layer"), std::isfinite(ridge) ? Text::tr("%1, whole layer (ridge %2)").arg(nameOf(run)).arg(ridge) : Text::tr("%1, whole layer").arg(nameOf(run)), ofLayer, layers, whole);
    plot.setBand(id("p10"), id("p90"));
}

} // namespace linnet::app
