#include "app/models/curve_data.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace linnet::app {
namespace {

constexpr std::int64_t kMostSteps = 20'000'000;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN(), kNever = std::numeric_limits<double>::infinity();

double percentileOfSorted(const std::vector<double>& values, double share) {
    if (values.empty())
        return kUnknown;
    const double at = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(at), above = std::min(below + 1, values.size() - 1);
    return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

} // namespace

double percentile(std::vector<double>& values, double share) {
    std::sort(values.begin(), values.end());
    return percentileOfSorted(values, share);
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
    for (auto* list : {m_earliest, m_places})
        list[0].clear(), list[1].clear();
}

void StageCurves::place(const Row& row) {
    const auto step = static_cast<std::size_t>(row.step);
    const double at[] = {row.tokens, row.time};
    for (const int axis : {0, 1}) {
        auto& earliest = m_earliest[axis];
        if (step >= earliest.size())
            earliest.resize(step + 1, kNever);
        if (at[axis] >= earliest[step])
            continue;
        earliest[step] = at[axis];
        m_places[axis].resize(std::min(m_places[axis].size(), step));
    }
}

const std::vector<double>& StageCurves::places(CurveAxis axis) const {
    const auto& earliest = m_earliest[axis == CurveAxis::Tokens ? 0 : 1];
    auto& places = m_places[axis == CurveAxis::Tokens ? 0 : 1];
    for (auto step = places.size(); step < earliest.size(); ++step) {
        const double before = step == 0 ? -kNever : places[step - 1];
        places.push_back(earliest[step] == kNever ? before : std::max(before, earliest[step]));
    }
    return places;
}

std::int64_t StageCurves::add(std::span<const core::MetricRow> rows) {
    std::int64_t first = -1;
    bool wentBack = false;
    for (const auto& row : rows) {
        if (row.stage != m_stage || row.step < 0 || row.step > kMostSteps)
            continue; // no run has so many steps: a damaged file
        auto& layer = m_layers[row.layer];
        if (!layer.empty() && layer.back().step >= row.step) {
            layer.erase(std::lower_bound(layer.begin(), layer.end(), row.step, [](const Row& each, std::int64_t step) { return each.step < step; }), layer.end());
            wentBack = true;
        }
        layer.push_back({row.step, static_cast<double>(row.tokens), row.time, row.loss, row.heldOutLoss.value_or(kUnknown), row.relativeLoss.value_or(kUnknown), row.lr, row.gradNorm,
                         row.tokensPerSecond});
        if (!wentBack)
            place(layer.back());
        first = first < 0 ? row.step : std::min(first, row.step);
    }
    if (!wentBack)
        return first;
    for (auto* list : {m_earliest, m_places}) // where rows that are gone lay counts no more
        list[0].clear(), list[1].clear();
    for (const auto& [layer, kept] : m_layers)
        for (const auto& row : kept)
            place(row);
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

std::optional<double> StageCurves::positionAfter(std::int64_t steps, std::int64_t layer, CurveAxis axis) const {
    std::optional<double> last;
    for (const auto& [each, rows] : m_layers) {
        if (layer >= 0 && each != layer)
            continue;
        const auto end = steps < 0 ? rows.end() : std::lower_bound(rows.begin(), rows.end(), steps, [](const Row& row, std::int64_t wanted) { return row.step < wanted; });
        if (end != rows.begin())
            last = std::max(last.value_or(0), positionOf(*std::prev(end), axis));
    }
    return last;
}

CurvePoints StageCurves::layer(std::int64_t layer, CurveQuantity quantity, CurveAxis axis, std::int64_t fromStep, std::int64_t toStep) const {
    CurvePoints points;
    const auto found = m_layers.find(layer);
    if (found == m_layers.end())
        return points;
    const auto& rows = found->second;
    for (auto row = std::lower_bound(rows.begin(), rows.end(), fromStep, [](const Row& each, std::int64_t step) { return each.step < step; }); row != rows.end() && row->step < toStep; ++row)
        if (const double y = valueOf(*row, quantity); !std::isnan(y)) {
            points.x.push_back(positionOf(*row, axis));
            points.y.push_back(y);
        }
    return points;
}

PercentilePoints StageCurves::percentiles(CurveQuantity quantity, CurveAxis axis, std::int64_t fromStep, std::int64_t toStep) const {
    using Rows = std::vector<Row>::const_iterator;
    std::vector<std::pair<Rows, Rows>> layers; // from the next row on
    fromStep = std::max<std::int64_t>(fromStep, 0);
    for (const auto& [layer, rows] : m_layers)
        layers.emplace_back(std::lower_bound(rows.begin(), rows.end(), fromStep, [](const Row& each, std::int64_t step) { return each.step < step; }), rows.end());
    const auto* places = axis == CurveAxis::Step ? nullptr : &this->places(axis);
    PercentilePoints points;
    std::vector<double> values;
    for (auto step = fromStep; step < std::min(toStep, steps()); ++step) {
        values.clear();
        for (auto& [row, end] : layers)
            for (; row != end && row->step == step; ++row)
                if (const double y = valueOf(*row, quantity); !std::isnan(y))
                    values.push_back(y);
        if (values.empty())
            continue;
        std::sort(values.begin(), values.end());
        points.x.push_back(places ? (*places)[static_cast<std::size_t>(step)] : static_cast<double>(step));
        points.p10.push_back(percentileOfSorted(values, 0.1));
        points.p50.push_back(percentileOfSorted(values, 0.5));
        points.p90.push_back(percentileOfSorted(values, 0.9));
    }
    return points;
}

} // namespace linnet::app
