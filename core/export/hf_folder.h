// The self-contained Hugging Face folder: config with auto_map, our modelling file, weights, tokenizer, recipe, report, card.
#pragma once

#include "core/export/export.h"
#include "core/model/model.h"

namespace linnet::core {

extern const char* const kModelingPython; // resources/modeling_linnet.py, compiled in

Json hfConfig(const Model& model, const std::string& dtype); // config.json; throws Unsupported where it can't be expressed
std::string modelCard(const Model& model, const std::filesystem::path& student, const std::string& dtype);
// Writes everything but the parity file into an existing folder; returns the file names.
std::vector<std::string> writeHfFolder(const Model& model, const std::filesystem::path& student, const std::filesystem::path& folder,
                                       const std::string& dtype, const Control& control);

} // namespace linnet::core
