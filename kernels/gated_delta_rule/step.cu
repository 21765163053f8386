// One token of the gated delta rule for each of `batch` sequences (decoding). Per head, with a = exp(g) and S [D keys, D values]:
//     u = beta (v - a S^T k)        S' = a S + k u^T        o = scale S'^T q = scale (a S^T q + (q.k) u)
// The last form needs S^T k and S^T q only, so S is read once, kept in registers, and written once: 8 D^2 bytes a head, which is all
// that counts. Value columns don't meet, so a block owns a slice of them.
//
// Grid: (sequence, head, slice), one-dimensional, slices fastest. A thread owns four neighbouring columns of every kGroups-th key: the
// lanes of a row read 64 or 128 bytes in one piece. Sums over keys: shuffles within a warp, then shared memory, one barrier. Slices
// are 32 columns wide, 16 where that leaves multiprocessors idle. Norms and gates are cheap: each warp and thread makes its own.
// S may be read and written in place: a thread writes only what it alone has read. float32 throughout. Limits: D of 64, 96, 128, 256.
#include "gates.h"

#include "linnet/kernels/gated_delta_rule.h"

namespace linnet::kernels {
namespace {

struct StepParams {
    const void *q, *k, *v;
    const float *g, *beta, *aLog, *dtBias;
    const float* state; // not __restrict__: may be newState
    float* newState;
    void* o;
    std::int64_t qBatch, qHead, kBatch, kHead, vBatch, vHead, oBatch, oHead;
    float scale, normEps;
    int heads, groupSize;
    bool betaIsLogit, normalise;
};

__device__ __forceinline__ float warpSum(float x) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        x += __shfl_xor_sync(0xffffffffU, x, offset);
    return x;
}

template <class T> __device__ __forceinline__ float4 loadFour(const T* from) {
    const uint2 x = *reinterpret_cast<const uint2*>(from);
    return make_float4(device::toFloat(T{static_cast<std::uint16_t>(x.x)}), device::toFloat(T{static_cast<std::uint16_t>(x.x >> 16)}),
                       device::toFloat(T{static_cast<std::uint16_t>(x.y)}), device::toFloat(T{static_cast<std::uint16_t>(x.y >> 16)}));
}

__device__ __forceinline__ void addScaled(float4& sum, const float4& x, float factor) {
    sum.x += x.x * factor, sum.y += x.y * factor, sum.z += x.z * factor, sum.w += x.w * factor;
}

// Sum over the lanes of a warp that hold the same columns.
template <int kQuads> __device__ __forceinline__ void sumRows(float4& x) {
#pragma unroll
    for (int offset = kQuads; offset < 32; offset *= 2) {
        x.x += __shfl_xor_sync(0xffffffffU, x.x, offset);
        x.y += __shfl_xor_sync(0xffffffffU, x.y, offset);
        x.z += __shfl_xor_sync(0xffffffffU, x.z, offset);
        x.w += __shfl_xor_sync(0xffffffffU, x.w, offset);
    }
}

template <class T, int D, int kColumns, int kThreads> __global__ void __launch_bounds__(kThreads) stepKernel(const StepParams p) {
    constexpr int kQuads = kColumns / 4, kGroups = kThreads / kQuads, kKeys = D / kGroups;
    constexpr int kWarps = kThreads / 32, kSlices = D / kColumns;
    static_assert(kGroups * kKeys == D && kSlices * kColumns == D && kQuads <= 32);
    const int thread = static_cast<int>(threadIdx.x), lane = thread & 31, warp = thread >> 5;
    const int quad = thread % kQuads, group = thread / kQuads;
    const int index = static_cast<int>(blockIdx.x), slice = index % kSlices, row = index / kSlices, sequence = row / p.heads;
    const int head = row - sequence * p.heads, keyHead = head / p.groupSize, column = slice * kColumns + 4 * quad;
    const std::size_t place = (static_cast<std::size_t>(row) * D + static_cast<std::size_t>(group)) * D + static_cast<std::size_t>(column);

    float4 state[kKeys]; // all loads at once: this is what hides the memory's latency
#pragma unroll
    for (int i = 0; i < kKeys; ++i)
        state[i] = p.state ? *reinterpret_cast<const float4*>(p.state + place + static_cast<std::size_t>(i) * kGroups * D)
                           : make_float4(0, 0, 0, 0);

    const T* q = static_cast<const T*>(p.q) + sequence * p.qBatch + head * p.qHead;
    const T* k = static_cast<const T*>(p.k) + sequence * p.kBatch + keyHead * p.kHead;
    const float4 v = loadFour(static_cast<const T*>(p.v) + sequence * p.vBatch + keyHead * p.vHead + column);
    const float g = gdr::logDecay(p.g[row], p.aLog, p.dtBias, head), beta = gdr::writeStrength(p.beta[row], p.betaIsLogit);

    float qq = 0.0F, kk = 0.0F, qk = 0.0F;
#pragma unroll
    for (int i = 0; i < D / 32; ++i) {
        const float x = device::toFloat(q[lane + 32 * i]), y = device::toFloat(k[lane + 32 * i]);
        qq += x * x, kk += y * y, qk += x * y;
    }
    qk = warpSum(qk);
    float queryFactor = p.scale, keyFactor = 1.0F;
    if (p.normalise) {
        queryFactor *= rsqrtf(warpSum(qq) + p.normEps);
        keyFactor = rsqrtf(warpSum(kk) + p.normEps);
    }

    float4 kState = make_float4(0, 0, 0, 0), qState = kState;
    float key[kKeys]; // kept: a load after the stores below would have to wait for them
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
        key[i] = keyFactor * device::toFloat(k[group + kGroups * i]);
        addScaled(kState, state[i], key[i]);
        addScaled(qState, state[i], device::toFloat(q[group + kGroups * i]));
    }
    sumRows<kQuads>(kState);
    sumRows<kQuads>(qState);
    float4* sums = reinterpret_cast<float4*>(device::sharedMemory()); // [kWarps][2][kQuads]
    if (lane < kQuads) {
        sums[warp * 2 * kQuads + quad] = kState;
        sums[warp * 2 * kQuads + kQuads + quad] = qState;
    }
    __syncthreads();
    kState = make_float4(0, 0, 0, 0), qState = kState;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
        addScaled(kState, sums[w * 2 * kQuads + quad], 1.0F);
        addScaled(qState, sums[w * 2 * kQuads + kQuads + quad], 1.0F);
    }

    const float decay = device::exp2Fast(g);
    float4 u;
    u.x = beta * (v.x - decay * kState.x), u.y = beta * (v.y - decay * kState.y);
    u.z = beta * (v.z - decay * kState.z), u.w = beta * (v.w - decay * kState.w);
