#include "core/torch_pch.h"

#include "core/convert/student_head.h"

#include "core/mixers/short_convolution.h"

#include <numbers>

namespace linnet::core {
namespace {

std::vector<float> values(const at::Tensor& tensor) {
    const at::Tensor host = tensor.to(at::kCPU, at::kFloat).contiguous();
    return {host.const_data_ptr<float>(), host.const_data_ptr<float>() + host.numel()};
}

// What the head's rule gets of x [1, T, hidden], as linearReadout makes it.
void fillRule(HeadView& view, const StudentHead& student, const at::Tensor& x) {
    const auto& layer = student.layer;
    const auto& spec = *student.spec;
    const auto T = x.size(1), D = student.shape.headDim;
    const double qScale = 1 / std::sqrt(static_cast<double>(D));
    const auto stream = [&](const at::Tensor& proj, const at::Tensor& conv, double scale) {
        return shortConvolution(at::linear(x, proj), spec.shortConvolution ? conv : at::Tensor(), {}, {1, spec.qkL2Norm ? scale : 0}).view({T, D});
    };
    view.q = values(spec.qkL2Norm ? stream(layer.qProj, layer.qConv, qScale) : stream(layer.qProj, layer.qConv, 0) * qScale);
    view.k = values(stream(layer.kProj, layer.kConv, 1));
    view.v = values(stream(layer.vProj, layer.vConv, 0));
    view.deltaRule = spec.deltaRule, view.decays = spec.decay != Decay::None, view.writes = spec.write != WriteGate::One;
    at::Tensor decay = at::zeros({T}), write = at::ones({T}), gate = at::ones({T});
    if (view.decays) {
        const at::Tensor input = spec.decay == Decay::ConstantPerHead ? at::zeros({T, 1}, x.options()) : at::linear(x[0], layer.aProj);
        decay = (-layer.aLog.exp() * at::softplus(input + layer.dtBias)).view({T});
    }
    if (view.writes)
        write = at::linear(x[0], layer.bProj).sigmoid().view({T});
    if (spec.outputGate)
        gate = outputGate(layer, x).square().mean(-1).sqrt().view({T});
    view.logDecay = values(decay), view.beta = values(write), view.gate = values(gate);
    const double rate = -decay.mean().item<double>();
    view.halfLife = student.halfLife.value_or(rate > 0 ? std::numbers::ln2 / rate : INFINITY);
    view.outputGate = student.outputGate.value_or(gate.square().mean().sqrt().item<double>());
    view.valueScale = student.valueScale;
    view.trained = student.trained;
}

void fillHistogram(HeadView& view, const HeadRequest& request, const at::Tensor& distances) {
    const auto layer = static_cast<std::size_t>(request.layer), head = static_cast<std::size_t>(request.head);
    if (request.profile && layer < request.profile->layers.size() && head < request.profile->layers[layer].size()) {
        view.distanceEdges = request.profile->edges;
        view.distanceMass = request.profile->layers[layer][head].histogram;
    } else if (distances.defined()) { // exact bins, without the sinks
        const at::Tensor mass = distances[request.head].contiguous();
        view.distanceMass.assign(mass.const_data_ptr<double>(), mass.const_data_ptr<double>() + mass.numel());
        for (std::size_t edge = 0; edge <= view.distanceMass.size(); ++edge)
            view.distanceEdges.push_back(static_cast<double>(edge));
    }
}

TopMass topMassOf(TargetProbe::State& state, std::int64_t head, const Control& control) {
    if (const auto known = state.topMass.find(head); known != state.topMass.end())
        return known->second;
    std::vector<std::vector<float>> patterns;
    for (std::int64_t n = 0; n < std::min(kTopWindows, state.sequences); ++n) {
        control.checkpoint();
        patterns.push_back(values(teacherAttention(*state.teacher, *state.weights, state.capture.x.narrow(0, n, 1), head)));
    }
    return state.topMass[head] = topMass(patterns, state.capture.x.size(1));
}

std::vector<TokenId> idsOf(TargetProbe::State& state, const std::string& text, std::int64_t& whole) {
    std::vector<TokenId> ids;
    if (text.empty()) {
        ids.assign(state.calibration.ids.begin(), state.calibration.ids.begin() + std::min(state.calibration.seqLen, kProbeTokens));
        whole = std::ssize(ids);
        return ids;
    }
    ids = modelTokenizer(*state.teacher).encode(text, false);
    whole = std::ssize(ids);
    ids.resize(static_cast<std::size_t>(std::min(whole, kProbeTokens)));
    if (ids.empty())
        fail(ErrorCode::Usage, "the probe text has no token", {{"key", "text"}});
    return ids;
}

} // namespace

TopMass topMass(const std::vector<std::vector<float>>& patterns, std::int64_t length) {
    TopMass top;
    top.windows = std::ssize(patterns), top.rows = top.windows * length;
    top.se.fill(NAN);
    const auto n = static_cast<double>(patterns.size());
    std::vector<std::array<double, kTopSources.size()>> windows; // mean over the rows of each
    for (const auto& pattern : patterns) {
        auto& mean = windows.emplace_back();
        for (std::int64_t t = 0; t < length; ++t) {
            std::vector<float> row(pattern.begin() + t * length, pattern.begin() + t * length + t + 1);
            std::partial_sort(row.begin(), row.begin() + std::min(std::ssize(row), kTopSources.back()), row.end(), std::greater());
            double sum = 0;
            for (std::size_t k = 0, s = 0; k < kTopSources.size(); ++k) {
                for (; s < static_cast<std::size_t>(kTopSources[k]) && s < row.size(); ++s)
                    sum += static_cast<double>(row[s]);
                mean[k] += sum / static_cast<double>(length);
            }
        }
        for (std::size_t k = 0; k < kTopSources.size(); ++k)
            top.mean[k] += mean[k] / n;
    }
    for (std::size_t k = 0; k < kTopSources.size(); ++k) {
        double square = 0;
        for (const auto& mean : windows)
            square += (mean[k] - top.mean[k]) * (mean[k] - top.mean[k]);
        if (windows.size() > 1)
            top.se[k] = std::sqrt(square / (n - 1) / n);
    }
    return top;
}

Result<HeadView> headView(TargetProbe& probe, const Recipe& recipe, const HeadRequest& request, const Control& control) {
    return guarded([&] {
        const at::NoGradGuard noGradients;
        auto& state = probe.state();
        HeadView view;
        const auto ids = idsOf(state, request.text, view.textTokens); // before the search: it may be no text
        const auto [context, student] = openHead(state, recipe, request, control);
        view.layer = request.layer, view.head = request.head, view.length = std::ssize(ids), view.headDim = state.teacher->config().headDim;
        view.tokens = tokenPieces(*state.teacher, ids);
        const at::Tensor x = state.inputOf(ids, control);
        view.teacher = values(teacherAttention(*state.teacher, *state.weights, x, request.head));
        control.checkpoint();
        fillRule(view, student, x.to(at::kFloat));
        const at::Tensor unit = floatOn(*state.teacher, state.moments.unitRow()), mean = floatOn(*state.teacher, state.moments.mean);
        view.unit = values(x.to(at::kFloat)[0].mv(unit));
        view.betaMean = !view.writes ? 1 : student.beta ? *student.beta : 1 / (1 + std::exp(-student.layer.bProj[0].dot(mean).item<double>()));
        fillHistogram(view, request, state.distances);
        view.top = topMassOf(state, request.head, control);
        return view;
    });
}

} // namespace linnet::core
