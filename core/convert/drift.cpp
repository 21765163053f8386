#include "core/torch_pch.h"

#include "core/convert/drift.h"

#include "core/base/result.h"
#include "core/evaluate/evaluate_model.h"

#include <chrono>
#include <cstdio>

namespace linnet::core {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kDriftShare = 0.5;
// Further steps begin at an aligned state. Held-out loss after 60 of them, mean of 6 layers of SmolLM2-135M aligned in 60 steps at 6e-3, to
// that before the refit: .867 at the same rate (two layers gained nothing), .851 at a third, .864 at a tenth; refit alone .909.
constexpr double kDriftRate = 1.0 / 3;

struct Errors { // sums over the measured windows
    double weighted = 0, plain = 0;
};

class Drift {
public:
    Drift(const DriftJob& job, Mixers& student)
        : m_job(job), m_student(student), m_device(job.teacher.device()), m_shape(job.teacher.linearShape()), m_N(job.calibration.sequences),
          m_T(job.calibration.seqLen), m_heldOut(heldOutWindows(job.recipe.align, m_N)), m_piece(forwardSequences(m_device, m_T)) {
        for (const auto& [layer, mixer] : student)
            if (mixer.kind == Mixer::Kind::Linear)
                m_layers.push_back(layer);
        const bool align = job.recipe.align.drift == "align";
        m_recipe = job.recipe; // of the further steps
        m_recipe.align.steps = align ? job.recipe.align.driftSteps : 0;
        m_recipe.align.lr *= kDriftRate, m_recipe.align.lrNew *= kDriftRate;
        const AlignGroupShape one{1, m_recipe.align.batch, m_T, m_N, m_shape};
        const auto compute = AlignGroup::computeType(m_device, job.teacher.dtype());
        const auto streams = static_cast<std::uint64_t>(2 * m_N * m_T * m_shape.hidden) * at::elementSize(job.teacher.dtype()); // and as much for inputs and targets
        const auto left = job.budget - std::min(job.budget, streams);
        m_spill = job.budget > 0 && (align ? AlignGroup::spills(one, m_device, compute, left) : m_device.is_cuda() && left < streams);
    }

    void run() {
        if (m_layers.empty() || m_N == 0)
            return;
        const at::NoGradGuard noGradients;
        const auto& teacher = m_job.teacher;
        if (m_recipe.align.loss == "kl_metric" && m_recipe.align.steps > 0)
            m_metrics = outputMetrics(teacher, metricWindows(m_job.calibration, m_device), m_recipe.seed, m_job.control);
        m_weights = at::empty({m_N, m_T}, at::TensorOptions(m_device).dtype(at::kFloat));
        m_teacher = storage();
        const at::Tensor ids = windowTensor(m_job.calibration, m_device);
        forPieces(0, m_N, [&](std::int64_t n, std::int64_t count) { m_teacher.narrow(0, n, count).copy_(teacher.embed(ids.narrow(0, n, count))); });
        for (std::int64_t l = 0; l <= m_layers.back(); ++l) {
            const auto weights = teacher.layer(l);
            const auto found = m_student.find(l);
            if (found != m_student.end() && !m_own.defined()) { // up to here both streams are one
                m_own = storage();
                m_own.copy_(m_teacher);
            }
            if (found != m_student.end() && found->second.kind == Mixer::Kind::Linear)
                correct(l, *weights, found->second);
            else
                passOn(*weights, mixerAt(teacher.mixers(), l), mixerAt(teacher, m_student, l));
        }
    }

private:
    at::Tensor storage() const {
        const std::vector<std::int64_t> sizes{m_N, m_T, m_shape.hidden};
        return m_spill ? hostTensor(sizes, m_job.teacher.dtype(), m_device) : at::empty(sizes, at::TensorOptions(m_device).dtype(m_job.teacher.dtype()));
    }
    template <class Body> void forPieces(std::int64_t from, std::int64_t to, const Body& body) const {
        for (std::int64_t n = from; n < to; n += m_piece) {
            m_job.control.checkpoint();
            body(n, std::min(m_piece, to - n));
        }
    }
    // On the device; the same memory where it lies there.
    at::Tensor rows(const at::Tensor& stored, std::int64_t n, std::int64_t count) const { return stored.narrow(0, n, count).to(m_device); }

    void passOn(const LayerWeights& weights, const Mixer* before, const Mixer* now) { // in the teacher, in the student
        for (const auto& [stream, own] : {std::pair(&m_teacher, false), std::pair(&m_own, true)})
            if (stream->defined())
                forPieces(0, m_N, [&](std::int64_t n, std::int64_t count) {
                    stream->narrow(0, n, count).copy_(runBlock(m_job.teacher, weights, own ? now : before, rows(*stream, n, count)));
                });
    }

