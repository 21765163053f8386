// The orders in which layers are given up, one function a method; core/convert/select.cpp cuts them where the keep rule says.
#pragma once

#include "core/convert/select_meter.h"

namespace linnet::core {

struct Ranking {
    std::string unit;
    std::vector<LayerScore> scores;         // as Selection::ranking
    std::vector<std::int64_t> convertFirst; // every layer without a pin, cheapest first
};

struct RankingTask {
    const SelectionJob& job;
    SelectionMeter& meter;
    std::vector<std::int64_t> free; // layers without a pin, ascending
    std::int64_t steps;             // greedy, restore: how many are wanted
};

inline constexpr std::int64_t kGreedyCandidates = 6; // at each step, the cheapest ones by themselves

std::vector<LayerScore> profileScores(const Profile& profile); // by layer; the formula is in select_score.cpp
Ranking rankLayers(const std::string& method, const RankingTask& task);
std::int64_t plannedMeasurements(const std::string& method, const RankingTask& task); // with the teacher's, without a curve's

} // namespace linnet::core
