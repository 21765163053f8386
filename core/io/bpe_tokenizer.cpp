#include "core/io/bpe_tokenizer.h"

#include "core/base/result.h"
#include "core/io/byte_level.h"
#include "core/io/chat_template.h"

namespace linnet::core {
namespace {

constexpr TokenId kMaxTokens = 1 << 23; // of any id: a stray one must not make us allocate gigabytes

std::string applyForms(std::string text, const std::vector<NormalForm>& forms) {
    for (const NormalForm form : forms)
        text = normalize(text, form);
    return text;
}

AddedTokenFinder finder(const TokenizerParts& parts, bool normalized) {
    std::vector<std::pair<std::string, AddedToken>> needles;
    for (const AddedToken& token : parts.added)
        if (token.normalized == normalized)
            needles.emplace_back(normalized ? applyForms(token.content, parts.normalizer) : token.content, token);
    return AddedTokenFinder(needles);
}

// Text of every id; checks that added tokens and vocabulary agree.
std::vector<std::string> textsById(const TokenizerParts& parts, const std::string& origin) {
    std::vector<std::string> texts;
    const auto put = [&](TokenId id, const std::string& text) {
        const auto what = origin + ": token \"" + text + "\" has id " + std::to_string(id);
        if (id < 0 || id >= kMaxTokens)
            fail(ErrorCode::Malformed, what + "; ids from 0 to " + std::to_string(kMaxTokens - 1) + " are expected",
                 {{"file", origin}, {"token", text}});
        const auto index = static_cast<std::size_t>(id);
        if (index >= texts.size())
            texts.resize(index + 1);
        if (!texts[index].empty() && texts[index] != text)
            fail(ErrorCode::Malformed, what + ", which is also the id of \"" + texts[index] + "\"",
                 {{"file", origin}, {"token", text}});
        texts[index] = text;
    };
    for (const auto& [text, id] : parts.bpe.vocabulary())
        put(id, text);
    TextMap<TokenId> seen;
    for (const AddedToken& token : parts.added) {
        const auto known = parts.bpe.find(token.content);
        if (known && *known != token.id)
            fail(ErrorCode::Malformed,
                 origin + ": added token \"" + token.content + "\" has id " + std::to_string(token.id) +
                     ", but the vocabulary gives it id " + std::to_string(*known),
                 {{"file", origin}, {"token", token.content}});
        if (!seen.emplace(token.content, token.id).second)
            fail(ErrorCode::Malformed, origin + ": added token \"" + token.content + "\" comes twice",
                 {{"file", origin}, {"token", token.content}});
        put(token.id, token.content);
    }
    for (const AddedToken& token : parts.added) // Hugging Face decodes these to what it searches for
        if (token.normalized)
            texts[static_cast<std::size_t>(token.id)] = applyForms(token.content, parts.normalizer);
    return texts;
}

} // namespace

// Keeps the words already cut in this call: most words of a text come again and again.
class BpeTokenizer::Run {
public:
    explicit Run(const BpeTokenizer& tokenizer) : m_tokenizer(tokenizer) {}

    void encodePlain(std::string_view text) {
        const Words words = m_tokenizer.m_pretokenizer.apply(text);
        for (const auto word : words.words) {
            auto found = m_cache.find(word);
            if (found == m_cache.end()) {
                std::vector<TokenId> wordIds;
                m_tokenizer.m_bpe.encodeWord(word, wordIds);
                found = m_cache.emplace(std::string(word), std::move(wordIds)).first;
            }
            ids.insert(ids.end(), found->second.begin(), found->second.end());
        }
    }

    void encodeParts(const std::vector<TextPart>& parts, const auto& encodeText) {
        for (const TextPart& part : parts) {
            if (part.token)
                ids.push_back(*part.token);
            else
                encodeText(part.text);
        }
    }

    std::vector<TokenId> ids;

private:
    const BpeTokenizer& m_tokenizer;
    TextMap<std::vector<TokenId>> m_cache;
};

BpeTokenizer::BpeTokenizer(TokenizerParts parts, TokenizerIdentity identity)
    : m_texts(textsById(parts, identity.origin)), m_rawTokens(finder(parts, false)), m_normalizedTokens(finder(parts, true)),
      m_kind(std::move(parts.kind)), m_normalizer(std::move(parts.normalizer)), m_pretokenizer(std::move(parts.pretokenizer)),
      m_bpe(std::move(parts.bpe)), m_prefix(std::move(parts.prefix)), m_suffix(std::move(parts.suffix)),
      m_identity(std::move(identity)) {}

std::vector<TokenId> BpeTokenizer::encode(std::string_view utf8, bool addSpecial) const {
    const std::string text = replaceInvalidUtf8(utf8);
    Run run(*this);
    if (addSpecial)
        run.ids = m_prefix;
    run.encodeParts(m_rawTokens.split(text), [&](std::string_view raw) {
        const std::string normal = applyForms(std::string(raw), m_normalizer);
        run.encodeParts(m_normalizedTokens.split(normal), [&](std::string_view plain) { run.encodePlain(plain); });
    });
    if (addSpecial)
        run.ids.insert(run.ids.end(), m_suffix.begin(), m_suffix.end());
    return std::move(run.ids);
}

std::string BpeTokenizer::decode(const std::vector<TokenId>& ids) const {
    std::string bytes;
    for (const TokenId id : ids) {
        if (id < 0 || static_cast<std::size_t>(id) >= m_texts.size())
            fail(ErrorCode::Usage,
                 "token id " + std::to_string(id) + " is out of range: " + m_identity.origin + " has ids 0 to " +
                     std::to_string(m_texts.size() - 1),
                 {{"id", std::to_string(id)}, {"expected", "0 to " + std::to_string(m_texts.size() - 1)}});
        appendTokenBytes(bytes, m_texts[static_cast<std::size_t>(id)]);
    }
    return replaceInvalidUtf8(bytes);
}

std::string BpeTokenizer::applyChatTemplate(const std::vector<ChatMessage>& messages, bool addGenerationPrompt) const {
    if (m_identity.chatTemplate.empty())
        fail(ErrorCode::Unsupported, m_identity.origin + ": the tokenizer has no chat template; give the prompt as plain text",
             {{"file", m_identity.origin}});
    return renderChatTemplate(m_identity.chatTemplate, {messages, addGenerationPrompt, m_identity.specialTokens},
                              m_identity.origin);
}

} // namespace linnet::core
