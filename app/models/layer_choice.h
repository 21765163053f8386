// Which layers the recipe converts, as far as that is known, and what it saves.
#pragma once

#include "core/model/model_api.h"

#include <QString>
#include <cstdint>
#include <optional>
#include <vector>

namespace linnet::app {

class Session;

// How many layers stay softmax, pins applied: nullopt while a measurement decides (kl:ppl=1.05), or where no number fits the rule.
std::optional<std::int64_t> keptCount(Session& session);
// Sorted. The recipe's own choice, else what its rule gives with the last measured ranking, else nullopt.
std::optional<std::vector<std::int64_t>> convertedLayers(Session& session);
// Sorted converted layers where `keep` stay, by the last measured ranking and the pins of now; nullopt without a ranking.
std::optional<std::vector<std::int64_t>> convertedByRanking(Session& session, std::int64_t keep);
// Of one sequence of `tokens`, in the dtype that the teacher runs in.
double cacheBytes(const core::ModelInfo& teacher, std::int64_t kept, std::int64_t tokens);
QString bytesText(double count); // "16.0 MiB": every size that the window shows
QString layerRanges(const std::vector<std::int64_t>& layers, const QString& between); // sorted ones: "0-4, 6, 7"
// Of the opened model: what a hybrid that is opened as a teacher has converted already.
std::int64_t convertedBefore(Session& session);
// One line of rich text; the session has a teacher. Cache: of one sequence of 32768 tokens.
QString layerSummary(Session& session);

} // namespace linnet::app
