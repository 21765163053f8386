// Short convolution with SiLU, forward and backward.
//     y_t = sum_j taps_j u_{t-3+j} ;  a_t = SiLU(y_t)
//     dy_t = da_t SiLU'(y_t), y recomputed ;  du_s = sum_lag taps_{3-lag} dy_{s+lag} ;  dtaps_j = sum_t dy_t u_{t-3+j}
// A thread owns four neighbouring channels and walks a tile of tokens with the last three inputs in registers, so that every value is
// read from memory once (and the three tokens at a tile's border again). Backward walks three tokens further: du of a token needs dy
// of the next three. Tap gradients are summed per tile in registers and over tiles by sumPartials, in a fixed order.
// Layout: grid (channels / 512, tiles, layers x batch), 128 threads. Cost: bytes; forward reads u and writes a, backward reads u and
// da and writes du. Limits: width a multiple of 4.
#include "common.cuh"

namespace linnet::kernels {
namespace {

using namespace ll;

constexpr int kBlock = 128, kChannels = 4;

// Short tiles where there are too few threads to fill the device otherwise.
std::int64_t tileTokens(const ShortConvolutionParams& p) {
    const std::int64_t threads = p.group.layers * p.group.batch * ((p.group.tokens + 63) / 64) * (3 * p.width / kChannels);
    return threads >= 200'000 ? 64 : 32;
}
std::int64_t tiles(const ShortConvolutionParams& p) {
    return (p.group.tokens + tileTokens(p) - 1) / tileTokens(p);
}

__device__ inline void loadTaps(const ShortConvolutionParams& p, int layer, int channel, float (&taps)[kChannels][4]) {
    const float* from = p.taps + layer * p.group.parameterStride + channel * 4;
#pragma unroll
    for (int i = 0; i < kChannels; ++i)
        load4(from + 4 * i, taps[i]);
}

template <class T> __device__ void loadToken(const T* u, std::int64_t row, int token, float (&v)[kChannels]) {
    if (token >= 0) {
        load4(u + token * row, v);
        return;
    }
#pragma unroll
    for (int i = 0; i < kChannels; ++i)
        v[i] = 0;
}

template <class T> __global__ void __launch_bounds__(kBlock) convolutionForward(ShortConvolutionParams p, int tile) {
    const int channel = kChannels * static_cast<int>(blockIdx.x * kBlock + threadIdx.x);
    if (channel >= 3 * p.width)
        return;
    const std::int64_t sequence = blockIdx.z;
    const int tokens = static_cast<int>(p.group.tokens), first = static_cast<int>(blockIdx.y) * tile, end = min(first + tile, tokens);
    const T* u = static_cast<const T*>(p.u) + sequence * tokens * p.uRow + channel;
    T* a = static_cast<T*>(p.a) + sequence * tokens * p.aRow + channel;
    float taps[kChannels][4], x0[kChannels], x1[kChannels], x2[kChannels], x3[kChannels];
    loadTaps(p, static_cast<int>(sequence / p.group.batch), channel, taps);
    loadToken(u, p.uRow, first - 3, x0);
    loadToken(u, p.uRow, first - 2, x1);
    loadToken(u, p.uRow, first - 1, x2);
#pragma unroll 4
    for (int t = first; t < end; ++t) {
        loadToken(u, p.uRow, t, x3);
        float z[kChannels];
#pragma unroll
        for (int i = 0; i < kChannels; ++i) {
            const float y = taps[i][0] * x0[i] + taps[i][1] * x1[i] + taps[i][2] * x2[i] + taps[i][3] * x3[i];
            z[i] = y * sigmoid(y);
            x0[i] = x1[i], x1[i] = x2[i], x2[i] = x3[i];
        }
        store4(a + t * p.aRow, z);
    }
}

template <class T> __global__ void __launch_bounds__(kBlock) convolutionBackward(ShortConvolutionParams p, int tile) {
    const int channel = kChannels * static_cast<int>(blockIdx.x * kBlock + threadIdx.x);
    if (channel >= 3 * p.width)
        return;
    const std::int64_t sequence = blockIdx.z;
    const int width = static_cast<int>(p.width), tokens = static_cast<int>(p.group.tokens);
    const int first = static_cast<int>(blockIdx.y) * tile, end = min(first + tile, tokens);
    const int layer = static_cast<int>(sequence / p.group.batch), stream = channel / width;
    const T* u = static_cast<const T*>(p.u) + sequence * tokens * p.uRow + channel;
    const void* gradients = stream == 0 ? p.da[0] : stream == 1 ? p.da[1] : p.da[2];
    const T* da = static_cast<const T*>(gradients) + sequence * tokens * width + (channel - stream * width);
    T* du = static_cast<T*>(p.du) + sequence * tokens * p.duRow + channel;
    float taps[kChannels][4], x0[kChannels], x1[kChannels], x2[kChannels], x3[kChannels];
    float dy0[kChannels] = {}, dy1[kChannels] = {}, dy2[kChannels] = {}, dy3[kChannels] = {}, dTaps[kChannels][4] = {};
    loadTaps(p, layer, channel, taps);
    loadToken(u, p.uRow, first - 3, x0);
    loadToken(u, p.uRow, first - 2, x1);
    loadToken(u, p.uRow, first - 1, x2);
#pragma unroll 2
    for (int t = first; t < end + 3; ++t) {
        const bool inside = t < tokens;
        float g[kChannels];
        loadToken(u, p.uRow, inside ? t : -1, x3);
        loadToken(da, width, inside ? t : -1, g);
        float out[kChannels];
#pragma unroll
        for (int i = 0; i < kChannels; ++i) {
            const float y = taps[i][0] * x0[i] + taps[i][1] * x1[i] + taps[i][2] * x2[i] + taps[i][3] * x3[i];
            const float s = sigmoid(y);
            dy3[i] = g[i] * s * (1 + y * (1 - s));
            const float own = t < end ? dy3[i] : 0.0F; // the next tile counts its own tokens
            dTaps[i][0] += own * x0[i], dTaps[i][1] += own * x1[i], dTaps[i][2] += own * x2[i], dTaps[i][3] += own * x3[i];
            out[i] = taps[i][3] * dy0[i] + taps[i][2] * dy1[i] + taps[i][1] * dy2[i] + taps[i][0] * dy3[i];
            x0[i] = x1[i], x1[i] = x2[i], x2[i] = x3[i];
            dy0[i] = dy1[i], dy1[i] = dy2[i], dy2[i] = dy3[i];
        }
        if (t - 3 >= first)
            store4(du + (t - 3) * p.duRow, out);
    }
    const std::int64_t part = sequence * gridDim.y + blockIdx.y; // layer-major: layer, sequence, tile
    float* partial = p.workspace + (part * 3 * width + channel) * 4;
#pragma unroll
    for (int i = 0; i < kChannels; ++i)
        store4(partial + 4 * i, dTaps[i]);
}

__global__ void __launch_bounds__(kThreads) sumOfPartials(const float* partials, float* out, std::int64_t parts, std::int64_t count,
                                                          std::int64_t outStride) {
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x, layer = blockIdx.y;
    if (i >= count)
        return;
    const float* from = partials + layer * parts * count + i;
    float sum = 0;
#pragma unroll 8
    for (std::int64_t p = 0; p < parts; ++p)
        sum += from[p * count];
    out[layer * outStride + i] = sum;
}

LaunchError refused(const ShortConvolutionParams& p) {
    if (const auto error = refusedGroup(p.group))
        return error;
    return p.width < 4 || p.width % 4 != 0 ? "short convolution: width must be a multiple of 4" : nullptr;
}

} // namespace

LaunchError ll::sumPartials(const float* partials, float* out, std::int64_t layers, std::int64_t parts, std::int64_t count, std::int64_t outStride,
                            void* stream) {
    const dim3 grid(static_cast<unsigned>((count + kThreads - 1) / kThreads), static_cast<unsigned>(layers));
    return launch(sumOfPartials, grid, dim3(kThreads), 0, stream, partials, out, parts, count, outStride);
}

std::int64_t shortConvolutionWorkspace(const ShortConvolutionParams& p) {
    return p.group.layers * p.group.batch * tiles(p) * 3 * p.width * 4;
}

LaunchError shortConvolutionForward(const ShortConvolutionParams& p) {
    if (const auto error = refused(p))
        return error;
    const dim3 grid(static_cast<unsigned>((3 * p.width / kChannels + kBlock - 1) / kBlock), static_cast<unsigned>(tiles(p)),
                    static_cast<unsigned>(p.group.layers * p.group.batch));
    return byType(p.group.dataType, [&](auto type) {
        return launch(convolutionForward<decltype(type)>, grid, dim3(kBlock), 0, p.group.stream, p, static_cast<int>(tileTokens(p)));
    });
}

LaunchError shortConvolutionBackward(const ShortConvolutionParams& p) {
    if (const auto error = refused(p))
        return error;
    const dim3 grid(static_cast<unsigned>((3 * p.width / kChannels + kBlock - 1) / kBlock), static_cast<unsigned>(tiles(p)),
                    static_cast<unsigned>(p.group.layers * p.group.batch));
    const auto error = byType(p.group.dataType, [&](auto type) {
        return launch(convolutionBackward<decltype(type)>, grid, dim3(kBlock), 0, p.group.stream, p, static_cast<int>(tileTokens(p)));
    });
    if (error)
        return error;
    return sumPartials(p.workspace, p.dTaps, p.group.layers, p.group.batch * tiles(p), 3 * p.width * 4, p.group.gradientStride, p.group.stream);
}

} // namespace linnet::kernels
