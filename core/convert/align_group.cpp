#include "core/torch_pch.h"

#include "core/convert/align_group.h"

#include "core/base/result.h"
#include "core/convert/side_stream.h"
#include "core/model/cuda/step_graph.h"

#include <chrono>
#include <deque>
#include <limits>

namespace linnet::core {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kSaveEvery = std::chrono::seconds(15);
constexpr double kBlockSeconds = 0.1;        // of steps between two looks at the host; two blocks may be queued
constexpr std::int64_t kMostBlockSteps = 32;
constexpr std::int64_t kEagerSteps = 2;      // before the capture: libraries choose their kernels and workspaces
constexpr std::uint64_t kReserve = std::uint64_t(512) << 20; // of a budget: libraries' workspaces, the teacher's pieces, temporaries
constexpr std::uint64_t kSmallState = std::uint64_t(256) << 20;

double secondsSince(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Of a budget, whatever the group: hidden states, one capture of heads, workspaces.
std::uint64_t ownBytes(const AlignGroupShape& shape) {
    return static_cast<std::uint64_t>(shape.windows * shape.tokens * shape.linear.hidden) * 4 + kReserve;
}

} // namespace

// Blocks of steps on their way to the host: their numbers are copied to pinned memory behind them, and handed on when they are there.
class AlignGroup::Blocks {
public:
    Blocks(AlignGroup& group, const AlignGroupEvents& events) : m_group(group), m_events(events), m_handedOn(group.m_done) {}

    void add(std::int64_t from, std::int64_t to) {
        Block block{from, to, {}, {}, {}, Clock::now()};
        const bool cuda = m_group.m_job.device.is_cuda();
        const auto copied = [&](const at::Tensor& values) {
            if (!cuda)
                return values.clone();
            at::Tensor host = at::empty(values.sizes(), at::TensorOptions(at::kCPU).dtype(values.scalar_type()).pinned_memory(true));
            host.copy_(values, true);
            return host;
        };
        block.metrics = copied(m_group.m_step.metrics.narrow(0, from, to - from));
        block.heldOut = copied(m_group.m_heldOutLosses);
        if (cuda) {
            block.ready.emplace(at::kCUDA);
            block.ready->record(c10::impl::VirtualGuardImpl(at::kCUDA).getStream(m_group.m_job.device));
        }
        m_blocks.push_back(std::move(block));
    }
    // Hands on what has come; waits until at most `queued` blocks are left.
    void drain(std::size_t queued) {
        while (!m_blocks.empty() && (m_blocks.size() > queued || !m_blocks.front().ready || m_blocks.front().ready->query())) {
            Block block = std::move(m_blocks.front());
            m_blocks.pop_front();
            if (block.ready)
                block.ready->synchronize();
            emit(block);
        }
    }
    std::int64_t handedOn() const { return m_handedOn; }
    double stepSeconds() const { return m_stepSeconds; }

private:
    struct Block {
        std::int64_t from, to;
        at::Tensor metrics, heldOut;
        std::optional<c10::Event> ready;
        Clock::time_point queued;
    };

    void emit(const Block& block) {
        const auto& settings = m_group.m_job.recipe.align;
        const auto layers = static_cast<std::int64_t>(m_group.m_job.layers.size()), steps = block.to - block.from;
        const auto tokens = settings.batch * m_group.m_job.shape.tokens;
        m_stepSeconds = secondsSince(std::max(m_last, block.queued)) / static_cast<double>(steps);
        if (m_last == Clock::time_point{}) // the first block: nothing ran before it
            m_stepSeconds = secondsSince(m_begin) / static_cast<double>(steps);
        m_last = Clock::now();
        const auto* metrics = block.metrics.const_data_ptr<float>();
        for (std::int64_t step = block.from; step < block.to; ++step)
            for (std::int64_t l = 0; l < layers; ++l) {
                const auto index = static_cast<std::size_t>(l);
                if (hasStopped(settings, step, m_group.m_seenStep[index]))
                    continue;
                MetricRow row;
                row.layer = m_group.m_job.layers[index];
                row.step = step;
                row.tokens = (step + 1) * tokens;
                row.loss = static_cast<double>(metrics[((step - block.from) * layers + l) * 2]);
                row.gradNorm = static_cast<double>(metrics[((step - block.from) * layers + l) * 2 + 1]);
                row.lr = settings.lr * scheduleFactor(settings, step);
                row.tokensPerSecond = static_cast<double>(tokens * layers) / std::max(m_stepSeconds, 1e-9); // of the group
                if (step % m_group.m_measureEvery == 0 && m_group.m_heldOut > 0) {
                    const at::Tensor measured = block.heldOut[step / m_group.m_measureEvery][l];
                    row.heldOutLoss = measured[0].item<double>();
                    row.relativeLoss = measured[1].item<double>();
                    if (*row.heldOutLoss < m_group.m_seenLoss[index])
                        m_group.m_seenLoss[index] = *row.heldOutLoss, m_group.m_seenStep[index] = step;
                }
                if (!std::isfinite(row.loss))
                    fail(ErrorCode::Internal, "alignment of layer " + std::to_string(row.layer) + " diverged in step " + std::to_string(step) +
                                                  ": the loss is not finite; try a lower align.lr", {{"key", "align.lr"}});
                if (step == 0)
                    m_group.m_lossFirst[index] = row.loss;
                m_group.m_lossLast[index] = row.loss;
                m_events.onMetric(row);
            }
        m_handedOn = block.to;
    }

