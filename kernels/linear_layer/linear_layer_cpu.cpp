// The CPU twins: the formulas of the .cu files, one plain loop each. They serve tests and machines without a GPU, not speed.
#include "linnet/kernels/linear_layer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace linnet::kernels {
namespace {

struct Float16 { std::uint16_t bits; };
struct BFloat16 { std::uint16_t bits; };

float toFloat(float x) { return x; }
float toFloat(Float16 x) {
    _Float16 h;
    std::memcpy(&h, &x.bits, 2);
    return static_cast<float>(h);
}
float toFloat(BFloat16 x) {
    const std::uint32_t bits = static_cast<std::uint32_t>(x.bits) << 16;
    float y;
    std::memcpy(&y, &bits, 4);
    return y;
}
void assign(float& to, float x) { to = x; }
void assign(Float16& to, float x) {
    const auto h = static_cast<_Float16>(x);
    std::memcpy(&to.bits, &h, 2);
}
void assign(BFloat16& to, float x) { // to nearest, ties to even
    std::uint32_t bits;
    std::memcpy(&bits, &x, 4);
    to.bits = std::isnan(x) ? std::uint16_t(0x7fff) : static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

template <class Run> void byType(DataType type, const Run& run) {
    if (type == DataType::Float32)
        run(float{});
    else if (type == DataType::Float16)
        run(Float16{});
    else
        run(BFloat16{});
}

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }
float softplus(float x) { return x > 20 ? x : std::log1p(std::exp(x)); }
std::int64_t stepOf(const std::int32_t* step) { return step ? *step : 0; }

// y of one token and channel; tokens before the sequence count as 0. `u` is the channel's first token.
template <class T> float convolved(const T* u, std::int64_t row, const float* taps, std::int64_t t) {
    float y = 0;
    for (std::int64_t j = 0; j < 4; ++j)
        if (t - 3 + j >= 0)
            y += taps[j] * toFloat(u[(t - 3 + j) * row]);
    return y;
}

} // namespace

void gatherRowsCpu(const GatherRowsParams& p) {
    for (std::int64_t i = 0; i < p.count; ++i)
        std::memcpy(static_cast<char*>(p.to) + i * p.rowBytes,
                    static_cast<const char*>(p.from) + p.rows[stepOf(p.step) * p.count + i] * p.rowBytes, static_cast<std::size_t>(p.rowBytes));
}

void shortConvolutionForwardCpu(const ShortConvolutionParams& p) {
    byType(p.group.dataType, [&](auto type) {
        using T = decltype(type);
        for (std::int64_t n = 0; n < p.group.layers * p.group.batch; ++n)
            for (std::int64_t t = 0; t < p.group.tokens; ++t)
                for (std::int64_t c = 0; c < 3 * p.width; ++c) {
                    const T* u = static_cast<const T*>(p.u) + n * p.group.tokens * p.uRow + c;
                    const float y = convolved(u, p.uRow, p.taps + n / p.group.batch * p.group.parameterStride + c * 4, t);
                    assign(static_cast<T*>(p.a)[(n * p.group.tokens + t) * p.aRow + c], y * sigmoid(y));
                }
    });
}

void shortConvolutionBackwardCpu(const ShortConvolutionParams& p) {
    byType(p.group.dataType, [&](auto type) {
        using T = decltype(type);
        std::vector<float> dy(static_cast<std::size_t>(p.group.tokens + 3));
        for (std::int64_t n = 0; n < p.group.layers * p.group.batch; ++n) {
            const std::int64_t layer = n / p.group.batch;
            for (std::int64_t c = 0; c < 3 * p.width; ++c) {
                const T* u = static_cast<const T*>(p.u) + n * p.group.tokens * p.uRow + c;
                const T* da = static_cast<const T*>(p.da[c / p.width]) + n * p.group.tokens * p.width + c % p.width;
                const float* taps = p.taps + layer * p.group.parameterStride + c * 4;
                float* dTaps = p.dTaps + layer * p.group.gradientStride + c * 4;
                if (n % p.group.batch == 0)
                    std::fill_n(dTaps, 4, 0.0F);
                std::fill(dy.begin(), dy.end(), 0.0F);
                for (std::int64_t t = 0; t < p.group.tokens; ++t) {
                    const float y = convolved(u, p.uRow, taps, t), s = sigmoid(y);
                    dy[static_cast<std::size_t>(t)] = toFloat(da[t * p.width]) * s * (1 + y * (1 - s));
                    for (std::int64_t j = std::max<std::int64_t>(0, 3 - t); j < 4; ++j)
                        dTaps[j] += dy[static_cast<std::size_t>(t)] * toFloat(u[(t - 3 + j) * p.uRow]);
                }
                for (std::int64_t t = 0; t < p.group.tokens; ++t) {
                    float du = 0;
                    for (std::int64_t lag = 0; lag < 4; ++lag)
                        du += taps[3 - lag] * dy[static_cast<std::size_t>(t + lag)];
                    assign(static_cast<T*>(p.du)[(n * p.group.tokens + t) * p.duRow + c], du);
                }
            }
        }
    });
}

