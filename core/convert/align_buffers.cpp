#include "core/torch_pch.h"

#include "core/convert/align_buffers.h"

#include <c10/core/DeviceGuard.h>

namespace linnet::core {
namespace {

constexpr double kL2NormEps = 1e-6;

kernels::DataType dataType(at::ScalarType type) {
    return type == at::kHalf ? kernels::DataType::Float16 : type == at::kBFloat16 ? kernels::DataType::BFloat16 : kernels::DataType::Float32;
}

// Sizes of q, k, v and so on matter to the byte counts only; pointers may be null.
kernels::GatedDeltaRuleParams ruleShape(const AlignGroupShape& shape, at::ScalarType compute, std::int64_t batch) {
    kernels::GatedDeltaRuleParams p;
    p.batch = shape.layers * batch, p.tokens = shape.tokens, p.heads = p.kvHeads = shape.linear.heads, p.headDim = shape.linear.headDim;
    p.dataType = dataType(compute);
    p.normalise = true;
    p.normEps = static_cast<float>(kL2NormEps);
    p.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.linear.headDim)));
    return p;
}

struct Row {
    std::int64_t elements; // of one token
    bool wide;             // float32, not `compute`
};

// Activations in the order of Buffers::use: x, u, a, o, y, out, g, beta, then gradients dy, dO, du, dg, dbeta, dq, dk, dv.
std::vector<Row> rowsOf(const PackedLayout& layout) {
    const auto W = layout.width, H = layout.heads;
    return {{layout.hidden, false}, {layout.rows, false}, {3 * W, false}, {W, false}, {W, false}, {layout.hidden, false}, {H, true}, {H, true},
            {W, false},             {W, false},           {layout.rows, false}, {H, true},  {H, true},  {W, false},             {W, false}, {W, false}};
}

} // namespace

bool AlignStep::Buffers::ruleKernels(const AlignGroupShape& shape, at::ScalarType compute, at::Device device) {
    const auto D = shape.linear.headDim;
    return device.is_cuda() && kernels::cudaKernelsBuilt() && (compute == at::kBFloat16 || compute == at::kHalf) && (D == 64 || D == 96 || D == 128 || D == 256);
}

std::uint64_t AlignStep::Buffers::bytes(const AlignGroupShape& shape, const PackedLayout& layout, at::ScalarType compute, at::Device device, Backend backend) {
    const auto tokens = static_cast<std::uint64_t>(shape.layers * shape.batch * shape.tokens);
    std::uint64_t sum = 0;
    for (const Row& row : rowsOf(layout))
        sum += tokens * static_cast<std::uint64_t>(row.elements) * (row.wide ? 4 : at::elementSize(compute));
    if (ruleKernels(shape, compute, device)) {
        const auto rule = kernels::gatedDeltaRuleBytes(ruleShape(shape, compute, shape.batch));
        sum += std::max(rule.forwardWorkspace, rule.backwardWorkspace) + rule.saved;
    } else {
        sum += tokens * static_cast<std::uint64_t>(layout.width) * 4 * 40; // what automatic differentiation of the chunk form keeps, about
    }
    if (backend == Backend::Kernels)
        sum += tokens / 32 * static_cast<std::uint64_t>(3 * layout.width) * 16; // tap gradients of 32 tokens each
    return sum;
}

AlignStep::Buffers::Buffers(const AlignGroupShape& shape, const PackedLayout& layout, at::ScalarType compute, at::Device device, Backend backend)
    : m_device(device), m_compute(compute) {
    const c10::DeviceGuard guard(device); // the rule's scratch depends on the current device, as its launches do
    const at::TensorOptions options(device);
    const auto wide = options.dtype(at::kFloat);
    std::vector<at::Tensor*> views{&x, &u, &a, &o, &y, &out, &g, &beta, &dy, &dO, &du, &dg, &dbeta, &dHeads[0], &dHeads[1], &dHeads[2]};
    const auto rows = rowsOf(layout);
    for (std::size_t i = 0; i < views.size(); ++i) {
        // zeros: the padding columns of du are read by a product and written by nobody
        const at::Tensor all = at::zeros({shape.layers, shape.batch, shape.tokens, rows[i].elements}, options.dtype(rows[i].wide ? at::kFloat : compute));
        m_activations.push_back({views[i], all});
    }
    use(shape.batch);
    gradients = at::zeros({shape.layers, layout.total}, wide);
    sums = at::zeros({shape.layers, kernels::kLossBlocks, 2}, wide);
    normSums = at::zeros({shape.layers, kernels::kNormBlocks}, wide);
    if (backend != Backend::Kernels || !device.is_cuda())
        return;
    kernels::ShortConvolutionParams c;
    c.group = group(shape, shape.batch), c.width = layout.width;
    convolutionWorkspace = at::empty({kernels::shortConvolutionWorkspace(c)}, wide);
    kernels::GatedNormParams n;
    n.group = c.group, n.heads = layout.heads, n.headDim = layout.headDim;
    normWorkspace = at::empty({kernels::gatedNormWorkspace(n)}, wide);
    if (!ruleKernels(shape, compute, device))
        return;
    const auto rule = kernels::gatedDeltaRuleBytes(ruleShape(shape, compute, shape.batch));
    ruleWorkspace = Scratch(std::max(rule.forwardWorkspace, rule.backwardWorkspace), device);
    ruleSaved = Scratch(rule.saved, device);
}

