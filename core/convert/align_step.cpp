#include "core/torch_pch.h"

#include "core/convert/align_step.h"

#include "core/base/result.h"
#include "core/convert/align_buffers.h"
#include "core/mixers/kernel_call.h"

#include "linnet/kernels/gated_delta_rule.h"
#include "linnet/kernels/linear_layer.h"

namespace linnet::core {
namespace {

constexpr double kL2NormEps = 1e-6;

void check(kernels::LaunchError error) {
    checkLaunch(error, "alignment step");
}

// out = a b for [L, ., .]; out may be float32 where a and b are narrower: the sums are float32 in any case.
void product(at::Tensor out, const at::Tensor& a, const at::Tensor& b) {
    if (out.scalar_type() == a.scalar_type())
        at::bmm_out(out, a, b);
    else if (a.is_cuda())
        at::bmm_outf(a, b, out.scalar_type(), out);
    else
        out.copy_(at::bmm(a.to(out.scalar_type()), b.to(out.scalar_type())));
}

at::Tensor transposed(const at::Tensor& t) {
    return t.transpose(1, 2);
}

const std::int32_t* step32(const at::Tensor* step) {
    return step ? step->const_data_ptr<std::int32_t>() : nullptr;
}

} // namespace

bool AlignStep::supports(const MixerSpec& spec) {
    return spec.decay == Decay::ScalarPerToken && spec.deltaRule && spec.write == WriteGate::Beta && spec.normaliser == Normaliser::None &&
           spec.qkL2Norm && spec.shortConvolution && spec.outputGate;
}

AlignStep::Backend AlignStep::backendFor(at::Device device, const LinearShape& shape) {
    const bool fits = shape.hidden % 8 == 0 && shape.headDim % 8 == 0 && shape.headDim <= 256; // what the kernels take: rows of 16 bytes
    return device.is_cuda() && kernels::cudaKernelsBuilt() && fits ? Backend::Kernels : Backend::Tensors;
}

std::uint64_t AlignStep::bytesOfLayer(const AlignGroupShape& shape, at::ScalarType compute, at::Device device) {
    AlignGroupShape one = shape;
    one.layers = 1;
    const PackedLayout layout(shape.linear);
    const auto width = static_cast<std::uint64_t>(at::elementSize(compute));
    const auto packed = static_cast<std::uint64_t>(layout.total) * (5 * 4 + width); // parameters, moments, gradients, best, rounded
    const auto captured = static_cast<std::uint64_t>(2 * shape.windows * shape.tokens * shape.linear.hidden) * width;
    return packed + captured + Buffers::bytes(one, layout, compute, device, backendFor(device, shape.linear));
}

AlignStep::AlignStep(const AlignGroupShape& shape, const MixerSpec& spec, const AlignSettings& settings, at::Device device, at::ScalarType compute,
                     Backend backend)
    : m_shape(shape), m_settings(settings), m_device(device), m_compute(compute), m_backend(backend), m_layout(shape.linear) {
    if (!supports(spec))
        fail(ErrorCode::Unsupported, "mixer '" + spec.name + "' is not aligned in groups", {{"mixer", spec.name}});
    m_ruleKernels = backend == Backend::Kernels && Buffers::ruleKernels(shape, compute, device);
    const at::TensorOptions options = at::TensorOptions(device);
    inputs = at::empty({shape.layers, shape.windows, shape.tokens, shape.linear.hidden}, options.dtype(compute));
    targets = at::empty_like(inputs);
    parameters = at::zeros({shape.layers, m_layout.total}, options.dtype(at::kFloat));
    first = at::zeros_like(parameters);
    second = at::zeros_like(parameters);
    m_b = std::make_unique<Buffers>(shape, m_layout, compute, device, backend);
    m_b->rounded = compute == at::kFloat ? parameters : at::zeros(parameters.sizes(), options.dtype(compute));
}

AlignStep::~AlignStep() = default;

void AlignStep::begin(const std::vector<std::int32_t>& rows, std::int64_t steps, std::int64_t step, std::vector<AlignLocks> locks) {
    const auto onDevice = [&](const at::Tensor& host) { return host.to(m_device); };
    Buffers& b = *m_b;
    b.rows = onDevice(at::tensor(rows, at::kInt).view({steps, m_shape.layers * m_shape.batch}));
    std::vector<float> schedule;
    for (std::int64_t s = 0; s < steps; ++s) {
        const double factor = scheduleFactor(m_settings, s), t = static_cast<double>(s + 1);
        for (const double value : {m_settings.lr * factor, m_settings.lrNew * factor, 1 - std::pow(0.9, t), std::sqrt(1 - std::pow(0.999, t))})
            schedule.push_back(static_cast<float>(value));
    }
    b.schedule = onDevice(at::tensor(schedule).view({steps, 4}));
    b.step = onDevice(at::full({1}, step, at::kInt));
    b.layerOffsets = onDevice((at::arange(m_shape.layers, at::kInt) * m_shape.windows).view({-1, 1}));
    metrics = at::zeros({steps, m_shape.layers, 2}, parameters.options());
    m_locks = std::move(locks);
    m_relocked.clear();
    if (m_compute != at::kFloat) {
        b.rounded.copy_(parameters);
        for (const auto& lock : m_locks)
            for (const at::Tensor& view : lock.touched())
                m_relocked.emplace_back(b.rounded.as_strided(view.sizes(), view.strides(), view.storage_offset()), view);
    }
}

// ---- the parts ----------------------------------------------------------------------------------------------------------------

at::Tensor AlignStep::forward(std::int64_t batch, const at::Tensor& rows, const at::Tensor* step, bool gradients) {
    Buffers& b = *m_b;
    const auto L = m_shape.layers, tokens = batch * m_shape.tokens, hidden = m_shape.linear.hidden;
    b.use(batch);
    if (m_backend == Backend::Kernels) {
        kernels::GatherRowsParams p;
        p.from = inputs.const_data_ptr(), p.to = b.x.mutable_data_ptr(), p.rows = rows.const_data_ptr<std::int32_t>(), p.step = step32(step);
        p.count = L * batch, p.rowBytes = m_shape.tokens * hidden * static_cast<std::int64_t>(inputs.element_size()), p.stream = currentStream(m_device);
        m_device.is_cuda() ? check(kernels::gatherRows(p)) : kernels::gatherRowsCpu(p);
    } else {
        auto x = b.x.view({L * batch, m_shape.tokens * hidden});
        at::index_select_out(x, inputs.view({L * m_shape.windows, -1}), 0, flatRows(rows, step));
    }
    mark("gather");
    product(b.u.view({L, tokens, m_layout.rows}), b.x.view({L, tokens, hidden}), transposed(m_layout.inputs(b.rounded)));
    mark("projections");
    between(batch, gradients);
    product(b.out.view({L, tokens, hidden}), b.y.view({L, tokens, m_layout.width}), transposed(m_layout.outputs(b.rounded)));
    mark("output");
    return b.out;
}

void AlignStep::backward(const at::Tensor& dOut) {
    Buffers& b = *m_b;
    const auto L = m_shape.layers, tokens = m_shape.batch * m_shape.tokens, hidden = m_shape.linear.hidden;
    const at::Tensor d = dOut.view({L, tokens, hidden});
    product(b.dy.view({L, tokens, m_layout.width}), d, m_layout.outputs(b.rounded));
    if (m_settings.trainOutput)
        product(m_layout.outputs(b.gradients), transposed(d), b.y.view({L, tokens, m_layout.width}));
    mark("output, back");
    betweenBackward();
    product(m_layout.inputs(b.gradients), transposed(b.du.view({L, tokens, m_layout.rows})), b.x.view({L, tokens, hidden}));
    mark("projections, back");
}

// From u to y: everything that is no product with a weight.
void AlignStep::between(std::int64_t batch, bool gradients) {
    Buffers& b = *m_b;
    if (m_backend == Backend::Tensors) {
        b.tensorsBetween(parameters, m_layout, m_shape, batch, gradients);
        mark("between");
        return;
    }
    auto convolution = b.convolution(parameters, m_layout, m_shape, batch);
    auto gates = b.gates(parameters, m_layout, m_shape, batch);
    auto norm = b.norm(parameters, m_layout, m_shape, batch);
    if (m_device.is_cuda()) {
        check(kernels::shortConvolutionForward(convolution));
        mark("convolution");
        check(kernels::gatesForward(gates));
        mark("gates");
        rule(batch, gradients);
        mark("rule");
        check(kernels::gatedNormForward(norm));
        mark("norm");
    } else {
        kernels::shortConvolutionForwardCpu(convolution);
        kernels::gatesForwardCpu(gates);
        rule(batch, gradients);
        kernels::gatedNormForwardCpu(norm);
    }
}

void AlignStep::betweenBackward() {
    Buffers& b = *m_b;
    if (m_backend == Backend::Tensors) {
        b.tensorsBetweenBackward(m_layout, m_shape);
        mark("between, back");
        return;
    }
    auto convolution = b.convolution(parameters, m_layout, m_shape, m_shape.batch);
    auto gates = b.gates(parameters, m_layout, m_shape, m_shape.batch);
    auto norm = b.norm(parameters, m_layout, m_shape, m_shape.batch);
    if (!m_settings.trainOutput)
        norm.dWeight = nullptr;
    if (m_device.is_cuda()) {
        check(kernels::gatedNormBackward(norm));
        mark("norm, back");
        ruleBackward();
        mark("rule, back");
        check(kernels::gatesBackward(gates));
        mark("gates, back");
        check(kernels::shortConvolutionBackward(convolution));
        mark("convolution, back");
    } else {
        kernels::gatedNormBackwardCpu(norm);
        ruleBackward();
        kernels::gatesBackwardCpu(gates);
        kernels::shortConvolutionBackwardCpu(convolution);
    }
}

// The gated delta rule of all layers: to it they are more sequences.
void AlignStep::rule(std::int64_t batch, bool gradients) {
    Buffers& b = *m_b;
    if (m_ruleKernels) {
        check(kernels::gatedDeltaRuleForward(b.rule(m_layout, m_shape, batch, gradients)));
        return;
    }
    const at::AutoGradMode mode(gradients);
    const auto heads = [&](std::int64_t which) {
        return b.a.view({m_shape.layers * batch, m_shape.tokens, 3, m_layout.heads, m_layout.headDim}).select(2, which).to(at::kFloat).detach().requires_grad_(gradients);
    };
    const auto perHead = [&](const at::Tensor& t) { return t.view({m_shape.layers * batch, m_shape.tokens, m_layout.heads}).detach().requires_grad_(gradients); };
    b.leaves = {heads(0), heads(1), heads(2), perHead(b.g), perHead(b.beta)};
    const auto unit = [](const at::Tensor& t) { return t * (t.square().sum(-1, true) + kL2NormEps).rsqrt(); };
    RecurrenceInputs in;
    in.q = unit(b.leaves[0]) / std::sqrt(static_cast<double>(m_layout.headDim));
    in.k = unit(b.leaves[1]);
    in.v = b.leaves[2];
    in.logDecay = b.leaves[3];
    in.write = b.leaves[4];
    b.ruleOutput = chunkwise(mixerSpec("gated_delta_net"), in).o;
    const at::NoGradGuard copying;
    b.o.view_as(b.ruleOutput).copy_(b.ruleOutput);
}

void AlignStep::ruleBackward() {
    Buffers& b = *m_b;
    if (m_ruleKernels) {
        check(kernels::gatedDeltaRuleBackward(b.rule(m_layout, m_shape, m_shape.batch, true)));
        return;
    }
    const auto d = torch::autograd::grad({b.ruleOutput}, b.leaves, {b.dO.view_as(b.ruleOutput).to(b.ruleOutput.scalar_type())});
    const at::NoGradGuard copying;
    for (std::size_t i = 0; i < 3; ++i)
        b.dHeads[i].view_as(d[i]).copy_(d[i]);
    b.dg.copy_(d[3].view_as(b.dg));
    b.dbeta.copy_(d[4].view_as(b.dbeta));
    b.leaves.clear();
    b.ruleOutput.reset();
}

// Of the step that the counter tells, or all.
at::Tensor AlignStep::flatRows(const at::Tensor& rows, const at::Tensor* step) const {
    return step ? rows.index_select(0, *step).view(-1) : rows.view(-1);
}

void AlignStep::loss(const at::Tensor& out, std::int64_t batch, const at::Tensor& rows, const at::Tensor* step, bool gradients) {
    Buffers& b = *m_b;
    const auto L = m_shape.layers, hidden = m_shape.linear.hidden, values = batch * m_shape.tokens * hidden;
    if (m_backend == Backend::Kernels) {
        kernels::SquareErrorParams p;
        p.group = b.group(m_shape, batch), p.hidden = hidden;
        p.out = out.const_data_ptr(), p.targets = targets.const_data_ptr(), p.rows = rows.const_data_ptr<std::int32_t>(), p.step = step32(step);
        p.dOut = gradients ? b.out.mutable_data_ptr() : nullptr, p.sums = b.sums.mutable_data_ptr<float>();
        m_device.is_cuda() ? check(kernels::squareError(p)) : kernels::squareErrorCpu(p);
        return;
    }
    const at::Tensor y = targets.view({L * m_shape.windows, -1}).index_select(0, flatRows(rows, step)).to(at::kFloat).view({L, values});
    const at::Tensor difference = out.view({L, values}).to(at::kFloat) - y;
    b.sums.zero_();
    b.sums.select(1, 0).copy_(at::stack({difference.square().sum(1), y.square().sum(1)}, 1));
    if (gradients)
        b.out.view({L, values}).copy_(difference * (2.0 / static_cast<double>(values)));
}

void AlignStep::update() {
    Buffers& b = *m_b;
    const auto L = m_shape.layers, values = m_shape.batch * m_shape.tokens * m_shape.linear.hidden, count = m_layout.trainedCount(m_settings.trainOutput);
    const bool relative = m_settings.loss == "relative_mse";
    if (m_backend == Backend::Kernels) {
        kernels::AlignUpdateParams p;
        p.group = b.group(m_shape, m_shape.batch);
        p.firstCount = m_layout.firstCount(), p.count = count;
        p.parameters = parameters.mutable_data_ptr<float>(), p.first = first.mutable_data_ptr<float>(), p.second = second.mutable_data_ptr<float>();
        p.gradients = b.gradients.const_data_ptr<float>(), p.rounded = m_compute == at::kFloat ? nullptr : b.rounded.mutable_data_ptr();
        p.schedule = b.schedule.const_data_ptr<float>(), p.step = b.step.const_data_ptr<std::int32_t>();
        p.weightDecay = static_cast<float>(m_settings.weightDecay), p.clip = static_cast<float>(m_settings.clip), p.relative = relative;
        p.sums = b.sums.const_data_ptr<float>(), p.values = values;
        p.workspace = b.normSums.mutable_data_ptr<float>(), p.metrics = metrics.mutable_data_ptr<float>();
        m_device.is_cuda() ? check(kernels::alignUpdate(p)) : kernels::alignUpdateCpu(p);
        return;
    }
    const at::Tensor sums = b.sums.sum(1) / static_cast<double>(values), trained = b.gradients.narrow(1, 0, count); // sums [L, 2]
    at::Tensor norm = trained.square().sum(1).sqrt(), factor = at::ones_like(norm);
    if (relative) {
        factor = sums.select(1, 1).clamp_min(1e-30).reciprocal();
        norm = norm * factor;
    }
    trained.mul_((factor * (m_settings.clip / (norm + 1e-6)).clamp_max(1.0)).unsqueeze(1));
    metrics.index_copy_(0, b.step.to(at::kLong), at::stack({sums.select(1, 0), norm}, 1).unsqueeze(0));
    const at::Tensor schedule = b.schedule.index_select(0, b.step).view({4}), steps = (b.step + 1).to(at::kFloat)[0];
    for (const bool isFirst : {true, false}) {
        const std::int64_t from = isFirst ? 0 : m_layout.firstCount(), length = (isFirst ? m_layout.firstCount() : count) - from;
        std::vector<at::Tensor> p, g, m, v, s;
        for (std::int64_t l = 0; l < L; ++l) {
            const auto slice = [&](const at::Tensor& packed) { return packed[l].narrow(0, from, length); };
            p.push_back(slice(parameters)), g.push_back(slice(b.gradients)), m.push_back(slice(first)), v.push_back(slice(second)), s.push_back(steps);
        }
        at::_fused_adamw_(p, g, m, v, {}, s, schedule[isFirst ? 0 : 1], 0.9, 0.999, m_settings.weightDecay, 1e-8, false, false);
    }
    if (m_compute != at::kFloat)
        b.rounded.copy_(parameters);
}

void AlignStep::restoreLocks() {
    for (const auto& lock : m_locks)
        lock.restore();
    for (const auto& [rounded, parameter] : m_relocked)
        rounded.copy_(parameter);
}

void AlignStep::run() {
    const at::NoGradGuard noGradients;
    Buffers& b = *m_b;
    const at::Tensor out = forward(m_shape.batch, b.rows, &b.step, true);
    loss(out, m_shape.batch, b.rows, &b.step, true); // the gradient takes the output's place
    mark("loss");
    backward(b.out);
    update();
    restoreLocks();
    b.step.add_(1);
    mark("update");
}

at::Tensor AlignStep::squareErrors(const at::Tensor& windows) {
    const at::NoGradGuard noGradients;
    const auto batch = windows.size(1);
    const at::Tensor flat = (windows + m_b->layerOffsets).contiguous(); // [L, batch]
    loss(forward(batch, flat, nullptr, false), batch, flat, nullptr, false);
    return m_b->sums.to(at::kDouble).sum(1);
}

} // namespace linnet::core
