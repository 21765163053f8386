// Gates, and the gated norm of each head's output, forward and backward.
//     g = -exp(A) softplus(a + dt) ;  beta = sigmoid(b)
//     da = dg (-exp(A)) sigmoid(a + dt) ;  db = dbeta beta (1 - beta) ;  dA = sum dg g ;  ddt = sum da
//     y = n w s, n = o r, r = rsqrt(mean o^2 + eps), s = SiLU(gate)
//     dgate = dy n w SiLU'(gate) ;  dn = dy w s ;  do = r (dn - n mean(dn n)) ;  dw = sum dy n s
// Gates: one thread a token and head; backward one block a layer and head, which sums over all tokens in a fixed order. The tensors
// are tiny ([tokens, heads]), these kernels cost their launch.
// Norm: a warp owns whole (token, head) rows, a lane pairs of neighbouring channels; rows are read once and written once. dw is kept
// in registers over a warp's rows, summed over the block's warps in shared memory and over blocks by sumPartials.
// Limits: headDim even, at most 256.
#include "common.cuh"

namespace linnet::kernels {
namespace {

using namespace ll;

__device__ inline float softplus(float x) { return x > 20 ? x : log1pf(__expf(x)); }

template <class T> __global__ void __launch_bounds__(kThreads) gatesForwardKernel(GatesParams p) {
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; // [L, B, T, heads]
    const std::int64_t perLayer = p.group.batch * p.group.tokens;
    if (i >= p.group.layers * perLayer * p.heads)
        return;
    const std::int64_t token = i / p.heads, head = i - token * p.heads, parameter = token / perLayer * p.group.parameterStride + head;
    const float a = toFloat(static_cast<const T*>(p.a)[token * p.row + head]), b = toFloat(static_cast<const T*>(p.b)[token * p.row + head]);
    p.g[i] = -__expf(p.aLog[parameter]) * softplus(a + p.dtBias[parameter]);
    p.beta[i] = sigmoid(b);
}

template <class T> __global__ void __launch_bounds__(kThreads) gatesBackwardKernel(GatesParams p) {
    auto* shared = reinterpret_cast<float*>(sharedMemory());
    const std::int64_t head = blockIdx.x, layer = blockIdx.y, perLayer = p.group.batch * p.group.tokens;
    const float rate = -__expf(p.aLog[layer * p.group.parameterStride + head]), bias = p.dtBias[layer * p.group.parameterStride + head];
    float dALog = 0, dDtBias = 0;
    for (std::int64_t t = threadIdx.x; t < perLayer; t += kThreads) {
        const std::int64_t token = layer * perLayer + t, i = token * p.heads + head;
        const float a = toFloat(static_cast<const T*>(p.a)[token * p.row + head]) + bias;
        const float dg = p.dg[i], beta = p.beta[i], da = dg * rate * sigmoid(a);
        static_cast<T*>(p.da)[token * p.dRow + head] = fromFloat<T>(da);
        static_cast<T*>(p.db)[token * p.dRow + head] = fromFloat<T>(p.dbeta[i] * beta * (1 - beta));
        dALog += dg * p.g[i];
        dDtBias += da;
    }
    dALog = blockSum(dALog, shared);
    dDtBias = blockSum(dDtBias, shared);
    if (threadIdx.x == 0) {
        p.dALog[layer * p.group.gradientStride + head] = dALog;
        p.dDtBias[layer * p.group.gradientStride + head] = dDtBias;
    }
}

constexpr int kRowsPerWarp = 8; // aimed at: enough to make dw's sums cheap, few enough to fill the device

std::int64_t normBlocks(const GatedNormParams& p) { // of one layer
    const std::int64_t rows = p.group.batch * p.group.tokens * p.heads, blocks = (rows + kWarps * kRowsPerWarp - 1) / (kWarps * kRowsPerWarp);
    return blocks < 256 ? blocks : 256;
}

// kPairs: pairs of channels a lane owns, channel 2 lane + 64 k.
template <class T, int kPairs> __global__ void __launch_bounds__(kThreads) normForward(GatedNormParams p) {
    const int lane = threadIdx.x % 32, D = static_cast<int>(p.headDim);
    const std::int64_t layer = blockIdx.y, tokens = p.group.batch * p.group.tokens, rows = tokens * p.heads;
    float w[kPairs][2];
#pragma unroll
    for (int k = 0; k < kPairs; ++k) {
        const int channel = 2 * lane + 64 * k;
        w[k][0] = channel < D ? p.weight[layer * p.group.parameterStride + channel] : 0.0F;
        w[k][1] = channel < D ? p.weight[layer * p.group.parameterStride + channel + 1] : 0.0F;
    }
    for (std::int64_t row = blockIdx.x * kWarps + threadIdx.x / 32; row < rows; row += gridDim.x * kWarps) {
        const std::int64_t token = layer * tokens + row / p.heads, head = row % p.heads;
        const T* o = static_cast<const T*>(p.o) + (layer * rows + row) * D;
        const T* gate = static_cast<const T*>(p.gate) + token * p.gateRow + head * D;
        T* y = static_cast<T*>(p.y) + (layer * rows + row) * D;
        float x[kPairs][2], u[kPairs][2], square = 0;
#pragma unroll
        for (int k = 0; k < kPairs; ++k) {
            const int channel = 2 * lane + 64 * k;
            x[k][0] = x[k][1] = u[k][0] = u[k][1] = 0;
            if (channel < D) {
                load2(o + channel, x[k][0], x[k][1]);
                load2(gate + channel, u[k][0], u[k][1]);
            }
            square += x[k][0] * x[k][0] + x[k][1] * x[k][1];
        }
        const float r = rsqrtf(warpSum(square) / static_cast<float>(D) + p.eps);
#pragma unroll
        for (int k = 0; k < kPairs; ++k) {
            const int channel = 2 * lane + 64 * k;
            if (channel < D)
                store2(y + channel, x[k][0] * r * w[k][0] * u[k][0] * sigmoid(u[k][0]), x[k][1] * r * w[k][1] * u[k][1] * sigmoid(u[k][1]));
        }
    }
}

template <class T, int kPairs> __global__ void __launch_bounds__(kThreads) normBackward(GatedNormParams p) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, D = static_cast<int>(p.headDim);
    const std::int64_t layer = blockIdx.y, tokens = p.group.batch * p.group.tokens, rows = tokens * p.heads;
    float w[kPairs][2], dw[kPairs][2];
#pragma unroll
    for (int k = 0; k < kPairs; ++k) {
        const int channel = 2 * lane + 64 * k;
        w[k][0] = channel < D ? p.weight[layer * p.group.parameterStride + channel] : 0.0F;
        w[k][1] = channel < D ? p.weight[layer * p.group.parameterStride + channel + 1] : 0.0F;
        dw[k][0] = dw[k][1] = 0;
    }
    for (std::int64_t row = blockIdx.x * kWarps + warp; row < rows; row += gridDim.x * kWarps) {
        const std::int64_t token = layer * tokens + row / p.heads, head = row % p.heads;
        const T* o = static_cast<const T*>(p.o) + (layer * rows + row) * D;
        const T* dy = static_cast<const T*>(p.dy) + (layer * rows + row) * D;
        const T* gate = static_cast<const T*>(p.gate) + token * p.gateRow + head * D;
        T* dO = static_cast<T*>(p.dO) + (layer * rows + row) * D;
        T* dGate = static_cast<T*>(p.dGate) + token * p.dGateRow + head * D;
        float x[kPairs][2], u[kPairs][2], d[kPairs][2], square = 0;
#pragma unroll
        for (int k = 0; k < kPairs; ++k) {
            const int channel = 2 * lane + 64 * k;
            x[k][0] = x[k][1] = u[k][0] = u[k][1] = d[k][0] = d[k][1] = 0;
            if (channel < D) {
                load2(o + channel, x[k][0], x[k][1]);
                load2(gate + channel, u[k][0], u[k][1]);
                load2(dy + channel, d[k][0], d[k][1]);
            }
            square += x[k][0] * x[k][0] + x[k][1] * x[k][1];
        }
        const float r = rsqrtf(warpSum(square) / static_cast<float>(D) + p.eps);
        float along = 0;
#pragma unroll
        for (int k = 0; k < kPairs; ++k)
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const float n = x[k][j] * r, sig = sigmoid(u[k][j]), s = u[k][j] * sig;
                u[k][j] = d[k][j] * n * w[k][j] * sig * (1 + u[k][j] * (1 - sig)); // dgate
                dw[k][j] += d[k][j] * n * s;
                d[k][j] *= w[k][j] * s;                                            // dn
                x[k][j] = n;
                along += d[k][j] * n;
            }
        along = warpSum(along) / static_cast<float>(D);
#pragma unroll
        for (int k = 0; k < kPairs; ++k) {
            const int channel = 2 * lane + 64 * k;
            if (channel < D) {
                store2(dGate + channel, u[k][0], u[k][1]);
                store2(dO + channel, r * (d[k][0] - x[k][0] * along), r * (d[k][1] - x[k][1] * along));
            }
        }
    }
    if (!p.dWeight)
        return;
    auto* shared = reinterpret_cast<float*>(sharedMemory()); // [kWarps][64 kPairs]
#pragma unroll
    for (int k = 0; k < kPairs; ++k) {
        shared[warp * 64 * kPairs + 2 * lane + 64 * k] = dw[k][0];
        shared[warp * 64 * kPairs + 2 * lane + 64 * k + 1] = dw[k][1];
    }
    __syncthreads();
    for (int channel = threadIdx.x; channel < D; channel += kThreads) {
        float sum = 0;
        for (int i = 0; i < kWarps; ++i)
            sum += shared[i * 64 * kPairs + channel];
        p.workspace[(layer * gridDim.x + blockIdx.x) * D + channel] = sum;
    }
}

