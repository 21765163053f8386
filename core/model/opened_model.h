// A model whose headers are read and checked, before any weight is.
#pragma once

#include "core/io/model_files.h"

#include <map>
#include <set>

namespace linnet::core {

struct OpenedModel {
    ModelFiles files;
    std::shared_ptr<const WeightSource> student; // holds linear_attn tensors; nullptr for a teacher
    std::string mixer;                           // of the student
    std::map<std::int64_t, double> headNormEps{}; // by layer, where Mixer::headNormEps is set

    std::set<std::int64_t> convertedLayers() const;
};

OpenedModel openFiles(const std::filesystem::path& path); // throws Failure
OpenedModel openQwen35(const std::filesystem::path& folder); // config.json has model_type qwen3_5_text
OpenedModel openFla(const std::filesystem::path& folder);  // config.json has model_type gated_deltanet; Unsupported names an option that we have not

std::uint64_t parameterCount(const ModelConfig& config); // tied embeddings once

} // namespace linnet::core
