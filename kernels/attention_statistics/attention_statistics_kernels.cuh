// Launches of the passes for one data type; included by attention_statistics_<type>.cu.
#pragma once

#include "attention_statistics_distances.cuh"

#include <algorithm>

namespace linnet::kernels::statistics {

struct SharedLimits {
    int block = 227 * 1024, multiprocessor = 228 * 1024;
};

inline SharedLimits sharedLimits() {
    SharedLimits limits;
#if !defined(LINNET_EMULATED)
    int device = 0;
    if (cudaGetDevice(&device) == cudaSuccess) {
        cudaDeviceGetAttribute(&limits.block, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
        cudaDeviceGetAttribute(&limits.multiprocessor, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
    }
    cudaGetLastError(); // a device that cannot be asked shows at the launch
#endif
    return limits;
}

// f(std::integral_constant<int, padded headDim>).
template <class F> auto withHeadDim(std::int64_t headDim, F&& f) {
    if (headDim <= 64)
        return f(std::integral_constant<int, 64>());
    if (headDim <= 80)
        return f(std::integral_constant<int, 80>());
    if (headDim <= 96)
        return f(std::integral_constant<int, 96>());
    if (headDim <= 128)
        return f(std::integral_constant<int, 128>());
    return f(std::integral_constant<int, 256>());
}

template <class T, int kDim> LaunchError launchPasses(Arguments& g, void* stream) {
    using Shape = PassShape<T, kDim>;
    using S = typename Shape::Tiles;
    const SharedLimits limits = sharedLimits();
    const auto bytes = [&](int stages) { return PassMemory<S>(stages, g.bins, g.sinkKeys).bytes; };
    constexpr int kReserved = 1024; // that the driver takes for itself, a block
    // A third stage only where it costs no block: float32 tiles are loaded at once and gain nothing from it.
    const int blocks = Shape::kBlocks * (bytes(2) + kReserved) <= limits.multiprocessor ? Shape::kBlocks : 1;
    g.stages = S::kParts == 1 && blocks * (bytes(3) + kReserved) <= limits.multiprocessor && bytes(3) <= limits.block ? 3 : 2;
    const auto heads = static_cast<unsigned>(g.sequences * g.heads);
    const unsigned threads = S::kThreads;
    if (const auto error = launch(statisticsPass<T, kDim>, dim3(heads * static_cast<unsigned>(g.rowBlocks)), dim3(threads),
                                  static_cast<std::size_t>(bytes(g.stages)), stream, g))
        return error;
    if (g.bins > 0)
        return nullptr;
    using D = DistanceShape<T, kDim>;
    const auto bands = static_cast<unsigned>((g.tokens + D::kBand - 1) / D::kBand);
    return launch(statisticsDistances<T, kDim>, dim3(heads * bands), dim3(2 * D::kBand), D::kBytes, stream, g);
}

template <class T> LaunchError launchType(Arguments& g, void* stream) {
    return withHeadDim(g.headDim, [&](auto dim) { return launchPasses<T, decltype(dim)::value>(g, stream); });
}

} // namespace linnet::kernels::statistics