    AlignGroup& m_group;
    const AlignGroupEvents& m_events;
    std::deque<Block> m_blocks;
    std::int64_t m_handedOn;
    double m_stepSeconds = 0;
    Clock::time_point m_begin = Clock::now(), m_last;
};

std::int64_t forwardSequences(at::Device device, std::int64_t tokens) {
    return std::max<std::int64_t>(4, (device.is_cuda() ? 8192 : 1024) / tokens);
}

at::ScalarType AlignGroup::computeType(at::Device device, at::ScalarType) {
    return device.is_cuda() ? at::kBFloat16 : at::kFloat;
}

std::vector<std::int64_t> AlignGroup::groupSizes(std::int64_t count, const AlignGroupShape& shape, at::Device device, at::ScalarType compute,
                                                 std::uint64_t budget) {
    const auto own = ownBytes(shape);
    const auto each = AlignStep::bytesOfLayer(shape, compute, device);
    const auto most = std::max<std::int64_t>(1, budget > own ? static_cast<std::int64_t>((budget - own) / each) : 1);
    const auto groups = (count + most - 1) / most;
    std::vector<std::int64_t> sizes;
    for (std::int64_t g = 0; g < groups; ++g)
        sizes.push_back((count * (g + 1)) / groups - (count * g) / groups);
    return sizes;
}

bool AlignGroup::spills(const AlignGroupShape& shape, at::Device device, at::ScalarType compute, std::uint64_t budget) {
    return device.is_cuda() && budget < ownBytes(shape) + AlignStep::bytesOfLayer(shape, compute, device);
}

AlignGroup::AlignGroup(const AlignGroupJob& job)
    : m_job(job), m_heldOut(heldOutWindows(job.recipe.align, job.shape.windows)), m_training(job.shape.windows - m_heldOut),
      m_measureEvery(measureEvery(job.recipe.align)),
      m_step(job.spill ? AlignFeed::onDevice(job.shape, m_heldOut) : job.shape, mixerSpec(job.recipe.mixer), job.recipe.align, job.device, job.compute, job.backend),
      m_lockNorms(job.layers.size()), m_lossFirst(job.layers.size()), m_lossLast(job.layers.size()),
      m_seenLoss(job.layers.size(), std::numeric_limits<double>::infinity()), m_seenStep(job.layers.size(), -1) {
    if (const bool needed = job.recipe.align.loss == "kl_metric" && job.recipe.align.steps > 0; job.metrics.size() != (needed ? job.layers.size() : 0))
        fail(ErrorCode::Internal, "alignment: " + std::to_string(job.metrics.size()) + " metrics for " + std::to_string(job.layers.size()) + " layers with loss " + job.recipe.align.loss);
    if (job.spill)
        m_feed.emplace(job.shape, m_heldOut, job.device, m_step);
    const auto options = m_step.parameters.options().dtype(at::kDouble);
    const std::int64_t L = job.shape.layers, measurements = job.recipe.align.steps / m_measureEvery + 2;
    m_best = at::zeros_like(m_step.parameters);
    m_bestLoss = at::full({L}, std::numeric_limits<double>::infinity(), options);
    m_bestStep = at::full({L}, -1, options.dtype(at::kLong));
    m_heldOutLosses = at::zeros({measurements, L, 2}, options);
}

AlignGroup::~AlignGroup() = default;

void AlignGroup::start(std::size_t index, const LinearLayer& layer) {
    const auto row = static_cast<std::int64_t>(index);
    m_step.layout().write(m_step.parameters[row], layer);
    if (!m_job.metrics.empty()) {
        const at::NoGradGuard noGradients;
        const at::Tensor output = m_step.layout().outputs(m_step.parameters)[row];
        output.copy_(m_job.metrics[index].root.matmul(output));
    }
    m_best[row].copy_(m_step.parameters[row]);
}

void AlignGroup::restore(std::size_t index, const AlignState& state) {
    const auto row = static_cast<std::int64_t>(index);
    const auto& layout = m_step.layout();
    const auto moments = [](const std::vector<at::Tensor>& list) {
        LinearLayer layer;
        std::size_t i = 0;
        layer.forEach([&](const std::string&, at::Tensor& tensor) { tensor = list[i++]; });
        return layer;
    };
    layout.write(m_step.parameters[row], state.parameters);
    layout.write(m_step.first[row], moments(state.first));
    layout.write(m_step.second[row], moments(state.second));
    layout.write(m_best[row], state.best);
    m_bestStep[row].fill_(state.bestStep);
    m_bestLoss[row].fill_(state.bestStep < 0 ? std::numeric_limits<double>::infinity() : state.bestLoss);
    m_lockNorms[index] = state.lockNorms;
    m_lossFirst[index] = state.lossFirst;
    m_lossLast[index] = state.lossLast;
    m_seenLoss[index] = state.bestStep < 0 ? std::numeric_limits<double>::infinity() : state.bestLoss;
    m_seenStep[index] = state.bestStep;
    m_done = state.step;
}

AlignState AlignGroup::state(std::size_t index) const {
    const auto row = static_cast<std::int64_t>(index);
    const auto& layout = m_step.layout();
    AlignState state;
    state.parameters = layout.read(m_step.parameters[row], at::kCPU);
    state.best = layout.read(m_best[row], at::kCPU);
    for (const auto& [packed, list] : {std::pair(&m_step.first, &state.first), std::pair(&m_step.second, &state.second)})
        layout.read((*packed)[row], at::kCPU).forEach([to = list](const std::string&, at::Tensor& tensor) { to->push_back(tensor); });
    state.step = m_done;
    state.bestStep = m_bestStep[row].item<std::int64_t>();
    state.bestLoss = state.bestStep < 0 || m_heldOut == 0 ? 0 : m_bestLoss[row].item<double>();
    state.lockNorms = m_lockNorms[index];
    state.lossFirst = m_lossFirst[index];
    state.lossLast = m_lossLast[index];
    return state;
}

LinearLayer AlignGroup::best(std::size_t index) const {
    const auto row = static_cast<std::int64_t>(index);
    LinearLayer layer = m_step.layout().read(m_best[row], at::kCPU);
    if (!m_job.metrics.empty()) {
        const at::NoGradGuard noGradients;
        layer.oProj.copy_(m_job.metrics[index].inverse.matmul(m_step.layout().outputs(m_best)[row]));
    }
    return layer;
}

std::pair<std::int64_t, std::optional<double>> AlignGroup::kept(std::size_t index) const {
    const auto row = static_cast<std::int64_t>(index);
    return {m_bestStep[row].item<std::int64_t>(), m_heldOut == 0 ? std::nullopt : std::optional(m_bestLoss[row].item<double>())};
}

std::uint64_t AlignGroup::stateBytes() const {
    return 4 * static_cast<std::uint64_t>(m_step.parameters.numel()) * 4;
}

std::vector<std::int64_t> AlignGroup::windowsOf(std::int64_t step) const {
    std::vector<std::int64_t> windows;
    for (const auto layer : m_job.layers)
        for (const auto window : drawBatch(layerSeed(m_job.recipe, layer), step, m_job.recipe.align.batch, m_training))
            windows.push_back(window);
    return windows;
}

std::vector<std::int32_t> AlignGroup::batchRows() const {
    const auto& settings = m_job.recipe.align;
    const auto places = m_step.inputs.size(1);
    std::vector<std::int32_t> rows;
    rows.reserve(static_cast<std::size_t>(settings.steps) * m_job.layers.size() * static_cast<std::size_t>(settings.batch));
    for (std::int64_t step = 0; step < settings.steps; ++step)
        for (std::int64_t i = 0; const auto window : windowsOf(step)) {
            const auto layer = i / settings.batch, place = m_feed ? m_feed->place(step, i % settings.batch) : window;
            rows.push_back(static_cast<std::int32_t>(layer * places + place));
            ++i;
        }
    return rows;
}

bool AlignGroup::allStopped(std::int64_t steps) const {
    return std::ranges::all_of(m_seenStep, [&](std::int64_t best) { return hasStopped(m_job.recipe.align, steps, best); });
}

void AlignGroup::targetsIntoMetric() {
    const auto piece = forwardSequences(m_job.device, m_job.shape.tokens);
    for (std::size_t l = 0; l < m_job.metrics.size(); ++l)
        for (std::int64_t n = 0; n < m_job.shape.windows; n += piece) {
            const at::Tensor rows = targets(l).narrow(0, n, std::min(piece, m_job.shape.windows - n));
            rows.copy_(rows.to(m_job.device, at::kFloat).matmul(m_job.metrics[l].root.t()));
        }
}

// Held-out loss of the present states; each layer's best is kept. The host does not wait.
void AlignGroup::measure() {
    const at::NoGradGuard noGradients;
    const auto& shape = m_job.shape;
    const std::int64_t index = (m_done + m_measureEvery - 1) / m_measureEvery; // after the last step: one more
    at::Tensor better = at::ones({shape.layers}, m_bestStep.options().dtype(at::kBool));
    if (m_heldOut > 0) {
        at::Tensor sums = at::zeros({shape.layers, 2}, m_bestLoss.options());
        const auto first = m_feed ? m_feed->heldOutPlace(0) : m_training;
        for (std::int64_t n = 0; n < m_heldOut; n += shape.batch) {
            const auto count = std::min(shape.batch, m_heldOut - n);
            sums += m_step.squareErrors(at::arange(first + n, first + n + count, m_bestStep.options().dtype(at::kInt)).unsqueeze(0));
        }
        const at::Tensor loss = sums.select(1, 0) / static_cast<double>(m_heldOut * shape.tokens * shape.linear.hidden);
        m_heldOutLosses[index].copy_(at::stack({loss, sums.select(1, 0) / sums.select(1, 1).clamp_min(1e-30)}, 1));
        better = loss < m_bestLoss;
        const auto& settings = m_job.recipe.align;
        if (settings.earlyStop > 0 && m_done > 0) { // hasStopped, on the device
            const auto last = (m_done - 1) / m_measureEvery * m_measureEvery;
            better = better.logical_and((m_bestStep > last - settings.earlyStop * m_measureEvery).logical_or(m_bestStep < 0));
        }
        m_bestLoss.copy_(at::where(better, loss, m_bestLoss));
    }
    for (std::int64_t l = 0; l < shape.layers; ++l) // one layer's worth of temporary memory
        m_best[l].copy_(at::where(better[l], m_step.parameters[l], m_best[l]));
    m_bestStep.copy_(at::where(better, at::full_like(m_bestStep, m_done), m_bestStep));
}

void AlignGroup::run(const AlignGroupEvents& events) {
    const at::NoGradGuard noGradients;
    const auto& settings = m_job.recipe.align;
    const SideStream stream(m_job.device);
    std::vector<AlignLocks> locks;
    for (std::size_t l = 0; l < m_job.layers.size(); ++l) {
        LinearLayer views = m_step.layout().views(m_step.parameters[static_cast<std::int64_t>(l)]);
        locks.emplace_back(views, m_job.recipe, m_job.layers[l], m_job.shape.linear.headDim, m_lockNorms[l],
                           m_job.metrics.empty() ? at::Tensor() : m_job.metrics[l].inverse);
        m_lockNorms[l] = locks.back().norms();
    }
    m_step.begin(batchRows(), settings.steps, m_done, std::move(locks));
    targetsIntoMetric();
    if (m_feed) {
        m_feed->begin();
        m_feed->ahead(m_done, windowsOf(m_done));
    }

    Blocks blocks(*this, events);
    std::unique_ptr<StepGraph> graph;
    const auto begin = m_done;
    auto lastSave = Clock::now();
    std::int64_t blockStart = m_done, blockSteps = 1;
    const auto finishBlock = [&] {
        if (m_done > blockStart)
            blocks.add(blockStart, m_done);
        blockStart = m_done;
    };
    try {
        while (m_done < settings.steps && !allStopped(blocks.handedOn())) {
            if (m_done % m_measureEvery == 0)
                measure();
            if (m_feed) {
                m_feed->arrived(m_done);
                m_feed->ahead(m_done + 1, windowsOf(m_done + 1));
            }
            if (m_job.device.is_cuda() && m_done == begin + kEagerSteps) {
                std::string why;
                graph = captureGraph([&] { m_step.run(); }, why);
                if (!graph && events.onLog)
                    events.onLog("alignment runs without a graph: " + why);
            }
            graph ? graph->replay() : m_step.run();
            if (m_feed)
                m_feed->used(m_done);
            ++m_done;
            if (m_done - blockStart < blockSteps && m_done < settings.steps)
                continue;
            finishBlock();
            blocks.drain(m_done < settings.steps ? 1 : 0);
            if (blocks.stepSeconds() > 0)
                blockSteps = std::clamp<std::int64_t>(static_cast<std::int64_t>(kBlockSeconds / blocks.stepSeconds()), 1, kMostBlockSteps);
            if (Clock::now() - lastSave > kSaveEvery) {
                blocks.drain(0);
                events.save();
                lastSave = Clock::now();
            }
            if (blocks.handedOn() > 0)
                events.onSteps(blocks.handedOn());
        }
    } catch (const Failure& failure) {
        if (failure.error.code == ErrorCode::Cancelled) {
            finishBlock();
            blocks.drain(0);
            // Writing gigabytes takes longer than a person waits for a stop, and longer than doing a few steps again.
            if (stateBytes() <= kSmallState || Clock::now() - lastSave > kSaveEvery)
                events.save();
        }
        throw;
    }
    measure(); // the state after the last step competes too
}

} // namespace linnet::core
