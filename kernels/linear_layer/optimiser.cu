// Row gather, loss, and the clipped AdamW step: everything of a step that is not the layer itself. All read the step's number from a
// device counter, so that a captured graph can be replayed for every step.
//     gather     to_i = from_{rows[step, i]}
//     loss       E = sum (out - target)^2, P = sum target^2 ;  dout = 2 (out - target) / n      (n = B T hidden)
//     update     s = 1 or n / P ;  norm = s |g| ;  g <- s min(1, clip / (norm + 1e-6)) g
//                p -= lr wd p ;  m += 0.1 (g - m) ;  v += 0.001 (g^2 - v) ;  p -= lr / (1 - 0.9^t) m / (sqrt(v) / sqrt(1 - 0.999^t) + eps)
// Sums: kLossBlocks or kNormBlocks partial sums a layer; every block of the update adds them up again in the same order, which saves
// a launch and is 1 KB from L2. The update moves 30 bytes a parameter (28 and the rounded copy): the largest traffic of a step beside
// the products. Layout: grid (blocks, layers), four values a thread and turn.
#include "common.cuh"

namespace linnet::kernels {
namespace {

using namespace ll;

constexpr float kBeta2 = 0.999F, kFresh1 = 0.1F, kFresh2 = 0.001F, kEps = 1e-8F; // 1 - 0.999F would be off by 1e-5

__device__ inline std::int64_t stepOf(const std::int32_t* step) { return step ? *step : 0; }

__global__ void __launch_bounds__(kThreads) gatherRowsKernel(GatherRowsParams p) {
    const std::int64_t i = blockIdx.y, pieces = p.rowBytes / 16, row = p.rows[stepOf(p.step) * p.count + i];
    const auto* from = static_cast<const uint4*>(p.from) + row * pieces;
    auto* to = static_cast<uint4*>(p.to) + i * pieces;
#pragma unroll 4
    for (std::int64_t piece = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; piece < pieces; piece += gridDim.x * kThreads)
        to[piece] = from[piece];
}

template <class T> __global__ void __launch_bounds__(kThreads) squareErrorKernel(SquareErrorParams p) {
    auto* shared = reinterpret_cast<float*>(sharedMemory());
    const std::int64_t layer = blockIdx.y, window = p.group.tokens * p.hidden, values = p.group.batch * window;
    const std::int32_t* rows = p.rows + (stepOf(p.step) * p.group.layers + layer) * p.group.batch;
    const T* out = static_cast<const T*>(p.out) + layer * values;
    T* dOut = p.dOut ? static_cast<T*>(p.dOut) + layer * values : nullptr;
    const float scale = 2.0F / static_cast<float>(values);
    float error = 0, power = 0;
    for (std::int64_t i = 4 * (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x); i < values; i += 4 * gridDim.x * kThreads) {
        const std::int64_t sequence = i / window;
        float a[4], b[4];
        load4(out + i, a);
        load4(static_cast<const T*>(p.targets) + rows[sequence] * window + (i - sequence * window), b);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            power += b[j] * b[j];
            a[j] -= b[j];
            error += a[j] * a[j];
            a[j] *= scale;
        }
        if (dOut)
            store4(dOut + i, a);
    }
    error = blockSum(error, shared);
    power = blockSum(power, shared);
    if (threadIdx.x == 0) {
        float* sums = p.sums + (layer * kLossBlocks + blockIdx.x) * 2;
        sums[0] = error, sums[1] = power;
    }
}

__global__ void __launch_bounds__(kThreads) gradientSquares(AlignUpdateParams p) {
    auto* shared = reinterpret_cast<float*>(sharedMemory());
    const float* gradients = p.gradients + blockIdx.y * p.group.gradientStride;
    float sum = 0;
#pragma unroll 4
    for (std::int64_t i = 4 * (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x); i < p.count; i += 4 * kNormBlocks * kThreads) {
        float g[4];
        load4(gradients + i, g);
        sum += g[0] * g[0] + g[1] * g[1] + g[2] * g[2] + g[3] * g[3];
    }
    sum = blockSum(sum, shared);
    if (threadIdx.x == 0)
        p.workspace[blockIdx.y * kNormBlocks + blockIdx.x] = sum;
}

template <class T> __global__ void __launch_bounds__(kThreads) updateKernel(AlignUpdateParams p) {
    static_assert(kNormBlocks == kThreads && kLossBlocks <= kThreads);
    auto* shared = reinterpret_cast<float*>(sharedMemory());
    const std::int64_t layer = blockIdx.y, step = stepOf(p.step);
    const bool counted = threadIdx.x < kLossBlocks;
    const float* sums = p.sums + (layer * kLossBlocks + (counted ? threadIdx.x : 0)) * 2;
    const float error = blockSum(counted ? sums[0] : 0.0F, shared), power = blockSum(counted ? sums[1] : 0.0F, shared);
    const float square = blockSum(p.workspace[layer * kNormBlocks + threadIdx.x], shared);
    const float n = static_cast<float>(p.values), relative = p.relative ? 1.0F / max(power / n, 1e-30F) : 1.0F;
    const float norm = sqrtf(square) * relative, scale = relative * min(1.0F, p.clip / (norm + 1e-6F));
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        float* metrics = p.metrics + (step * p.group.layers + layer) * 2;
        metrics[0] = error / n, metrics[1] = norm;
    }
    const float* schedule = p.schedule + step * 4;
    const float lrFirst = schedule[0], lrSecond = schedule[1], correction1 = schedule[2], correction2 = schedule[3];
    float* parameters = p.parameters + layer * p.group.parameterStride;
    float* first = p.first + layer * p.group.parameterStride;
    float* second = p.second + layer * p.group.parameterStride;
    const float* gradients = p.gradients + layer * p.group.gradientStride;
    for (std::int64_t i = 4 * (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x); i < p.count; i += 4 * gridDim.x * kThreads) {
        float w[4], m[4], v[4], g[4];
        load4(parameters + i, w);
        load4(first + i, m);
        load4(second + i, v);
        load4(gradients + i, g);
        const float lr = i < p.firstCount ? lrFirst : lrSecond;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float x = g[j] * scale;
            m[j] += kFresh1 * (x - m[j]);
            v[j] = kBeta2 * v[j] + kFresh2 * x * x;
            w[j] -= lr * p.weightDecay * w[j];
            w[j] -= lr / correction1 * m[j] / (sqrtf(v[j]) / correction2 + kEps);
        }
        store4(parameters + i, w);
        store4(first + i, m);
        store4(second + i, v);
        if (p.rounded)
            store4(static_cast<T*>(p.rounded) + layer * p.group.parameterStride + i, w);
    }
}

} // namespace

