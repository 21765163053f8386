#include "core/torch_pch.h"

#include "core/convert/group_alignment.h"

#include "core/convert/closed_form.h"

#include "core/evaluate/evaluate_model.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdio>

namespace linnet::core {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kWriteEvery = std::chrono::seconds(15);
constexpr std::uint64_t kMostStarts = 10, kStartBytes = std::uint64_t(3) << 30; // at once; of one
constexpr std::uint64_t kSmallFile = std::uint64_t(256) << 20;

// What reads a layer's moments or heads in stage 1; they cost a pass over the inputs each.
bool needsMoments(const Recipe& recipe, const ModelConfig& config, std::int64_t layer) {
    return (config.qkvBias && recipe.biasTreatment == "fold") || recipe.preset == "paper" || recipe.preset == "reference" || recipe.preset == "linnet" || recipe.targets.contains(layer);
}
bool needsHeads(const Recipe& recipe) {
    return recipe.preset == "paper" || recipe.preset == "reference" || recipe.preset == "linnet";
}

// `work` on a stream that begins after what is queued now and has ended when the call returns.
template <class F> auto onStreamOfItsOwn(at::Device device, F work) {
    const c10::impl::VirtualGuardImpl guard(device.type());
    auto ready = std::make_shared<c10::Event>(device.type());
    ready->record(guard.getStream(device));
    return [device, ready, work = std::move(work)] {
        const c10::impl::VirtualGuardImpl own(device.type());
        const c10::Stream side = own.getStreamFromGlobalPool(device, false);
        const c10::StreamGuard streams(side);
        ready->block(side);
        auto result = work();
        own.synchronizeStream(side);
        return result;
    };
}

LinearLayer onHost(const LinearLayer& layer) {
    return mapped(layer, [](const at::Tensor& t) { return t.detach().to(at::kCPU); });
}

std::uint64_t bytesOf(const Mixers& mixers) {
    std::uint64_t sum = 0;
    for (const auto& [layer, mixer] : mixers)
        mixer.linear.forEach([&](const std::string&, const at::Tensor& t) { sum += static_cast<std::uint64_t>(t.numel()) * 4; });
    return sum;
}

} // namespace

struct GroupAlignment::Group {
    std::vector<std::int64_t> layers;
    bool finished = false;             // all of it is in the files
    std::vector<AlignState> resumed;   // of all layers, at one step; else empty
    std::unique_ptr<AlignGroup> align; // once its first layer is captured
};

GroupAlignment::GroupAlignment(const GroupAlignmentJob& job, std::uint64_t budget) : m_job(job) {
    const auto& recipe = job.recipe;
    const AlignGroupShape shape{1, recipe.align.batch, job.calibration.seqLen, job.calibration.sequences, job.teacher.linearShape()};
    const auto device = job.teacher.device();
    const auto compute = AlignGroup::computeType(device, job.teacher.dtype());
    m_sizes = AlignGroup::groupSizes(std::ssize(job.converted), shape, device, compute, budget);
    m_spill = job.spill || AlignGroup::spills(shape, device, compute, budget);
    m_startsAtOnce = static_cast<std::size_t>(std::clamp<std::uint64_t>(budget / kStartBytes, 1, kMostStarts));
}

// States that a stop left behind. Those of one group were written one after the other: a kill in between leaves steps that differ, and
// then the group starts anew, to the same numbers.
void GroupAlignment::prepare(Group& group) {
    for (const auto layer : group.layers) {
        AlignState state;
        if (!m_job.run.loadAlign(layer, at::kCPU, state) || (!group.resumed.empty() && group.resumed.front().step != state.step)) {
            group.resumed.clear();
            break;
        }
        group.resumed.push_back(std::move(state));
    }
    for (const auto layer : group.layers)
        m_job.run.dropMetrics(layer, group.resumed.empty() ? 0 : group.resumed.front().step);
}

void GroupAlignment::make(Group& group) const {
    const auto& recipe = m_job.recipe;
    const auto shape = m_job.teacher.linearShape();
    const auto device = m_job.teacher.device();
    std::vector<OutputMetric> metrics;
    for (const auto layer : group.layers)
        if (!m_metrics.empty())
            metrics.push_back({m_metrics[static_cast<std::size_t>(layer)].root.to(device), m_metrics[static_cast<std::size_t>(layer)].inverse.to(device)});
    group.align = std::make_unique<AlignGroup>(
        AlignGroupJob{recipe, group.layers, {std::ssize(group.layers), recipe.align.batch, m_job.calibration.seqLen, m_job.calibration.sequences, shape}, device,
                      AlignGroup::computeType(device, m_job.teacher.dtype()), AlignStep::backendFor(device, shape), std::move(metrics), m_spill});
}

