#include "core/torch_pch.h"

#include "core/profile/layer_statistics.h"

#include "linnet/kernels/attention_statistics.h"

#include <ATen/Parallel.h>

namespace linnet::core {
namespace {

at::Tensor onHost(const at::Tensor& x) {
    const auto host = x.to(at::kCPU, at::kFloat);
    return host.stride(-1) == 1 ? host : host.contiguous();
}

// Mean square of W_O^h y over positions and output channels, per sequence and head, from second moments:
// mean_t |W y_t|^2 = trace(W^T W mean_t(y_t y_t^T)), so no [T, H, hidden] tensor exists. y [B, T, H, D] -> float64 [B, H].
at::Tensor projectedSquare(const at::Tensor& o, const at::Tensor& y) {
    const auto heads = y.size(2), headDim = y.size(3);
    const auto columns = o.view({o.size(0), heads, headDim}).permute({1, 2, 0}).to(at::kFloat);      // [H, D, hidden]
    const auto gram = at::bmm(columns, columns.transpose(1, 2)).to(at::kCPU, at::kDouble);           // [H, D, D]
    const auto byHead = y.permute({0, 2, 3, 1});                                                     // [B, H, D, T]
    const auto moments = at::matmul(byHead, byHead.transpose(2, 3)).to(at::kDouble).div_(y.size(1)); // [B, H, D, D]
    return at::sum(moments * gram, {2, 3}).div_(o.size(0));
}

bool keepGoing(void* user, double fraction) {
    (*static_cast<std::function<void(double)>*>(user))(fraction); // stops by throwing
    return true;
}

} // namespace

LayerStatistics layerStatistics(const ModelConfig& config, const LayerWeights& layer, const QueryKeyValue& qkv,
                                int binsPerOctave, const std::function<void(double)>& onProgress) {
    const auto q = onHost(qkv.q), k = onHost(qkv.k), v = onHost(qkv.v);
    const auto batch = q.size(0), tokens = q.size(2);
    const auto bins = static_cast<std::int64_t>(kernels::distanceEdges(tokens, binsPerOctave).size()) - 1;

    LayerStatistics result;
    result.values = at::empty({kStatisticCount, batch, config.heads}, at::kDouble);
    result.histogram = at::empty({batch, config.heads, bins}, at::kDouble);
    result.histogramNoSink = at::empty({batch, config.heads, bins}, at::kDouble);
    const auto output = at::empty({batch, tokens, config.heads, config.headDim}, at::kFloat);

    kernels::AttentionStatisticsParams p;
    p.q = q.const_data_ptr<float>(), p.k = k.const_data_ptr<float>(), p.v = v.const_data_ptr<float>();
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
    p.output = output.data_ptr<float>();
    p.threads = at::get_num_threads();
    auto callback = onProgress;
    if (callback) {
        p.keepGoing = keepGoing;
        p.keepGoingUser = &callback;
    }
    kernels::attentionStatistics(p);

    result.values.select(0, kPostSquare).copy_(projectedSquare(layer.attention.o, output));
    result.heads = output.view({batch, tokens, config.heads * config.headDim});
    return result;
}

} // namespace linnet::core
