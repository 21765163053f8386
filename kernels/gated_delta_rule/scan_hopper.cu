// Hopper scan: the same chunks as scan.cu with wgmma (right operands read once for a warpgroup's 64 rows) and a producer warp that
// keeps the copy engine busy: tensor maps for q, k, v (dO), plain bulk copies for the tile images, which are stored in the swizzled
// form that wgmma reads. Consumer warpgroups own a value block each and meet the producer, not each other, at the stages' barriers.
// Grid: (segments, heads, value blocks / kGroups). Limits: compute capability 9.0; D = 256 goes to the portable scan.
#include "scan.cuh"
#include "scan_launch.h"

#if defined(LINNET_EMULATED)
namespace linnet::kernels::gdr {
LaunchError launchHopperScan(const ScanParams&, DataType, int, bool, void*) { return "gated delta rule: the Hopper path runs on a GPU of compute capability 9.0 only"; }
} // namespace linnet::kernels::gdr
#else
#include "../cuda/hopper.cuh"

namespace linnet::kernels::gdr {
namespace {

struct GroupEngine {
    template <class T, int kSteps, bool kFresh, Blocks kBlocks = Blocks::kAll>
    static __device__ __forceinline__ void rows(float (&c)[8][4], const std::uint32_t (&a)[kSteps][4], const unsigned char* tiles, int) {
        const std::uint64_t base = device::matrixDescriptor(tiles);
#pragma unroll
        for (int s = 0; s < kSteps; ++s)
            if (kFresh && s == 0)
                device::groupMmaFresh<T, 0>(c, a[s], base);
            else
                device::groupMma<T, 0>(c, a[s], base + ((s / 4) * kTileBytes + (s % 4) * 32) / 16);
    }
    template <class T, int kTiles, bool kFresh, Blocks kBlocks = Blocks::kAll>
    static __device__ __forceinline__ void columns(float (&c)[kTiles][4], const std::uint32_t (&a)[4][4], const unsigned char* tiles, int) {
        const std::uint64_t base = device::matrixDescriptor(tiles);
#pragma unroll
        for (int s = 0; s < 4; ++s)
#pragma unroll
            for (int n = 0; n < kTiles / 8; ++n) {
                auto& part = reinterpret_cast<float(&)[8][4]>(c[8 * n]);
                if (kFresh && s == 0)
                    device::groupMmaFresh<T, 1>(part, a[s], base + n * kTileBytes / 16);
                else
                    device::groupMma<T, 1>(part, a[s], base + (n * kTileBytes + s * 2048) / 16);
            }
    }
    static __device__ __forceinline__ void begin() { device::groupFence(); }
    template <int kTiles> static __device__ __forceinline__ void begin(float (&c)[kTiles][4]) {
        device::keepRegisters(c);
        device::groupFence();
    }
    static __device__ __forceinline__ void commit() { device::groupCommit(); }
    template <int kPending, int kTiles> static __device__ __forceinline__ void wait(float (&c)[kTiles][4]) {
        device::groupWait<kPending>();
        device::keepRegisters(c);
    }
};

template <int N> constexpr int kGroupsOf = N;
template <int N> constexpr int kThreadsOf = 128 * kGroupsOf<N> + 128;
// Blocks on a multiprocessor, and registers of a consumer thread: what the producer's warpgroup leaves.
template <int N> constexpr int kBlocksOf = N == 1 ? 2 : 1;
template <int N> constexpr int kRegistersOf = N == 1 ? 232 : 240;
template <int N> constexpr int kStagesOf = N == 1 ? 2 : 3;

struct TensorMaps {
    device::TensorMap q, k, v;
};

template <int N> constexpr std::size_t sharedBytes() {
    return kStagesOf<N> * Stage<N, kGroupsOf<N>>::kBytes + 4 * kGroupsOf<N> * (kFactorBytes + kTransposeBytes) + 64;
}

template <class T, int N, int kDirection, bool kStatePass>
__global__ void __launch_bounds__(kThreadsOf<N>, kBlocksOf<N>) hopperScanKernel(const ScanParams p, const __grid_constant__ TensorMaps maps) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    constexpr int kGroups = kGroupsOf<N>, kStages = kStagesOf<N>;
    constexpr bool kAttention = kDirection == kReverse || !kStatePass;
    using S = Stage<N, kGroups>;
    unsigned char* shared = device::sharedMemory();
    unsigned char* perWarp = shared + kStages * S::kBytes;
    auto* full = reinterpret_cast<std::uint64_t*>(perWarp + 4 * kGroups * (kFactorBytes + kTransposeBytes));
    std::uint64_t* empty = full + kStages;
    const int thread = static_cast<int>(threadIdx.x), warp = thread >> 5, index = static_cast<int>(blockIdx.x);
    const Segment segment = p.segments.segment(index, p.map);
    if (segment.sequence < 0)
        return;
    if (thread == 0) {
        for (int i = 0; i < kStages; ++i) {
            device::barrierInit(full + i, 1);
            device::barrierInit(empty + i, 128 * kGroups);
        }
        device::barrierInitFence();
    }
    __syncthreads();
    const int head = static_cast<int>(blockIdx.y), slice = static_cast<int>(blockIdx.z) * kGroups;
    const bool identity = kStatePass && slice >= N;
    const int chunks = segment.endChunk - segment.firstChunk;

