// What a profile adds up while it runs, and the file it goes on from after a stop.
#pragma once

#include "core/profile/layer_statistics.h"

#include <filesystem>

namespace linnet::core {

// Sums over the finished sequences, float64: mean and standard error come from `sum` and `square`.
struct ProfileSums {
    std::int64_t sequences = 0;
    at::Tensor sum, square;                // [layers, kStatisticCount, H]
    at::Tensor histogram, histogramNoSink; // [layers, H, bins]

    ProfileSums(std::int64_t layers, std::int64_t heads, std::int64_t bins, at::Device device = at::kCPU);
    void add(std::int64_t layer, const LayerStatistics& statistics);
    void merge(const ProfileSums& batch, std::int64_t count); // a finished batch of `count` sequences, from any device

    void save(const std::filesystem::path& file) const; // atomic
    // False, and nothing changed, where there is no such file or it is not whole and of these shapes.
    bool load(const std::filesystem::path& file);

private:
    std::vector<at::Tensor> tensors() const { return {sum, square, histogram, histogramNoSink}; } // they share storage
};

} // namespace linnet::core
