// Time and memory of alignment, with random weights.
// bench_align step [--layers 6] [--hidden 1536] [--heads 12] [--dim 128] [--batch 4] [--tokens 256] [--windows 125] [--steps 100]
//     one group: ms a step, launch by launch and as a graph; each part's share (launch by launch); memory
// bench_align run [--converted 21] [--steps 300] [--batch 4] [--tokens 256] [--calibration 32000] [--preset naive] [--budget-mib 4096] [--shape qwen|smol]
//     the whole stage on a teacher of Qwen2.5-1.5B's (or SmolLM2-135M's) shape: teacher forward, starts, alignment, files; peak memory
// Both: [--device cuda] [--backend kernels|tensors (step only)]
#include "core/convert/align_group.h"
#include "core/convert/group_alignment.h"
#include "core/model/cuda/step_graph.h"
#include "core/model/device.h"
#include "tests/support/random_model.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <cstdio>
#include <unistd.h>

using namespace linnet::core;

namespace {

using Clock = std::chrono::steady_clock;
std::map<std::string, std::string> options;

std::int64_t number(const std::string& name, std::int64_t otherwise) {
    return options.contains(name) ? std::stoll(options[name]) : otherwise;
}
std::string text(const std::string& name, const std::string& otherwise) {
    return options.contains(name) ? options[name] : otherwise;
}
void synchronise(at::Device device) {
    if (device.is_cuda())
        c10::impl::VirtualGuardImpl(at::kCUDA).synchronizeDevice(device.index());
}
double milliseconds(Clock::time_point begin) {
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

LinearLayer randomLayer(const LinearShape& s, at::Device device) {
    const auto options = at::TensorOptions(device).dtype(at::kFloat);
    const auto width = s.heads * s.headDim;
    const auto matrix = [&](std::int64_t rows, std::int64_t columns, double spread) { return at::randn({rows, columns}, options) * spread; };
    LinearLayer layer;
    for (auto* projection : {&layer.qProj, &layer.kProj, &layer.vProj, &layer.gProj})
        *projection = matrix(width, s.hidden, 0.02);
    for (auto* taps : {&layer.qConv, &layer.kConv, &layer.vConv})
        *taps = matrix(width, kConvTaps, 0.3);
    layer.aProj = matrix(s.heads, s.hidden, 0.02), layer.bProj = matrix(s.heads, s.hidden, 0.02), layer.oProj = matrix(s.hidden, width, 0.02);
    layer.aLog = at::zeros({s.heads}, options), layer.dtBias = at::full({s.heads}, -2.0, options), layer.oNorm = at::ones({s.headDim}, options);
    return layer;
}

// Times between marks on the device; on the CPU between calls.
class Parts {
public:
    explicit Parts(at::Device device) : m_device(device) {}
    void mark(const std::string& part) {
        if (m_device.is_cuda()) {
            m_events.emplace_back(part, c10::Event(at::kCUDA, c10::EventFlag::BACKEND_DEFAULT));
            m_events.back().second.record(c10::impl::VirtualGuardImpl(at::kCUDA).getStream(m_device));
            return;
        }
        if (m_last)
            m_sums[part] += milliseconds(*m_last);
        m_last = Clock::now();
        note(part);
    }
    void print(std::int64_t steps) {
        synchronise(m_device);
        for (std::size_t i = 1; i < m_events.size(); ++i) {
            m_sums[m_events[i].first] += m_events[i - 1].second.elapsedTime(m_events[i].second);
            note(m_events[i].first);
        }
        double total = 0;
        for (const auto& [part, sum] : m_sums)
            total += sum;
        for (const auto& part : m_order)
            std::printf("  %-20s %9.1f us  %5.1f %%\n", part.c_str(), 1e3 * m_sums[part] / static_cast<double>(steps), 100 * m_sums[part] / total);
        std::printf("  %-20s %9.1f us\n", "sum", 1e3 * total / static_cast<double>(steps));
    }

private:
    void note(const std::string& part) {
        if (std::find(m_order.begin(), m_order.end(), part) == m_order.end())
            m_order.push_back(part);
    }
    at::Device m_device;
    std::vector<std::pair<std::string, c10::Event>> m_events;
    std::map<std::string, double> m_sums;
    std::vector<std::string> m_order;
    std::optional<Clock::time_point> m_last;
};

int benchStep(at::Device device) {
    const at::NoGradGuard noGradients;
    at::manual_seed(1);
    const LinearShape linear{number("heads", 12), number("dim", 128), number("hidden", 1536), 1e-6};
    const AlignGroupShape shape{number("layers", 6), number("batch", 4), number("tokens", 256), number("windows", 125), linear};
    const auto steps = number("steps", 100);
    const auto compute = AlignGroup::computeType(device, at::kBFloat16);
    const auto backend = options.contains("backend") ? (text("backend", "") == "tensors" ? AlignStep::Backend::Tensors : AlignStep::Backend::Kernels) : AlignStep::backendFor(device, shape.linear);
    AlignSettings settings;
    settings.steps = 4 * steps + 8, settings.batch = shape.batch;
    std::printf("%lld layers, hidden %lld, %lld heads of %lld, batch %lld x %lld, %lld windows, %s, %s\n", (long long)shape.layers, (long long)linear.hidden, (long long)linear.heads,
                (long long)linear.headDim, (long long)shape.batch, (long long)shape.tokens, (long long)shape.windows, deviceDescription(device).c_str(), backend == AlignStep::Backend::Kernels ? "kernels" : "tensors");
    std::optional<c10::StreamGuard> side;
    if (device.is_cuda())
        side.emplace(c10::impl::VirtualGuardImpl(at::kCUDA).getStreamFromGlobalPool(device, true));
    AlignStep step(shape, mixerSpec("gated_delta_net"), settings, device, compute, backend);
    for (std::int64_t l = 0; l < shape.layers; ++l) {
        step.inputs[l].normal_();
        step.targets[l].normal_();
        step.layout().write(step.parameters[l], randomLayer(linear, device));
    }
    std::vector<std::int32_t> rows;
    for (std::int64_t i = 0; i < settings.steps * shape.layers * shape.batch; ++i)
        rows.push_back(static_cast<std::int32_t>(i / shape.batch % shape.layers * shape.windows + i * 7 % shape.windows));
    step.begin(rows, settings.steps, 0, {});
    const auto timed = [&](const char* name, const std::function<void()>& once) {
        synchronise(device);
        const auto begin = Clock::now();
        for (std::int64_t i = 0; i < steps; ++i)
            once();
        const double queued = milliseconds(begin) / static_cast<double>(steps);
        synchronise(device);
        const double ms = milliseconds(begin) / static_cast<double>(steps);
        std::printf("%-18s %8.3f ms a step, %7.1f us a layer (host %.3f ms)\n", name, ms, 1e3 * ms / static_cast<double>(shape.layers), queued);
    };
    for (int i = 0; i < 3; ++i)
        step.run();
    timed("launch by launch", [&] { step.run(); });
    if (device.is_cuda()) {
        std::string why;
        if (const auto graph = captureGraph([&] { step.run(); }, why))
            timed("graph", [&] { graph->replay(); });
        else
            std::printf("no graph: %s\n", why.c_str());
    }
    Parts parts(device);
    step.onPart = [&](const char* part) { parts.mark(part); };
    parts.mark("start");
    for (std::int64_t i = 0; i < std::min<std::int64_t>(steps, 50); ++i)
        step.run();
    parts.print(std::min<std::int64_t>(steps, 50));
    step.onPart = {};
    const at::Tensor windows = at::arange(shape.batch, at::TensorOptions(device).dtype(at::kInt)).unsqueeze(0);
    timed("held-out piece", [&] { step.squareErrors(windows); });
    const auto last = step.metrics.to(at::kCPU)[3 + steps];
    std::printf("loss %.6g, gradient norm %.4g\n", last[0][0].item<double>(), last[0][1].item<double>());
    std::printf("a layer's memory by account %.1f MiB; peak %.1f MiB for %lld\n", static_cast<double>(AlignStep::bytesOfLayer(shape, compute, device)) / 1048576.0,
                static_cast<double>(peakDeviceBytes(device)) / 1048576.0, (long long)shape.layers);
    return 0;
}

int benchRun(at::Device device) {
    const bool smol = text("shape", "qwen") == "smol";
    ModelConfig c;
    c.modelType = smol ? "llama" : "qwen2";
    c.layers = smol ? 30 : 28, c.hiddenSize = smol ? 576 : 1536, c.heads = smol ? 9 : 12, c.kvHeads = smol ? 3 : 2, c.headDim = smol ? 64 : 128;
    c.intermediateSize = smol ? 1536 : 8960, c.vocabSize = number("vocabulary", 32000), c.maxPositions = 32768, c.rmsNormEps = 1e-6, c.tiedEmbeddings = true, c.qkvBias = !smol;
    c.layers = number("all-layers", c.layers);
    const auto model = linnet::tests::randomModel(c, device, device.is_cuda() ? at::kBFloat16 : at::kFloat);
    synchronise(device);
    const auto teacherBytes = static_cast<double>(peakDeviceBytes(device));
    Recipe recipe = defaultRecipe(device.is_cuda() ? "cuda" : "cpu", text("preset", "naive"));
    recipe.align.steps = number("steps", 300), recipe.align.batch = number("batch", 4), recipe.seqLen = number("tokens", 256);
    TokenWindows windows;
    windows.seqLen = recipe.seqLen, windows.sequences = number("calibration", 32000) / recipe.seqLen;
    for (std::int64_t i = 0; i < windows.seqLen * windows.sequences; ++i)
        windows.ids.push_back(static_cast<TokenId>((i * i * 31 + i * 7 + 11) % c.vocabSize));
    std::vector<std::int64_t> converted;
    const auto count = std::min(number("converted", 21), c.layers);
    for (std::int64_t i = 0; i < count; ++i)
        converted.push_back(c.layers - count + i);
    const auto folder = std::filesystem::temp_directory_path() / ("bench_align_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder);
    {
        RunFolder run = RunFolder::create(folder, recipe);
        const ConvertOptions convertOptions;
        const Control control;
        GroupAlignment alignment({run, convertOptions, control, recipe, *model, windows, nullptr, converted, number("baselines", 1) != 0},
                                 static_cast<std::uint64_t>(number("budget-mib", 4096)) << 20);
        const auto begin = Clock::now();
        alignment.run(run.file("checkpoints/student.safetensors"), run.file("checkpoints/naive.safetensors"));
        synchronise(device);
        const double seconds = milliseconds(begin) / 1e3;
        std::string sizes;
        for (const auto size : alignment.sizes())
            sizes += " " + std::to_string(size);
        const auto& s = alignment.seconds();
        std::printf("%s shape, %lld of %lld layers in groups of%s, %lld steps of %lld x %lld, %lld calibration tokens, preset %s, %s\n", smol ? "SmolLM2-135M" : "Qwen2.5-1.5B", (long long)count,
                    (long long)c.layers, sizes.c_str(), (long long)recipe.align.steps, (long long)recipe.align.batch, (long long)recipe.seqLen, (long long)windows.tokens(), recipe.preset.c_str(), deviceDescription(device).c_str());
        std::printf("%.2f s: teacher forward %.2f, starts %.2f, alignment %.2f, files %.2f\n", seconds, s.capture, s.start, s.align, s.files);
        std::printf("peak %.0f MiB, %.0f MiB above the teacher\n", static_cast<double>(peakDeviceBytes(device)) / 1048576.0, (static_cast<double>(peakDeviceBytes(device)) - teacherBytes) / 1048576.0);
        const auto rows = orFail(readMetrics(folder));
        std::printf("layer %lld: loss %.6g -> %.6g\n", (long long)rows.front().layer, rows.front().loss, rows[rows.size() - static_cast<std::size_t>(alignment.sizes().back())].loss);
    }
    std::filesystem::remove_all(folder);
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    const std::string mode = argc > 1 ? argv[1] : "";
    for (int i = 2; i + 1 < argc; i += 2)
        options[std::string(argv[i]).substr(2)] = argv[i + 1];
    try {
        const auto device = deviceFromName(text("device", "auto"));
        if (mode == "step")
            return benchStep(device);
        if (mode == "run")
            return benchRun(device);
    } catch (const Failure& failure) {
        std::fprintf(stderr, "%s\n", failure.error.message.c_str());
        return 1;
    }
    std::fprintf(stderr, "usage: bench_align step|run [--name value]..., see the source\n");
    return 2;
}
