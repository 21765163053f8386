// Lowest, highest and first missing value of any range of a growing series without a scan: blocks of 16 values, blocks of 8 of those,
// and so on, each filled once. A query touches at most a few dozen values and blocks, whatever the range is.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace linnet::widgets {

class MinMaxPyramid {
public:
    static constexpr size_t kNone = static_cast<size_t>(-1);
    struct Extremes { // indices; kNone: no finite value, no gap. Of equal values the first.
        size_t low = kNone, high = kNone, gap = kNone;
    };
    void update(std::span<const double> values, size_t from); // values[from..] are new or changed, earlier ones as before
    Extremes extremes(std::span<const double> values, size_t begin, size_t end) const;
    static constexpr size_t kBlock = 16, kFan = 8;

private:
    static size_t span(size_t level); // values a block of the level covers
    std::vector<std::vector<Extremes>> m_levels; // full blocks only
};

} // namespace linnet::widgets
