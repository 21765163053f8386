#include "core/torch_pch.h"

#include "core/convert/bench_cuda.h"

#include "core/mixers/kernel_call.h"
#include "linnet/kernels/attention_statistics.h"
#include "linnet/kernels/gated_delta_rule.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace linnet::core {
namespace {

using namespace kernels;

std::string shapeText(std::int64_t B, const std::string& heads, std::int64_t T, std::int64_t D) {
    std::string text = "B";
    return text.append(std::to_string(B))
        .append(" H")
        .append(heads)
        .append(" T")
        .append(std::to_string(T))
        .append(" D")
        .append(std::to_string(D));
}

struct RuleShape {
    std::int64_t B, T, H, D;
    std::string text() const { return shapeText(B, std::to_string(H), T, D); }
};

// Random inputs of one shape, outputs, gradients and scratch, and the parameters that point at them.
struct RuleRun {
    GatedDeltaRuleParams p;
    std::vector<at::Tensor> tensors;
    Scratch workspace, saved;

    RuleRun(const RuleShape& s, const at::Device& device, bool training) {
        const auto half = at::TensorOptions(device).dtype(at::kBFloat16), full = half.dtype(at::kFloat);
        const auto keep = [&](const at::Tensor& t) { return tensors.push_back(t), t; };
        const auto unit = [&] {
            const at::Tensor t = at::randn({s.B, s.T, s.H, s.D}, full);
            return keep((t / t.norm(2, -1, true)).to(at::kBFloat16));
        };
        const at::Tensor q = unit(), k = unit(), v = keep(at::randn({s.B, s.T, s.H, s.D}, half)), o = keep(at::empty_like(v));
        p.q = q.data_ptr(), p.k = k.data_ptr(), p.v = v.data_ptr(), p.o = o.data_ptr();
        p.qStrides = p.kStrides = p.vStrides = p.oStrides = p.doStrides = tokenStrides(q);
        p.g = keep(-0.1 * at::rand({s.B, s.T, s.H}, full)).data_ptr<float>();
        p.beta = keep(at::rand({s.B, s.T, s.H}, full)).data_ptr<float>();
        p.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(s.D)));
        p.batch = s.B, p.tokens = s.T, p.heads = p.kvHeads = s.H, p.headDim = s.D;
        p.stream = currentStream(device);
        if (s.T == 1) {
            const at::Tensor state = keep(at::randn({s.B, s.H, s.D, s.D}, full));
            p.initialState = state.data_ptr<float>(), p.finalState = state.data_ptr<float>();
        }
        if (training) {
            p.dO = keep(at::randn_like(o)).data_ptr();
            p.dq = keep(at::empty_like(q)).data_ptr(), p.dk = keep(at::empty_like(k)).data_ptr(),
            p.dv = keep(at::empty_like(v)).data_ptr();
            p.dg = keep(at::empty({s.B, s.T, s.H}, full)).data_ptr<float>(),
            p.dbeta = keep(at::empty({s.B, s.T, s.H}, full)).data_ptr<float>();
        }
        const auto bytes = gatedDeltaRuleBytes(p);
        workspace = Scratch(std::max(bytes.forwardWorkspace, training ? bytes.backwardWorkspace : 0), device);
        p.workspace = workspace.data();
        if (training) {
            saved = Scratch(bytes.saved, device);
            p.saved = saved.data();
        }
    }
};

BenchmarkRow row(const std::string& operation, const std::string& shape, double ms, double flop, double bytes,
                 const Ceilings& ceilings) {
    return {operation, shape, ms, flop, bytes, ceilings.floor(flop, bytes) / ms};
}

// Work and least traffic of a chunk form with chunks of 64 tokens; q, k, v, o (and gradients) in two bytes, gates in four.
double forwardFlop(const RuleShape& s) {
    return ruleForwardFlop(s.B * s.T * s.H, s.D);
}
double backwardFlop(const RuleShape& s) {
    const double C = 64, D = static_cast<double>(s.D);
    return 2.0 * static_cast<double>(s.B * s.T * s.H) * (15 * C * D + 8 * D * D + 2 * C * C);
}
double traffic(const RuleShape& s, double bytesPerDim, double gates) {
    return static_cast<double>(s.B * s.T * s.H) * (bytesPerDim * static_cast<double>(s.D) + gates);
}

} // namespace

double deviceMilliseconds(const at::Device& device, const std::function<void()>& call, const Control& control) {
    const c10::impl::VirtualGuardImpl guard(at::kCUDA);
    const auto stream = guard.getStream(device);
    const auto group = [&](int calls) {
        control.checkpoint();
        c10::Event begin(at::kCUDA, c10::EventFlag::BACKEND_DEFAULT), end(at::kCUDA, c10::EventFlag::BACKEND_DEFAULT);
        begin.record(stream);
        for (int i = 0; i < calls; ++i)
            call();
        end.record(stream);
        end.synchronize();
        return begin.elapsedTime(end) / calls;
    };
    group(2);
    const int calls = std::clamp(static_cast<int>(5.0 / std::max(group(2), 1e-3)), 1, 500);
    std::vector<double> times;
    for (int i = 0; i < 10; ++i)
        times.push_back(group(calls));
    std::sort(times.begin(), times.end());
    return times[5];
}

double Ceilings::floor(double flop, double bytes) const {
    return std::max(flop * product.milliseconds / product.flop, bytes * copy.milliseconds / copy.bytes);
}

