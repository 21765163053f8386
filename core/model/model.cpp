#include "core/torch_pch.h"

#include "core/model/model.h"

#include "core/model/rope.h"

#include <c10/core/InferenceMode.h>

#include <bit>

namespace linnet::core {
namespace {

DType ioDType(at::ScalarType dtype) {
    return dtype == at::kHalf ? DType::F16 : dtype == at::kBFloat16 ? DType::BF16 : DType::F32;
}

// Rows of a tensor whose other sizes must be those of `shape`.
std::int64_t rowsOf(const WeightSource& source, const std::string& name, const std::vector<std::int64_t>& shape) {
    const TensorInfo* info = source.find(name);
    if (!info)
        fail(ErrorCode::Malformed, "tensor " + name + " is missing", {{"tensor", name}});
    if (info->shape.size() != shape.size() || !std::equal(shape.begin() + 1, shape.end(), info->shape.begin() + 1))
        fail(ErrorCode::Malformed,
             "tensor " + name + " has " + std::to_string(info->shape.size()) + " dimensions or rows of another size, expected rows of " +
                 std::to_string(shape.back()),
             {{"tensor", name}, {"expected", std::to_string(shape.back())}});
    return info->shape.front();
}

} // namespace

Model::Model(ModelFiles files, at::Device device, at::ScalarType dtype, bool streamed, Mixers mixers, const Control& control)
    : m_files(std::move(files)), m_device(device), m_dtype(dtype), m_streamed(streamed), m_mixers(std::move(mixers)) {
    const ModelConfig& c = config();
    const auto total = static_cast<double>(c.layers + 1);
    control.report("load", 0, total, "embedding");
    m_embedding = read({"model.embed_tokens.weight"}, {c.vocabSize, c.hiddenSize});
    m_finalNorm = read({"model.norm.weight"}, {c.hiddenSize});
    control.checkpoint();
    m_head = c.tiedEmbeddings ? m_embedding : read({"lm_head.weight"}, {c.vocabSize, c.hiddenSize});
    if (m_streamed)
        return;
    for (std::int64_t layer = 0; layer < c.layers; ++layer) {
        control.report("load", static_cast<double>(layer + 1), total, "layer " + std::to_string(layer));
        m_layers.push_back(std::make_shared<const LayerWeights>(readLayer(layer)));
    }
    control.report("load", total, total);
}

// The tensors `names` stacked by rows. They are decoded straight into their rows of the result: one copy in memory. For a GPU
// the result is made on the host first, one at a time.
at::Tensor Model::read(const std::vector<std::string>& names, std::vector<std::int64_t> shape) const {
    const WeightSource& source = *m_files.weights;
    std::int64_t rows = 0;
    for (const auto& name : names)
        rows += rowsOf(source, name, shape);
    if (rows != shape.front())
        fail(ErrorCode::Malformed,
             "tensor " + names.front() + (names.size() > 1 ? " and those beside it have " : " has ") + std::to_string(rows) +
                 " rows, expected " + std::to_string(shape.front()),
             {{"tensor", names.front()}, {"found", std::to_string(rows)}, {"expected", std::to_string(shape.front())}});
    at::Tensor host = at::empty(shape, at::TensorOptions().dtype(m_dtype));
    auto* bytes = static_cast<std::byte*>(host.mutable_data_ptr());
    const std::size_t rowBytes = host.nbytes() / static_cast<std::size_t>(std::max<std::int64_t>(rows, 1));
    for (const auto& name : names) {
        source.read(name, ioDType(m_dtype), bytes);
        bytes += static_cast<std::size_t>(rowsOf(source, name, shape)) * rowBytes;
    }
    return m_device.is_cpu() ? host : host.to(m_device);
}

LayerWeights Model::readLayer(std::int64_t index) const {
    const ModelConfig& c = config();
    const std::string prefix = "model.layers." + std::to_string(index) + ".";
    const auto attention = [&](const char* name, const char* kind) { return prefix + "self_attn." + name + "_proj." + kind; };
    const auto mlp = [&](const char* name, const char* kind) { return prefix + "mlp." + name + "_proj." + kind; };
    const std::int64_t queryRows = c.heads * c.headDim, fusedRows = queryRows + 2 * c.kvHeads * c.headDim, inner = c.intermediateSize;

    LayerWeights layer;
    layer.inputNorm = read({prefix + "input_layernorm.weight"}, {c.hiddenSize});
    layer.postNorm = read({prefix + "post_attention_layernorm.weight"}, {c.hiddenSize});
    AttentionWeights& a = layer.attention;
    const bool converted = m_mixers.count(index) && !m_files.weights->find(attention("q", "weight"));
    if (!converted) { // an exported folder holds no attention for the layers that a linear mixer replaced
        a.qkv = read({attention("q", "weight"), attention("k", "weight"), attention("v", "weight")}, {fusedRows, c.hiddenSize});
        a.o = read({attention("o", "weight")}, {c.hiddenSize, queryRows});
        if (c.qkvBias)
            a.qkvBias = read({attention("q", "bias"), attention("k", "bias"), attention("v", "bias")}, {fusedRows});
        if (c.outputBias)
            a.oBias = read({attention("o", "bias")}, {c.hiddenSize});
        if (c.qkNorm) {
            a.qNorm = read({prefix + "self_attn.q_norm.weight"}, {c.headDim});
            a.kNorm = read({prefix + "self_attn.k_norm.weight"}, {c.headDim});
        }
    }
    layer.gateUp = read({mlp("gate", "weight"), mlp("up", "weight")}, {2 * inner, c.hiddenSize});
    layer.down = read({mlp("down", "weight")}, {c.hiddenSize, inner});
    if (c.mlpBias) {
        layer.gateUpBias = read({mlp("gate", "bias"), mlp("up", "bias")}, {2 * inner});
        layer.downBias = read({mlp("down", "bias")}, {c.hiddenSize});
    }
    return layer;
}

std::shared_ptr<const LayerWeights> Model::layer(std::int64_t index) const {
    if (m_streamed)
        return std::make_shared<const LayerWeights>(readLayer(index));
    return m_layers[static_cast<std::size_t>(index)];
}

LinearShape Model::linearShape() const {
    return {config().heads, config().headDim, config().hiddenSize, config().rmsNormEps};
}

LinearShape Model::linearShape(const Mixer& mixer) const {
    LinearShape shape = linearShape();
    if (mixer.headNormEps > 0)
        shape.normEps = mixer.headNormEps;
    if (mixer.qkNormEps > 0)
        shape.qkEps = mixer.qkNormEps;
    return shape;
}

at::Tensor Model::embed(const at::Tensor& ids) const {
    return at::embedding(m_embedding, ids.to(m_device));
}

at::Tensor Model::finalNorm(const at::Tensor& hidden) const {
    return rmsNorm(hidden, m_finalNorm, config().rmsNormEps);
}

at::Tensor Model::logits(const at::Tensor& normed) const {
    return at::linear(normed, m_head);
}

void Model::growRope(std::int64_t length) const {
    if (m_cos.defined() && m_cos.size(0) >= length)
        return;
    const c10::InferenceMode normalTensors(false); // the tables outlive this call, and training saves them for its backward
    const at::NoGradGuard noGrad;
    const auto rows = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(length, 256))));
    const RopeTables tables = ropeTables(config(), rows);
    m_cos = tables.cos.to(m_device);
    m_sin = tables.sin.to(m_device);
    m_roundedCos = m_cos.to(m_dtype);
    m_roundedSin = m_sin.to(m_dtype);
}

at::Tensor Model::ropeCos(std::int64_t length) const {
    const std::lock_guard lock(m_ropeMutex);
    growRope(length);
    return m_cos;
}

at::Tensor Model::ropeSin(std::int64_t length) const {
    const std::lock_guard lock(m_ropeMutex);
    growRope(length);
    return m_sin;
}

std::pair<at::Tensor, at::Tensor> Model::ropeRounded(std::int64_t length) const {
    const std::lock_guard lock(m_ropeMutex);
    growRope(length);
    return {m_roundedCos, m_roundedSin};
}

} // namespace linnet::core
