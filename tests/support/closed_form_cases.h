// What closed_form_oracle.py is asked: teachers of several shapes with the fits that it shall judge.
#pragma once

#include "core/convert/closed_form_joint.h"
#include "tests/support/closed_form_fixtures.h"

namespace linnet::tests {

inline core::ModelConfig shape(std::int64_t heads, std::int64_t kvHeads, std::int64_t headDim, std::int64_t hidden, const std::function<void(core::ModelConfig&)>& change = {}) {
    return smallConfig([&](core::ModelConfig& c) {
        c.layers = 2, c.heads = heads, c.kvHeads = kvHeads, c.headDim = headDim, c.hiddenSize = hidden, c.intermediateSize = 40;
        if (change)
            change(c);
    });
}
inline core::ModelConfig llama() { return shape(9, 3, 8, 48); }

inline constexpr std::size_t kTurns = 8; // of a Llama's heads after the grid: sign, RoPE, centring, 3 scales, 2 priors

inline void fitAll(core::Recipe& recipe) {
    recipe.ropeTreatment = recipe.biasTreatment = recipe.qkNormTreatment = "fit";
}

inline bool sameBits(const core::ClosedFormFit& a, const core::ClosedFormFit& b) {
    bool same = a.residual == b.residual;
    for (std::size_t h = 0; h < a.heads.size(); ++h)
        same = same && a.heads[h].chosen == b.heads[h].chosen && a.heads[h].residual == b.heads[h].residual;
    const auto& other = b.layer;
    std::vector<at::Tensor> right;
    other.forEach(std::function<void(const std::string&, const at::Tensor&)>([&](const std::string&, const at::Tensor& t) { right.push_back(t); }));
    std::size_t i = 0;
    a.layer.forEach(std::function<void(const std::string&, const at::Tensor&)>([&](const std::string&, const at::Tensor& t) { same = same && at::equal(t, right[i++]); }));
    return same;
}

inline at::Tensor meanWriteLogits(const ClosedFormCase& one, const core::LinearLayer& layer) { // [H]
    return one.capture.x.to(at::kDouble).matmul(layer.bProj.to(at::kDouble).t()).mean(at::IntArrayRef{0, 1});
}

inline double rate(const core::LinearLayer& layer, std::int64_t head) {
    return std::exp(layer.aLog[head].item<double>()) * std::log1p(std::exp(layer.dtBias[head].item<double>()));
}

struct AskedCase {
    core::ClosedFormFit fit;
    core::Json question, answer;
    std::map<std::string, at::Tensor> layer; // the oracle's
};

inline std::map<std::string, AskedCase> closedFormCases(const std::string& folder) {
    std::map<std::string, AskedCase> cases;
    const auto ask = [&](const std::string& name, const ClosedFormCase& one, const std::function<std::vector<core::Json>(const core::ClosedFormFit&)>& choices = {}) {
        AskedCase asked{one.fit(), {}, {}, {}};
        asked.question = oracleCase(one, asked.fit, folder + "/" + name + ".safetensors", choices ? choices(asked.fit) : std::vector<core::Json>());
        cases[name] = std::move(asked);
    };

    ClosedFormCase plain(llama());
    plain.recipe.closedForm.sequences = 4;
    const auto gridOnly = plain.fit([](core::Recipe& r) { r.closedForm.refine = false; });
    ask("llama, 9 heads of 3", plain, [&](const core::ClosedFormFit& fit) { return std::vector{optionsOf(gridOnly), optionsOf(fit)}; });

    ClosedFormCase qwen3(shape(4, 2, 16, 40, [](core::ModelConfig& c) { c.modelType = "qwen3", c.qkNorm = true; }));
    fitAll(qwen3.recipe);
    qwen3.recipe.closedForm.joint = false;
    qwen3.recipe.closedForm.gate = "regression";
    qwen3.recipe.align.steps = 10;
    ask("qwen3, own choice, gate regression", qwen3);

    ClosedFormCase qwen2(shape(6, 1, 8, 24, [](core::ModelConfig& c) { c.modelType = "qwen2", c.qkvBias = true; }));
    qwen2.recipe.closedForm.refine = false;
    qwen2.recipe.closedForm.joint = true;
    const auto own = qwen2.fit([](core::Recipe& r) { r.closedForm.joint = false; });
    ask("qwen2, grid only", qwen2, [&](const core::ClosedFormFit& fit) { // own choice, joint choice, and each single move from it
        std::vector<core::Json> choices{optionsOf(own), optionsOf(fit)};
        for (std::size_t h = 0; h < fit.heads.size(); ++h) {
            auto sorted = fit.heads[h].tried;
            std::ranges::stable_sort(sorted, {}, &core::HeadTrial::residual);
            for (std::size_t k = 0; k < core::JointChoice::kCandidates; ++k) {
                core::ClosedFormFit moved;
                moved.heads = fit.heads;
                moved.heads[h].chosen = sorted[k].option;
                choices.push_back(optionsOf(moved));
            }
        }
        return choices;
    });

    ClosedFormCase refined(shape(6, 2, 8, 24, [](core::ModelConfig& c) { c.modelType = "qwen2", c.qkvBias = true; }), 4, 31);
    fitAll(refined.recipe);
    ask("qwen2, all parts", refined);

    ask("one head", ClosedFormCase(shape(1, 1, 8, 16)));

    ClosedFormCase folded(shape(3, 3, 10, 32, [](core::ModelConfig& c) { c.modelType = "qwen2", c.qkvBias = true; }), 1, 40);
    folded.recipe.ropeTreatment = "fold";
    folded.recipe.biasTreatment = "drop";
    folded.recipe.closedForm.halfLives = {0.3, 300};
    folded.recipe.closedForm.betas = {.3};
    folded.recipe.closedForm.valueRms = 1;
    ask("folded, one window", folded);
    return cases;
}

} // namespace linnet::tests
