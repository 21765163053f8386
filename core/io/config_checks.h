// What both readers of a configuration check, so that no later division, allocation or loop meets a hostile number.
#pragma once

#include "core/io/model_config.h"

#include <cstdint>
#include <string>

namespace linnet::core {

constexpr std::int64_t kMostLayers = 512, kMostHeads = 1024, kLargestHeadDim = 1024, kLargestWidth = 1 << 18,
                       kLargestVocabulary = 1 << 22, kMostPositions = 1 << 28;

// Relations between the numbers: heads and kvHeads, an even headDim, token ids in the vocabulary, finite positive reals.
// Each range was checked when its key was read. Failure{Malformed} names the file, the quantity and its value.
void checkModelConfig(const ModelConfig& config, const std::string& origin);

// What a float32 in a file was meant to be: 1e-5f gives 1e-5, not 9.99999974737875e-06.
double shortestDouble(double storedAsFloat);

} // namespace linnet::core
