#include "widgets/color_range.h"

#include <QObject>
#include <algorithm>
#include <cmath>
#include <limits>

namespace linnet::widgets {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
constexpr double kLowQuantile = 0.02, kHighQuantile = 0.98;

// Linear interpolation between order statistics.
double quantile(const std::vector<double>& sorted, double q) {
    const double at = q * double(sorted.size() - 1);
    const auto below = size_t(at);
    const size_t above = std::min(below + 1, sorted.size() - 1);
    return sorted[below] + (at - double(below)) * (sorted[above] - sorted[below]);
}

double niceStep(double span, int atMost) {
    const double raw = span / std::max(1, atMost), decade = std::pow(10.0, std::floor(std::log10(raw)));
    for (const double factor : {1.0, 2.0, 5.0})
        if (factor * decade >= raw * (1 - 1e-9))
            return factor * decade;
    return 10 * decade;
}

} // namespace

ColorRange::ColorRange(const std::vector<double>& values, int layers, int heads, ColorScale scale, ScaleMode mode, bool diverging)
    : m_scale(diverging ? ColorScale::Linear : scale), m_mode(mode), m_diverging(diverging) {
    std::vector<double> all;
    std::vector<std::vector<double>> rows(size_t(std::max(0, layers)));
    for (size_t i = 0; i < values.size(); ++i) {
        m_missing = m_missing || !std::isfinite(values[i]);
        const double value = transformed(values[i]);
        if (!std::isfinite(value))
            continue;
        all.push_back(value);
        rows[i / size_t(heads)].push_back(value);
    }
    if (all.empty())
        return;
    if (mode.kind == ScaleMode::Fixed) {
        Limits fixed{transformed(mode.minimum), transformed(mode.maximum)};
        if (!std::isfinite(fixed.low) || !std::isfinite(fixed.high) || fixed.low >= fixed.high)
            fixed = limitsOf(all); // an impossible range would paint everything in one colour
        if (const double reach = std::max(std::abs(fixed.low), std::abs(fixed.high)); diverging)
            fixed = {-reach, reach};
        m_limits.push_back(fixed);
    } else if (mode.kind == ScaleMode::PerLayer) {
        for (const auto& row : rows)
            m_limits.push_back(row.empty() ? limitsOf(all) : limitsOf(row));
    } else {
        m_limits.push_back(limitsOf(all));
    }
    for (size_t i = 0; i < values.size(); ++i) {
        const double p = position(values[i], int(i / size_t(heads)));
        m_clipsLow = m_clipsLow || p < -1e-9;
        m_clipsHigh = m_clipsHigh || p > 1 + 1e-9;
    }
}

ColorRange::Limits ColorRange::limitsOf(std::vector<double> values) const {
    std::sort(values.begin(), values.end());
    Limits found{values.front(), values.back()};
    if (m_mode.kind == ScaleMode::Quantile)
        found = {quantile(values, kLowQuantile), quantile(values, kHighQuantile)};
    if (m_diverging) {
        const double reach = std::max(std::abs(found.low), std::abs(found.high));
        found = {-reach, reach};
    }
    if (found.high - found.low < 1e-12 * std::max(1.0, std::abs(found.low))) {
        const double half = m_scale == ColorScale::Linear ? std::max(1e-6, std::abs(found.low) * 0.05) : 0.5;
        found = {found.low - half, found.high + half};
    }
    return found;
}

const ColorRange::Limits& ColorRange::limits(int layer) const {
    return m_limits[m_limits.size() > 1 ? size_t(layer) : 0];
}

double ColorRange::transformed(double value) const {
    if (m_scale == ColorScale::Linear || !std::isfinite(value))
        return std::isfinite(value) ? value : kMissing;
    if (value <= 0)
        return kMissing;
    return m_scale == ColorScale::Log2 ? std::log2(value) : std::log10(value);
}

double ColorRange::restored(double value) const {
    if (m_scale == ColorScale::Linear)
        return value;
    return m_scale == ColorScale::Log2 ? std::exp2(value) : std::pow(10.0, value);
}

double ColorRange::position(double value, int layer) const {
    if (!std::isfinite(value) || isEmpty())
        return kMissing;
    const double at = transformed(value);
    if (!std::isfinite(at))
        return -1; // not positive on a log scale: below everything
    const Limits& range = limits(layer);
    return (at - range.low) / (range.high - range.low);
}

double ColorRange::valueAt(double position, int layer) const {
    if (isEmpty())
        return kMissing;
    const Limits& range = limits(layer);
    return restored(range.low + position * (range.high - range.low));
}

double ColorRange::minimum(int layer) const { return isEmpty() ? kMissing : restored(limits(layer).low); }
double ColorRange::maximum(int layer) const { return isEmpty() ? kMissing : restored(limits(layer).high); }

std::vector<ColorRange::Tick> ColorRange::ticks(int atMost) const {
    std::vector<Tick> found;
    if (isEmpty())
        return found;
    if (m_mode.kind == ScaleMode::PerLayer) {
        if (m_diverging)
            return {{0, QObject::tr("−max")}, {0.5, "0"}, {1, QObject::tr("+max")}};
        return {{0, QObject::tr("row min")}, {1, QObject::tr("row max")}};
    }
    const Limits& range = m_limits.front();
    const double span = range.high - range.low;
    const bool powers = m_scale != ColorScale::Linear && span >= 2;
    if (m_scale == ColorScale::Linear || powers) {
        const double step = powers ? std::max(1.0, std::ceil(span / std::max(1, atMost))) : niceStep(span, atMost);
        for (double k = std::ceil(range.low / step - 1e-9); k * step <= range.high + 1e-9 * step; ++k)
            found.push_back({(k * step - range.low) / span, tickLabel(restored(k * step))});
        return found;
    }
    // Less than two powers: nice values between, placed on the log scale.
    const double low = restored(range.low), high = restored(range.high), step = niceStep(high - low, atMost);
    for (double k = std::ceil(low / step - 1e-9); k * step <= high * (1 + 1e-9); ++k)
        found.push_back({(transformed(k * step) - range.low) / span, tickLabel(k * step)});
    return found;
}

QString ColorRange::modeText() const {
    QString text;
    switch (m_mode.kind) {
    case ScaleMode::Global: text = QObject::tr("global"); break;
    case ScaleMode::PerLayer: text = QObject::tr("per layer"); break;
    case ScaleMode::Fixed: text = QObject::tr("fixed"); break;
    case ScaleMode::Quantile: text = QObject::tr("2–98 %"); break;
    }
    if (m_diverging)
        return text + QObject::tr(", about 0");
    return text + (m_scale == ColorScale::Linear ? QString() : m_scale == ColorScale::Log2 ? ", log2" : ", log10");
}

QString readout(double value) { return std::isfinite(value) ? QString::number(value, 'g', 6) : QObject::tr("not measured"); }

QString tickLabel(double value) {
    if (std::abs(value) < 1e-12)
        return QStringLiteral("0");
    const double size = std::abs(value);
    if (size >= 1e6 || size < 1e-3)
        return QString::number(value, 'g', 2);
    return QString::number(value, 'g', size >= 1000 ? 6 : 4);
}

} // namespace linnet::widgets