// One layer of the teacher over all windows. `hidden` moves on to the next layer's, unless this is the last one wanted. With a group,
// the layer's inputs and targets stay in it, and its start is made.
void GroupAlignment::capture(Group& group, std::size_t index, const LayerWeights& weights, at::Tensor& hidden, bool last) {
    const auto& teacher = m_job.teacher;
    const auto& recipe = m_job.recipe;
    const auto N = hidden.size(0), T = hidden.size(1), piece = forwardSequences(teacher.device(), T);
    const bool wanted = !group.layers.empty();
    const auto begin = Clock::now();
    LayerCapture capture;
    if (wanted) {
        if (!group.align)
            make(group);
        const bool sameType = group.align->inputs(index).scalar_type() == hidden.scalar_type();
        capture.x = sameType ? group.align->inputs(index) : at::empty_like(hidden);
        capture.target = sameType ? group.align->targets(index) : at::empty_like(hidden);
        if (needsHeads(recipe))
            capture.heads = at::empty({N, T, teacher.config().heads * teacher.config().headDim}, hidden.options());
    }
    for (std::int64_t n = 0; n < N; n += piece) {
        m_job.control.checkpoint();
        const at::Tensor kept = hidden.narrow(0, n, std::min(piece, N - n)), rows = kept.to(teacher.device());
        const at::Tensor x = attentionInput(teacher, weights, rows), heads = headOutputs(teacher, weights, x);
        const at::Tensor target = outputProjection(weights, heads);
        for (const auto& [to, from] : {std::pair(&capture.x, &x), std::pair(&capture.heads, &heads), std::pair(&capture.target, &target)})
            if (to->defined())
                to->narrow(0, n, rows.size(0)).copy_(*from);
        if (!last) {
            rows.add_(target);
            rows.add_(feedForward(teacher, weights, rows));
            if (m_spill)
                kept.copy_(rows);
        }
    }
    count(m_seconds.capture, begin);
    if (!wanted)
        return;
    if (!capture.x.is_alias_of(group.align->inputs(index))) {
        group.align->inputs(index).copy_(capture.x);
        group.align->targets(index).copy_(capture.target);
    }
    const auto layer = group.layers[index];
    if (m_spill && (needsMoments(recipe, teacher.config(), layer) || needsHeads(recipe)))
        for (at::Tensor* t : {&capture.x, &capture.heads, &capture.target})
            *t = t->defined() ? t->to(teacher.device()) : *t;
    if (!group.resumed.empty())
        group.align->restore(index, group.resumed[index]);
    // A start is many small operations: on a GPU some layers' run side by side, each on a stream of its own, while the teacher goes on.
    const bool aside = teacher.device().is_cuda() && recipe.preset == "linnet" && group.resumed.empty();
    if (aside && m_starts.empty()) // LibTorch loads its solvers on first use, which threads must not do at once
        at::linalg_cholesky(at::eye(2, at::TensorOptions(teacher.device()).dtype(at::kDouble)));
    auto work = [this, layer, weights = teacher.layer(layer), capture, resumed = !group.resumed.empty()] { return start(layer, *weights, capture, resumed); };
    m_starts.emplace_back(&group, index, aside ? std::async(std::launch::async, onStreamOfItsOwn(teacher.device(), std::move(work))) : std::async(std::launch::deferred, std::move(work)));
    while (m_starts.size() >= (aside ? m_startsAtOnce : 1))
        takeStart();
}

GroupAlignment::Start GroupAlignment::start(std::int64_t layer, const LayerWeights& weights, const LayerCapture& capture, bool resumed) {
    const auto& teacher = m_job.teacher;
    const auto& recipe = m_job.recipe;
    const auto moments = needsMoments(recipe, teacher.config(), layer) ? inputMoments(capture.x) : InputMoments{};
    const NewParameters drawn = m_drawn.at(layer).get();
    Start result;
    ClosedFormFit fit;
    const LayerContext context{teacher, weights, layer, recipe, capture, moments, m_job.profile, &drawn, &fit, &m_job.control};
    const bool plainStart = recipe.preset == "naive" && !recipe.targets.contains(layer);
    if (m_job.baselines || (plainStart && !resumed)) {
        Recipe plain = recipe; // the baseline knows nothing of a person's targets
        plain.targets.clear();
        result.naive = initialLayer({teacher, weights, layer, plain, capture, moments, m_job.profile, &drawn}, "naive");
    }
    if (!resumed)
        result.layer = plainStart ? result.naive : initialLayer(context, recipe.preset);
    if (m_job.baselines)
        result.naive = onHost(result.naive);
    if (!fit.heads.empty())
        result.fit = closedFormToJson(layer, fit);
    return result;
}

