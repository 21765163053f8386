// The second pass, for histograms with more bins than the first can hold: mass by distance, M[d] = sum over rows t of A[t, t - d], with the
// row's log sums known. A block takes 64 distances of a head and walks down their diagonal, 64 rows and the 127 keys that they need
// at a time; a thread owns a distance (with or without the sink) and adds along it, so the order never changes.
#pragma once

#include "attention_statistics_pass.cuh"

namespace linnet::kernels::statistics {

template <class T, int kDim> struct DistanceShape {
    using Tiles = Tiling<T, kDim, 1, 4, (Element<T>::kParts == 2 && kDim > 128) ? 16 : 32>;
    static constexpr int kBand = 64;     // distances of a block, and rows of a step
    static constexpr int kColumns = 128; // keys of a step, one more than needed
    static constexpr int kPitch = kColumns + 1;
    static constexpr int kPowers = Tiles::kQueryBytes + Tiles::kKeyBytes, kBytes = kPowers + (kBand * kPitch + 2 * kBand) * 4;
};

template <class T, int kDim> __global__ void __launch_bounds__(128) statisticsDistances(const __grid_constant__ Arguments g) {
    using D = DistanceShape<T, kDim>;
    using S = typename D::Tiles;
    static_assert(S::kRows == D::kBand && S::kThreads == 2 * D::kBand);
    const Place p = placeOf<S>(g);                                                        // its row block means nothing here
    const int band = D::kBand * (static_cast<int>(blockIdx.x) / (g.sequences * g.heads)); // short distances have the most rows
    const std::int64_t rows = std::int64_t{g.sequences} * g.heads * g.tokens, firstRow = std::int64_t{p.index} * g.tokens;
    unsigned char* memory = sharedMemory();
    auto* queries = reinterpret_cast<typename S::Part*>(memory);
    auto* keys = queries + S::kQueryBytes / 2;
    auto* powers = reinterpret_cast<float*>(memory + D::kPowers); // scale <q, k>
    float* logSums = powers + D::kBand * D::kPitch;               // [2][rows]
    const T* q = Chunks<S>::start(headOf<T>(g, p, g.q, g.qStrides, p.head), g.qStrides.token);
    const T* k = Chunks<S>::start(headOf<T>(g, p, g.k, g.kStrides, p.head / (g.heads / g.kvHeads)), g.kStrides.token);

    const int mine = static_cast<int>(threadIdx.x) % D::kBand;
    const bool noSink = static_cast<int>(threadIdx.x) >= D::kBand;
    double total = 0.0;
    for (int first = band; first < p.length; first += D::kBand) {
        const int firstKey = first - band - (D::kBand - 1);
        __syncthreads();
        loadTile<S, D::kBand>(queries, q + first * g.qStrides.token, g.qStrides.token, first, p.length, g.headDim);
        const int t = first + mine; // of the row whose log sum this thread fetches
        const bool counts = t < p.length && (!noSink || t >= g.firstNoSinkRow);
        logSums[threadIdx.x] = counts ? g.logSums[(noSink ? rows : 0) + firstRow + t] : -kMaskedScore;
        for (int part = 0; part < D::kColumns / S::kKeys; ++part) {
            const int partKey = firstKey + part * S::kKeys;
            loadTile<S, S::kKeys>(keys, k + partKey * g.kStrides.token, g.kStrides.token, partKey, p.length, g.headDim);
            copyAsyncCommit();
            copyAsyncWait<0>();
            __syncthreads();
            Matrix<S, S::kKeys> s = {};
#pragma unroll
            for (int step = 0; step < S::kDim / 16; ++step) {
                std::uint32_t a[S::kFragments][S::kParts][4];
                loadQueries<S>(a, queries + warp() * S::kWarpRows * S::kStride, step);
                scoresStep<S>(s, a, keys, step);
            }
#pragma unroll
            for (int h = 0; h < S::kHalves; ++h)
#pragma unroll
                for (int j = 0; j < S::kKeys / 8; ++j)
#pragma unroll
                    for (int e = 0; e < 2; ++e) {
                        const int row = warp() * S::kWarpRows + 8 * h + lane() / 4, column = 8 * j + 2 * (lane() % 4) + e;
                        powers[row * D::kPitch + part * S::kKeys + column] =
                            partKey + column >= 0 ? s[0][j][2 * h + e] * g.scale : kMaskedScore;
                    }
            __syncthreads();
        }
        float sum = 0.0F;
        for (int row = 0; row < D::kBand; ++row) {
            const int column = row + D::kBand - 1 - mine;
            const float weight = exp2Fast(powers[row * D::kPitch + column] - logSums[(noSink ? D::kBand : 0) + row]);
            sum += noSink && firstKey + column < g.sinkKeys ? 0.0F : weight;
        }
        total += static_cast<double>(sum);
    }
    if (band + mine < g.tokens)
        g.masses[(noSink ? rows : 0) + firstRow + band + mine] = static_cast<float>(total);
}

} // namespace linnet::kernels::statistics