    if (warp >= 4 * kGroups) { // the producer's warpgroup: one thread works
        device::releaseRegisters<24>();
        ChunkWalk walk(p.map, segment, kDirection == kForward);
        const int keyHead = head / p.group, valueHead = kDirection == kReverse ? head : keyHead;
        for (int i = 0; i < chunks && thread == 128 * kGroups; ++i) {
            const int stageIndex = i % kStages, round = i / kStages;
            if (round > 0)
                device::barrierWait(empty + stageIndex, (round - 1) & 1);
            unsigned char* stage = shared + stageIndex * S::kBytes;
            const int chunk = walk.chunk;
            const ChunkPlace place = walk.place();
            walk.step(kDirection == kForward ? 1 : -1);
            const int pairBytes = kAttention ? 2 * kTileBytes : kTileBytes;
            device::barrierExpect(full + stageIndex, (kAttention ? 2 * N : N) * kTileBytes + (identity ? 0 : kGroups * kTileBytes) + pairBytes + kGateFloats * 4);
            for (int n = 0; n < N; ++n) {
                device::tensorLoad(stage + (S::kK + n) * kTileBytes, &maps.k, full + stageIndex, 64 * n, keyHead, place.token, place.batch);
                if (kAttention)
                    device::tensorLoad(stage + (S::kQ + n) * kTileBytes, &maps.q, full + stageIndex, 64 * n, head, place.token, place.batch);
            }
            device::bulkLoad(stage + S::kT * kTileBytes, tilePair(p.buffers, p.map, head, chunk), pairBytes, full + stageIndex);
            device::bulkLoad(stage + S::kGates, gatesOf(p.buffers, p.map, head, chunk), kGateFloats * 4, full + stageIndex);
            if (!identity)
                for (int n = 0; n < kGroups; ++n)
                    device::tensorLoad(stage + (S::kV + n) * kTileBytes, &maps.v, full + stageIndex, 64 * (slice + n), valueHead, place.token, place.batch);
        }
    } else {
        device::claimRegisters<kRegistersOf<N>>();
        Here here;
        here.lane = thread & 31, here.warp = warp & 3;
        here.head = head, here.valueBlock = (slice + (warp >> 2)) % N, here.identity = identity;
        unsigned char* own = perWarp + warp * (kFactorBytes + kTransposeBytes);
        here.factors = reinterpret_cast<float*>(own), here.scratch = own + kFactorBytes;
        float state[8 * N][4];
        loadState<N>(state, p, segment, index, here, kStatePass);
        Pending pending;
        float decay = 1.0F;
        ChunkWalk walk(p.map, segment, kDirection == kForward);
        for (int i = 0; i < chunks; ++i) {
            const int stageIndex = i % kStages;
            device::barrierWait(full + stageIndex, (i / kStages) & 1);
            const unsigned char* stage = shared + stageIndex * S::kBytes;
            const Tiles tiles{stage + S::kK * kTileBytes, stage + S::kQ * kTileBytes, stage + S::kT * kTileBytes, stage + S::kP * kTileBytes,
                              stage + (S::kV + (warp >> 2)) * kTileBytes, reinterpret_cast<const float*>(stage + S::kGates)};
            here.chunk = walk.chunk;
            const ChunkPlace place = walk.place();
            if constexpr (kDirection == kForward)
                decay *= forwardChunk<T, N, kStatePass, GroupEngine>(state, pending, p, tiles, place, here);
            else
                decay *= reverseChunk<T, N, kStatePass, GroupEngine>(state, pending, p, tiles, place, here);
            walk.step(kDirection == kForward ? 1 : -1);
            device::barrierArrive(empty + stageIndex); // by every thread: each says that its own reads are over
        }
        if (!kStatePass)
            flush<T>(pending, p, here);
        storeState<T, N>(state, decay, p, segment, index, here, kStatePass, kDirection == kForward ? segment.last : segment.first);
    }
#endif
}

template <class T, int N, int kDirection, bool kStatePass> LaunchError launchScan(const ScanParams& p, const TensorMaps& maps, void* stream) {
    constexpr int slices = kStatePass && kDirection == kForward ? 2 * N : N;
    return device::launch(hopperScanKernel<T, N, kDirection, kStatePass>,
                          dim3(static_cast<unsigned>(p.segments.segments), static_cast<unsigned>(p.heads), slices / kGroupsOf<N>),
                          dim3(kThreadsOf<N>), sharedBytes<N>(), stream, p, maps);
}

template <class T, int N> LaunchError dispatch(const ScanParams& p, const TensorMaps& maps, int direction, bool statePass, void* stream) {
    if (statePass)
        return direction == kForward ? launchScan<T, N, kForward, true>(p, maps, stream) : launchScan<T, N, kReverse, true>(p, maps, stream);
    return direction == kForward ? launchScan<T, N, kForward, false>(p, maps, stream) : launchScan<T, N, kReverse, false>(p, maps, stream);
}

template <class T> LaunchError dispatch(const ScanParams& p, const TensorMaps& maps, int direction, bool statePass, void* stream) {
    switch (paddedDim(p.headDim)) {
    case 64:
        return dispatch<T, 1>(p, maps, direction, statePass, stream);
    case 128:
        return dispatch<T, 2>(p, maps, direction, statePass, stream);
    default: // a state of 64 x 256 leaves a thread no registers to queue products from
        return launchPortableScan(p, __is_same(T, BFloat16) ? DataType::BFloat16 : DataType::Float16, direction, statePass, stream);
    }
}

} // namespace

LaunchError launchHopperScan(const ScanParams& p, DataType type, int direction, bool statePass, void* stream) {
    TensorMaps maps;
    const int keyHeads = p.heads / p.group;
    const bool bf16 = type == DataType::BFloat16;
    const bool made = device::makeTensorMap(maps.q, bf16, p.q, p.headDim, p.heads, p.tokens, p.batch, p.qStrides) &&
                      device::makeTensorMap(maps.k, bf16, p.k, p.headDim, keyHeads, p.tokens, p.batch, p.kStrides) &&
                      device::makeTensorMap(maps.v, bf16, p.v, p.headDim, direction == kReverse ? p.heads : keyHeads, p.tokens, p.batch, p.vStrides);
    if (!made) // strides that a tensor map can't say: overlapping or beyond its range
        return launchPortableScan(p, type, direction, statePass, stream);
    return bf16 ? dispatch<BFloat16>(p, maps, direction, statePass, stream) : dispatch<Float16>(p, maps, direction, statePass, stream);
}

} // namespace linnet::kernels::gdr
#endif