// The oldest start, waited for.
void GroupAlignment::takeStart() {
    const auto begin = Clock::now();
    auto [group, index, future] = std::move(m_starts.front());
    m_starts.pop_front();
    const auto start = future.get();
    const auto layer = group->layers[index];
    if (m_job.baselines)
        m_naive[layer] = Mixer{Mixer::Kind::Linear, &mixerSpec(m_job.recipe.mixer), start.naive};
    if (group->resumed.empty())
        group->align->start(index, start.layer);
    if (!start.fit.is_null())
        m_job.run.saveClosedForm(layer, start.fit);
    count(m_seconds.start, begin);
}

void GroupAlignment::align(Group& group) {
    const auto begin = Clock::now();
    auto& run = m_job.run;
    const auto& recipe = m_job.recipe;
    while (!m_starts.empty())
        takeStart();
    AlignGroup& align = *group.align;
    if (recipe.align.steps > 0) {
        const auto before = std::lower_bound(m_job.converted.begin(), m_job.converted.end(), group.layers.front()) - m_job.converted.begin();
        const double total = static_cast<double>(recipe.align.steps) * static_cast<double>(m_job.converted.size());
        const auto size = std::ssize(group.layers);
        const std::string name = size == 1 ? "layer " + std::to_string(group.layers.front())
                                           : "layers " + std::to_string(group.layers.front()) + " to " + std::to_string(group.layers.back());
        AlignGroupEvents events;
        events.onMetric = [&](const MetricRow& measured) {
            MetricRow row = measured;
            row.time = run.secondsSoFar();
            run.appendMetric(row);
            if (m_job.options.onMetric)
                m_job.options.onMetric(row);
        };
        events.save = [&] {
            for (std::size_t i = 0; i < group.layers.size(); ++i)
                run.saveAlign(group.layers[i], align.state(i));
        };
        events.onSteps = [&](std::int64_t step) {
            m_job.control.report("align", static_cast<double>(before * recipe.align.steps + step * size), total,
                                 name + ", step " + std::to_string(step) + " of " + std::to_string(recipe.align.steps));
        };
        events.onLog = [&](const std::string& line) { run.log(line); };
        align.run(events);
    }
    for (std::size_t i = 0; i < group.layers.size(); ++i) {
        const auto layer = group.layers[i];
        m_student[layer] = Mixer{Mixer::Kind::Linear, &mixerSpec(recipe.mixer), align.best(i)};
        if (recipe.align.steps > 0)
            run.noteAligned(layer, align.losses(i), align.kept(i).first, align.kept(i).second);
        m_finished.push_back(layer);
    }
    group.align.reset(); // its memory is the next group's
    count(m_seconds.align, begin);
}

void GroupAlignment::writeInBackground(std::future<void>& job, const std::filesystem::path& file, const Mixers& mixers) {
    if (job.valid())
        job.get();
    job = std::async(std::launch::async, [file, mixers] { saveLinearLayers(file, mixers); });
}

// Both files, when they are due; nothing counts as finished before it is on disk. Small ones are always due.
void GroupAlignment::keep(bool always) {
    if (!always && bytesOf(m_student) > kSmallFile && Clock::now() - m_lastWrite < kWriteEvery)
        return;
    const auto begin = Clock::now();
    m_job.run.save(); // the losses first: a kill in between must not lose those of finished layers
    writeInBackground(m_studentWrite, m_studentFile, m_student);
    if (!m_naive.empty() && !m_naiveWrite.valid())
        writeInBackground(m_naiveWrite, m_naiveFile, m_naive);
    m_studentWrite.get();
    if (m_naiveWrite.valid())
        m_naiveWrite.get();
    for (const auto layer : m_finished)
        m_job.run.removeAlign(layer);
    m_finished.clear();
    m_lastWrite = Clock::now();
    count(m_seconds.files, begin);
}