LaunchError gatherRows(const GatherRowsParams& p) {
    if (p.count < 1 || p.count > 65535 || p.rowBytes < 16 || p.rowBytes % 16 != 0)
        return "gather: 1 to 65535 rows of a multiple of 16 bytes";
    const std::int64_t blocks = (p.rowBytes / 16 + 4 * kThreads - 1) / (4 * kThreads);
    return launch(gatherRowsKernel, dim3(static_cast<unsigned>(blocks < 256 ? blocks : 256), static_cast<unsigned>(p.count)), dim3(kThreads), 0,
                  p.stream, p);
}

LaunchError squareError(const SquareErrorParams& p) {
    if (const auto error = refusedGroup(p.group))
        return error;
    if (p.hidden % 4 != 0)
        return "square error: hidden must be a multiple of 4";
    return byType(p.group.dataType, [&](auto type) {
        return launch(squareErrorKernel<decltype(type)>, dim3(kLossBlocks, static_cast<unsigned>(p.group.layers)), dim3(kThreads),
                      kWarps * sizeof(float), p.group.stream, p);
    });
}

LaunchError alignUpdate(const AlignUpdateParams& p) {
    if (p.group.layers < 1 || p.count % 4 != 0 || p.firstCount % 4 != 0 || !p.step)
        return "update: counts must be multiples of 4, and there must be a step";
    const auto layers = static_cast<unsigned>(p.group.layers);
    if (const auto error = launch(gradientSquares, dim3(kNormBlocks, layers), dim3(kThreads), kWarps * sizeof(float), p.group.stream, p))
        return error;
    const std::int64_t blocks = (p.count + 16 * kThreads - 1) / (16 * kThreads); // four turns a thread, at most 1024 blocks a layer
    return byType(p.group.dataType, [&](auto type) {
        return launch(updateKernel<decltype(type)>, dim3(static_cast<unsigned>(blocks < 1024 ? blocks : 1024), layers), dim3(kThreads),
                      kWarps * sizeof(float), p.group.stream, p);
    });
}

} // namespace linnet::kernels
