// A model whose headers are read and checked, before any weight is.
#pragma once

#include "core/base/control.h"
#include "core/io/model_files.h"

#include <map>
#include <set>

namespace linnet::core {

struct OpenedModel {
    ModelFiles files;
    std::shared_ptr<const WeightSource> student; // holds linear_attn tensors; nullptr for a teacher
    std::string mixer;                           // of the student
    std::map<std::int64_t, double> headNormEps{}; // by layer, where Mixer::headNormEps is set
    std::map<std::int64_t, double> qkNormEps{};   // by layer, where Mixer::qkNormEps is set
    std::string contents{};                      // what weightContents of the teacher's files must be; "": any (only an adapter says it)
    std::filesystem::path path{};                // what was opened

    std::set<std::int64_t> convertedLayers() const;
};

// Key of the failure's context where models refer to models (runs and adapters to their teachers) without an end.
inline constexpr const char* kEndlessLinks = "links";
// `links`: from how many models in a row this one was referred to. Throws Failure naming file, folder or tensor.
OpenedModel openFiles(const std::filesystem::path& path, int links = 0);
void checkContents(const OpenedModel& opened, const Control& control); // of the teacher's files, all bytes; Malformed with both hashes
OpenedModel openQwen35(const std::filesystem::path& folder); // config.json has model_type qwen3_5_text
OpenedModel openFla(const std::filesystem::path& folder);  // config.json has model_type gated_deltanet; Unsupported names an option that we have not

std::uint64_t parameterCount(const ModelConfig& config); // tied embeddings once

} // namespace linnet::core
