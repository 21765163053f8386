// Portable scan: cp.async into two stages of shared memory, mma.sync; compute capability 8.0 and later.
// Grid: (segments, heads, value blocks); in a state pass the grid's z runs over the value blocks twice, the second time for the
// transition matrix. 128 threads a block, one value block each: blocks are independent, so several on one multiprocessor hide each
// other's latency.
#include "scan.cuh"
#include "scan_launch.h"

namespace linnet::kernels::gdr {
namespace {

constexpr int kThreads = 128, kStages = 2;

template <class T, int N, int kDirection, bool kStatePass>
__device__ __forceinline__ void fetchChunk(unsigned char* stage, const ScanParams& p, int head, int valueBlock, bool identity, int chunk, const ChunkPlace& place, int thread) {
    using S = Stage<N, 1>;
    const int keyHead = head / p.group;
#pragma unroll
    for (int n = 0; n < N; ++n) {
        fetchRows<T, kThreads>(stage + (S::kK + n) * kTileBytes, p.k, p.kStrides, place, keyHead, 64 * n, p.headDim, thread);
        if (kDirection == kReverse || !kStatePass)
            fetchRows<T, kThreads>(stage + (S::kQ + n) * kTileBytes, p.q, p.qStrides, place, head, 64 * n, p.headDim, thread);
    }
    const bool attention = kDirection == kReverse || !kStatePass;
    fetchImage<kThreads>(stage + S::kT * kTileBytes, tilePair(p.buffers, p.map, head, chunk), attention ? 2 * kTileBytes : kTileBytes, thread);
    if (!identity)
        fetchRows<T, kThreads>(stage + S::kV * kTileBytes, p.v, p.vStrides, place, kDirection == kReverse ? head : keyHead, 64 * valueBlock, p.headDim, thread);
    fetchImage<kThreads>(stage + S::kGates, reinterpret_cast<const unsigned char*>(gatesOf(p.buffers, p.map, head, chunk)), kGateFloats * 4, thread);
    device::copyAsyncCommit();
}

template <class T, int N, int kDirection, bool kStatePass>
__global__ void __launch_bounds__(kThreads) scanKernel(const ScanParams p) {
    using S = Stage<N, 1>;
    unsigned char* shared = device::sharedMemory();
    const int thread = static_cast<int>(threadIdx.x), index = static_cast<int>(blockIdx.x);
    const Segment segment = p.segments.segment(index, p.map);
    if (segment.sequence < 0)
        return;
    Here here;
    here.lane = thread & 31, here.warp = thread >> 5;
    here.head = static_cast<int>(blockIdx.y);
    here.valueBlock = static_cast<int>(blockIdx.z) % N;
    here.identity = kStatePass && static_cast<int>(blockIdx.z) >= N;
    unsigned char* own = shared + kStages * S::kBytes + here.warp * (kFactorBytes + kTransposeBytes);
    here.factors = reinterpret_cast<float*>(own);
    here.scratch = own + kFactorBytes;

    float state[8 * N][4];
    loadState<N>(state, p, segment, index, here, kStatePass);
    const int chunks = segment.endChunk - segment.firstChunk;
    constexpr int kStep = kDirection == kForward ? 1 : -1;
    ChunkWalk walk(p.map, segment, kDirection == kForward), ahead = walk;
    const auto fetch = [&](int i) {
        fetchChunk<T, N, kDirection, kStatePass>(shared + (i % kStages) * S::kBytes, p, here.head, here.valueBlock, here.identity, ahead.chunk, ahead.place(), thread);
        ahead.step(kStep);
    };
    Pending pending;
    float decay = 1.0F;
    if (chunks > 0)
        fetch(0);
    for (int i = 0; i < chunks; ++i) {
        device::copyAsyncWait<0>();
        __syncthreads(); // the stage has arrived for all, and nobody reads the other one any more
        if (i + 1 < chunks)
            fetch(i + 1);
        const unsigned char* stage = shared + (i % kStages) * S::kBytes;
        const Tiles tiles{stage + S::kK * kTileBytes, stage + S::kQ * kTileBytes, stage + S::kT * kTileBytes, stage + S::kP * kTileBytes,
                          stage + S::kV * kTileBytes, reinterpret_cast<const float*>(stage + S::kGates)};
        here.chunk = walk.chunk;
        if constexpr (kDirection == kForward)
            decay *= forwardChunk<T, N, kStatePass, WarpEngine>(state, pending, p, tiles, walk.place(), here);
        else
            decay *= reverseChunk<T, N, kStatePass, WarpEngine>(state, pending, p, tiles, walk.place(), here);
        walk.step(kStep);
    }
    if (!kStatePass)
        flush<T>(pending, p, here);
    storeState<T, N>(state, decay, p, segment, index, here, kStatePass, kDirection == kForward ? segment.last : segment.first);
}

template <class T, int N, int kDirection, bool kStatePass> LaunchError launchScan(const ScanParams& p, int slices, void* stream) {
    const std::size_t bytes = kStages * Stage<N, 1>::kBytes + 4 * (kFactorBytes + kTransposeBytes);
    return device::launch(scanKernel<T, N, kDirection, kStatePass>,
                          dim3(static_cast<unsigned>(p.segments.segments), static_cast<unsigned>(p.heads), static_cast<unsigned>(slices)), dim3(kThreads), bytes, stream, p);
}

template <class T, int N> LaunchError dispatch(const ScanParams& p, int direction, bool statePass, void* stream) {
    if (statePass)
        return direction == kForward ? launchScan<T, N, kForward, true>(p, 2 * N, stream) : launchScan<T, N, kReverse, true>(p, N, stream);
    return direction == kForward ? launchScan<T, N, kForward, false>(p, N, stream) : launchScan<T, N, kReverse, false>(p, N, stream);
}

template <class T> LaunchError dispatch(const ScanParams& p, int direction, bool statePass, void* stream) {
    switch (paddedDim(p.headDim)) {
    case 64:
        return dispatch<T, 1>(p, direction, statePass, stream);
    case 128:
        return dispatch<T, 2>(p, direction, statePass, stream);
    default:
        return dispatch<T, 4>(p, direction, statePass, stream);
    }
}

} // namespace

LaunchError launchPortableScan(const ScanParams& p, DataType type, int direction, bool statePass, void* stream) {
    return type == DataType::BFloat16 ? dispatch<BFloat16>(p, direction, statePass, stream) : dispatch<Float16>(p, direction, statePass, stream);
}

} // namespace linnet::kernels::gdr