void AlignStep::Buffers::use(std::int64_t batch) {
    for (const auto& [view, all] : m_activations)
        *view = all.view(-1).narrow(0, 0, all.size(0) * batch * all.size(2) * all.size(3)).view({all.size(0), batch, all.size(2), all.size(3)});
}

kernels::LayerGroup AlignStep::Buffers::group(const AlignGroupShape& shape, std::int64_t batch) const {
    kernels::LayerGroup group;
    group.layers = shape.layers, group.batch = batch, group.tokens = shape.tokens;
    group.parameterStride = group.gradientStride = gradients.defined() ? gradients.size(1) : 0;
    group.dataType = dataType(m_compute);
    group.stream = currentStream(m_device);
    return group;
}

namespace {

float* at32(const at::Tensor& packed, std::int64_t offset) {
    return packed.mutable_data_ptr<float>() + offset;
}
void* column(const at::Tensor& t, std::int64_t offset) {
    return static_cast<char*>(t.mutable_data_ptr()) + offset * static_cast<std::int64_t>(t.element_size());
}

} // namespace

kernels::ShortConvolutionParams AlignStep::Buffers::convolution(const at::Tensor& parameters, const PackedLayout& layout, const AlignGroupShape& shape,
                                                                std::int64_t batch) const {
    kernels::ShortConvolutionParams p;
    p.group = group(shape, batch), p.width = layout.width;
    p.u = u.const_data_ptr(), p.uRow = layout.rows, p.taps = at32(parameters, layout.taps);
    p.a = a.mutable_data_ptr(), p.aRow = 3 * layout.width;
    for (std::size_t i = 0; i < 3; ++i)
        p.da[i] = dHeads[i].const_data_ptr();
    p.du = du.mutable_data_ptr(), p.duRow = layout.rows, p.dTaps = at32(gradients, layout.taps);
    p.workspace = convolutionWorkspace.defined() ? convolutionWorkspace.mutable_data_ptr<float>() : nullptr;
    return p;
}

kernels::GatesParams AlignStep::Buffers::gates(const at::Tensor& parameters, const PackedLayout& layout, const AlignGroupShape& shape,
                                               std::int64_t batch) const {
    kernels::GatesParams p;
    p.group = group(shape, batch), p.heads = layout.heads, p.row = layout.rows;
    p.a = column(u, layout.aRow), p.b = column(u, layout.bRow);
    p.aLog = at32(parameters, layout.aLog), p.dtBias = at32(parameters, layout.dtBias);
    p.g = g.mutable_data_ptr<float>(), p.beta = beta.mutable_data_ptr<float>();
    p.dg = dg.const_data_ptr<float>(), p.dbeta = dbeta.const_data_ptr<float>();
    p.da = column(du, layout.aRow), p.db = column(du, layout.bRow), p.dRow = layout.rows;
    p.dALog = at32(gradients, layout.aLog), p.dDtBias = at32(gradients, layout.dtBias);
    return p;
}

kernels::GatedNormParams AlignStep::Buffers::norm(const at::Tensor& parameters, const PackedLayout& layout, const AlignGroupShape& shape,
                                                  std::int64_t batch) const {
    kernels::GatedNormParams p;
    p.group = group(shape, batch), p.heads = layout.heads, p.headDim = layout.headDim, p.eps = static_cast<float>(shape.linear.normEps);
    p.o = o.const_data_ptr(), p.gate = column(u, 3 * layout.width), p.gateRow = layout.rows, p.weight = at32(parameters, layout.oNorm);
    p.y = y.mutable_data_ptr(), p.dy = dy.const_data_ptr(), p.dO = dO.mutable_data_ptr();
    p.dGate = column(du, 3 * layout.width), p.dGateRow = layout.rows, p.dWeight = at32(gradients, layout.oNorm);
    p.workspace = normWorkspace.defined() ? normWorkspace.mutable_data_ptr<float>() : nullptr;
    return p;
}

