#include "core/torch_pch.h"

#include "core/profile/layer_statistics.h"

#include "core/mixers/kernel_call.h"

#include "linnet/kernels/attention_statistics.h"

#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>

namespace linnet::core {
namespace {

at::Tensor onHost(const at::Tensor& x) {
    const auto host = x.to(at::kCPU, at::kFloat);
    return host.stride(-1) == 1 ? host : host.contiguous();
}

// Mean square of W_O^h y over positions and output channels, per sequence and head, from second moments:
// mean_t |W y_t|^2 = trace(W^T W mean_t(y_t y_t^T)), so no [T, H, hidden] tensor exists. y [B, T, H, D] -> float64 [B, H], where y
// lies.
at::Tensor projectedSquare(const at::Tensor& o, const at::Tensor& y) {
    const auto heads = y.size(2), headDim = y.size(3);
    const auto columns = o.view({o.size(0), heads, headDim}).permute({1, 2, 0}).to(at::kFloat);      // [H, D, hidden]
    const auto gram = at::bmm(columns, columns.transpose(1, 2)).to(y.device(), at::kDouble);         // [H, D, D]
    const auto byHead = y.to(at::kFloat).permute({0, 2, 3, 1});                                      // [B, H, D, T]
    const auto moments = at::matmul(byHead, byHead.transpose(2, 3)).to(at::kDouble).div_(y.size(1)); // [B, H, D, D]
    return at::sum(moments * gram, {2, 3}).div_(o.size(0));
}

bool keepGoing(void* user, double fraction) {
    (*static_cast<std::function<void(double)>*>(user))(fraction); // stops by throwing
    return true;
}

// What both forms fill in: sizes, strides and results, the latter made on `device`.
void prepare(kernels::AttentionStatisticsShape& p, LayerStatistics& result, const ModelConfig& config, const QueryKeyValue& qkv,
             int binsPerOctave, const at::Device& device) {
    const auto &q = qkv.q, &k = qkv.k, &v = qkv.v;
    const auto batch = q.size(0), tokens = q.size(2);
    const auto bins = static_cast<std::int64_t>(kernels::distanceEdges(tokens, binsPerOctave).size()) - 1;
    const auto wide = at::TensorOptions(device).dtype(at::kDouble);
    result.values = at::empty({kStatisticCount, batch, config.heads}, wide);
    result.histogram = at::empty({batch, config.heads, bins}, wide);
    result.histogramNoSink = at::empty({batch, config.heads, bins}, wide);

    p.qBatchStride = q.stride(0), p.qHeadStride = q.stride(1), p.qTokenStride = q.stride(2);
    p.kBatchStride = k.stride(0), p.kHeadStride = k.stride(1), p.kTokenStride = k.stride(2);
    p.vBatchStride = v.stride(0), p.vHeadStride = v.stride(1), p.vTokenStride = v.stride(2);
    p.batch = batch, p.heads = config.heads, p.kvHeads = config.kvHeads, p.tokens = tokens, p.headDim = config.headDim;
    p.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.headDim)));
    p.binsPerOctave = binsPerOctave;
    const auto row = [&](Statistic which) { return result.values.data_ptr<double>() + which * batch * config.heads; };
    p.distance = row(kDistance), p.distanceNoSink = row(kDistanceNoSink);
    p.entropy = row(kEntropy), p.entropyRelative = row(kEntropyRelative);
    p.sinkMass = row(kSinkMass), p.previousMass = row(kPreviousMass), p.selfMass = row(kSelfMass);
    p.outputSquare = row(kPreSquare);
    p.histogram = result.histogram.data_ptr<double>();
    p.histogramNoSink = result.histogramNoSink.data_ptr<double>();
}

void finish(LayerStatistics& result, const LayerWeights& layer, const at::Tensor& output) {
    result.values.select(0, kPostSquare).copy_(projectedSquare(layer.attention.o, output));
    result.heads = output.flatten(2);
}

std::optional<kernels::DataType> kernelType(at::ScalarType type) {
    switch (type) {
    case at::kFloat: return kernels::DataType::Float32;
    case at::kHalf: return kernels::DataType::Float16;
    case at::kBFloat16: return kernels::DataType::BFloat16;
    default: return std::nullopt;
    }
}

// Nothing where the kernel refuses: a head dimension that it has no form for, channels apart, or a build without it.
std::optional<LayerStatistics> onGpu(const ModelConfig& config, const LayerWeights& layer, const QueryKeyValue& qkv, int binsPerOctave) {
    const auto type = kernelType(qkv.q.scalar_type());
    if (!type || !kernels::cudaKernelsBuilt() || qkv.q.stride(-1) != 1 || qkv.k.stride(-1) != 1 || qkv.v.stride(-1) != 1)
        return std::nullopt;
    const auto device = qkv.q.device();
    const c10::DeviceGuard guard(device);
    LayerStatistics result;
    kernels::AttentionStatisticsCudaParams p;
    prepare(p, result, config, qkv, binsPerOctave, device);
    const auto output = at::empty({p.batch, p.tokens, p.heads, p.headDim}, qkv.q.options());
    p.q = qkv.q.const_data_ptr(), p.k = qkv.k.const_data_ptr(), p.v = qkv.v.const_data_ptr();
    p.output = output.mutable_data_ptr();
    p.dataType = *type;
    p.stream = currentStream(device);
    const auto bytes = kernels::attentionStatisticsCudaWorkspace(p);
    if (bytes == 0)
        return std::nullopt;
    const Scratch workspace(bytes, device); // goes back to the allocator as the launch is queued: reuse keeps the stream's order
    p.workspace = workspace.data();
    if (kernels::attentionStatisticsCuda(p))
        return std::nullopt;
    finish(result, layer, output);
    return result;
}

LayerStatistics onCpu(const ModelConfig& config, const LayerWeights& layer, const QueryKeyValue& qkv, int binsPerOctave,
                      std::function<void(double)> onProgress) {
    const QueryKeyValue host{onHost(qkv.q), onHost(qkv.k), onHost(qkv.v)};
    LayerStatistics result;
    kernels::AttentionStatisticsParams p;
    prepare(p, result, config, host, binsPerOctave, at::kCPU);
    const auto output = at::empty({p.batch, p.tokens, p.heads, p.headDim}, at::kFloat);
    p.q = host.q.const_data_ptr<float>(), p.k = host.k.const_data_ptr<float>(), p.v = host.v.const_data_ptr<float>();
    p.output = output.data_ptr<float>();
    p.threads = at::get_num_threads();
    if (onProgress) {
        p.keepGoing = keepGoing;
        p.keepGoingUser = &onProgress;
    }
    kernels::attentionStatistics(p);
    finish(result, layer, output);
    return result;
}

} // namespace

LayerStatistics layerStatistics(const ModelConfig& config, const LayerWeights& layer, const QueryKeyValue& qkv,
                                int binsPerOctave, const std::function<void(double)>& onProgress) {
    if (qkv.q.is_cuda())
        if (auto result = onGpu(config, layer, qkv, binsPerOctave))
            return std::move(*result);
    return onCpu(config, layer, qkv, binsPerOctave, onProgress);
}

} // namespace linnet::core