void GroupAlignment::count(double& part, Clock::time_point begin) const {
    if (const auto device = m_job.teacher.device(); device.is_cuda())
        c10::impl::VirtualGuardImpl(at::kCUDA).synchronizeStream(c10::impl::VirtualGuardImpl(at::kCUDA).getStream(device)); // not the starts' streams
    part += std::chrono::duration<double>(Clock::now() - begin).count();
}

void GroupAlignment::run(const std::filesystem::path& studentFile, const std::filesystem::path& naiveFile) {
    const at::NoGradGuard noGradients;
    const auto& teacher = m_job.teacher;
    m_studentFile = studentFile, m_naiveFile = naiveFile;
    const auto load = [&](const std::filesystem::path& file) {
        return std::filesystem::exists(file) ? loadLinearLayers(*openSafetensorsFile(file), teacher.linearShape(), at::kCPU, at::kFloat, m_job.recipe.mixer) : Mixers{};
    };
    m_student = load(studentFile);
    m_naive = load(naiveFile);

    std::vector<Group> groups;
    std::map<std::int64_t, std::pair<std::size_t, std::size_t>> place; // layer -> group, index in it
    std::int64_t last = -1;
    auto next = m_job.converted.begin();
    for (const auto size : m_sizes) {
        Group group;
        group.layers.assign(next, next + size);
        next += size;
        group.finished = std::all_of(group.layers.begin(), group.layers.end(), [&](std::int64_t l) { return m_student.contains(l) && (!m_job.baselines || m_naive.contains(l)); });
        if (!group.finished) {
            prepare(group);
            for (std::size_t i = 0; i < group.layers.size(); ++i)
                place[group.layers[i]] = {groups.size(), i};
            last = group.layers.back();
        }
        groups.push_back(std::move(group));
    }
    if (last < 0)
        return;
    for (const auto& [layer, where] : place) // on other cores, while the teacher runs: a wide layer's draws take 50 ms
        m_drawn[layer] = std::async(std::launch::async, [&config = teacher.config(), seed = m_job.recipe.seed, layer = layer] { return drawNewParameters(config, seed, layer); });
    const at::Tensor ids = windowTensor(m_job.calibration, teacher.device());
    const auto N = ids.size(0), piece = forwardSequences(teacher.device(), ids.size(1));
    if (m_job.recipe.align.loss == "kl_metric" && m_job.recipe.align.steps > 0)
        for (const auto& metric : outputMetrics(teacher, metricWindows(m_job.calibration, teacher.device()), m_job.recipe.seed, m_job.control))
            m_metrics.push_back({metric.root.to(at::kCPU), metric.inverse.to(at::kCPU)});
    const std::vector<std::int64_t> sizes{N, ids.size(1), teacher.config().hiddenSize};
    at::Tensor hidden = m_spill ? hostTensor(sizes, teacher.dtype(), teacher.device()) : at::empty(sizes, at::TensorOptions(teacher.device()).dtype(teacher.dtype()));
    for (std::int64_t n = 0; n < N; n += piece)
        hidden.narrow(0, n, std::min(piece, N - n)).copy_(teacher.embed(ids.narrow(0, n, std::min(piece, N - n))));
    Group none;
    for (std::int64_t l = 0; l <= last; ++l) {
        const auto found = place.find(l);
        Group& group = found == place.end() ? none : groups[found->second.first];
        const auto weights = teacher.layer(l);
        if (const auto* const own = mixerAt(teacher.mixers(), l)) { // a hybrid's, which stays as it is
            for (std::int64_t n = 0; n < N; n += piece) {
                m_job.control.checkpoint();
                at::Tensor rows = hidden.narrow(0, n, std::min(piece, N - n));
                rows.copy_(runBlock(teacher, *weights, own, rows.to(teacher.device())));
            }
            continue;
        }
        capture(group, found == place.end() ? 0 : found->second.second, *weights, hidden, l == last);
        if (group.layers.empty() || l != group.layers.back())
            continue;
        if (l == last && m_job.baselines) // the baseline is whole: its file is written beside the last group's steps
            writeInBackground(m_naiveWrite, m_naiveFile, m_naive);
        align(group);
        keep(l == last);
    }
    char line[160];
    std::snprintf(line, sizeof line, "%zu groups; teacher forward %.2f s, starts %.2f s, alignment %.2f s, files %.2f s", m_sizes.size(), m_seconds.capture,
                  m_seconds.start, m_seconds.align, m_seconds.files);
    m_job.run.log(line);
}

} // namespace linnet::core
