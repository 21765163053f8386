// The study: every way of converting one teacher, at every share of kept layers, on one text and in one process, so that all numbers can be
// compared (`linnet-cli study`). Torch-free.
//
// The text is cut at documents into regions that follow each other: evaluation, selection, calibration, and training, which gets the rest.
// OUT/results.json holds one row a measurement and is written after each; what is there is not measured again. OUT/results.md is made of
// it and nothing else. OUT/banks holds aligned layers while rows need them, and is gone in the end.
#pragma once

#include "core/base/control.h"
#include "core/base/json.h"
#include "core/base/result.h"
#include "core/model/model_api.h"

#include <filesystem>
#include <string>

namespace linnet::core {

struct StudyOptions {
    ModelPtr teacher;
    std::filesystem::path data;   // .jsonl, keys text and genre
    std::filesystem::path out;
    bool quick = false;           // everything that the study does, on a scale for tests
    std::int64_t seeds = 3;       // where a seed matters
    std::string version, command; // for the head of results.md
};

// What results.json holds: head{teacher, corpus, scale, device, ..}, tables[], rows[], selections{}, banks{}, timing{}. A row: method, bank
// (its name has the recipe's hash), seed, seq_len, layers (all, even, a selection method, none), share, kept_layers[], loss, ratio (perplexity
// / the teacher's), log_ratio, log_ratio_se, kl, kl_se, top1, seconds. Refuses an OUT of another teacher, text, device or scale.
Result<Json> runStudy(const StudyOptions& options, const Control& control);

std::string studyTables(const Json& results); // results.md

} // namespace linnet::core
