#include "core/torch_pch.h"

#include "core/convert/closed_form_options.h"

namespace linnet::core {
namespace {

constexpr int kRounds = 2; // each lets a head turn one part

std::vector<HeadOption> grid(const OptionSpace& space) {
    std::vector<HeadOption> options;
    for (const double halfLife : space.halfLives)
        for (const double beta : space.betas)
            for (const bool taps : {false, true}) { // innermost: these two are computed as one
                if (taps && !space.histogramTaps)
                    continue;
                HeadOption option = space.base;
                option.halfLife = halfLife, option.beta = beta, option.histogramTaps = taps;
                options.push_back(option);
            }
    return options;
}

std::vector<OptionRow> gridRows(const std::vector<OptionSpace>& spaces) {
    std::vector<std::vector<HeadOption>> grids;
    std::size_t most = 0;
    for (const auto& space : spaces) {
        grids.push_back(grid(space));
        most = std::max(most, grids.back().size());
    }
    std::vector<OptionRow> rows(most);
    for (std::size_t r = 0; r < most; ++r)
        for (const auto& options : grids) {
            rows[r].options.push_back(options[std::min(r, options.size() - 1)]);
            rows[r].counted.push_back(r < options.size());
        }
    return rows;
}

template <class T> Turn setting(T HeadOption::*part, T value) {
    return [part, value](HeadOption& option) { option.*part = value; };
}
Turn turning(bool HeadOption::*part) {
    return [part](HeadOption& option) { option.*part = !(option.*part); };
}

} // namespace

HeadTarget targetOf(const LayerContext& context, std::int64_t head) {
    const auto layer = context.recipe.targets.find(context.layer);
    if (layer == context.recipe.targets.end())
        return {};
    const auto target = layer->second.find(head);
    return target == layer->second.end() ? HeadTarget{} : target->second;
}

OptionSpace optionSpace(const LayerContext& context, bool distancesKnown, const HeadTarget& target) {
    const auto& recipe = context.recipe;
    const auto& spec = mixerSpec(recipe.mixer);
    const auto treatments = treatmentsOf(recipe);
    OptionSpace space{recipe.closedForm.halfLives, recipe.closedForm.betas, distancesKnown && spec.shortConvolution, {}};
    if (target.halfLife || spec.decay == Decay::None)
        space.halfLives = {target.halfLife.value_or(std::numeric_limits<double>::infinity())};
    if (target.beta || spec.write == WriteGate::One)
        space.betas = {target.beta.value_or(0.5)};
    space.base.foldRope = treatments.foldRope;
    space.base.foldBias = treatments.foldBias;
    space.base.foldQkNorm = treatments.foldQkNorm;
    return space;
}

std::vector<Turn> refinements(const LayerContext& context, bool distancesKnown) {
    const auto& recipe = context.recipe;
    const auto& config = context.teacher.config();
    std::vector<Turn> turns;
    if (!recipe.closedForm.refine)
        return turns;
    turns.push_back(turning(&HeadOption::negatedValues));
    if (recipe.ropeTreatment == "fit" && distancesKnown)
        turns.push_back(turning(&HeadOption::foldRope));
    if (recipe.biasTreatment == "fit" && config.qkvBias)
        turns.push_back(turning(&HeadOption::foldBias));
    if (recipe.qkNormTreatment == "fit" && config.qkNorm)
        turns.push_back(turning(&HeadOption::foldQkNorm));
    turns.push_back(turning(&HeadOption::centredKeys));
    for (const double scale : {0.5, 2.0, 4.0})
        turns.push_back(setting(&HeadOption::queryScale, scale));
    if (mixerSpec(recipe.mixer).write == WriteGate::Beta)
        for (const double prior : {0.5, 1.0})
            turns.push_back(setting(&HeadOption::keyPrior, prior));
    return turns;
}

std::vector<HeadFit> explore(const std::vector<OptionSpace>& spaces, const std::vector<Turn>& turns, const ScoreRows& score, const Choose& choose) {
    std::vector<HeadFit> heads(spaces.size());
    const auto stage = [&](const std::vector<OptionRow>& rows, std::vector<std::vector<HeadTrial>> trials) {
        const auto residuals = score(rows);
        for (std::size_t r = 0; r < rows.size(); ++r)
            for (std::size_t i = 0; i < heads.size(); ++i)
                if (rows[r].counted[i]) {
                    trials[i].push_back({rows[r].options[i], residuals[r][i]});
                    heads[i].tried.push_back(trials[i].back());
                }
        const auto taken = choose(trials);
        for (std::size_t i = 0; i < heads.size(); ++i)
            heads[i].chosen = taken[i].option, heads[i].residual = taken[i].residual;
    };
    stage(gridRows(spaces), std::vector<std::vector<HeadTrial>>(heads.size()));
    for (int round = 0; round < kRounds && !turns.empty(); ++round) {
        std::vector<OptionRow> rows;
        std::vector<std::vector<HeadTrial>> present;
        for (const auto& head : heads)
            present.push_back({{head.chosen, head.residual}});
        for (const auto& turn : turns) {
            OptionRow& row = rows.emplace_back();
            for (const auto& head : heads) {
                row.options.push_back(head.chosen);
                turn(row.options.back());
                row.counted.push_back(std::ranges::find(head.tried, row.options.back(), &HeadTrial::option) == head.tried.end());
            }
            if (std::ranges::find(row.counted, true) == row.counted.end())
                rows.pop_back(); // every head has tried that
        }
        stage(rows, std::move(present));
    }
    return heads;
}

std::vector<HeadTrial> bestTrials(const std::vector<std::vector<HeadTrial>>& trials) {
    std::vector<HeadTrial> best;
    for (const auto& head : trials)
        best.push_back(*std::ranges::min_element(head, {}, &HeadTrial::residual));
    return best;
}

} // namespace linnet::core