void gatesForwardCpu(const GatesParams& p) {
    byType(p.group.dataType, [&](auto type) {
        using T = decltype(type);
        const std::int64_t perLayer = p.group.batch * p.group.tokens;
        for (std::int64_t token = 0; token < p.group.layers * perLayer; ++token)
            for (std::int64_t h = 0; h < p.heads; ++h) {
                const std::int64_t parameter = token / perLayer * p.group.parameterStride + h, i = token * p.heads + h;
                const float a = toFloat(static_cast<const T*>(p.a)[token * p.row + h]), b = toFloat(static_cast<const T*>(p.b)[token * p.row + h]);
                p.g[i] = -std::exp(p.aLog[parameter]) * softplus(a + p.dtBias[parameter]);
                p.beta[i] = sigmoid(b);
            }
    });
}

void gatesBackwardCpu(const GatesParams& p) {
    byType(p.group.dataType, [&](auto type) {
        using T = decltype(type);
        const std::int64_t perLayer = p.group.batch * p.group.tokens;
        for (std::int64_t layer = 0; layer < p.group.layers; ++layer)
            for (std::int64_t h = 0; h < p.heads; ++h) {
                const float rate = -std::exp(p.aLog[layer * p.group.parameterStride + h]), bias = p.dtBias[layer * p.group.parameterStride + h];
                float dALog = 0, dDtBias = 0;
                for (std::int64_t token = layer * perLayer; token < (layer + 1) * perLayer; ++token) {
                    const std::int64_t i = token * p.heads + h;
                    const float da = p.dg[i] * rate * sigmoid(toFloat(static_cast<const T*>(p.a)[token * p.row + h]) + bias);
                    assign(static_cast<T*>(p.da)[token * p.dRow + h], da);
                    assign(static_cast<T*>(p.db)[token * p.dRow + h], p.dbeta[i] * p.beta[i] * (1 - p.beta[i]));
                    dALog += p.dg[i] * p.g[i];
                    dDtBias += da;
                }
                p.dALog[layer * p.group.gradientStride + h] = dALog;
                p.dDtBias[layer * p.group.gradientStride + h] = dDtBias;
            }
    });
}

void gatedNormForwardCpu(const GatedNormParams& p) {
    byType(p.group.dataType, [&](auto type) {
        using T = decltype(type);
        const std::int64_t perLayer = p.group.batch * p.group.tokens, D = p.headDim;
        for (std::int64_t token = 0; token < p.group.layers * perLayer; ++token)
            for (std::int64_t h = 0; h < p.heads; ++h) {
                const float* w = p.weight + token / perLayer * p.group.parameterStride;
                const T* o = static_cast<const T*>(p.o) + (token * p.heads + h) * D;
                const T* gate = static_cast<const T*>(p.gate) + token * p.gateRow + h * D;
                float square = 0;
                for (std::int64_t d = 0; d < D; ++d)
                    square += toFloat(o[d]) * toFloat(o[d]);
                const float r = 1 / std::sqrt(square / static_cast<float>(D) + p.eps);
                for (std::int64_t d = 0; d < D; ++d) {
                    const float u = toFloat(gate[d]);
                    assign(static_cast<T*>(p.y)[(token * p.heads + h) * D + d], toFloat(o[d]) * r * w[d] * u * sigmoid(u));
                }
            }
    });
}

