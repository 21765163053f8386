// In which ways the heads of a layer may start, and the search among them; not a public header.
#pragma once

#include "core/convert/closed_form.h"

namespace linnet::core {

// One option of every head, to be computed together; counted[i] is false where head i has run out of options of its own.
struct OptionRow {
    std::vector<HeadOption> options;
    std::vector<bool> counted;
};

struct OptionSpace { // of one head
    std::vector<double> halfLives, betas;
    bool histogramTaps = false; // are there
    HeadOption base;            // what the grid leaves alone
};
OptionSpace optionSpace(const LayerContext& context, bool distancesKnown, const HeadTarget& target);
HeadTarget targetOf(const LayerContext& context, std::int64_t head); // empty where the recipe has none

// What is tried after the grid, twice: ways to turn one part of an option. The same for all heads.
using Turn = std::function<void(HeadOption&)>;
std::vector<Turn> refinements(const LayerContext& context, bool distancesKnown);

// `score` gives the own residuals of rows, by row and head. `choose` gets each head's trials of one stage (after the grid, the option that
// the head has by then comes first) and gives what each takes.
using ScoreRows = std::function<std::vector<std::vector<double>>(const std::vector<OptionRow>&)>;
using Choose = std::function<std::vector<HeadTrial>(const std::vector<std::vector<HeadTrial>>&)>;
std::vector<HeadFit> explore(const std::vector<OptionSpace>& spaces, const std::vector<Turn>& turns, const ScoreRows& score, const Choose& choose);

std::vector<HeadTrial> bestTrials(const std::vector<std::vector<HeadTrial>>& trials); // each head's by own residual, the first of equals

} // namespace linnet::core
