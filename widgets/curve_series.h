// One live curve: its points, the smoothed line and what of it fits a screen.
#pragma once

#include "widgets/min_max_pyramid.h"

#include <span>
#include <utility>
#include <vector>

namespace linnet::widgets {

// Exponential moving average with bias correction (the correction of Adam, Kingma & Ba 2015, section 3):
//   s_n = w s_(n-1) + (1 - w) y_n,  out_n = s_n / (1 - w^n).   weight w in [0, 1).
// A value that is not finite stays a gap and leaves the average alone.
class Smoother {
public:
    explicit Smoother(double weight) : m_weight(weight) {}
    double next(double value);

private:
    double m_weight, m_sum = 0, m_remaining = 1; // m_remaining = w^n
};

class CurveSeries {
public:
    // Points in order of x. A point left of the last one starts over from there: a run resumed from an earlier checkpoint
    // replaces what it computes again. Points whose x is not finite are ignored.
    void append(std::span<const double> x, std::span<const double> y);
    void clear();
    void setSmoothing(double weight); // 0 = off

    const std::vector<double>& x() const { return m_x; }
    const std::vector<double>& y() const { return m_y; }
    const std::vector<double>& smoothed() const { return m_weight > 0 ? m_smoothed : m_y; }

    // [first, last) of the points in [from, to] and one neighbour on each side, so that lines reach the edges.
    std::pair<size_t, size_t> indexRange(double from, double to) const;
    size_t nearest(double x) const; // index; the series must not be empty
    // Of the points [first, last), at most about 3 for each bucket, in order: its lowest, its highest and, where there is one, its
    // first gap. Extremes of the range are always among them.
    void envelope(bool ofSmoothed, size_t first, size_t last, size_t buckets, std::vector<double>& outX, std::vector<double>& outY) const;

private:
    void smoothAll();

    std::vector<double> m_x, m_y, m_smoothed;
    MinMaxPyramid m_rawPyramid, m_smoothedPyramid;
    double m_weight = 0;
    Smoother m_smoother{0};
};

} // namespace linnet::widgets