void gatedNormBackwardCpu(const GatedNormParams& p) {
    byType(p.group.dataType, [&](auto type) {
        using T = decltype(type);
        const std::int64_t perLayer = p.group.batch * p.group.tokens, D = p.headDim;
        std::vector<float> n(static_cast<std::size_t>(D)), dn(n);
        for (std::int64_t token = 0; token < p.group.layers * perLayer; ++token) {
            const std::int64_t layer = token / perLayer;
            float* dWeight = p.dWeight ? p.dWeight + layer * p.group.gradientStride : nullptr;
            if (dWeight && token % perLayer == 0)
                std::fill_n(dWeight, D, 0.0F);
            for (std::int64_t h = 0; h < p.heads; ++h) {
                const float* w = p.weight + layer * p.group.parameterStride;
                const T* o = static_cast<const T*>(p.o) + (token * p.heads + h) * D;
                const T* dy = static_cast<const T*>(p.dy) + (token * p.heads + h) * D;
                const T* gate = static_cast<const T*>(p.gate) + token * p.gateRow + h * D;
                float square = 0, along = 0;
                for (std::int64_t d = 0; d < D; ++d)
                    square += toFloat(o[d]) * toFloat(o[d]);
                const float r = 1 / std::sqrt(square / static_cast<float>(D) + p.eps);
                for (std::int64_t d = 0; d < D; ++d) {
                    const auto i = static_cast<std::size_t>(d);
                    const float u = toFloat(gate[d]), sig = sigmoid(u), g = toFloat(dy[d]);
                    n[i] = toFloat(o[d]) * r;
                    dn[i] = g * w[d] * u * sig;
                    along += dn[i] * n[i];
                    assign(static_cast<T*>(p.dGate)[token * p.dGateRow + h * D + d], g * n[i] * w[d] * sig * (1 + u * (1 - sig)));
                    if (dWeight)
                        dWeight[d] += g * n[i] * u * sig;
                }
                along /= static_cast<float>(D);
                for (std::int64_t d = 0; d < D; ++d)
                    assign(static_cast<T*>(p.dO)[(token * p.heads + h) * D + d], r * (dn[static_cast<std::size_t>(d)] - n[static_cast<std::size_t>(d)] * along));
            }
        }
    });
}

void squareErrorCpu(const SquareErrorParams& p) {
    byType(p.group.dataType, [&](auto type) {
        using T = decltype(type);
        const std::int64_t window = p.group.tokens * p.hidden, values = p.group.batch * window;
        const float scale = 2 / static_cast<float>(values);
        std::fill_n(p.sums, p.group.layers * kLossBlocks * 2, 0.0F);
        for (std::int64_t layer = 0; layer < p.group.layers; ++layer) {
            double error = 0, power = 0;
            for (std::int64_t i = 0; i < values; ++i) {
                const std::int64_t row = p.rows[(stepOf(p.step) * p.group.layers + layer) * p.group.batch + i / window];
                const float target = toFloat(static_cast<const T*>(p.targets)[row * window + i % window]);
                const float difference = toFloat(static_cast<const T*>(p.out)[layer * values + i]) - target;
                error += difference * difference;
                power += target * target;
                if (p.dOut)
                    assign(static_cast<T*>(p.dOut)[layer * values + i], difference * scale);
            }
            p.sums[layer * kLossBlocks * 2] = static_cast<float>(error);
            p.sums[layer * kLossBlocks * 2 + 1] = static_cast<float>(power);
        }
    });
}

void alignUpdateCpu(const AlignUpdateParams& p) {
    const std::int64_t step = stepOf(p.step);
    const float* schedule = p.schedule + step * 4;
    for (std::int64_t layer = 0; layer < p.group.layers; ++layer) {
        float error = 0, power = 0;
        for (int i = 0; i < kLossBlocks; ++i) {
            error += p.sums[(layer * kLossBlocks + i) * 2];
            power += p.sums[(layer * kLossBlocks + i) * 2 + 1];
        }
        const float* gradients = p.gradients + layer * p.group.gradientStride;
        double square = 0;
        for (std::int64_t i = 0; i < p.count; ++i)
            square += static_cast<double>(gradients[i]) * gradients[i];
        const float n = static_cast<float>(p.values), relative = p.relative ? 1 / std::max(power / n, 1e-30F) : 1.0F;
        const float norm = static_cast<float>(std::sqrt(square)) * relative, scale = relative * std::min(1.0F, p.clip / (norm + 1e-6F));
        p.metrics[(step * p.group.layers + layer) * 2] = error / n;
        p.metrics[(step * p.group.layers + layer) * 2 + 1] = norm;
        byType(p.group.dataType, [&](auto type) {
            using T = decltype(type);
            for (std::int64_t i = 0; i < p.count; ++i) {
                const std::int64_t at = layer * p.group.parameterStride + i;
                const float lr = i < p.firstCount ? schedule[0] : schedule[1], x = gradients[i] * scale;
                float &w = p.parameters[at], &m = p.first[at], &v = p.second[at];
                m += 0.1F * (x - m);
                v = 0.999F * v + 0.001F * x * x;
                w -= lr * p.weightDecay * w;
                w -= lr / schedule[2] * m / (std::sqrt(v) / schedule[3] + 1e-8F);
                if (p.rounded)
                    assign(static_cast<T*>(p.rounded)[at], w);
            }
        });
    }
}

} // namespace linnet::kernels
