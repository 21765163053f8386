#include "core/torch_pch.h"

#include "core/convert/output_metric.h"

#include "core/base/result.h"
#include "core/distill/trained_block.h"
#include "core/evaluate/evaluate_model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/InferenceMode.h>

namespace linnet::core {
namespace {

constexpr double kShrink = 0.1;                            // s: of what few gradients say little about
constexpr std::int64_t kScoreElements = std::int64_t(1) << 25; // of a piece of logits
constexpr std::int64_t kGpuTokens = 48 * 512, kCpuTokens = 24 * 256;

// J' g of `forward` at `at`.
template <class Forward> at::Tensor pulledBack(const Forward& forward, const at::Tensor& at, const at::Tensor& g) {
    const at::AutoGradMode gradients(true);
    const at::Tensor leaf = at.detach().requires_grad_();
    return torch::autograd::grad({forward(leaf)}, {leaf}, {g}).front();
}

// Gradient of the sum over tokens of -log p(y), y drawn from p, with respect to the last block's output [B, T, hidden].
at::Tensor scoreGradient(const Model& teacher, const at::Tensor& hidden, const at::Generator& generator) {
    const at::Tensor normed = teacher.finalNorm(hidden).flatten(0, 1);
    at::Tensor g = at::empty_like(normed);
    const auto count = std::max<std::int64_t>(1, kScoreElements / teacher.config().vocabSize);
    for (std::int64_t n = 0; n < normed.size(0); n += count) {
        const auto rows = std::min(count, normed.size(0) - n);
        at::Tensor p = teacher.logits(normed.narrow(0, n, rows)).to(at::kFloat).softmax(-1);
        const at::Tensor y = at::multinomial(p, 1, true, generator);
        p.scatter_add_(1, y, at::full({rows, 1}, -1.0, p.options()));
        g.narrow(0, n, rows).copy_(p.to(g.scalar_type()).matmul(teacher.head()));
    }
    return pulledBack([&](const at::Tensor& h) { return teacher.finalNorm(h); }, hidden, g.view_as(hidden));
}

OutputMetric metricOf(const at::Tensor& fisher) {
    const at::Tensor mean = fisher.diagonal().mean();
    if (!std::isfinite(mean.item<double>()))
        fail(ErrorCode::Internal, "the teacher's gradients are not finite; try dtype bf16 or f32 in place of f16", {{"key", "align.loss"}});
    at::Tensor blend = fisher * ((1 - kShrink) / mean.clamp_min(1e-300));
    blend.diagonal().add_(kShrink);
    const auto [values, vectors] = at::linalg_eigh(blend);
    const at::Tensor root = values.clamp_min(kShrink).sqrt(); // F has no negative eigenvalue but by rounding
    const auto scaled = [&, v = vectors](const at::Tensor& by) { return (v * by).matmul(v.t()).to(at::kFloat).contiguous(); };
    return {scaled(root), scaled(root.reciprocal())};
}

} // namespace

std::vector<OutputMetric> outputMetrics(const Model& teacher, const TokenWindows& windows, std::uint64_t seed, const Control& control) {
    const c10::InferenceMode normalTensors(false);
    const at::NoGradGuard noGradients;
    const auto device = teacher.device();
    const auto layers = static_cast<std::size_t>(teacher.config().layers);
    const auto width = teacher.config().hiddenSize;
    const at::Generator generator = device.is_cuda() ? at::detail::getCUDAHooks().getNewGenerator(device.index()) : at::detail::createCPUGenerator();
    at::Generator(generator).set_current_seed(seed);
    const at::Tensor ids = windowTensor(windows, device);
    const auto N = ids.size(0), piece = std::max<std::int64_t>(1, (device.is_cuda() ? 4096 : 1024) / ids.size(1));
    std::vector<at::Tensor> fisher;
    for (std::size_t l = 0; l < layers; ++l)
        fisher.push_back(at::zeros({width, width}, at::TensorOptions(device).dtype(at::kDouble)));
    for (std::int64_t n = 0; n < N; n += piece) {
        // Every block's input and its stream after the attention's addition stay; blocks run again on the way back, one at a time.
        std::vector<at::Tensor> inputs, middles;
        at::Tensor hidden = teacher.embed(ids.narrow(0, n, std::min(piece, N - n)));
        for (std::size_t l = 0; l < layers; ++l) {
            control.checkpoint();
            const auto weights = teacher.layer(static_cast<std::int64_t>(l));
            inputs.push_back(hidden);
            middles.push_back(hidden + mixerOutput(teacher, *weights, mixerAt(teacher.mixers(), static_cast<std::int64_t>(l)), attentionInput(teacher, *weights, hidden)));
            hidden = middles.back() + feedForward(teacher, *weights, middles.back());
        }
        at::Tensor g = scoreGradient(teacher, hidden, generator);
        for (std::size_t l = layers; l-- > 0;) {
            control.checkpoint();
            const auto weights = teacher.layer(static_cast<std::int64_t>(l));
            const auto mlp = [&](const at::Tensor& h) { return feedForward(teacher, *weights, h); };
            const at::Tensor rows = (g + pulledBack(mlp, middles[l], g)).flatten(0, 1).to(at::kFloat);
            fisher[l] += rows.t().matmul(rows).to(at::kDouble);
            if (l > 0) // the whole block, not its attention alone: keptBlock gives the same bits each time
                g = pulledBack([&](const at::Tensor& h) { return keptBlock(teacher, *weights, mixerAt(teacher.mixers(), static_cast<std::int64_t>(l)), h); }, inputs[l], g);
        }
    }
    std::vector<OutputMetric> metrics;
    for (at::Tensor& f : fisher) {
        control.checkpoint();
        metrics.push_back(metricOf(f));
        f.reset();
    }
    return metrics;
}

TokenWindows metricWindows(const TokenWindows& calibration, at::Device device) {
    const auto wanted = std::clamp<std::int64_t>((device.is_cuda() ? kGpuTokens : kCpuTokens) / calibration.seqLen, 1, calibration.sequences);
    std::vector<std::int64_t> rows;
    for (std::int64_t i = 0; i < wanted; ++i)
        rows.push_back(i * calibration.sequences / wanted);
    return calibration.rows(rows);
}

} // namespace linnet::core
