#include "core/torch_pch.h"

#include "core/convert/closed_form.h"

#include "core/convert/closed_form_joint.h"
#include "core/convert/closed_form_output.h"
#include "core/convert/closed_form_score.h"
#include "core/convert/gate_fit.h"

namespace linnet::core {
namespace {

constexpr std::int64_t kPieceTokens = 1024, kPieceTokensCuda = 65536; // of the pass over all windows

std::vector<std::int64_t> allHeads(const LayerContext& context) {
    std::vector<std::int64_t> heads(static_cast<std::size_t>(context.teacher.config().heads));
    std::iota(heads.begin(), heads.end(), 0);
    return heads;
}

// A joint choice of heads whose gates keep their levels over the tokens.
std::optional<JointChoice> jointChoice(const LayerContext& context, const HeadRows& rows, const HeadScorer& scorer, const Control& control) {
    if (!context.recipe.closedForm.joint)
        return std::nullopt;
    std::vector<at::Tensor> factors;
    for (const auto head : allHeads(context)) {
        const at::Tensor gate = at::silu(scorer.gateInput() * inverseSiLU(rows.gateLevel(head)));
        factors.push_back(mixerSpec(context.recipe.mixer).outputGate ? gate : at::ones_like(gate));
    }
    const at::Tensor target = floatOn(context.teacher, context.capture.target.narrow(0, 0, scorer.windows())).flatten(0, 1);
    return JointChoice(std::move(factors), target, context.recipe.closedForm.ridge, control);
}

// Explores what the heads may do and chooses; leaves the fit's heads behind.
void chooseOptions(ClosedFormFit& fit, const LayerContext& context, const HeadRows& rows, HeadScorer& scorer, const Control& control) {
    std::vector<OptionSpace> spaces;
    for (const auto head : allHeads(context))
        spaces.push_back(optionSpace(context, rows.distancesKnown(), targetOf(context, head)));
    auto joint = jointChoice(context, rows, scorer, control);
    if (joint)
        scorer.onRow = [&](const OptionRow& row, const std::vector<double>& residuals, const at::Tensor& readouts) {
            for (std::size_t h = 0; h < residuals.size(); ++h)
                if (row.counted[h])
                    joint->offer(h, {row.options[h], residuals[h]}, readouts[static_cast<std::int64_t>(h)]);
        };
    const auto choose = [&](const std::vector<std::vector<HeadTrial>>& trials) {
        auto best = bestTrials(trials);
        if (!std::ranges::all_of(best, [](const HeadTrial& trial) { return std::isfinite(trial.residual); }))
            fail(ErrorCode::Malformed, "layer " + std::to_string(context.layer) + ": the closed form meets numbers that are not finite; try dtype f32",
                 {{"layer", std::to_string(context.layer)}});
        return joint ? joint->choose() : best;
    };
    fit.heads = explore(spaces, refinements(context, rows.distancesKnown()), [&](const std::vector<OptionRow>& options) { return scorer.score(options); }, choose);
    scorer.onRow = {};
}

// g_proj and o_proj over all windows, and the layer's residual.
void fitOutput(ClosedFormFit& fit, const LayerContext& context, const Control& control) {
    const auto& capture = context.capture;
    const auto& recipe = context.recipe;
    const auto& spec = mixerSpec(recipe.mixer);
    const auto N = capture.x.size(0), piece = std::max<std::int64_t>(1, (capture.x.is_cuda() ? kPieceTokensCuda : kPieceTokens) / capture.x.size(1));
    const bool regression = recipe.closedForm.gate == "regression" && spec.outputGate;
    double ridge = recipe.closedForm.ridge;
    at::Tensor towards;
    if (regression) {
        auto gate = fitGate(context, fit.layer, recipe.closedForm.gateRounds, control);
        fit.layer.gProj = gate.gProj;
        fit.gateResiduals = std::move(gate.residuals);
        towards = gate.oProj;
        if (recipe.align.steps > 0)
            ridge = recipe.closedForm.ridgeBeforeAlignment;
    }
    OutputRegression output;
    for (std::int64_t n = 0; n < N; n += piece) {
        control.checkpoint();
        const auto some = std::min(piece, N - n);
        const at::Tensor x = floatOn(context.teacher, capture.x.narrow(0, n, some));
        at::Tensor z = fittedReadout(context, fit.layer, x).normed.flatten(2);
        if (spec.outputGate)
            z = z * outputGate(fit.layer, x);
        output.add(z.flatten(0, 1), floatOn(context.teacher, capture.target.narrow(0, n, some)).flatten(0, 1));
    }
    fit.ridge = ridge;
    fit.layer.oProj = output.solve(ridge, towards);
    fit.residual = output.residual(fit.layer.oProj);
    const auto D = context.teacher.config().headDim;
    for (const auto head : allHeads(context))
        if (const auto target = targetOf(context, head); target.valueScale)
            fit.layer.oProj.narrow(1, head * D, D).mul_(*target.valueScale);
}

double residualOf(const HeadFit& head, const HeadOption& option) { // NaN where it was not tried
    const auto found = std::ranges::find(head.tried, option, &HeadTrial::option);
    return found == head.tried.end() ? NAN : found->residual;
}

void costTreatments(ClosedFormFit& fit, const LayerContext& context, const HeadRows& rows, HeadScorer& scorer) {
    const auto& recipe = context.recipe;
    const auto& config = context.teacher.config();
    struct Part {
        const char* name;
        const std::string& treatment;
        bool HeadOption::*folded;
        bool present;
    };
    for (const Part& part : {Part{"rope", recipe.ropeTreatment, &HeadOption::foldRope, rows.distancesKnown()},
                             Part{"bias", recipe.biasTreatment, &HeadOption::foldBias, config.qkvBias},
                             Part{"qk_norm", recipe.qkNormTreatment, &HeadOption::foldQkNorm, config.qkNorm}}) {
        if (!part.present)
            continue;
        OptionRow other;
        for (const auto& head : fit.heads) {
            other.options.push_back(head.chosen);
            other.options.back().*part.folded = !(head.chosen.*part.folded);
            other.counted.push_back(std::isnan(residualOf(head, other.options.back())));
        }
        std::vector<double> measured(fit.heads.size());
        if (std::ranges::find(other.counted, true) != other.counted.end())
            measured = scorer.score({other}).front();
        TreatmentCost cost{part.name, part.treatment};
        const auto heads = static_cast<double>(fit.heads.size());
        for (std::size_t h = 0; h < fit.heads.size(); ++h) {
            const double turned = other.counted[h] ? measured[h] : residualOf(fit.heads[h], other.options[h]);
            const bool folded = fit.heads[h].chosen.*part.folded;
            cost.folded += (folded ? fit.heads[h].residual : turned) / heads;
            cost.dropped += (folded ? turned : fit.heads[h].residual) / heads;
            cost.headsFolded += folded;
        }
        fit.treatments.push_back(cost);
    }
}

Json optionToJson(const HeadOption& option) {
    const Json halfLife = std::isfinite(option.halfLife) ? Json(option.halfLife) : Json();
    return {{"half_life", halfLife}, {"beta", option.beta}, {"histogram_taps", option.histogramTaps}, {"fold_rope", option.foldRope},
            {"fold_bias", option.foldBias}, {"fold_qk_norm", option.foldQkNorm}, {"centred_keys", option.centredKeys},
            {"negated_values", option.negatedValues}, {"query_scale", option.queryScale}, {"key_prior", option.keyPrior}};
}

} // namespace

ClosedFormFit closedForm(const LayerContext& context, const Control& control) {
    const at::NoGradGuard noGradients;
    ClosedFormFit fit;
    const HeadRows rows(context, attentionDistances(context));
    {
        HeadScorer scorer(context, rows, allHeads(context), control);
        chooseOptions(fit, context, rows, scorer, control);
        costTreatments(fit, context, rows, scorer);
    }
    std::vector<HeadOption> options;
    for (const auto& head : fit.heads)
        options.push_back(head.chosen);
    fit.layer = rows.layer(options);
    fitOutput(fit, context, control);
    return fit;
}

Json headFitToJson(const HeadFit& fit) {
    Json tried = Json::array();
    for (const auto& trial : fit.tried) {
        Json json = optionToJson(trial.option);
        json["residual"] = trial.residual;
        tried.push_back(std::move(json));
    }
    Json json = optionToJson(fit.chosen);
    json["residual"] = fit.residual;
    json["tried"] = std::move(tried);
    return json;
}

Json closedFormToJson(std::int64_t layer, const ClosedFormFit& fit) {
    Json heads = Json::array(), treatments = Json::array();
    for (const auto& head : fit.heads)
        heads.push_back(headFitToJson(head));
    for (const auto& cost : fit.treatments)
        treatments.push_back({{"part", cost.part}, {"treatment", cost.treatment}, {"residual_folded", cost.folded}, {"residual_dropped", cost.dropped}, {"heads_folded", cost.headsFolded}});
    return {{"layer", layer}, {"residual", fit.residual}, {"ridge", fit.ridge}, {"gate_residuals", fit.gateResiduals}, {"heads", heads}, {"treatments", treatments}};
}

} // namespace linnet::core
