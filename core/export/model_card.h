// README.md of an export: what it is, what was measured, how it is loaded, whose licence it has.
#pragma once

#include "core/convert/convert.h"
#include "core/export/load_lines.h"
#include "core/export/provenance.h"

namespace linnet::core {

struct CardFacts {
    Provenance provenance;
    std::string teacherType;       // llama, qwen3, ...
    std::optional<Recipe> recipe;  // of the run
    std::optional<Report> report;  // its measurements
    std::optional<Parity> parity;  // of the reloaded folder
    std::vector<LoadLines> loading;
    bool ownCode = false;          // the modelling file is in the folder
};
// Markdown under YAML front matter that the Hub accepts (license, base_model, library_name, pipeline_tag, tags).
std::string modelCard(const CardFacts& facts);

} // namespace linnet::core
