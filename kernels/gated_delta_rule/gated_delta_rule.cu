// The public entry points: check the parameters, lay out workspace and saved bytes, choose path and segments, queue the kernels.
#include "maps.cuh"
#include "scan_launch.h"

#include <algorithm>
#include <string>

namespace linnet::kernels {
namespace gdr {
namespace {

LaunchError refuse(std::string text) {
    thread_local std::string words;
    words = "gated delta rule: " + std::move(text);
    return words.c_str();
}

struct DeviceLimits {
    int multiprocessors = 132;
    bool hopper = false;
};

DeviceLimits deviceLimits() {
    DeviceLimits limits;
#if !defined(LINNET_EMULATED)
    int device = 0, major = 0, minor = 0;
    if (cudaGetDevice(&device) == cudaSuccess) {
        cudaDeviceGetAttribute(&limits.multiprocessors, cudaDevAttrMultiProcessorCount, device);
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
        limits.hopper = major == 9 && minor == 0;
    }
#endif
    return limits;
}

std::int64_t over(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

struct Shape {
    std::int64_t sequences, chunksPerSequence, chunks, segments, segmentsPerSequence, segmentChunks, dim, blocks; // blocks N = dim / 64
    bool varlen, segmented;
};

// Segments per sequence by a cost model, in microseconds on an H200 (gated_delta_rule.md has the measurements): a chunk of the scan and of
// the state pass, a segment of the chain, what the two more launches cost; and how a wave of blocks fills the multiprocessors.
std::int64_t chooseSegments(const GatedDeltaRuleParams& p, std::int64_t longest, std::int64_t sequences, std::int64_t N, int multiprocessors) {
    const double scan = N == 1 ? 1.3 : 2.3, statePass = N == 1 ? 0.8 : 1.2, chain = N == 1 ? 0.8 : 5.0, launches = N == 1 ? 6.6 : 5.0;
    const auto waves = [&](std::int64_t blocks) { // at N = 1 two blocks share a multiprocessor, each at 1 / 1.75 of its speed
        if (N > 1)
            return static_cast<double>(over(blocks, multiprocessors));
        const std::int64_t rest = blocks % (2 * multiprocessors);
        return 1.75 * static_cast<double>(blocks / (2 * multiprocessors)) + (rest == 0 ? 0.0 : rest <= multiprocessors ? 1.0 : 1.75);
    };
    const std::int64_t blocks = p.heads * sequences;
    double best = static_cast<double>(longest) * scan * waves(blocks);
    std::int64_t segments = 1;
    for (std::int64_t s = 2; s <= std::min<std::int64_t>(longest / 2, 64); ++s) {
        const double length = static_cast<double>(over(longest, s));
        const double cost = length * (statePass * waves(2 * blocks * s) + scan * waves(blocks * s)) + chain * static_cast<double>(s) + launches;
        if (cost < best) {
            best = cost;
            segments = s;
        }
    }
    return segments;
}

Shape shapeOf(const GatedDeltaRuleParams& p) {
    Shape s{};
    s.varlen = p.sequences > 0;
    s.sequences = s.varlen ? p.sequences : p.batch;
    s.dim = paddedDim(static_cast<int>(p.headDim));
    s.blocks = s.dim / 64;
    s.chunksPerSequence = s.varlen ? over(over(p.tokens, s.sequences), kChunk) : over(p.tokens, kChunk);
    s.chunks = s.varlen ? p.tokens / kChunk + s.sequences : s.sequences * s.chunksPerSequence;
    std::int64_t segments = 1;
    if (s.dim <= 128)
        segments = p.segmentChunks > 0 ? over(s.chunksPerSequence, p.segmentChunks)
                                       : chooseSegments(p, s.chunksPerSequence, s.sequences, s.blocks, deviceLimits().multiprocessors);
    s.segmentChunks = s.dim <= 128 && p.segmentChunks > 0 ? p.segmentChunks : segments > 1 ? over(s.chunksPerSequence, segments) : std::max<std::int64_t>(s.chunks, 1);
    s.segmentsPerSequence = std::max<std::int64_t>(over(s.chunksPerSequence, s.segmentChunks), 1);
    s.segments = s.varlen ? (segments > 1 || p.segmentChunks > 0 ? s.chunks / s.segmentChunks + s.sequences : s.sequences) : s.sequences * s.segmentsPerSequence;
    s.segmented = s.varlen ? s.segments > s.sequences : s.segmentsPerSequence > 1;
    return s;
}

// Hands out 1024-byte aligned pieces; with a null base it only counts.
class Pieces {
public:
    explicit Pieces(void* base) : m_base(static_cast<unsigned char*>(base)) {}
    template <class T> T* take(std::size_t bytes) {
        T* piece = m_base ? reinterpret_cast<T*>(m_base + m_used) : nullptr;
        m_used += (bytes + 1023) / 1024 * 1024;
        return piece;
    }
    std::size_t used() const { return m_used; }

private:
    unsigned char* m_base;
    std::size_t m_used = 0;
};

struct Buffers {
    ChunkBuffers chunk;
    MapTables tables{};
    unsigned char* transitions = nullptr;
    float *transitionDecay = nullptr, *local = nullptr, *segmentStart = nullptr;
    GradientScratch scratch;
};

std::size_t count(std::int64_t a, std::int64_t b, std::int64_t bytes) {
    return static_cast<std::size_t>(a) * static_cast<std::size_t>(b) * static_cast<std::size_t>(bytes);
}

void takeCommon(Buffers& b, Pieces& from, const GatedDeltaRuleParams& p, const Shape& s) {
    b.chunk.solveAttention = from.take<unsigned char>(count(p.heads, s.chunks, 2 * kTileBytes));
    b.chunk.gates = from.take<float>(count(p.heads, s.chunks, kGateFloats * 4));
    if (s.segmented) {
        b.transitions = from.take<unsigned char>(count(p.heads, s.segments, s.blocks * s.blocks * kTileBytes));
        b.transitionDecay = from.take<float>(count(p.heads, s.segments, 4));
    }
    if (s.varlen) {
        b.tables.chunks = from.take<ChunkPlace>(count(s.chunks, 1, sizeof(ChunkPlace)));
        b.tables.firstChunk = from.take<int>(count(s.sequences + 1, 1, sizeof(int)));
        b.tables.segments = from.take<int4>(count(s.segments, 1, sizeof(int4)));
        b.tables.firstSegment = from.take<int>(count(s.sequences + 1, 1, sizeof(int)));
    }
}

void takeKept(Buffers& b, Pieces& from, const GatedDeltaRuleParams& p, const Shape& s) {
    b.chunk.written = from.take<unsigned char>(count(p.heads, s.chunks, s.blocks * kTileBytes));
    b.chunk.states = from.take<unsigned char>(count(p.heads, s.chunks, s.blocks * s.blocks * kTileBytes));
}

void takeScan(Buffers& b, Pieces& from, const GatedDeltaRuleParams& p, const Shape& s) {
    if (!s.segmented)
        return;
    b.local = from.take<float>(count(p.heads, s.segments, s.dim * s.dim * 4));
    b.segmentStart = from.take<float>(count(p.heads, s.segments, s.dim * s.dim * 4));
}

void takeBackward(Buffers& b, Pieces& from, const GatedDeltaRuleParams& p, const Shape& s) {
    b.chunk.dWrittenRhs = from.take<unsigned char>(count(p.heads, s.chunks, s.blocks * kTileBytes));
    b.chunk.dStates = from.take<unsigned char>(count(p.heads, s.chunks, s.blocks * s.blocks * kTileBytes));
    if (p.heads != p.kvHeads) {
        b.scratch.dkPerHead = from.take<void>(count(p.batch * p.tokens, p.heads, p.headDim * 2));
        b.scratch.dvPerHead = from.take<void>(count(p.batch * p.tokens, p.heads, p.headDim * 2));
    }
    b.scratch.gatePartials = from.take<float>(count(p.heads, s.chunks, 2 * 4));
}

bool aligned(const void* pointer, std::uintptr_t bytes) { return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0; }

LaunchError checkStrides(const char* name, const void* pointer, const TokenStrides& s) {
    if (!pointer)
        return refuse(std::string(name) + " is null");
    if (!aligned(pointer, 16))
        return refuse(std::string(name) + " is not aligned to 16 bytes");
    if (s.batch % 8 != 0 || s.token % 8 != 0 || s.head % 8 != 0)
        return refuse(std::string(name) + " has a stride that is not a multiple of 8 elements");
    return nullptr;
}

LaunchError checkShape(const GatedDeltaRuleParams& p) {
    if (p.dataType != DataType::BFloat16 && p.dataType != DataType::Float16)
        return refuse("data type " + std::to_string(static_cast<int>(p.dataType)) + ", expected 1 (float16) or 2 (bfloat16)");
    if (p.headDim != 64 && p.headDim != 96 && p.headDim != 128 && p.headDim != 256)
        return refuse("headDim is " + std::to_string(p.headDim) + ", expected 64, 96, 128 or 256");
    if (p.batch < 1 || p.tokens < 1 || p.heads < 1 || p.kvHeads < 1 || p.heads > 65535)
        return refuse("batch, tokens, heads and kvHeads must be at least 1 and heads at most 65535, got " + std::to_string(p.batch) + ", " +
                      std::to_string(p.tokens) + ", " + std::to_string(p.heads) + ", " + std::to_string(p.kvHeads));
    if (p.heads % p.kvHeads != 0)
        return refuse(std::to_string(p.heads) + " heads are no multiple of " + std::to_string(p.kvHeads) + " key/value heads");
    if (p.sequences > 0 && p.batch != 1)
        return refuse("sequences of variable length need batch 1, got " + std::to_string(p.batch));
    if (p.segmentChunks < 0)
        return refuse("segmentChunks is " + std::to_string(p.segmentChunks));
    if (p.batch * over(p.tokens, kChunk) + p.sequences > 0x7fffffff / 64)
        return refuse("too many tokens: " + std::to_string(p.batch) + " x " + std::to_string(p.tokens));
    return nullptr;
}

LaunchError check(const GatedDeltaRuleParams& p) {
    if (const auto error = checkShape(p))
        return error;
    if ((p.sequences > 0) != (p.sequenceStarts != nullptr))
        return refuse("sequences is " + std::to_string(p.sequences) + " while sequenceStarts is " + (p.sequenceStarts ? "given" : "null"));
    if ((p.aLog != nullptr) != (p.dtBias != nullptr))
        return refuse("aLog and dtBias are given together or not at all");
    if (const auto error = checkStrides("q", p.q, p.qStrides))
        return error;
    if (const auto error = checkStrides("k", p.k, p.kStrides))
        return error;
    if (const auto error = checkStrides("v", p.v, p.vStrides))
        return error;
    if (!p.g || !p.beta)
        return refuse("g or beta is null");
    return nullptr;
}

bool useHopper(const GatedDeltaRuleParams& p) {
    return p.path == Path::Hopper || (p.path == Path::Automatic && deviceLimits().hopper);
}

LaunchError scan(const ScanParams& s, const GatedDeltaRuleParams& p, int direction, bool statePass) {
    return useHopper(p) ? launchHopperScan(s, p.dataType, direction, statePass, p.stream) : launchPortableScan(s, p.dataType, direction, statePass, p.stream);
}

ChunkMap chunkMap(const GatedDeltaRuleParams& p, const Shape& s, const Buffers& b) {
    ChunkMap map;
    map.table = b.tables.chunks, map.firstChunk = b.tables.firstChunk;
    map.chunks = static_cast<int>(s.chunks), map.chunksPerSequence = static_cast<int>(s.chunksPerSequence), map.tokens = static_cast<int>(p.tokens);
    return map;
}

ScanParams scanParams(const GatedDeltaRuleParams& p, const Shape& s, const Buffers& b) {
    ScanParams scan{};
    scan.q = p.q, scan.k = p.k, scan.v = p.v;
    scan.qStrides = p.qStrides, scan.kStrides = p.kStrides, scan.vStrides = p.vStrides;
    scan.local = b.local, scan.transitions = b.transitions, scan.transitionDecay = b.transitionDecay;
    scan.buffers = b.chunk;
    scan.map = chunkMap(p, s, b);
    scan.segments.table = b.tables.segments, scan.segments.firstSegment = b.tables.firstSegment;
    scan.segments.segments = static_cast<int>(s.segments), scan.segments.perSequence = static_cast<int>(s.segmentsPerSequence);
    scan.segments.chunks = static_cast<int>(s.segmentChunks);
    scan.heads = static_cast<int>(p.heads), scan.group = static_cast<int>(p.heads / p.kvHeads), scan.headDim = static_cast<int>(p.headDim);
    scan.batch = p.batch, scan.tokens = p.tokens;
    return scan;
}

LaunchError twoLevelScan(ScanParams scanned, const GatedDeltaRuleParams& p, const Shape& s, const Buffers& b, int direction) {
    if (s.segmented) {
        if (const auto error = scan(scanned, p, direction, true))
            return error;
        if (const auto error = launchChain(scanned, b.segmentStart, p.dataType, direction, static_cast<int>(s.sequences), p.stream))
            return error;
        scanned.segmentStart = b.segmentStart;
    }
    return scan(scanned, p, direction, false);
}

LaunchError forward(const GatedDeltaRuleParams& p) {
    if (const auto error = check(p))
        return error;
    if (const auto error = checkStrides("o", p.o, p.oStrides))
        return error;
    const Shape s = shapeOf(p);
    const bool keep = p.saved != nullptr;
    Buffers b;
    Pieces saved(p.saved), workspace(p.workspace);
    takeCommon(b, keep ? saved : workspace, p, s);
    if (keep)
        takeKept(b, saved, p, s);
    takeScan(b, workspace, p, s);
    if (workspace.used() > 0 && (!p.workspace || !aligned(p.workspace, 1024)))
        return refuse("workspace is null or not aligned to 1024 bytes");
    if (keep && !aligned(p.saved, 1024))
        return refuse("saved is not aligned to 1024 bytes");
    if (s.varlen)
        if (const auto error = launchMaps(b.tables, p.sequenceStarts, static_cast<int>(s.sequences), static_cast<int>(s.chunks), static_cast<int>(s.segments),
                                          static_cast<int>(s.segmentChunks), p.stream))
            return error;
    const ChunkMap map = chunkMap(p, s, b);
    if (const auto error = launchPrepare(p, map, b.chunk))
        return error;
    ScanParams scanned = scanParams(p, s, b);
    scanned.o = p.o, scanned.oStrides = p.oStrides;
    scanned.start = p.initialState, scanned.finish = p.finalState;
    scanned.keep = keep;
    return twoLevelScan(scanned, p, s, b, kForward);
}

LaunchError backward(const GatedDeltaRuleParams& p) {
    if (const auto error = check(p))
        return error;
    if (const auto error = checkStrides("dO", p.dO, p.doStrides))
        return error;
    if (!p.dq || !p.dk || !p.dv || !p.dg || !p.dbeta)
        return refuse("dq, dk, dv, dg and dbeta are needed");
    if ((p.aLog != nullptr) != (p.dALog != nullptr) || (p.dtBias != nullptr) != (p.dDtBias != nullptr))
        return refuse("dALog and dDtBias are given where aLog and dtBias are, and only there");
    if (!p.saved || !aligned(p.saved, 1024) || !p.workspace || !aligned(p.workspace, 1024))
        return refuse("saved or workspace is null or not aligned to 1024 bytes");
    const Shape s = shapeOf(p);
    Buffers b;
    Pieces saved(p.saved), workspace(p.workspace);
    takeCommon(b, saved, p, s);
    takeKept(b, saved, p, s);
    takeScan(b, workspace, p, s);
    takeBackward(b, workspace, p, s);
    ScanParams scanned = scanParams(p, s, b);
    scanned.v = p.dO, scanned.vStrides = p.doStrides;
    scanned.o = p.heads == p.kvHeads ? p.dv : b.scratch.dvPerHead;
    scanned.oStrides = {p.tokens * p.heads * p.headDim, p.heads * p.headDim, p.headDim};
    scanned.start = p.dFinalState, scanned.finish = p.dInitialState;
    if (const auto error = twoLevelScan(scanned, p, s, b, kReverse))
        return error;
    return launchGradients(p, chunkMap(p, s, b), b.chunk, b.scratch);
}

} // namespace
} // namespace gdr

GatedDeltaRuleBytes gatedDeltaRuleBytes(const GatedDeltaRuleParams& p) {
    if (gdr::checkShape(p))
        return {};
    const gdr::Shape s = gdr::shapeOf(p);
    gdr::Buffers b;
    gdr::Pieces forward(nullptr), backward(nullptr), saved(nullptr);
    gdr::takeCommon(b, saved, p, s);
    gdr::takeKept(b, saved, p, s);
    gdr::takeCommon(b, forward, p, s); // inference; training needs less
    gdr::takeScan(b, forward, p, s);
    gdr::takeScan(b, backward, p, s);
    gdr::takeBackward(b, backward, p, s);
    return {forward.used(), backward.used(), saved.used()};
}

LaunchError gatedDeltaRuleForward(const GatedDeltaRuleParams& params) { return gdr::forward(params); }
LaunchError gatedDeltaRuleBackward(const GatedDeltaRuleParams& params) { return gdr::backward(params); }

} // namespace linnet::kernels
