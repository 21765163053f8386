#include "core/torch_pch.h"

#include "core/distill/train.h"

#include "core/base/result.h"
#include "core/distill/micro_batch.h"
#include "core/distill/plan.h"
#include "core/distill/trained_block.h"

#include <c10/core/InferenceMode.h>

#include <chrono>
#include <numbers>
#include <numeric>

namespace linnet::core {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kSaveEvery = std::chrono::seconds(15);
constexpr double kBeta1 = 0.9, kBeta2 = 0.95, kEps = 1e-8;
constexpr double kHalfScale = 1024; // of the loss: float16 would round small gradients away

std::uint64_t mix(std::uint64_t value) { // splitmix64's finaliser
    value += 0x9e3779b97f4a7c15ULL;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
    return value ^ (value >> 31);
}

std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed) { // Fisher-Yates
    std::vector<std::int64_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    for (std::uint64_t left = order.size(); left > 1; --left)
        std::swap(order[left - 1], order[mix(seed ^ mix(left)) % left]);
    return order;
}

template <class Layer> std::vector<at::Tensor*> tensorsOf(Layer& layer) { // in the order of names()
    std::vector<at::Tensor*> tensors;
    layer.forEach([&](const std::string&, at::Tensor& t) { tensors.push_back(&t); });
    return tensors;
}

void checkJob(const DistillJob& job, const DistillState& state) {
    const auto unusable = [](const std::string& what) { fail(ErrorCode::Usage, "distillation: " + what); };
    if (state.parameters.empty())
        unusable("no layer is converted, so there is nothing to train");
    if (state.parameters.begin()->first < 0 || state.parameters.rbegin()->first >= job.teacher.config().layers)
        unusable("layer " + std::to_string(state.parameters.rbegin()->first) + " is trained, the teacher has " +
                 std::to_string(job.teacher.config().layers));
    const auto count = LinearLayer::names().size();
    for (const auto& [layer, parameters] : state.parameters)
        if (!state.first.contains(layer) || state.first.at(layer).size() != count || !state.second.contains(layer) ||
            state.second.at(layer).size() != count)
            unusable("the state has no moments of layer " + std::to_string(layer));
    if (job.training.sequences < 1 || job.training.seqLen < 1)
        unusable("the text has no window to train on");
    if (job.settings.batch < 1)
        unusable("distill.batch is " + std::to_string(job.settings.batch) + ", expected at least 1");
}

class Trainer {
public:
    Trainer(const DistillJob& job, DistillState& state) : m_job(job), m_state(state), m_student{job.teacher, job.spec, {}} {
        const auto device = job.teacher.device();
        const auto normal = [&](const at::Tensor& t) { // float32 on the device, usable outside of inference mode
            const at::Tensor moved = t.detach().to(device, at::kFloat).contiguous();
            return moved.is_inference() ? moved.clone() : moved;
        };
        std::set<std::int64_t> converted;
        for (auto& [layer, parameters] : state.parameters) {
            converted.insert(layer);
            parameters = mapped(parameters, normal);
            for (auto* moments : {&state.first[layer], &state.second[layer]})
                for (at::Tensor& t : *moments)
                    t = t.defined() ? normal(t) : t;
            m_student.masters[layer] = mapped(parameters, [](const at::Tensor& t) { return t.detach().requires_grad_(); });
        }
        const auto seqLen = job.training.seqLen;
        const auto bytes = distillBytes(job.teacher.config(), converted, seqLen, distillType(job.teacher), device);
        m_plan = distillPlan(bytes, job.settings.batch, seqLen, job.memoryBytes, device);
        if (job.teacher.streamed())
            m_plan.storedBlocks = 0; // a graph would keep the weights of its block
        m_options = {job.settings.temperature, job.settings.klWeight, job.settings.crossEntropyWeight, m_plan.pieceBytes};
        m_lossScale = distillType(job.teacher) == at::kHalf ? kHalfScale : 1;
    }