#pragma unroll
    for (int i = 0; i < kKeys; ++i)
        *reinterpret_cast<float4*>(p.newState + place + static_cast<std::size_t>(i) * kGroups * D) =
            make_float4(decay * state[i].x + key[i] * u.x, decay * state[i].y + key[i] * u.y,
                        decay * state[i].z + key[i] * u.z, decay * state[i].w + key[i] * u.w);
    if (group == 0) {
        const float old = queryFactor * decay, fresh = queryFactor * keyFactor * qk;
        *reinterpret_cast<uint2*>(static_cast<T*>(p.o) + sequence * p.oBatch + head * p.oHead + column) =
            make_uint2(device::pack<T>(old * qState.x + fresh * u.x, old * qState.y + fresh * u.y),
                       device::pack<T>(old * qState.z + fresh * u.z, old * qState.w + fresh * u.w));
    }
}

template <class T, int D, int kColumns, int kThreads> LaunchError launchSlices(const StepParams& p, std::int64_t rows, void* stream) {
    const std::int64_t blocks = rows * (D / kColumns);
    if (blocks > 0x7fffffff)
        return "gated delta rule step: too many sequences times heads";
    return device::launch(stepKernel<T, D, kColumns, kThreads>, dim3(static_cast<unsigned>(blocks)), dim3(kThreads),
                          sizeof(float) * (kThreads / 32) * 2 * kColumns, stream, p);
}

template <class T, int D> LaunchError launchDim(const StepParams& p, std::int64_t rows, void* stream) {
    constexpr std::int64_t kEnoughBlocks = 264; // two for every multiprocessor of the largest chips
    if (rows * (D / 32) >= kEnoughBlocks)
        return launchSlices<T, D, 32, D == 256 ? 256 : 128>(p, rows, stream);
    return launchSlices<T, D, 16, 128>(p, rows, stream);
}

template <class T> LaunchError launchType(const StepParams& p, std::int64_t headDim, std::int64_t rows, void* stream) {
    switch (headDim) {
    case 64: return launchDim<T, 64>(p, rows, stream);
    case 96: return launchDim<T, 96>(p, rows, stream);
    case 128: return launchDim<T, 128>(p, rows, stream);
    default: return launchDim<T, 256>(p, rows, stream);
    }
}

const char* refusal(const GatedDeltaRuleParams& p) {
    if (p.headDim != 64 && p.headDim != 96 && p.headDim != 128 && p.headDim != 256)
        return "gated delta rule step: head dimension must be 64, 96, 128 or 256";
    if (p.heads <= 0 || p.kvHeads <= 0 || p.heads % p.kvHeads != 0)
        return "gated delta rule step: heads must be a multiple of kvHeads";
    if (p.dataType != DataType::BFloat16 && p.dataType != DataType::Float16)
        return "gated delta rule step: q, k and v must be float16 or bfloat16";
    if (p.tokens != 1 || p.batch < 0 || p.sequences != 0)
        return "gated delta rule step: one token per sequence, without variable lengths";
    if (!p.q || !p.k || !p.v || !p.g || !p.beta || !p.o || !p.finalState)
        return "gated delta rule step: q, k, v, g, beta, o and finalState are needed";
    return nullptr;
}

} // namespace

LaunchError gatedDeltaRuleStep(const GatedDeltaRuleParams& params) {
    if (params.batch == 0 && params.heads > 0)
        return nullptr;
    if (const char* why = refusal(params))
        return why;
    StepParams p{};
    p.q = params.q, p.k = params.k, p.v = params.v, p.g = params.g, p.beta = params.beta, p.aLog = params.aLog, p.dtBias = params.dtBias;
    p.state = params.initialState, p.newState = params.finalState, p.o = params.o;
    p.qBatch = params.qStrides.batch, p.qHead = params.qStrides.head, p.kBatch = params.kStrides.batch, p.kHead = params.kStrides.head;
    p.vBatch = params.vStrides.batch, p.vHead = params.vStrides.head, p.oBatch = params.oStrides.batch, p.oHead = params.oStrides.head;
    p.scale = params.scale, p.normEps = params.normEps, p.heads = static_cast<int>(params.heads);
    p.groupSize = static_cast<int>(params.heads / params.kvHeads), p.betaIsLogit = params.betaIsLogit, p.normalise = params.normalise;
    const std::int64_t rows = params.batch * params.heads;
    return params.dataType == DataType::BFloat16 ? launchType<BFloat16>(p, params.headDim, rows, params.stream)
                                                 : launchType<Float16>(p, params.headDim, rows, params.stream);
}

} // namespace linnet::kernels
