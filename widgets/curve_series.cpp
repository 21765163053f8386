#include "widgets/curve_series.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace linnet::widgets {

double Smoother::next(double value) {
    if (!std::isfinite(value))
        return std::numeric_limits<double>::quiet_NaN();
    m_sum = m_weight * m_sum + (1 - m_weight) * value;
    m_remaining *= m_weight;
    return m_sum / (1 - m_remaining);
}

void CurveSeries::append(std::span<const double> x, std::span<const double> y) {
    const size_t count = std::min(x.size(), y.size());
    size_t unchanged = m_x.size();
    for (size_t i = 0; i < count; ++i) {
        if (!std::isfinite(x[i]))
            continue;
        if (!m_x.empty() && x[i] < m_x.back()) {
            const auto keep = size_t(std::lower_bound(m_x.begin(), m_x.end(), x[i]) - m_x.begin());
            m_x.resize(keep);
            m_y.resize(keep);
            unchanged = std::min(unchanged, keep);
            smoothAll();
        }
        m_x.push_back(x[i]);
        m_y.push_back(y[i]);
        if (m_weight > 0)
            m_smoothed.push_back(m_smoother.next(y[i]));
    }
    m_rawPyramid.update(m_y, unchanged);
    m_smoothedPyramid.update(m_smoothed, unchanged);
}

void CurveSeries::clear() {
    m_x.clear();
    m_y.clear();
    m_rawPyramid.update(m_y, 0);
    smoothAll();
}

void CurveSeries::setSmoothing(double weight) {
    m_weight = std::clamp(weight, 0.0, 0.9999);
    smoothAll();
}

void CurveSeries::smoothAll() {
    m_smoother = Smoother(m_weight);
    m_smoothed.clear();
    if (m_weight > 0) {
        m_smoothed.reserve(m_y.size());
        for (const double value : m_y)
            m_smoothed.push_back(m_smoother.next(value));
    }
    m_smoothedPyramid.update(m_smoothed, 0);
}

std::pair<size_t, size_t> CurveSeries::indexRange(double from, double to) const {
    auto first = size_t(std::lower_bound(m_x.begin(), m_x.end(), from) - m_x.begin());
    auto last = size_t(std::upper_bound(m_x.begin(), m_x.end(), to) - m_x.begin());
    first -= first > 0 ? 1 : 0;
    last += last < m_x.size() ? 1 : 0;
    return {first, std::max(first, last)};
}

size_t CurveSeries::nearest(double x) const {
    const auto right = size_t(std::lower_bound(m_x.begin(), m_x.end(), x) - m_x.begin());
    if (right == 0)
        return 0;
    return right == m_x.size() || x - m_x[right - 1] <= m_x[right] - x ? right - 1 : right;
}

void CurveSeries::envelope(bool ofSmoothed, size_t first, size_t last, size_t buckets, std::vector<double>& outX, std::vector<double>& outY) const {
    const bool smooth = ofSmoothed && m_weight > 0;
    const auto& values = smooth ? m_smoothed : m_y;
    const auto& pyramid = smooth ? m_smoothedPyramid : m_rawPyramid;
    const size_t count = last - first;
    buckets = std::clamp<size_t>(buckets, 1, std::max<size_t>(count, 1));
    outX.clear();
    outY.clear();
    outX.reserve(3 * buckets);
    outY.reserve(3 * buckets);
    for (size_t b = 0; b < buckets; ++b) {
        const auto found = pyramid.extremes(values, first + b * count / buckets, first + (b + 1) * count / buckets);
        size_t kept[] = {found.low, found.high, found.gap};
        std::sort(std::begin(kept), std::end(kept)); // kNone last
        for (size_t k = 0; k < 3; ++k)
            if (kept[k] != MinMaxPyramid::kNone && (k == 0 || kept[k] != kept[k - 1])) {
                outX.push_back(m_x[kept[k]]);
                outY.push_back(values[kept[k]]);
            }
    }
}

} // namespace linnet::widgets
