// Chains the segments of the two-level scan: with M = decay I + R the transition matrix of a segment and B its state from zero,
//     forward  S_{s+1} = decay_s S_s + R_s S_s + B_s        (start of every segment from the start of the sequence)
//     reverse  S_{s-1} = decay_s S_s + R_s^T S_s + B_s      (gradient after every segment from the one after the sequence)
// Transposed like the scans: a warp owns 16 value channels, the state stays in float32 and is rounded only as R's operand, as it is in
// the scan. One segment after another, so what counts is latency: R's images run kStages segments ahead through shared memory, B one
// segment ahead in registers. Limits: D up to 128 (the registers of one warp hold state and B).
#include "scan.cuh"
#include "scan_launch.h"

namespace linnet::kernels::gdr {
namespace {

constexpr int kThreads = 128, kStages = 3;

// The warp's elements of a [Dp][Dp] value-major float32 matrix; f(tile, pair, index of two neighbouring columns).
template <int N, class F> __device__ __forceinline__ void eachPair(const Here& here, F&& f) {
#pragma unroll
    for (int j = 0; j < 8 * N; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half)
            f(j, 2 * half, (here.channel() + (here.lane >> 2) + 8 * half) * 64 * N + 8 * j + 2 * here.t());
}

template <class T, int N, int kDirection> __global__ void __launch_bounds__(kThreads) chainKernel(const ScanParams p, float* states) {
    constexpr int kDim = 64 * N, kImages = N * N * kTileBytes;
    unsigned char* shared = device::sharedMemory();
    const int thread = static_cast<int>(threadIdx.x), sequence = static_cast<int>(blockIdx.x);
    Here here;
    here.lane = thread & 31, here.warp = thread >> 5;
    here.head = static_cast<int>(blockIdx.y), here.valueBlock = static_cast<int>(blockIdx.z);
    const int first = p.segments.first(sequence), count = p.segments.end(sequence) - first;
    const auto slot = [&](int i) {
        return static_cast<std::size_t>(here.head) * p.segments.segments + first + (kDirection == kForward ? i : count - 1 - i);
    };
    const auto fetch = [&](int i) {
        if (i < count - 1)
            fetchImage<kThreads>(shared + i % kStages * kImages, p.transitions + slot(i) * kImages, kImages, thread);
        device::copyAsyncCommit();
    };
    float state[8 * N][4], local[8 * N][4];
    clear(state);
    clear(local);
    const auto prefetch = [&](int i) {
        if (i < count - 1)
            eachPair<N>(here, [&](int j, int r, int at) {
                const float2 x = *reinterpret_cast<const float2*>(p.local + slot(i) * kDim * kDim + at);
                local[j][r] = x.x, local[j][r + 1] = x.y;
            });
    };
    for (int i = 0; i < kStages - 1; ++i)
        fetch(i);
    prefetch(0);
    if (p.start) {
        const float* from = p.start + (static_cast<std::size_t>(sequence) * p.heads + here.head) * p.headDim * p.headDim;
        eachStateElement<8 * N, true>(state, here.channel(), p.headDim, here.lane, [&](float& x, std::size_t at) { x = from[at]; });
    }
    for (int i = 0; i < count; ++i) {
        eachPair<N>(here, [&](int j, int r, int at) {
            *reinterpret_cast<float2*>(states + slot(i) * kDim * kDim + at) = make_float2(state[j][r], state[j][r + 1]);
        });
        if (i + 1 == count)
            break;
        std::uint32_t s[4 * N][4];
        asOperand<T>(s, state);
        const float decay = p.transitionDecay[slot(i)];
#pragma unroll
        for (int j = 0; j < 8 * N; ++j)
#pragma unroll
            for (int r = 0; r < 4; ++r)
                state[j][r] = decay * state[j][r] + local[j][r];
        prefetch(i + 1);
        device::copyAsyncWait<kStages - 2>();
        __syncthreads(); // segment i's images are there for all, and nobody reads those of segment i - 1 any more
        fetch(i + kStages - 1);
        const unsigned char* images = shared + i % kStages * kImages;
#pragma unroll
        for (int block = 0; block < N; ++block) {
            const unsigned char* row = images + block * N * kTileBytes;
            if constexpr (kDirection == kForward) { // a row of R^T's images meets the operand's columns of that block
                std::uint32_t a[4][4];
#pragma unroll
                for (int k = 0; k < 4; ++k)
#pragma unroll
                    for (int r = 0; r < 4; ++r)
                        a[k][r] = s[4 * block + k][r];
                WarpEngine::columns<T, 8 * N, false>(state, a, row, here.lane);
            } else { // and makes the result's columns of that block
                WarpEngine::rows<T, 4 * N, false>(reinterpret_cast<float(&)[8][4]>(state[8 * block]), s, row, here.lane);
            }
        }
    }
}

template <class T, int N> LaunchError launchN(const ScanParams& p, float* states, int direction, int sequences, void* stream) {
    const dim3 grid(static_cast<unsigned>(sequences), static_cast<unsigned>(p.heads), N);
    const std::size_t bytes = std::size_t{kStages} * N * N * kTileBytes;
    return direction == kForward ? device::launch(chainKernel<T, N, kForward>, grid, dim3(kThreads), bytes, stream, p, states)
                                 : device::launch(chainKernel<T, N, kReverse>, grid, dim3(kThreads), bytes, stream, p, states);
}

template <class T> LaunchError launchT(const ScanParams& p, float* states, int direction, int sequences, void* stream) {
    switch (paddedDim(p.headDim)) {
    case 64:
        return launchN<T, 1>(p, states, direction, sequences, stream);
    case 128:
        return launchN<T, 2>(p, states, direction, sequences, stream);
    default:
        return "gated delta rule: the two-level scan takes head dimensions up to 128";
    }
}

} // namespace

LaunchError launchChain(const ScanParams& p, float* states, DataType type, int direction, int sequences, void* stream) {
    return type == DataType::BFloat16 ? launchT<BFloat16>(p, states, direction, sequences, stream) : launchT<Float16>(p, states, direction, sequences, stream);
}

} // namespace linnet::kernels::gdr
