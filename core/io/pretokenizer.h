// Cuts text into the words that BPE works on, step by step, as tokenizer.json's "pre_tokenizer" says.
#pragma once

#include "core/io/regex.h"

#include <deque>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace linnet::core {

// What becomes of the matches of a split: pieces of their own, dropped, joined with a neighbour, or joined with each other.
enum class SplitBehavior { Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous };

struct SplitStep { // "Split", and "Digits" as a split on \p{N}
    Regex regex;
    SplitBehavior behavior = SplitBehavior::Isolated;
    bool invert = false; // the text between the matches counts as the matches
};

struct ByteLevelStep {        // "ByteLevel": cuts with GPT-2's pattern if asked, then writes each byte as its character
    std::vector<Regex> regex; // none or one
    bool addPrefixSpace = false;
};

inline constexpr const char* kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Words of a text; they point into `text` given to Pretokenizer::apply or into `storage`.
struct Words {
    std::vector<std::string_view> words;
    std::deque<std::string> storage;
};

class Pretokenizer {
public:
    using Step = std::variant<SplitStep, ByteLevelStep>;
    explicit Pretokenizer(std::vector<Step> steps) : m_steps(std::move(steps)) {}
    Words apply(std::string_view text) const; // text: valid UTF-8, normalised, without added tokens

private:
    std::vector<Step> m_steps;
};

} // namespace linnet::core
