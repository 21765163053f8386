// A tokenizer put together from its parts; tokenizer.json and GGUF metadata both end up here.
#pragma once

#include "core/io/added_tokens.h"
#include "core/io/bpe.h"
#include "core/io/pretokenizer.h"
#include "core/io/tokenizer.h"
#include "core/io/unicode_text.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace linnet::core {

// What is known of a tokenizer beside how it cuts text.
struct TokenizerIdentity {
    std::string origin;                               // file or folder, for messages
    std::string chatTemplate;                         // "" where there is none
    std::map<std::string, std::string> specialTokens; // "bos_token", "eos_token", ...: as a chat template sees them
    std::set<TokenId> endOfText;
    std::string tokenizerJson, tokenizerConfigJson; // texts of the files
};

struct TokenizerParts {
    std::string kind; // "qwen2", "llama-bpe", "smollm", "gpt-2" or "custom": the pre-tokeniser's name in GGUF
    std::vector<NormalForm> normalizer;
    std::vector<Pretokenizer::Step> pretokenizer;
    Bpe bpe;
    std::vector<AddedToken> added;
    std::vector<TokenId> prefix, suffix; // what the post-processor adds
};

class BpeTokenizer final : public Tokenizer {
public:
    BpeTokenizer(TokenizerParts parts, TokenizerIdentity identity);

    std::vector<TokenId> encode(std::string_view utf8, bool addSpecial) const override;
    std::string decode(const std::vector<TokenId>& ids) const override;
    std::string tokenText(TokenId id) const override { return decode({id}); }
    std::int64_t vocabSize() const override { return static_cast<std::int64_t>(m_texts.size()); }
    std::string type() const override { return "bpe (" + m_kind + ")"; }
    bool isEndOfText(TokenId id) const override { return m_identity.endOfText.contains(id); }
    std::string applyChatTemplate(const std::vector<ChatMessage>& messages, bool addGenerationPrompt) const override;
    std::string chatTemplate() const override { return m_identity.chatTemplate; }
    std::string tokenizerJson() const override { return m_identity.tokenizerJson; }
    std::string tokenizerConfigJson() const override { return m_identity.tokenizerConfigJson; }

private:
    class Run; // one call of encode

    std::vector<std::string> m_texts; // of each id; "" for an id that is given to no token
    AddedTokenFinder m_rawTokens, m_normalizedTokens;
    std::string m_kind;
    std::vector<NormalForm> m_normalizer;
    Pretokenizer m_pretokenizer;
    Bpe m_bpe;
    std::vector<TokenId> m_prefix, m_suffix;
    TokenizerIdentity m_identity;
};

} // namespace linnet::core