    void correct(std::int64_t l, const LayerWeights& weights, Mixer& mixer) {
        const auto done = std::lower_bound(m_layers.begin(), m_layers.end(), l) - m_layers.begin();
        m_spec = mixer.spec;
        m_job.control.report("drift", static_cast<double>(done), static_cast<double>(m_layers.size()), "layer " + std::to_string(l));
        const auto device = mixer.linear.oProj.device();
        LinearLayer layer = mapped(mixer.linear, [&](const at::Tensor& t) { return t.detach().to(m_device, at::kFloat); });
        std::unique_ptr<AlignGroup> group = m_recipe.align.steps > 0 ? makeGroup(l) : nullptr;
        const bool shared = group && group->inputs(0).scalar_type() == m_job.teacher.dtype();
        m_x = shared ? group->inputs(0) : storage();
        m_target = shared ? group->targets(0) : storage();
        capture(weights);
        refit(l, layer);
        if (group) {
            if (!shared) {
                group->inputs(0).copy_(m_x);
                group->targets(0).copy_(m_target);
            }
            layer = align(l, *group, layer, done);
        }
        if (l < m_layers.back())
            advance(weights, layer);
        m_x.reset(), m_target.reset();
        mixer.linear = mapped(layer, [&](const at::Tensor& t) { return t.to(device); });
    }

    // Inputs, targets and weights of a layer; the teacher's stream takes the attention's addition in.
    void capture(const LayerWeights& weights) {
        const auto& teacher = m_job.teacher;
        forPieces(0, m_N, [&](std::int64_t n, std::int64_t count) {
            const at::Tensor teachers = rows(m_teacher, n, count), own = rows(m_own, n, count);
            const at::Tensor y = outputProjection(weights, headOutputs(teacher, weights, attentionInput(teacher, weights, teachers)));
            const at::Tensor gap = teachers.to(at::kFloat) - own.to(at::kFloat);
            m_x.narrow(0, n, count).copy_(attentionInput(teacher, weights, own));
            m_target.narrow(0, n, count).copy_(y.to(at::kFloat) + kDriftShare * gap);
            const at::Tensor after = teachers + y;
            m_weights.narrow(0, n, count).copy_(streamWeights(after));
            m_teacher.narrow(0, n, count).copy_(after);
        });
    }

    // Gated readouts, targets and weights of some windows, a token a row, float32.
    struct Rows {
        at::Tensor z, y, w; // [n, H D], [n, hidden], [n, 1]
    };
    Rows readouts(const LinearLayer& layer, std::int64_t n, std::int64_t count) const {
        const at::Tensor x = rows(m_x, n, count).to(at::kFloat);
        at::Tensor z = linearReadout(*m_spec, m_shape, layer, x).normed.flatten(2);
        if (m_spec->outputGate)
            z = z * outputGate(layer, x);
        return {z.flatten(0, 1), rows(m_target, n, count).to(at::kFloat).flatten(0, 1), m_weights.narrow(0, n, count).reshape({-1, 1})};
    }

    // dW = argmin sum w |y - (o_proj + dW) z|^2 + ridge |dW|^2, ridge a share of sum w z z' and so for weights of any scale.
    void refit(std::int64_t l, LinearLayer& layer) {
        const auto begin = Clock::now();
        const auto fitted = m_N - m_heldOut, width = m_shape.heads * m_shape.headDim;
        const auto wide = at::TensorOptions(m_device).dtype(at::kDouble);
        at::Tensor G = at::zeros({width, width}, wide), C = at::zeros({width, m_shape.hidden}, wide);
        forPieces(0, fitted, [&](std::int64_t n, std::int64_t count) {
            const Rows r = readouts(layer, n, count);
            const at::Tensor weighted = (r.z * r.w).t();
            G += weighted.matmul(r.z).to(at::kDouble);
            C += weighted.matmul(r.y - r.z.matmul(layer.oProj.t())).to(at::kDouble);
        });
        const double size = G.diagonal().mean().item<double>();
        if (!std::isfinite(size))
            fail(ErrorCode::Internal, "drift: the readouts of layer " + std::to_string(l) + " are not finite; try a lower align.lr", {{"key", "align.lr"}});
        if (size == 0) // nothing to fit
            return;
        G.diagonal().add_(m_job.ridge.value_or(m_job.recipe.align.steps == 0 ? 1e-3 : 1e-2) * size);
        LinearLayer refitted = layer;
        refitted.oProj = layer.oProj.clone();
        const AlignLocks locks(refitted, m_recipe, l, m_shape.headDim);
        refitted.oProj.add_(at::cholesky_solve(C, at::linalg_cholesky(G)).t());
        locks.restore();

        Errors before, after;
        double power = 0;
        const auto from = m_heldOut > 0 ? fitted : 0;
        forPieces(from, m_N, [&](std::int64_t n, std::int64_t count) {
            const Rows r = readouts(layer, n, count);
            for (const auto& [errors, weights] : {std::pair(&before, &layer.oProj), std::pair(&after, &refitted.oProj)}) {
                const at::Tensor squares = (r.y - r.z.matmul(weights->t())).square().sum(-1, true);
                errors->plain += squares.sum(at::kDouble).item<double>();
                errors->weighted += (squares * r.w).sum(at::kDouble).item<double>();
            }
            power += r.y.square().sum(at::kDouble).item<double>();
        });
        const bool better = after.weighted < before.weighted;
        log(l, before, after, better);
        if (better)
            layer = refitted;
        const auto values = static_cast<double>((m_N - from) * m_T * m_shape.hidden);
        MetricRow row;
        row.layer = l;
        row.tokens = fitted * m_T;
        row.loss = before.plain / values;
        row.heldOutLoss = (better ? after : before).plain / values;
        row.relativeLoss = (better ? after : before).plain / std::max(power, 1e-30);
        row.tokensPerSecond = static_cast<double>(row.tokens) / std::max(std::chrono::duration<double>(Clock::now() - begin).count(), 1e-9);
        emit(row);
    }

