// Text to token windows, as the command-line contract defines it; the three disjoint slices of a conversion.
#pragma once

#include "core/base/control.h"
#include "core/io/tokenizer.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace linnet::core {

// Documents of TEXT: .txt files (one document each), .jsonl files (one a line, key `text`), folders of them (sorted by name, recursive).
// `default` must be resolved to a path by the caller. Throws Failure naming file and line.
std::vector<std::string> readDocuments(const std::vector<std::string>& paths);

struct TokenWindows {
    std::vector<TokenId> ids; // row-major [sequences, seqLen]
    std::int64_t sequences = 0, seqLen = 0;
    std::int64_t tokens() const { return sequences * seqLen; }
    std::string hash() const; // of ids and shape
    TokenWindows rows(const std::vector<std::int64_t>& indices) const;
};

// Documents joined by "\n\n", tokenised once without special tokens, cut into cold windows, tail dropped. maxTokens 0 = all,
// otherwise the first maxTokens / seqLen windows. Less than one window is an error (found and needed token counts).
TokenWindows tokenWindows(const Tokenizer& tokenizer, const std::vector<std::string>& documents, std::int64_t seqLen,
                          std::int64_t maxTokens = 0);

struct Slices {
    TokenWindows calibration, selection, evaluation;
    TokenWindows training{}; // what the others left, where it was asked for
};

// Disjoint by construction: each window goes to one slice at most. Token counts are rounded down to whole windows (at least
// one each where asked for more than 0); the windows used are spread evenly over the text and interleaved in proportion, so
// that every slice sees all of it. Fewer windows than asked for is an error naming both counts.
Slices splitSlices(const TokenWindows& all, std::int64_t calibrationTokens, std::int64_t selectionTokens,
                   std::int64_t evaluationTokens);
// Of the windows that the three slices leave, `tokens` (0: all), spread evenly: none within 6400 tokens of one of selection or evaluation
// where the text is long enough to leave half of them so, fewer tokens or none else. None left is an error.
TokenWindows remainingWindows(const TokenWindows& all, const Slices& slices, std::int64_t tokens);

// int32 tensors calibration, selection, evaluation, training [sequences, seq_len] (an empty slice is left out).
void saveSlices(const std::filesystem::path& file, const Slices& slices);
Slices loadSlices(const std::filesystem::path& file);

} // namespace linnet::core
