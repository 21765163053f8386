// Chunks and segments of sequences of variable length, made on the device so that lengths need not visit the host.
#pragma once

#include "scan.cuh"

namespace linnet::kernels::gdr {

struct MapTables {
    ChunkPlace* chunks;   // [bound]
    int* firstChunk;      // [sequences + 1]
    int4* segments;       // [bound]
    int* firstSegment;    // [sequences + 1]
};

LaunchError launchMaps(const MapTables& tables, const std::int32_t* starts, int sequences, int chunkBound, int segmentBound, int segmentChunks, void* stream);

} // namespace linnet::kernels::gdr