kernels::GatedDeltaRuleParams AlignStep::Buffers::rule(const PackedLayout& layout, const AlignGroupShape& shape, std::int64_t batch, bool training) const {
    auto p = ruleShape(shape, m_compute, batch);
    const auto W = layout.width, T = shape.tokens;
    p.q = a.const_data_ptr(), p.k = column(a, W), p.v = column(a, 2 * W);
    p.qStrides = p.kStrides = p.vStrides = {T * 3 * W, 3 * W, layout.headDim};
    p.g = g.const_data_ptr<float>(), p.beta = beta.const_data_ptr<float>();
    p.o = o.mutable_data_ptr(), p.oStrides = p.doStrides = {T * W, W, layout.headDim};
    p.dO = dO.const_data_ptr();
    p.dq = dHeads[0].mutable_data_ptr(), p.dk = dHeads[1].mutable_data_ptr(), p.dv = dHeads[2].mutable_data_ptr();
    p.dg = dg.mutable_data_ptr<float>(), p.dbeta = dbeta.mutable_data_ptr<float>();
    p.workspace = ruleWorkspace.data(), p.saved = training ? ruleSaved.data() : nullptr;
    p.stream = currentStream(m_device);
    return p;
}

// ---- Backend::Tensors -----------------------------------------------------------------------------------------------------------

void AlignStep::Buffers::tensorsBetween(const at::Tensor& parameters, const PackedLayout& layout, const AlignGroupShape& shape, std::int64_t batch, bool training) {
    const auto L = shape.layers, T = shape.tokens, W = layout.width, H = layout.heads, D = layout.headDim;
    const at::AutoGradMode mode(training);
    const auto leaf = [&](const at::Tensor& t) { return t.detach().requires_grad_(training); };
    leaves = {leaf(u), leaf(layout.part(parameters, layout.taps, {3 * W, kConvTaps})), leaf(layout.part(parameters, layout.aLog, {H})),
              leaf(layout.part(parameters, layout.dtBias, {H})), leaf(layout.part(parameters, layout.oNorm, {D}))};
    const at::Tensor wide = leaves[0].to(at::kFloat), streams = at::constant_pad_nd(wide.narrow(3, 0, 3 * W), {0, 0, kConvTaps - 1, 0});
    at::Tensor convolved;
    for (std::int64_t j = 0; j < kConvTaps; ++j) {
        const at::Tensor term = streams.narrow(2, j, T) * leaves[1].select(2, j).view({L, 1, 1, 3 * W});
        convolved = j == 0 ? term : convolved + term;
    }
    const at::Tensor heads = at::silu(convolved).view({L * batch, T, 3, H, D});
    const auto unit = [](const at::Tensor& t) { return t * (t.square().sum(-1, true) + kL2NormEps).rsqrt(); };
    const auto perLayer = [&](const at::Tensor& t) { return t.view({L, 1, 1, -1}); };
    RecurrenceInputs in;
    in.q = unit(heads.select(2, 0)) / std::sqrt(static_cast<double>(D));
    in.k = unit(heads.select(2, 1));
    in.v = heads.select(2, 2);
    in.logDecay = (-perLayer(leaves[2]).exp() * at::softplus(wide.narrow(3, layout.aRow, H) + perLayer(leaves[3]))).view({L * batch, T, H});
    in.write = wide.narrow(3, layout.bRow, H).sigmoid().reshape({L * batch, T, H});
    const at::Tensor raw = chunkwise(mixerSpec("gated_delta_net"), in).o;
    const at::Tensor normed = (raw * (raw.square().mean(-1, true) + shape.linear.normEps).rsqrt()).view({L, batch, T, H, D}) * leaves[4].view({L, 1, 1, 1, D});
    ruleOutput = normed.reshape({L, batch, T, W}) * at::silu(wide.narrow(3, 3 * W, W));
    const at::NoGradGuard copying;
    y.copy_(ruleOutput);
}

void AlignStep::Buffers::tensorsBetweenBackward(const PackedLayout& layout, const AlignGroupShape&) {
    const auto d = torch::autograd::grad({ruleOutput}, leaves, {dy.to(at::kFloat)});
    const at::NoGradGuard copying;
    du.copy_(d[0]);
    const std::int64_t offsets[] = {layout.taps, layout.aLog, layout.dtBias, layout.oNorm};
    for (std::size_t i = 0; i < 4; ++i)
        layout.part(gradients, offsets[i], d[i + 1].sizes().slice(1).vec()).copy_(d[i + 1]);
    leaves.clear();
    ruleOutput.reset();
}

} // namespace linnet::core
