// One text as it grows: prefill, then token by token. What generation and the side-by-side comparison share.
#pragma once

#include "core/model/cache.h"
#include "core/model/sampling.h"

#include <functional>
#include <vector>

namespace linnet::core {

void checkIds(const Model& model, const std::vector<TokenId>& ids);   // throws Usage: none, or one outside of the vocabulary
void checkOptions(const GenerateOptions& options);                    // throws Usage naming the option
at::Tensor idTensor(const std::vector<TokenId>& ids);                 // [1, T] int64

at::Tensor hostLogits(const Model& model, const at::Tensor& hidden);  // [.., hidden] -> [.., V] float32 on the CPU

// Text appears only once its last character is whole: a token may end inside a UTF-8 sequence.
class PieceStream {
public:
    explicit PieceStream(const Tokenizer& tokenizer) : m_tokenizer(tokenizer) {}
    std::string add(TokenId id); // what has become whole with this token; "" while a character is open
    std::string flush();         // what is left

private:
    const Tokenizer& m_tokenizer;
    std::vector<TokenId> m_waiting;
};

class Decoder {
public:
    // `model` and `mixers` must outlive it.
    Decoder(const Model& model, const Mixers& mixers, const GenerateOptions& options);

    void prefill(const std::vector<TokenId>& prompt, const Control& control);
    bool done() const { return m_made.endOfText || static_cast<std::int64_t>(m_made.ids.size()) >= m_options.tokens; }
    struct Step {
        TokenId id = 0;
        std::string piece;
    };
    // Picks the next token from the logits and feeds it, unless it was the last. Not after done().
    Step step(const Control& control);
    // Rest of the text that no step has given: not empty only where the tokens end inside a character.
    std::string flush() { return m_stream.flush(); }
    const at::Tensor& logits() const { return m_logits; } // of the next token, [1, V] float32 on the host
    // Ids so far; seconds and end so far; text and speed are set by finished().
    const Generation& made() const { return m_made; }
    Generation finished() const;

private:
    const Model& m_model;
    const Mixers& m_mixers;
    GenerateOptions m_options;
    Cache m_cache;
    Sampler m_sampler;
    PieceStream m_stream;
    at::Tensor m_logits;
    Generation m_made;
};

double tokensPerSecond(const Generation& made); // of decoding; the first token's work is the prefill's. 0: not known yet

} // namespace linnet::core
