#include "app/models/curve_data.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace linnet::app {
namespace {

constexpr std::int64_t kMostSteps = 20'000'000;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

} // namespace

double percentile(std::vector<double>& values, double share) {
    if (values.empty())
        return kUnknown;
    std::sort(values.begin(), values.end());
    const double at = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(at), above = std::min(below + 1, values.size() - 1);
    return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

double StageCurves::valueOf(const Row& row, CurveQuantity quantity) {
    switch (quantity) {
    case CurveQuantity::Loss: return row.loss;
    case CurveQuantity::HeldOut: return row.heldOut;
    case CurveQuantity::RelativeLoss: return row.relative;
    case CurveQuantity::LearningRate: return row.lr;
    case CurveQuantity::GradientNorm: return row.gradNorm;
    case CurveQuantity::TokensPerSecond: return row.speed > 0 ? row.speed : kUnknown;
    }
    return kUnknown;
}

double StageCurves::positionOf(const Row& row, CurveAxis axis) {
    return axis == CurveAxis::Tokens ? row.tokens : axis == CurveAxis::Time ? row.time : static_cast<double>(row.step);
}

void StageCurves::clear() {
    m_layers.clear();
}

std::int64_t StageCurves::add(const std::vector<core::MetricRow>& rows) {
    std::int64_t first = -1;
    for (const auto& row : rows) {
        if (row.stage != m_stage)
            continue;
        auto& layer = m_layers[row.layer];
        if (!layer.empty() && layer.back().step >= row.step)
            layer.erase(std::lower_bound(layer.begin(), layer.end(), row.step, [](const Row& each, std::int64_t step) { return each.step < step; }), layer.end());
        layer.push_back({row.step, static_cast<double>(row.tokens), row.time, row.loss, row.heldOutLoss.value_or(kUnknown), row.relativeLoss.value_or(kUnknown), row.lr, row.gradNorm,
                         row.tokensPerSecond});
        first = first < 0 ? row.step : std::min(first, row.step);
    }
    return first;
}

std::vector<std::int64_t> StageCurves::layers() const {
    std::vector<std::int64_t> list;
    for (const auto& [layer, rows] : m_layers)
        list.push_back(layer);
    return list;
}

bool StageCurves::has(CurveQuantity quantity) const {
    return std::any_of(m_layers.begin(), m_layers.end(), [&](const auto& layer) {
        return std::any_of(layer.second.begin(), layer.second.end(), [&](const Row& row) { return std::isfinite(valueOf(row, quantity)); });
    });
}

std::optional<double> StageCurves::positionOfStep(std::int64_t step, CurveAxis axis) const {
    std::optional<double> first;
    for (const auto& [layer, rows] : m_layers) {
        const auto row = std::lower_bound(rows.begin(), rows.end(), step, [](const Row& each, std::int64_t wanted) { return each.step < wanted; });
        if (row != rows.end() && (!first || positionOf(*row, axis) < *first))
            first = positionOf(*row, axis);
    }
    return first;
}

CurvePoints StageCurves::layer(std::int64_t layer, CurveQuantity quantity, CurveAxis axis, std::int64_t fromStep) const {
    CurvePoints points;
    if (const auto found = m_layers.find(layer); found != m_layers.end())
        for (const auto& row : found->second)
            if (const double y = valueOf(row, quantity); row.step >= fromStep && !std::isnan(y)) {
                points.x.push_back(positionOf(row, axis));
                points.y.push_back(y);
            }
    return points;
}

PercentilePoints StageCurves::percentiles(CurveQuantity quantity, CurveAxis axis, std::int64_t fromStep) const {
    struct At {
        double x = std::numeric_limits<double>::infinity();
        std::vector<double> values;
    };
    std::int64_t last = -1;
    for (const auto& [layer, rows] : m_layers)
        last = rows.empty() ? last : std::max(last, rows.back().step);
    fromStep = std::max<std::int64_t>(fromStep, 0);
    if (last - fromStep > kMostSteps)
        return {}; // no run has so many: a damaged file
    std::vector<At> steps(static_cast<std::size_t>(std::max<std::int64_t>(last - fromStep + 1, 0))); // steps are dense
    for (const auto& [layer, rows] : m_layers)
        for (auto row = std::lower_bound(rows.begin(), rows.end(), fromStep, [](const Row& each, std::int64_t step) { return each.step < step; }); row != rows.end(); ++row)
            if (const double y = valueOf(*row, quantity); !std::isnan(y)) {
                auto& at = steps[static_cast<std::size_t>(row->step - fromStep)];
                at.x = std::min(at.x, positionOf(*row, axis));
                at.values.push_back(y);
            }
    PercentilePoints points;
    double x = -std::numeric_limits<double>::infinity();
    for (auto& at : steps) {
        if (at.values.empty())
            continue;
        points.x.push_back(x = std::max(x, at.x)); // a layer that ended early must not turn time around
        points.p10.push_back(percentile(at.values, 0.1));
        points.p50.push_back(percentile(at.values, 0.5));
        points.p90.push_back(percentile(at.values, 0.9));
    }
    return points;
}

} // namespace linnet::app
