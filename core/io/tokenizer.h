// Byte-level BPE tokenizers from tokenizer.json or GGUF metadata.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace linnet::core {

using TokenId = std::int32_t;

struct ChatMessage {
    std::string role, content;
};

// Immutable once made; all members may be called from several threads. Throws Failure (core-internal interface).
class Tokenizer {
public:
    virtual ~Tokenizer() = default;
    // Added (special) tokens in the text are found; the post-processor's tokens (BOS) are added if `addSpecial`.
    virtual std::vector<TokenId> encode(std::string_view utf8, bool addSpecial) const = 0;
    // Special tokens included in the text. Bytes that are no valid UTF-8 become U+FFFD as Hugging Face does. Ids out of range
    // are an error naming the id.
    virtual std::string decode(const std::vector<TokenId>& ids) const = 0;
    virtual std::string tokenText(TokenId id) const = 0; // one token as shown in a table
    virtual std::int64_t vocabSize() const = 0;
    virtual std::string type() const = 0; // "bpe (qwen2)", "bpe (llama-bpe)", "bpe (smollm)", "bpe (gpt-2)"
    virtual bool isEndOfText(TokenId id) const = 0;
    // The model's chat template applied (Jinja subset), text ready for encode(…, false). Throws Unsupported without template.
    virtual std::string applyChatTemplate(const std::vector<ChatMessage>& messages, bool addGenerationPrompt) const = 0;
    virtual std::string chatTemplate() const = 0; // "" where there is none
    // A complete tokenizer.json / tokenizer_config.json that Hugging Face loads to the same tokenizer; for folders the
    // original files' text, for GGUF files made from the metadata.
    virtual std::string tokenizerJson() const = 0;
    virtual std::string tokenizerConfigJson() const = 0;
};

} // namespace linnet::core
