// Small students of random teachers, with text to train them on.
#pragma once

#include "core/torch_pch.h"

#include "core/distill/micro_batch.h"
#include "core/distill/train.h"
#include "tests/support/random_model.h"

namespace linnet::tests {

inline core::ModelConfig tinyStudentConfig(const std::function<void(core::ModelConfig&)>& change = {}) {
    return smallConfig([&](core::ModelConfig& c) {
        c.layers = 4, c.hiddenSize = 32, c.heads = 4, c.kvHeads = 2, c.headDim = 16, c.intermediateSize = 48, c.vocabSize = 101;
        if (change)
            change(c);
    });
}

inline core::LinearLayer randomLinearLayer(const core::LinearShape& shape, std::uint64_t seed) {
    auto generator = at::detail::createCPUGenerator(seed);
    const auto draw = [&](std::vector<std::int64_t> sizes, double scale) { return at::randn(sizes, generator) * scale; };
    const auto width = shape.heads * shape.headDim;
    core::LinearLayer layer;
    for (auto* projection : {&layer.qProj, &layer.kProj, &layer.vProj, &layer.gProj})
        *projection = draw({width, shape.hidden}, 0.2);
    for (auto* taps : {&layer.qConv, &layer.kConv, &layer.vConv}) {
        *taps = draw({width, core::kConvTaps}, 0.2);
        taps->select(1, core::kConvTaps - 1).add_(1);
    }
    layer.aProj = draw({shape.heads, shape.hidden}, 0.2), layer.bProj = draw({shape.heads, shape.hidden}, 0.2);
    layer.aLog = draw({shape.heads}, 0.5), layer.dtBias = draw({shape.heads}, 0.5) - 2,
    layer.oNorm = draw({shape.headDim}, 0.1) + 1;
    layer.oProj = draw({shape.hidden, width}, 0.1);
    return layer;
}

inline core::Mixers randomStudent(const core::Model& teacher, const std::vector<std::int64_t>& converted,
                                  const std::string& mixer = "gated_delta_net") {
    core::Mixers mixers;
    for (const auto layer : converted) {
        core::LinearLayer linear = core::mapped(randomLinearLayer(teacher.linearShape(), static_cast<std::uint64_t>(layer) + 5),
                                                [&](const at::Tensor& t) { return t.to(teacher.device()); });
        mixers[layer] = core::Mixer{core::Mixer::Kind::Linear, &core::mixerSpec(mixer), linear};
    }
    return mixers;
}

inline core::TokenWindows someWindows(std::int64_t sequences, std::int64_t seqLen, std::int64_t vocabulary) {
    core::TokenWindows windows{{}, sequences, seqLen};
    for (std::int64_t i = 0; i < sequences * seqLen; ++i)
        windows.ids.push_back(static_cast<core::TokenId>((i * i * 31 + i * 7 + 11) % vocabulary));
    return windows;
}

inline core::DistillState copyOf(const core::DistillState& state) {
    core::DistillState copy = state;
    for (auto& [layer, parameters] : copy.parameters)
        parameters = core::mapped(parameters, [](const at::Tensor& t) { return t.detach().clone(); });
    for (auto* moments : {&copy.first, &copy.second})
        for (auto& [layer, tensors] : *moments)
            for (at::Tensor& t : tensors)
                t = t.defined() ? t.clone() : t;
    return copy;
}

inline std::vector<at::Tensor> tensorsOf(const core::LinearLayer& layer) { // in the order of names()
    std::vector<at::Tensor> tensors;
    const std::function<void(const std::string&, const at::Tensor&)> add = [&](const std::string&, const at::Tensor& t) {
        tensors.push_back(t);
    };
    layer.forEach(add);
    return tensors;
}

inline bool sameBits(const core::DistillState& a, const core::DistillState& b) {
    if (a.step != b.step || a.parameters.size() != b.parameters.size() || a.lossFirst != b.lossFirst ||
        a.lossLast != b.lossLast)
        return false;
    for (const auto& [layer, parameters] : a.parameters) {
        const auto x = tensorsOf(parameters), y = tensorsOf(b.parameters.at(layer));
        for (std::size_t i = 0; i < x.size(); ++i)
            if (!x[i].equal(y[i]) || !a.first.at(layer)[i].equal(b.first.at(layer)[i]) ||
                !a.second.at(layer)[i].equal(b.second.at(layer)[i]))
                return false;
    }
    return true;
}

// Masters of `student` whose gradients addDistillGradients adds up.
inline core::DistillStudent trainable(const core::Model& teacher, const core::Mixers& student) {
    core::DistillStudent result{teacher, *student.begin()->second.spec, {}};
    for (const auto& [layer, mixer] : student)
        result.masters[layer] =
            core::mapped(mixer.linear, [](const at::Tensor& t) { return t.detach().clone().requires_grad_(); });
    return result;
}

// Every gradient in one vector, on the CPU; zeros where a tensor has none.
inline at::Tensor gradientsOf(const core::DistillStudent& student) {
    std::vector<at::Tensor> all;
    for (const auto& [layer, masters] : student.masters)
        for (const at::Tensor& t : tensorsOf(masters))
            all.push_back((t.grad().defined() ? t.grad() : at::zeros_like(t.detach())).flatten().cpu());
    return at::cat(all);
}

// A run with its rows.
struct DistillRun {
    core::DistillSettings settings;
    core::TokenWindows windows;
    std::string mixer = "gated_delta_net";
    std::uint64_t seed = 7, memoryBytes = 0;
    core::Control control;
    std::map<std::int64_t, std::function<void(core::LinearLayer&)>> afterStep;
    std::function<void(const core::DistillRow&)> onRow;
    std::vector<core::DistillRow> rows;
    std::vector<core::DistillState> saved;

    void operator()(const core::Model& teacher, core::DistillState& state) {
        core::distillStudent({teacher, core::mixerSpec(mixer), settings, seed, windows, afterStep, memoryBytes, control,
                              [this](const core::DistillRow& row) {
                                  rows.push_back(row);
                                  if (onRow)
                                      onRow(row);
                              },
                              [this](const core::DistillState& s) { saved.push_back(copyOf(s)); }},
                             state);
    }
};

inline DistillRun shortRun(const core::ModelConfig& config, std::int64_t steps = 4, std::int64_t batch = 5,
                           std::int64_t seqLen = 20) {
    DistillRun run;
    run.settings.steps = steps;
    run.settings.batch = batch;
    run.settings.lr = 3e-3;
    run.windows = someWindows(13, seqLen, config.vocabSize);
    return run;
}

} // namespace linnet::tests
