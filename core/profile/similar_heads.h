// Heads that attend alike, by their profiles.
#pragma once

#include "core/profile/profile.h"

namespace linnet::core {

// distance^2 = histogram^2 + concentration^2 + scale^2
struct SimilarHead {
    std::int64_t layer = 0, head = 0;
    double distance = 0;
    double histogram = 0;     // Hellinger distance of the mass by distance, 0 .. 1: sqrt(1 - sum sqrt(p q)); without sinks where that is measured
    double concentration = 0; // difference of the absolute concentrations, 0 .. 1
    double scale = 0;         // difference of log10 of the RMS after o_proj
};

// The nearest first; heads whose profile lacks one of the three are left out. Throws nothing; empty where the head is not in the profile.
std::vector<SimilarHead> similarHeads(const Profile& profile, std::int64_t layer, std::int64_t head, std::size_t count = 5);

} // namespace linnet::core
