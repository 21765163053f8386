// What the study measures: methods, the layers that each of them converts, and the tables that they stand in.
#pragma once

#include "core/base/json.h"
#include "core/io/model_config.h"
#include "core/recipe/recipe.h"

namespace linnet::core {

struct StudyScale {
    std::int64_t seqLen = 512, longSeqLen = 2048;                      // the long one has the same tokens in fewer windows
    std::int64_t evaluation = 98, selection = 32, calibration = 780;   // windows of seqLen
    std::int64_t block = 7;                                            // windows of seqLen that a standard error counts as one draw
    std::vector<std::int64_t> shares = {75, 50, 25};                   // % of the layers that stay softmax, between all and none
    std::vector<std::int64_t> ablationShares = {50, 25};
    std::vector<std::int64_t> steps = {30, 100, 300, 1000};            // of our alignment
    std::vector<std::int64_t> seededSteps = {100, 300};
    std::int64_t mainSteps = 300, batch = 16, driftSteps = 100;
    std::int64_t distillSteps = 200, distillBatch = 16;
    std::int64_t closedFormSequences = 24;
    std::vector<std::int64_t> windows = {64, 128};                     // sliding; and the one whose keys and values are as many as a state's values
    static StudyScale quick();
    Json json() const;
};

struct SetName { // which layers stay softmax
    std::string layers;     // even | chosen (greedy) | a selection method | none
    std::int64_t share = 0; // %
    std::string text() const { return layers + " " + std::to_string(share); }
};

struct StudyMethod {
    std::string id;
    Recipe recipe; // seed 0; seqLen says which slices. What alignment makes serves every set, drift and distillation run for each
    std::vector<SetName> sets;     // with seed 0
    std::vector<SetName> seedSets; // with every other seed
};

struct StudyPlan {
    std::vector<StudyMethod> methods; // in the order of measuring
    std::string chosenOn, startsOf;   // methods whose layers greedy and its rivals, and ga-s2, are measured on
    Json tables; // [{title, note, columns[{title, layers, share}], rows[{label, method, layers?, selection?}]}]
    const StudyMethod& method(const std::string& id) const;
};

StudyPlan studyPlan(const StudyScale& scale, const ModelConfig& teacher, const std::string& device, const std::string& dtype);
std::int64_t keptOf(std::int64_t share, std::int64_t layers); // rounded
const std::vector<std::string>& selectionMethods();           // all that are compared

} // namespace linnet::core
