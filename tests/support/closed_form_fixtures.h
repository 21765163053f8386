// One layer of a random teacher with what the closed form reads of it, and the questions to closed_form_oracle.py.
#pragma once

#include "core/torch_pch.h"

#include "core/base/files.h"
#include "core/convert/closed_form.h"
#include "core/convert/gate_fit.h"
#include "core/convert/tensor_file.h"
#include "tests/support/oracle_process.h"
#include "tests/support/random_model.h"

namespace linnet::tests {

inline core::LayerCapture captureOf(const core::Model& model, const core::LayerWeights& weights, const at::Tensor& hidden) {
    core::LayerCapture capture;
    capture.x = attentionInput(model, weights, hidden);
    capture.heads = headOutputs(model, weights, capture.x);
    capture.target = outputProjection(weights, capture.heads);
    return capture;
}

struct ClosedFormCase {
    static constexpr std::int64_t kLayer = 1;
    core::ModelPtr model;
    core::TokenWindows windows;
    core::Recipe recipe;
    std::shared_ptr<const core::LayerWeights> weights;
    core::LayerCapture capture;
    core::InputMoments moments;

    explicit ClosedFormCase(const core::ModelConfig& config, std::int64_t sequences = 5, std::int64_t tokens = 24, at::ScalarType dtype = at::kFloat, at::Device device = at::kCPU)
        : model(randomModel(config, device, dtype)), windows{{}, sequences, tokens}, recipe(core::defaultRecipe("cpu", "linnet")) {
        const at::NoGradGuard noGradients;
        const at::Tensor ids = someIds(sequences, tokens, config.vocabSize);
        for (std::int64_t i = 0; i < ids.numel(); ++i)
            windows.ids.push_back(static_cast<core::TokenId>(ids.flatten()[i].item<std::int64_t>()));
        weights = model->layer(kLayer);
        capture = captureOf(*model, *weights, runBlock(*model, *model->layer(0), nullptr, model->embed(ids.to(device))));
        moments = core::inputMoments(capture.x);
        recipe.keep = core::parseKeepRule("first:0");
        recipe.closedForm.sequences = sequences;
        recipe.closedForm.gate = "constant";
        recipe.align.steps = 0;
    }
    core::LayerContext context() const { return {*model, *weights, kLayer, recipe, capture, moments, nullptr}; }
    core::ClosedFormFit fit(const std::function<void(core::Recipe&)>& change = {}) const {
        ClosedFormCase other = *this;
        if (change)
            change(other.recipe);
        return core::closedForm(other.context(), {});
    }
};

inline core::Json optionsOf(const core::ClosedFormFit& fit) { // that were chosen, by head
    core::Json all = core::Json::array();
    for (const auto& head : fit.heads) {
        core::Json json = headFitToJson(head);
        json.erase("tried");
        all.push_back(json);
    }
    return all;
}

// A case for the oracle; `choices` are sets of options whose joint objective is wanted.
inline core::Json oracleCase(const ClosedFormCase& one, const core::ClosedFormFit& fit, const std::string& file, const std::vector<core::Json>& choices) {
    const auto& config = one.model->config();
    const auto& attention = one.weights->attention;
    core::NamedTensors tensors{{"x", one.capture.x}, {"heads", one.capture.heads}, {"target", one.capture.target}, {"qkv", attention.qkv}, {"o", attention.o}};
    for (const auto& [name, tensor] : {std::pair("bias", attention.qkvBias), std::pair("q_norm", attention.qNorm), std::pair("k_norm", attention.kNorm)})
        if (tensor.defined())
            tensors.emplace_back(name, tensor);
    const bool regression = one.recipe.closedForm.gate == "regression";
    if (regression) {
        const auto gate = fitGate(one.context(), fit.layer, one.recipe.closedForm.gateRounds, {});
        tensors.emplace_back("gate", fit.layer.gProj);
        tensors.emplace_back("toward", gate.oProj);
    }
    core::saveTensors(file, tensors);
    core::Json options = core::Json::array(), levels = core::Json::array();
    for (std::size_t h = 0; h < fit.heads.size(); ++h) {
        options.push_back(headFitToJson(fit.heads[h]).at("tried"));
        levels.push_back(1.0);
    }
    const auto& settings = one.recipe.closedForm;
    return {{"file", file}, {"heads", config.heads}, {"kv_heads", config.kvHeads}, {"head_dim", config.headDim}, {"eps", config.rmsNormEps}, {"theta", config.rope.theta},
            {"sequences", std::min(settings.sequences, one.windows.sequences)}, {"value_rms", settings.valueRms}, {"ridge", settings.ridge},
            {"output_ridge", regression && one.recipe.align.steps > 0 ? settings.ridgeBeforeAlignment : settings.ridge},
            {"options", options}, {"levels", levels}, {"chosen", optionsOf(fit)}, {"choices", choices}};
}

} // namespace linnet::tests
