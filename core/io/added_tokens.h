// Tokens that are found in the text before BPE sees it: special tokens and others that a user added.
#pragma once

#include "core/io/bpe.h"

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace linnet::core {

struct AddedToken {
    TokenId id = 0;
    std::string content;
    bool special = false;
    bool singleWord = false; // only where no word character touches it
    bool leftStrip = false;  // takes the white space before it
    bool rightStrip = false; // and behind it
    bool normalized = false; // searched in the normalised text
};

struct TextPart { // a stretch of text, or an added token
    std::string_view text;
    std::optional<TokenId> token;
};

// Finds tokens from left to right, the longest at each place, as Hugging Face's AddedVocabulary does.
class AddedTokenFinder {
public:
    // `needles`: the text to search for and the token it stands for.
    explicit AddedTokenFinder(const std::vector<std::pair<std::string, AddedToken>>& needles);
    std::vector<TextPart> split(std::string_view text) const;

private:
    const AddedToken* longestAt(std::string_view text, std::size_t position, std::size_t& end) const;

    struct Node {
        std::map<char, std::size_t> children;
        int token = -1;
    };
    std::vector<Node> m_nodes;       // a trie; [0] is the root
    std::array<bool, 256> m_first{}; // bytes that some token starts with
    std::vector<AddedToken> m_tokens;
};

} // namespace linnet::core