template <bool kBackward, class T, int kPairs> LaunchError launchNorm(const GatedNormParams& p) {
    const dim3 grid(static_cast<unsigned>(normBlocks(p)), static_cast<unsigned>(p.group.layers));
    if constexpr (kBackward)
        return launch(normBackward<T, kPairs>, grid, dim3(kThreads), kWarps * 64 * kPairs * sizeof(float), p.group.stream, p);
    else
        return launch(normForward<T, kPairs>, grid, dim3(kThreads), 0, p.group.stream, p);
}

template <bool kBackward> LaunchError norm(const GatedNormParams& p) {
    if (const auto error = refusedGroup(p.group))
        return error;
    if (p.headDim < 2 || p.headDim > 256 || p.headDim % 2 != 0)
        return "gated norm: headDim must be even and at most 256";
    return byType(p.group.dataType, [&](auto type) {
        using T = decltype(type);
        return p.headDim <= 64 ? launchNorm<kBackward, T, 1>(p) : p.headDim <= 128 ? launchNorm<kBackward, T, 2>(p) : launchNorm<kBackward, T, 4>(p);
    });
}

} // namespace

LaunchError gatesForward(const GatesParams& p) {
    if (const auto error = refusedGroup(p.group))
        return error;
    const std::int64_t count = p.group.layers * p.group.batch * p.group.tokens * p.heads;
    return byType(p.group.dataType, [&](auto type) {
        return launch(gatesForwardKernel<decltype(type)>, dim3(static_cast<unsigned>((count + kThreads - 1) / kThreads)), dim3(kThreads), 0,
                      p.group.stream, p);
    });
}

LaunchError gatesBackward(const GatesParams& p) {
    if (const auto error = refusedGroup(p.group))
        return error;
    const dim3 grid(static_cast<unsigned>(p.heads), static_cast<unsigned>(p.group.layers));
    return byType(p.group.dataType, [&](auto type) {
        return launch(gatesBackwardKernel<decltype(type)>, grid, dim3(kThreads), kWarps * sizeof(float), p.group.stream, p);
    });
}

std::int64_t gatedNormWorkspace(const GatedNormParams& p) {
    return p.group.layers * normBlocks(p) * p.headDim;
}

LaunchError gatedNormForward(const GatedNormParams& p) {
    return norm<false>(p);
}

LaunchError gatedNormBackward(const GatedNormParams& p) {
    if (const auto error = norm<true>(p))
        return error;
    if (!p.dWeight)
        return nullptr;
    return sumPartials(p.workspace, p.dWeight, p.group.layers, normBlocks(p), p.headDim, p.group.gradientStride, p.group.stream);
}

} // namespace linnet::kernels
