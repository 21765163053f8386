// Chains the segments of the two-level scan: with M the transition matrix of a segment and B its state from zero,
//     forward  S_{s+1} = M_s S_s + B_s             (start of every segment from the start of the sequence)
//     reverse  R_{s-1} = M_s^T R_s + B_s           (gradient after every segment from the one after the sequence)
// Transposed like the scans: a warp owns 16 value channels. One segment after another, but only one product of D x D x D each; the
// operands' parts (high and low) keep it at float32's accuracy (three products). M's images stream through two shared stages.
// Limits: D up to 128 (the registers of one warp hold two states).
#include "scan.cuh"
#include "scan_launch.h"

namespace linnet::kernels::gdr {
namespace {

constexpr int kThreads = 128;

// Stage: N images of the high parts of one row of M^T's images, then N of the low parts.
template <int N> __device__ __forceinline__ void fetchRow(unsigned char* stage, const unsigned char* images, int thread) {
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
        for (int part = 0; part < 2; ++part)
            fetchImage<kThreads>(stage + (part * N + n) * kTileBytes, images + (2 * n + part) * kTileBytes, kTileBytes, thread);
    device::copyAsyncCommit();
}

template <class T, int N, int kDirection> __global__ void __launch_bounds__(kThreads) chainKernel(const ScanParams p, float* states) {
    constexpr int kDim = 64 * N, kStageBytes = 2 * N * kTileBytes;
    unsigned char* shared = device::sharedMemory();
    const int thread = static_cast<int>(threadIdx.x), sequence = static_cast<int>(blockIdx.x);
    Here here;
    here.lane = thread & 31, here.warp = thread >> 5;
    here.head = static_cast<int>(blockIdx.y), here.valueBlock = static_cast<int>(blockIdx.z);
    const int first = p.segments.first(sequence), count = p.segments.end(sequence) - first;
    const auto slot = [&](int i) {
        return static_cast<std::size_t>(here.head) * p.segments.segments + first + (kDirection == kForward ? i : count - 1 - i);
    };
    float state[8 * N][4];
    clear(state);
    if (p.start) {
        const float* from = p.start + (static_cast<std::size_t>(sequence) * p.heads + here.head) * p.headDim * p.headDim;
        eachStateElement<8 * N, true>(state, here.channel(), p.headDim, here.lane, [&](float& x, std::size_t at) { x = from[at]; });
    }
    const auto fetch = [&](int step) { // step = segment * N + image row
        fetchRow<N>(shared + (step & 1) * kStageBytes, p.transitions + (slot(step / N) * N + step % N) * N * 2 * kTileBytes, thread);
    };
    if (count > 1)
        fetch(0);
    for (int i = 0; i < count; ++i) {
        float* out = states + slot(i) * kDim * kDim;
        eachStateElement<8 * N, false>(state, here.channel(), kDim, here.lane, [&](float& x, std::size_t at) { out[at] = x; });
        if (i + 1 == count)
            break;
        std::uint32_t high[4 * N][4], low[4 * N][4];
        asOperand<T>(high, state);
#pragma unroll
        for (int j = 0; j < 8 * N; ++j)
#pragma unroll
            for (int r = 0; r < 4; ++r)
                state[j][r] = device::toFloat(lowPart<T>(state[j][r]));
        asOperand<T>(low, state);
        const float* local = p.local + slot(i) * kDim * kDim;
        eachStateElement<8 * N, false>(state, here.channel(), kDim, here.lane, [&](float& x, std::size_t at) { x = local[at]; });
#pragma unroll
        for (int row = 0; row < N; ++row) {
            const int step = i * N + row;
            device::copyAsyncWait<0>();
            __syncthreads();
            if (step + 1 < (count - 1) * N)
                fetch(step + 1);
            const unsigned char* stage = shared + (step & 1) * kStageBytes;
            if constexpr (kDirection == kForward) { // rows of M^T are the left operand's columns
                std::uint32_t a[4][4];
#pragma unroll
                for (int part = 0; part < 2; ++part) {
#pragma unroll
                    for (int s = 0; s < 4; ++s)
#pragma unroll
                        for (int r = 0; r < 4; ++r)
                            a[s][r] = part == 0 ? high[4 * row + s][r] : low[4 * row + s][r];
                    WarpEngine::columns<T, 8 * N>(state, a, stage, here.lane);
                    if (part == 0)
                        WarpEngine::columns<T, 8 * N>(state, a, stage + N * kTileBytes, here.lane);
                }
            } else { // rows of M^T are the result's columns
                float part[8][4];
#pragma unroll
                for (int j = 0; j < 8; ++j)
#pragma unroll
                    for (int r = 0; r < 4; ++r)
                        part[j][r] = state[8 * row + j][r];
                WarpEngine::rows<T, 4 * N>(part, high, stage, here.lane);
                WarpEngine::rows<T, 4 * N>(part, high, stage + N * kTileBytes, here.lane);
                WarpEngine::rows<T, 4 * N>(part, low, stage, here.lane);
#pragma unroll
                for (int j = 0; j < 8; ++j)
#pragma unroll
                    for (int r = 0; r < 4; ++r)
                        state[8 * row + j][r] = part[j][r];
            }
        }
    }
}

template <class T, int N> LaunchError launchN(const ScanParams& p, float* states, int direction, int sequences, void* stream) {
    const dim3 grid(static_cast<unsigned>(sequences), static_cast<unsigned>(p.heads), N);
    const std::size_t bytes = 2 * 2 * N * kTileBytes;
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