    DistillRow step() {
        const auto& settings = m_job.settings;
        const auto begin = Clock::now();
        const at::Tensor losses = addGradients();
        const at::NoGradGuard noGradients;
        collect();
        const at::Tensor norm = at::stack(at::_foreach_norm(m_gradients)).norm() / m_lossScale;
        const at::Tensor numbers = at::cat({losses, norm.view(1)}).to(at::kCPU, at::kDouble); // waits for the device
        DistillRow row;
        row.step = m_state.step;
        const auto tokens = settings.batch * m_job.training.seqLen;
        row.tokens = (m_state.step + 1) * tokens;
        row.loss = numbers[0].item<double>();
        row.kl = numbers[1].item<double>();
        row.crossEntropy = numbers[2].item<double>();
        row.gradNorm = numbers[3].item<double>();
        row.lr = settings.lr * distillScheduleFactor(settings, m_state.step);
        checkFinite(row);
        update(row.lr, std::min(1.0, settings.clip / (row.gradNorm + 1e-6)) / m_lossScale);
        if (m_state.step == 0)
            m_state.lossFirst = row.loss;
        m_state.lossLast = row.loss;
        ++m_state.step;
        row.tokensPerSecond = static_cast<double>(tokens) / std::chrono::duration<double>(Clock::now() - begin).count();
        return row;
    }

private:
    // Of the whole batch: loss, KL and cross entropy [3] in float32.
    at::Tensor addGradients() {
        const auto batch = m_job.settings.batch;
        const TokenWindows rows = m_job.training.rows(distillRows(m_job.seed, m_state.step, batch, m_job.training.sequences));
        const at::Tensor ids = at::tensor(std::vector<std::int64_t>(rows.ids.begin(), rows.ids.end()), at::kLong)
                                   .view({batch, rows.seqLen})
                                   .to(m_job.teacher.device());
        at::Tensor sums;
        for (std::int64_t from = 0; from < batch; from += m_plan.sequences) {
            const auto count = std::min(m_plan.sequences, batch - from);
            const double share = static_cast<double>(count) / static_cast<double>(batch);
            const DistillLoss loss = addDistillGradients(m_student, ids.narrow(0, from, count), m_options, share * m_lossScale,
                                                         m_plan.storedBlocks, m_job.control);
            const at::Tensor part = at::stack({loss.loss, loss.kl, loss.crossEntropy}) * share;
            sums = sums.defined() ? sums + part : part;
        }
        return sums;
    }

    // What got a gradient; a mixer without decay, say, leaves A_log alone.
    void collect() {
        for (auto& [layer, masters] : m_student.masters) {
            const auto tensors = tensorsOf(masters);
            for (std::size_t i = 0; i < tensors.size(); ++i) {
                if (!tensors[i]->defined() || !tensors[i]->grad().defined())
                    continue;
                m_parameters.push_back(tensors[i]->detach());
                m_gradients.push_back(tensors[i]->grad());
                m_first.push_back(m_state.first.at(layer)[i]);
                m_second.push_back(m_state.second.at(layer)[i]);
                tensors[i]->mutable_grad().reset();
            }
        }
    }

    void checkFinite(const DistillRow& row) const {
        const bool loss = std::isfinite(row.loss);
        if (loss && std::isfinite(row.gradNorm))
            return;
        fail(ErrorCode::Internal,
             "distillation diverged in step " + std::to_string(row.step) + ": the " + (loss ? "gradient" : "loss") +
                 " is not finite; try a lower distill.lr",
             {{"key", "distill.lr"}, {"step", std::to_string(row.step)}});
    }

    void update(double lr, double factor) {
        at::_foreach_mul_(m_gradients, factor);
        const std::vector<at::Tensor> steps(
            m_parameters.size(), at::full({}, static_cast<double>(m_state.step + 1), m_parameters.front().options()));
        at::_fused_adamw_(m_parameters, m_gradients, m_first, m_second, {}, steps, lr, kBeta1, kBeta2,
                          m_job.settings.weightDecay, kEps, false, false);
        for (auto* list : {&m_parameters, &m_gradients, &m_first, &m_second})
            list->clear(); // the gradients' memory is the next step's
        for (const auto& [layer, restore] : m_job.afterStep)
            if (const auto found = m_state.parameters.find(layer); found != m_state.parameters.end())
                restore(found->second);
    }

