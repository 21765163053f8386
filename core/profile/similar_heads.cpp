#include "core/profile/similar_heads.h"

#include <algorithm>
#include <cmath>

namespace linnet::core {
namespace {

const std::vector<double>& masses(const HeadProfile& head, bool sinkFree) {
    return sinkFree ? head.histogramNoSink : head.histogram;
}

double hellinger(const std::vector<double>& p, const std::vector<double>& q) {
    if (p.empty() || p.size() != q.size())
        return NAN;
    double overlap = 0;
    for (std::size_t i = 0; i < p.size(); ++i)
        overlap += std::sqrt(p[i] * q[i]);
    return std::sqrt(std::max(0.0, 1 - overlap)); // rounding may leave the overlap above 1
}

} // namespace

std::vector<SimilarHead> similarHeads(const Profile& profile, std::int64_t layer, std::int64_t head, std::size_t count) {
    if (layer < 0 || layer >= std::ssize(profile.layers) || head < 0 || head >= std::ssize(profile.layers[static_cast<std::size_t>(layer)]))
        return {};
    const auto& own = profile.layers[static_cast<std::size_t>(layer)][static_cast<std::size_t>(head)];
    const bool sinkFree = !own.histogramNoSink.empty() && std::ranges::all_of(own.histogramNoSink, [](double mass) { return std::isfinite(mass); });
    std::vector<SimilarHead> all;
    for (std::int64_t l = 0; l < std::ssize(profile.layers); ++l)
        for (std::int64_t h = 0; h < std::ssize(profile.layers[static_cast<std::size_t>(l)]); ++h) {
            const auto& other = profile.layers[static_cast<std::size_t>(l)][static_cast<std::size_t>(h)];
            SimilarHead one{l, h};
            one.histogram = hellinger(masses(own, sinkFree), masses(other, sinkFree));
            one.concentration = std::abs(own.concentrationAbsolute - other.concentrationAbsolute);
            one.scale = std::abs(std::log10(own.rmsPostO) - std::log10(other.rmsPostO));
            one.distance = std::sqrt(one.histogram * one.histogram + one.concentration * one.concentration + one.scale * one.scale);
            if (std::isfinite(one.distance) && !(l == layer && h == head))
                all.push_back(one);
        }
    std::ranges::stable_sort(all, {}, &SimilarHead::distance);
    all.resize(std::min(all.size(), count));
    return all;
}

} // namespace linnet::core
