// Which layers the recipe converts, as far as that is known, and what it saves.
#pragma once

#include <QString>
#include <cstdint>
#include <optional>
#include <vector>

namespace linnet::app {

class Session;

// Sorted. The recipe's own choice, else what its ranking rule gives with the last measured ranking, else nullopt.
std::optional<std::vector<std::int64_t>> convertedLayers(Session& session);
// One line of rich text; the session has a teacher. Cache: of one sequence of 32768 tokens, in the dtype that the teacher runs in.
QString layerSummary(Session& session);

} // namespace linnet::app