    std::unique_ptr<AlignGroup> makeGroup(std::int64_t l) const {
        std::vector<OutputMetric> metrics;
        if (!m_metrics.empty())
            metrics.push_back(m_metrics[static_cast<std::size_t>(l)]);
        return std::make_unique<AlignGroup>(AlignGroupJob{m_recipe, {l}, {1, m_recipe.align.batch, m_T, m_N, m_shape}, m_device,
                                                          AlignGroup::computeType(m_device, m_job.teacher.dtype()), AlignStep::backendFor(m_device, m_shape),
                                                          std::move(metrics), m_spill});
    }

    LinearLayer align(std::int64_t l, AlignGroup& group, const LinearLayer& layer, std::int64_t done) const {
        group.start(0, layer);
        const auto steps = m_recipe.align.steps;
        AlignGroupEvents events;
        events.onMetric = [&](MetricRow row) {
            ++row.step; // 0 is the refit's
            emit(row);
        };
        events.save = [] {};
        events.onSteps = [&](std::int64_t step) {
            m_job.control.report("drift", static_cast<double>(done) + static_cast<double>(step) / static_cast<double>(steps), static_cast<double>(m_layers.size()),
                                 "layer " + std::to_string(l) + ", step " + std::to_string(step) + " of " + std::to_string(steps));
        };
        events.onLog = m_job.onLog;
        group.run(events);
        return mapped(group.best(0), [&](const at::Tensor& t) { return t.to(m_device); });
    }

    // Both streams to the next layer; the student's as it will run, in the teacher's dtype.
    void advance(const LayerWeights& weights, const LinearLayer& layer) {
        const auto& teacher = m_job.teacher;
        const LinearLayer rounded = mapped(layer, [&](const at::Tensor& t) { return t.to(teacher.dtype()); });
        forPieces(0, m_N, [&](std::int64_t n, std::int64_t count) {
            at::Tensor teachers = rows(m_teacher, n, count), own = rows(m_own, n, count) + linearForward(*m_spec, m_shape, rounded, rows(m_x, n, count));
            m_own.narrow(0, n, count).copy_(own + feedForward(teacher, weights, own));
            m_teacher.narrow(0, n, count).copy_(teachers + feedForward(teacher, weights, teachers));
        });
    }

    void emit(MetricRow row) const {
        row.stage = "drift";
        if (m_job.onMetric)
            m_job.onMetric(row);
    }
    void log(std::int64_t l, const Errors& before, const Errors& after, bool better) const {
        if (!m_job.onLog)
            return;
        char line[160];
        std::snprintf(line, sizeof line, "drift: layer %lld, weighted error %+.1f %%%s", static_cast<long long>(l), 100 * (after.weighted / std::max(before.weighted, 1e-300) - 1),
                      better ? "" : " on the held-out windows: o_proj stays as it was");
        m_job.onLog(line);
    }

    const DriftJob& m_job;
    Mixers& m_student;
    at::Device m_device;
    LinearShape m_shape;
    std::int64_t m_N, m_T, m_heldOut, m_piece;
    Recipe m_recipe;
    bool m_spill = false;
    std::vector<std::int64_t> m_layers;
    std::vector<OutputMetric> m_metrics;
    const MixerSpec* m_spec = nullptr;
    at::Tensor m_teacher, m_own; // streams [N, T, hidden], m_own from the first converted layer on
    at::Tensor m_x, m_target;    // of the present layer
    at::Tensor m_weights;        // [N, T]
};

} // namespace

void correctDrift(const DriftJob& job, Mixers& student) {
    Drift(job, student).run();
}

} // namespace linnet::core
