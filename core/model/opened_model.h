// A model whose headers are read and checked, before any weight is.
#pragma once

#include "core/io/model_files.h"

#include <set>

namespace linnet::core {

struct OpenedModel {
    ModelFiles files;
    std::shared_ptr<const WeightSource> student; // holds linear_attn tensors; nullptr for a teacher
    std::string mixer;                           // of the student

    std::set<std::int64_t> convertedLayers() const;
};

OpenedModel openFiles(const std::filesystem::path& path); // throws Failure

std::uint64_t parameterCount(const ModelConfig& config); // tied embeddings once

} // namespace linnet::core
