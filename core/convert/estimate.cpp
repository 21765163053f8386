#include "core/torch_pch.h"

#include "core/convert/convert.h"

#include "core/model/device.h"

#include <chrono>

namespace linnet::core {
namespace {

// FLOP/s of a float32 product on the device, measured in some milliseconds.
double deviceSpeed(const at::Device& device) {
    const c10::InferenceMode inference;
    const at::Tensor a = at::rand({512, 512}, at::TensorOptions(device).dtype(at::kFloat));
    a.matmul(a).sum().item<float>();
    const auto begin = std::chrono::steady_clock::now();
    constexpr int kRepeats = 8;
    at::Tensor b = a;
    for (int i = 0; i < kRepeats; ++i)
        b = a.matmul(b) * 1e-3;
    b.sum().item<float>();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return kRepeats * 2.0 * 512 * 512 * 512 / std::max(seconds, 1e-6);
}

} // namespace

Result<Estimate> estimateRun(const Recipe& recipe, const ModelInfo& teacher) {
    return guarded([&] {
        const auto& c = teacher.config;
        Estimate estimate;
        const auto kept = keptLayers(recipe, c.layers);
        estimate.keptLayers = kept ? static_cast<std::int64_t>(kept->size()) : recipe.keep.count;
        estimate.convertedLayers = c.layers - estimate.keptLayers;
        const auto device = deviceFromName(recipe.device);
        const auto width = c.heads * c.headDim;
        const double mixerParameters = static_cast<double>(c.hiddenSize) * static_cast<double>(5 * width + 2 * c.heads);
        const double layerParameters = static_cast<double>(c.hiddenSize) * static_cast<double>(2 * width + 2 * c.kvHeads * c.headDim + 3 * c.intermediateSize);
        const double headParameters = static_cast<double>(c.hiddenSize) * static_cast<double>(c.vocabSize);
        const auto calibration = static_cast<double>(recipe.calibrationTokens), evaluation = static_cast<double>(recipe.evaluationTokens);
        const auto layers = static_cast<double>(c.layers), converted = static_cast<double>(estimate.convertedLayers);
        const bool ranked = recipe.keep.kind == KeepRule::Kind::Method;
        const double trained = static_cast<double>(recipe.align.steps * recipe.align.batch * recipe.seqLen) * converted;
        const double flop = 2 * (calibration * layers * layerParameters + evaluation * 4 * (layers * layerParameters + 2 * headParameters) +
                                 (ranked ? static_cast<double>(recipe.selectionTokens) * layers * (0.5 * layers * layerParameters + headParameters) : 0)) +
                            2 * 3 * trained * (mixerParameters + 70e3 * static_cast<double>(c.heads));
        estimate.seconds = flop / deviceSpeed(device) * 1.3; // what is not matrix products
        estimate.tokens = static_cast<std::int64_t>(calibration + 4 * evaluation + trained);
        const std::uint64_t capture = static_cast<std::uint64_t>(recipe.calibrationTokens * (3 * c.hiddenSize + width)) * 4;
        const auto mixerBytes = static_cast<std::uint64_t>(mixerParameters) * 4;
        estimate.memoryBytes = teacher.weightBytes + capture + mixerBytes * static_cast<std::uint64_t>(8 + 2 * estimate.convertedLayers);
        estimate.diskBytes = mixerBytes * static_cast<std::uint64_t>(2 * estimate.convertedLayers + 4) + (64 << 20);
        estimate.teacherCacheBytesAt32k = teacher.cacheBytesPerToken * 32768; // in the dtype that the teacher runs in
        const auto state = static_cast<std::uint64_t>(estimate.convertedLayers * c.heads * c.headDim * c.headDim) * 4;
        estimate.cacheBytesAt32k = estimate.teacherCacheBytesAt32k / static_cast<std::uint64_t>(c.layers) * static_cast<std::uint64_t>(estimate.keptLayers) + state;
        return estimate;
    });
}

} // namespace linnet::core
