#include "widgets/min_max_pyramid.h"

#include <algorithm>
#include <cmath>

namespace linnet::widgets {
namespace {

using Extremes = MinMaxPyramid::Extremes;
constexpr size_t kNone = MinMaxPyramid::kNone;

void take(Extremes& to, std::span<const double> values, size_t i) {
    if (!std::isfinite(values[i])) {
        to.gap = std::min(to.gap, i);
        return;
    }
    if (to.low == kNone || values[i] < values[to.low])
        to.low = i;
    if (to.high == kNone || values[i] > values[to.high])
        to.high = i;
}

void take(Extremes& to, std::span<const double> values, const Extremes& block) {
    for (const size_t i : {block.low, block.high, block.gap})
        if (i != kNone)
            take(to, values, i);
}

} // namespace

size_t MinMaxPyramid::span(size_t level) {
    size_t values = kBlock;
    for (; level > 0; --level)
        values *= kFan;
    return values;
}

void MinMaxPyramid::update(std::span<const double> values, size_t from) {
    for (size_t level = 0;; ++level) {
        const size_t covers = span(level), full = values.size() / covers;
        if (level == m_levels.size()) {
            if (full == 0)
                return;
            m_levels.emplace_back();
        }
        auto& blocks = m_levels[level];
        blocks.resize(std::min({blocks.size(), from / covers, full}));
        blocks.reserve(full);
        for (size_t b = blocks.size(); b < full; ++b) {
            Extremes made;
            if (level == 0)
                for (size_t i = b * covers; i < (b + 1) * covers; ++i)
                    take(made, values, i);
            else
                for (size_t child = b * kFan; child < (b + 1) * kFan; ++child)
                    take(made, values, m_levels[level - 1][child]);
            blocks.push_back(made);
        }
    }
}

MinMaxPyramid::Extremes MinMaxPyramid::extremes(std::span<const double> values, size_t begin, size_t end) const {
    Extremes found;
    for (size_t i = begin; i < end;) {
        size_t level = m_levels.size(); // the widest block that starts here and ends in the range
        while (level > 0 && (i % span(level - 1) != 0 || i + span(level - 1) > end || i / span(level - 1) >= m_levels[level - 1].size()))
            --level;
        if (level == 0) {
            take(found, values, i++);
            continue;
        }
        take(found, values, m_levels[level - 1][i / span(level - 1)]);
        i += span(level - 1);
    }
    return found;
}

} // namespace linnet::widgets
