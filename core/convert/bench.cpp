#include "core/torch_pch.h"

#include "core/convert/bench.h"

#include "core/base/json.h"
#include "core/base/result.h"
#include "core/convert/bench_cuda.h"
#include "core/mixers/gated_delta_net.h"
#include "core/mixers/mixer_spec.h"
#include "core/model/device.h"
#include "core/profile/layer_statistics.h"
#include "linnet/kernels/launch.h"

#include <chrono>

namespace linnet::core {
namespace {

// Median of five timed calls after one warm-up; the device's queue is emptied by reading `result` back.
double milliseconds(const std::function<at::Tensor()>& call, const Control& control) {
    std::vector<double> times;
    for (int i = 0; i < 6; ++i) {
        control.checkpoint();
        const auto begin = std::chrono::steady_clock::now();
        call().sum().item<double>();
        times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    }
    std::sort(times.begin() + 1, times.end());
    return times[3];
}

LinearLayer randomLayer(const LinearShape& s, const at::TensorOptions& options) {
    const auto width = s.heads * s.headDim;
    const auto matrix = [&](std::int64_t rows, std::int64_t columns) { return (at::randn({rows, columns}, options) * 0.02).requires_grad_(); };
    LinearLayer layer;
    layer.qProj = matrix(width, s.hidden), layer.kProj = matrix(width, s.hidden), layer.vProj = matrix(width, s.hidden), layer.gProj = matrix(width, s.hidden);
    layer.qConv = matrix(width, kConvTaps), layer.kConv = matrix(width, kConvTaps), layer.vConv = matrix(width, kConvTaps);
    layer.aProj = matrix(s.heads, s.hidden), layer.bProj = matrix(s.heads, s.hidden), layer.oProj = matrix(s.hidden, width);
    layer.aLog = at::zeros({s.heads}, options).requires_grad_(), layer.dtBias = at::zeros({s.heads}, options).requires_grad_();
    layer.oNorm = at::ones({s.headDim}, options).requires_grad_();
    return layer;
}

BenchmarkRow attentionRow(const Control& control) {
    ModelConfig config;
    config.layers = 1, config.heads = 9, config.kvHeads = 3, config.headDim = 64, config.hiddenSize = 576;
    constexpr std::int64_t H = 9, K = 3, T = 2048, D = 64;
    const QueryKeyValue qkv{at::randn({1, H, T, D}), at::randn({1, K, T, D}), at::randn({1, K, T, D})};
    LayerWeights layer;
    layer.attention.o = at::randn({576, H * D});
    const double ms = milliseconds([&] { return layerStatistics(config, layer, qkv, 2).values; }, control);
    return {"attention_statistics", "B1 H9/3 T2048 D64 (cpu)", ms, 2.0 * H * T * T * D, 4.0 * T * D * (H + 2 * K), 0};
}

} // namespace

std::vector<BenchmarkRow> benchmark(const std::string& operation, const std::string& deviceName, const Control& control) {
    const std::vector<std::string> known{"matmul", "attention_statistics", "gated_delta_rule", "alignment_step"};
    if (!operation.empty() && std::find(known.begin(), known.end(), operation) == known.end())
        fail(ErrorCode::Usage, "bench: unknown operation \"" + operation + "\"; matmul, attention_statistics, gated_delta_rule and alignment_step are known", {{"value", operation}});
    const at::Device device = deviceFromName(deviceName);
    const auto options = at::TensorOptions(device).dtype(at::kFloat);
    constexpr std::int64_t kSize = 1024, B = 4, T = 256, H = 9, D = 64, hidden = 576;
    const at::Tensor a = at::randn({kSize, kSize}, options);
    BenchmarkRow floor{"matmul", "1024x1024x1024 f32", milliseconds([&] { return a.matmul(a); }, control), 2.0 * kSize * kSize * kSize, 12.0 * kSize * kSize, 1};
    const auto& spec = mixerSpec("gated_delta_net");
    const double ruleFlop = ruleForwardFlop(B * T * H, D);
    const bool ownKernels = device.is_cuda() && kernels::cudaKernelsBuilt();
    const auto asked = [&](const char* name) { return operation.empty() || operation == name; };
    std::vector<BenchmarkRow> rows{floor};
    if (asked("attention_statistics") && !ownKernels)
        rows.push_back(attentionRow(control));
    if (asked("gated_delta_rule") && !ownKernels) {
        const auto unit = [&] { const at::Tensor t = at::randn({B, T, H, D}, options); return t / t.norm(2, -1, true); };
        RecurrenceInputs in;
        in.q = unit() * 0.125, in.k = unit(), in.v = at::randn({B, T, H, D}, options);
        in.logDecay = -at::rand({B, T, H}, options), in.write = at::rand({B, T, H}, options);
        const at::NoGradGuard noGradients;
        rows.push_back({"gated_delta_rule", "B4 T256 H9 D64 forward", milliseconds([&] { return chunkwise(spec, in).o; }, control), ruleFlop, 16.0 * B * T * H * D, 0});
    }
    if (asked("alignment_step")) {
        const LinearShape shape{H, D, hidden, 1e-5};
        const auto layer = randomLayer(shape, options);
        const at::Tensor x = at::randn({B, T, hidden}, options);
        const double flop = 3 * (2.0 * B * T * hidden * (5.0 * H * D + 2 * H) + ruleFlop);
        rows.push_back({"alignment_step", "B4 T256 H9 D64 forward+backward", milliseconds([&] {
                            const at::Tensor loss = linearForward(spec, shape, layer, x).square().mean();
                            loss.backward();
                            return loss.detach();
                        }, control), flop, 0, 0});
    }
    for (auto& row : rows)
        row.shareOfFloor = (row.flop / row.milliseconds) / (floor.flop / floor.milliseconds);
    if (!asked("matmul"))
        rows.erase(rows.begin());
    if (ownKernels) {
        const auto ceilings = measureCeilings(device, control);
        const auto add = [&](const std::vector<BenchmarkRow>& more) { rows.insert(rows.end(), more.begin(), more.end()); };
        if (asked("matmul"))
            add({ceilings.product, ceilings.copy});
        if (asked("attention_statistics"))
            add(cudaStatisticsRows(device, ceilings, control));
        if (asked("gated_delta_rule"))
            add(cudaRuleRows(device, ceilings, control));
    }
    return rows;
}

} // namespace linnet::core
