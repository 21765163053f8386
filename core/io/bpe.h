// Byte pair encoding of one word: vocabulary and ranked merges.
#pragma once

#include "core/io/tokenizer.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace linnet::core {

struct TextHash { // lets maps keyed by string be searched by string_view
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
template <class Value> using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

struct BpeOptions {
    std::optional<std::string> unknownToken; // stands for a character that the vocabulary lacks; without it that is dropped
    bool fuseUnknown = false;                // neighbouring unknown characters become one token
    bool ignoreMerges = false;               // a word that is a token is that token, whatever the merges say (Llama 3)
};

class Bpe {
public:
    // `merges` in order of rank. Throws Malformed naming `origin` and the token, id or merge that is wrong: ids negative or
    // given twice, a merge that names a token not in the vocabulary or comes twice.
    Bpe(TextMap<TokenId> vocabulary, const std::vector<std::pair<std::string, std::string>>& merges, const BpeOptions& options,
        const std::string& origin);

    // Appends the ids of a word in byte-level characters: O(n log n).
    void encodeWord(std::string_view word, std::vector<TokenId>& ids) const;

    std::optional<TokenId> find(std::string_view token) const;
    const TextMap<TokenId>& vocabulary() const { return m_vocabulary; }

private:
    struct Merge {
        std::int32_t rank;
        TokenId result;
    };
    const Merge* findMerge(TokenId left, TokenId right) const;
    std::vector<TokenId> characters(std::string_view word) const;

    TextMap<TokenId> m_vocabulary;
    std::unordered_map<std::uint64_t, Merge> m_merges; // left id in the upper half, right id in the lower
    std::optional<TokenId> m_unknown;
    bool m_fuseUnknown = false;
    bool m_ignoreMerges = false;
};

} // namespace linnet::core
