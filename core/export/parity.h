// Whether a folder says what was exported: the student's own logits on a fixed probe lie beside the weights, with a hash of every file.
#pragma once

#include "core/export/export.h"
#include "core/model/model.h"

namespace linnet::core {

inline constexpr const char* kParityFile = "parity.safetensors"; // ids, logits [8, V] of the last positions, greedy: verify needs no student
inline constexpr const char* kHashFile = "hashes.json";          // a probe alone misses most flipped bits

void writeParity(const Model& student, const std::filesystem::path& folder, const Control& control);
// `model`: the folder, opened. Malformed where the parity file does not fit it. Progress: stage "verify".
Parity compareParity(const Model& model, const std::filesystem::path& folder, const Control& control);
// Throws Internal above 1e-6 nats of mean KL in f32, above 0.05 in narrower types.
void requireParity(const Parity& parity, const std::string& dtype);

using Hashes = std::map<std::string, std::string>;
// Of `files` but README.md, which is a person's to edit, written to hashes.json.
Hashes writeHashes(const std::filesystem::path& folder, const std::vector<std::string>& files, const Control& control);
// Reads every file again. Malformed naming the file that is missing, differs or was added later, where a runtime would read it (weights, code,
// configuration, tokenizers, tokens).
Hashes checkHashes(const std::filesystem::path& folder, const Control& control);

} // namespace linnet::core
