#include "core/torch_pch.h"

#include "core/model/cpu_rows.h"

namespace linnet::core {
namespace {

// Sixteen partial sums: they fill vector registers without -ffast-math, and round less than one running sum.
float inverseRms(const float* x, std::int64_t width, float eps) {
    constexpr std::int64_t kLanes = 16;
    float sums[kLanes] = {};
    std::int64_t i = 0;
    for (; i + kLanes <= width; i += kLanes)
        for (std::int64_t lane = 0; lane < kLanes; ++lane)
            sums[lane] += x[i + lane] * x[i + lane];
    for (; i < width; ++i)
        sums[0] += x[i] * x[i];
    for (std::int64_t half = kLanes / 2; half > 0; half /= 2)
        for (std::int64_t lane = 0; lane < half; ++lane)
            sums[lane] += sums[lane + half];
    return 1 / std::sqrt(sums[0] / static_cast<float>(width) + eps);
}

void normRow(const float* x, const float* weight, float* out, std::int64_t width, float eps) {
    const float scale = inverseRms(x, width, eps);
    for (std::int64_t i = 0; i < width; ++i)
        out[i] = weight[i] * (x[i] * scale);
}

void rotateRow(const float* __restrict x, const float* __restrict cos, const float* __restrict sin, float* __restrict out,
               std::int64_t half) {
    for (std::int64_t i = 0; i < half; ++i) {
        out[i] = x[i] * cos[i] - x[i + half] * sin[i];
        out[i + half] = x[i + half] * cos[i + half] + x[i] * sin[i + half];
    }
}

} // namespace

bool plainFloat(const at::Tensor& t) {
    return t.device().is_cpu() && t.scalar_type() == at::kFloat && t.is_contiguous() &&
           !(at::GradMode::is_enabled() && t.requires_grad());
}

at::Tensor rmsNormRows(const at::Tensor& x, const at::Tensor& weight, double eps) {
    at::Tensor out = at::empty_like(x);
    const std::int64_t width = x.size(-1), rows = x.numel() / width;
    const float *in = x.const_data_ptr<float>(), *scale = weight.const_data_ptr<float>();
    float* result = out.mutable_data_ptr<float>();
    for (std::int64_t row = 0; row < rows; ++row)
        normRow(in + row * width, scale, result + row * width, width, static_cast<float>(eps));
    return out;
}

at::Tensor rotatedHeads(const at::Tensor& fused, std::int64_t firstHead, std::int64_t heads, const at::Tensor& norm, double eps,
                        const at::Tensor& cos, const at::Tensor& sin, std::int64_t position) {
    const std::int64_t batch = fused.size(0), tokens = fused.size(1), width = fused.size(2), dim = cos.size(1);
    at::Tensor out = at::empty({batch, heads, tokens, dim}, fused.options());
    const float *in = fused.const_data_ptr<float>(), *c = cos.const_data_ptr<float>(), *s = sin.const_data_ptr<float>();
    const float* weight = norm.defined() ? norm.const_data_ptr<float>() : nullptr;
    float* result = out.mutable_data_ptr<float>();
    std::vector<float> normed(static_cast<std::size_t>(dim));
    for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t h = 0; h < heads; ++h)
            for (std::int64_t t = 0; t < tokens; ++t) {
                const float* row = in + (b * tokens + t) * width + (firstHead + h) * dim;
                if (weight) {
                    normRow(row, weight, normed.data(), dim, static_cast<float>(eps));
                    row = normed.data();
                }
                rotateRow(row, c + (position + t) * dim, s + (position + t) * dim, result + ((b * heads + h) * tokens + t) * dim, dim / 2);
            }
    return out;
}

} // namespace linnet::core