    const DistillJob& m_job;
    DistillState& m_state;
    DistillStudent m_student; // its masters share their memory with the state's
    DistillPlan m_plan;
    DistillOptions m_options;
    double m_lossScale = 1;
    std::vector<at::Tensor> m_parameters, m_gradients, m_first, m_second; // of this step
};

} // namespace

DistillState freshDistillState(const Mixers& student) {
    DistillState state;
    for (const auto& [layer, mixer] : student) {
        if (mixer.kind != Mixer::Kind::Linear)
            continue;
        auto& parameters = state.parameters[layer] = mapped(
            mixer.linear, [](const at::Tensor& t) { return t.detach().to(at::kFloat).clone(at::MemoryFormat::Contiguous); });
        for (const at::Tensor* t : tensorsOf(parameters))
            for (auto* moments : {&state.first[layer], &state.second[layer]})
                moments->push_back(t->defined() ? at::zeros_like(*t) : at::Tensor());
    }
    return state;
}

Mixers distilledMixers(const DistillState& state, const MixerSpec& spec) {
    Mixers mixers;
    for (const auto& [layer, parameters] : state.parameters)
        mixers[layer] = Mixer{Mixer::Kind::Linear, &spec, mapped(parameters, [](const at::Tensor& t) { return t.detach(); })};
    return mixers;
}

void distillStudent(const DistillJob& job, DistillState& state) {
    checkJob(job, state);
    const c10::InferenceMode normalTensors(false);
    Trainer trainer(job, state);
    const auto steps = job.settings.steps;
    auto lastSave = Clock::now();
    try {
        while (state.step < steps) {
            const DistillRow row = trainer.step();
            if (job.onRow)
                job.onRow(row);
            if (job.save && Clock::now() - lastSave > kSaveEvery) {
                job.save(state);
                lastSave = Clock::now();
            }
            job.control.report("distill", static_cast<double>(state.step), static_cast<double>(steps),
                               "step " + std::to_string(state.step) + " of " + std::to_string(steps));
        }
    } catch (const Failure& failure) {
        if (job.save && failure.error.code == ErrorCode::Cancelled)
            job.save(state);
        throw;
    }
}

double distillScheduleFactor(const DistillSettings& settings, std::int64_t step) {
    constexpr double kLeast = 0.1, kFall = 0.2; // cosine's end; wsd's last part
    const auto warmup = std::llround(settings.warmup * static_cast<double>(settings.steps));
    const double rise = step < warmup ? static_cast<double>(step + 1) / static_cast<double>(warmup) : 1.0;
    const double done = static_cast<double>(step) / static_cast<double>(settings.steps);
    if (settings.schedule == "cosine")
        return rise * (kLeast + (1 - kLeast) * 0.5 * (1 + std::cos(std::numbers::pi * done)));
    if (settings.schedule == "linear")
        return rise * (1 - done);
    if (settings.schedule == "wsd")
        return rise * std::min(1.0, (1 - done) / kFall);
    return rise;
}

std::vector<std::int64_t> distillRows(std::uint64_t seed, std::int64_t step, std::int64_t batch, std::int64_t windows) {
    std::vector<std::int64_t> rows, order;
    std::int64_t ordered = -1; // the pass over all windows whose order this is
    for (std::int64_t i = step * batch; i < (step + 1) * batch; ++i) {
        if (const auto pass = i / windows; pass != ordered)
            order = shuffled(windows, mix(mix(seed) ^ static_cast<std::uint64_t>(ordered = pass)));
        rows.push_back(order[static_cast<std::size_t>(i % windows)]);
    }
    return rows;
}

} // namespace linnet::core
