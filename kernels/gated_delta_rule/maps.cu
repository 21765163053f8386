// One block: prefix sums of chunks and segments over sequences, then every table entry finds its sequence by bisection. A sequence
// without tokens has no chunk and one empty segment, which hands its state through.
#include "maps.cuh"

namespace linnet::kernels::gdr {
namespace {

constexpr int kThreads = 256;

__device__ inline int chunksOf(const std::int32_t* starts, int sequence) { return (starts[sequence + 1] - starts[sequence] + kChunk - 1) / kChunk; }

// The last sequence whose first entry is not beyond `index`; entries of empty ranges are passed over.
__device__ inline int sequenceOf(const int* first, int sequences, int index) {
    int low = 0, high = sequences - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (first[middle] <= index)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

__global__ void mapsKernel(MapTables tables, const std::int32_t* starts, int sequences, int chunkBound, int segmentBound, int segmentChunks) {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread == 0) {
        int chunk = 0, segment = 0;
        for (int n = 0; n < sequences; ++n) {
            tables.firstChunk[n] = chunk, tables.firstSegment[n] = segment;
            const int chunks = chunksOf(starts, n);
            chunk += chunks;
            segment += chunks == 0 ? 1 : (chunks + segmentChunks - 1) / segmentChunks;
        }
        tables.firstChunk[sequences] = chunk, tables.firstSegment[sequences] = segment;
    }
    __syncthreads();
    const int chunks = tables.firstChunk[sequences], segments = tables.firstSegment[sequences];
    for (int i = thread; i < chunkBound; i += kThreads) {
        if (i >= chunks) {
            tables.chunks[i] = {-1, 0, 0, 0};
            continue;
        }
        const int sequence = sequenceOf(tables.firstChunk, sequences, i), token = starts[sequence] + (i - tables.firstChunk[sequence]) * kChunk;
        const int left = starts[sequence + 1] - token;
        tables.chunks[i] = {sequence, 0, token, left < kChunk ? left : kChunk};
    }
    for (int i = thread; i < segmentBound; i += kThreads) {
        if (i >= segments) {
            tables.segments[i] = {-1, 0, 0, 0};
            continue;
        }
        const int sequence = sequenceOf(tables.firstSegment, sequences, i), index = i - tables.firstSegment[sequence];
        const int from = tables.firstChunk[sequence] + index * segmentChunks, end = tables.firstChunk[sequence + 1];
        const bool last = i + 1 == tables.firstSegment[sequence + 1];
        tables.segments[i] = {sequence, from < end ? from : end, from + segmentChunks < end ? from + segmentChunks : end, index | (last ? 1 << 30 : 0)};
    }
}

} // namespace

LaunchError launchMaps(const MapTables& tables, const std::int32_t* starts, int sequences, int chunkBound, int segmentBound, int segmentChunks, void* stream) {
    return device::launch(mapsKernel, dim3(1), dim3(kThreads), 0, stream, tables, starts, sequences, chunkBound, segmentBound, segmentChunks);
}

} // namespace linnet::kernels::gdr
