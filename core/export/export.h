// Checkpoints for other runtimes. Every export is reloaded and compared before it is called done; the write is atomic.
#pragma once

#include "core/base/control.h"
#include "core/base/json.h"
#include "core/base/result.h"
#include "core/model/model_api.h"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace linnet::core {

struct ExportOptions {
    std::string format = "hf"; // one of kExportFormats
    std::string dtype = "f32"; // f32 | bf16 | f16; gguf also q8_0
    bool verify = true;
    bool lift = false;                          // where the format needs it (Fidelity::Lifted)
    std::uint64_t shardBytes = 5'000'000'000;   // of a safetensors file at most; a tensor is never split
};

struct Parity { // of the reloaded folder against the student in memory, on a fixed probe
    double maxAbsLogit = 0, meanAbsLogit = 0, meanKl = 0, top1Agreement = 0;
    std::int64_t tokens = 0;
    std::int64_t greedyTokens = 0, greedySame = 0; // of the probe's continuation: how many, and how many from its start are the same; 0: an older folder has none
};

struct ExportReport {
    std::filesystem::path folder;
    std::string format, dtype;
    std::vector<std::string> files;
    std::map<std::string, std::string> hashes; // of every file but the card, which a person may edit
    std::uint64_t bytes = 0;                   // of all files together
    bool exact = false; // the stored values are the student's own, bit for bit
    std::string fidelity; // fidelityName of what was written
    std::vector<std::string> notes; // costs and limits: of a lift, of a runtime
    bool verified = false;
    Parity parity;
};
Json exportReportToJson(const ExportReport& report);

// What an export takes on the disk: the weights and what lies beside them; at least what exportModel asks for.
std::uint64_t exportBytes(const ModelInfo& student, const ExportOptions& options);

// `student`: a run folder or a model folder. `out` must not exist or be empty; it appears whole or not at all.
Result<ExportReport> exportModel(const std::filesystem::path& student, const std::filesystem::path& out,
                                 const ExportOptions& options, const RunOptions& run, const Control& control = {});
Result<ExportReport> verifyExport(const std::filesystem::path& folder, const RunOptions& run, const Control& control = {});

} // namespace linnet::core