Ceilings measureCeilings(const at::Device& device, const Control& control) {
    constexpr std::int64_t kSize = 8192, kFloats = std::int64_t{1} << 28;
    const auto options = at::TensorOptions(device).dtype(at::kBFloat16);
    Ceilings found;
    {
        const at::Tensor a = at::randn({kSize, kSize}, options), b = at::randn({kSize, kSize}, options);
        at::Tensor c = at::empty_like(a);
        const double n = kSize;
        found.product = {"matmul",
                         "8192x8192x8192 bf16",
                         deviceMilliseconds(
                             device, [&] { at::matmul_out(c, a, b); }, control),
                         2 * n * n * n,
                         6 * n * n,
                         1};
    }
    const at::Tensor from = at::zeros({kFloats}, options.dtype(at::kFloat));
    at::Tensor to = at::empty_like(from);
    found.copy = {"matmul",
                  "copy of 1 GiB",
                  deviceMilliseconds(
                      device, [&] { to.copy_(from); }, control),
                  0,
                  8.0 * kFloats,
                  1};
    return found;
}

std::vector<BenchmarkRow> cudaStatisticsRows(const at::Device& device, const Ceilings& ceilings, const Control& control) {
    const c10::DeviceGuard guard(device);
    std::vector<BenchmarkRow> rows;
    for (const auto& [H, K, D] : {std::tuple<std::int64_t, std::int64_t, std::int64_t>{9, 3, 64}, {12, 2, 128}})
        for (const std::int64_t T : {2048, 8192}) {
            const auto options = at::TensorOptions(device).dtype(at::kBFloat16);
            const at::Tensor q = at::randn({1, H, T, D}, options), k = at::randn({1, K, T, D}, options),
                             v = at::randn({1, K, T, D}, options);
            AttentionStatisticsCudaParams p;
            p.q = q.data_ptr(), p.k = k.data_ptr(), p.v = v.data_ptr();
            p.qBatchStride = H * T * D, p.qHeadStride = T * D, p.qTokenStride = D;
            p.kBatchStride = p.vBatchStride = K * T * D, p.kHeadStride = p.vHeadStride = T * D,
            p.kTokenStride = p.vTokenStride = D;
            p.batch = 1, p.heads = H, p.kvHeads = K, p.tokens = T, p.headDim = D;
            p.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(D)));
            const auto bins = static_cast<std::int64_t>(distanceEdges(T, p.binsPerOctave).size()) - 1;
            const at::Tensor means = at::empty({8, H}, options.dtype(at::kDouble)),
                             histograms = at::empty({2, H, bins}, options.dtype(at::kDouble));
            double** const outputs[8] = {&p.distance, &p.distanceNoSink, &p.entropy,  &p.entropyRelative,
                                         &p.sinkMass, &p.previousMass,   &p.selfMass, &p.outputSquare};
            for (int i = 0; i < 8; ++i)
                *outputs[i] = means[i].data_ptr<double>();
            p.histogram = histograms[0].data_ptr<double>(), p.histogramNoSink = histograms[1].data_ptr<double>();
            const Scratch scratch(attentionStatisticsCudaWorkspace(p), device);
            p.workspace = scratch.data();
            p.stream = currentStream(device);
            const double ms = deviceMilliseconds(
                device, [&] { checkLaunch(attentionStatisticsCuda(p), "attention_statistics"); }, control);
            const auto n = static_cast<double>(T);
            rows.push_back(row("attention_statistics", shapeText(1, std::to_string(H) + "/" + std::to_string(K), T, D), ms,
                               2.0 * n * n * static_cast<double>(H * D), 2.0 * n * static_cast<double>(D * (H + 2 * K)),
                               ceilings));
        }
    return rows;
}

std::vector<BenchmarkRow> cudaRuleRows(const at::Device& device, const Ceilings& ceilings, const Control& control) {
    const c10::DeviceGuard guard(device);
    std::vector<BenchmarkRow> rows;
    for (const RuleShape& s : {RuleShape{4, 256, 9, 64},
                               {4, 256, 12, 128},
                               {1, 2048, 9, 64},
                               {1, 8192, 9, 64},
                               {1, 8192, 16, 128},
                               {8, 4096, 16, 128},
                               {1, 32768, 12, 128}}) {
        RuleRun inference(s, device, false), training(s, device, true);
        const double forward = deviceMilliseconds(
            device, [&] { checkLaunch(gatedDeltaRuleForward(inference.p), "gated_delta_rule"); }, control);
        rows.push_back(row("gated_delta_rule", s.text() + " forward", forward, forwardFlop(s), traffic(s, 8, 8), ceilings));
        const double both = deviceMilliseconds(
            device,
            [&] {
                checkLaunch(gatedDeltaRuleForward(training.p), "gated_delta_rule");
                checkLaunch(gatedDeltaRuleBackward(training.p), "gated_delta_rule");
            },
            control);
        rows.push_back(row("gated_delta_rule", s.text() + " forward+backward", both, forwardFlop(s) + backwardFlop(s),
                           traffic(s, 22, 24), ceilings));
    }
    for (const RuleShape& s : {RuleShape{1, 1, 16, 128}, {64, 1, 9, 64}, {64, 1, 16, 128}}) {
        RuleRun run(s, device, false);
        const double ms = deviceMilliseconds(
            device, [&] { checkLaunch(gatedDeltaRuleStep(run.p), "gated_delta_rule"); }, control);
        const double D = static_cast<double>(s.D);
        rows.push_back(row("gated_delta_rule", s.text() + " step", ms, 8 * static_cast<double>(s.B * s.H) * D * D,
                           traffic(s, 8 + 8 * D, 8), ceilings));
    }
    return rows;
}

} // namespace linnet::core
