#include "core/torch_pch.h"

#include "core/model/model_api.h"

#include "core/model/cache.h"
#include "core/model/sampling.h"

#include <c10/core/InferenceMode.h>

#include <chrono>

namespace linnet::core {
namespace {

// Tokens at once: keeps stops quick and intermediate tensors small.
std::int64_t prefillPiece(const Model& model) {
    return model.device().is_cuda() ? 4096 : 512;
}

constexpr std::int64_t kLogitRows = 256;    // rows of logits made at once

double secondsSince(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void checkIds(const Model& model, const std::vector<TokenId>& ids) {
    if (ids.empty())
        fail(ErrorCode::Usage, "no tokens were given: the model needs at least one");
    for (const TokenId id : ids)
        if (id < 0 || id >= model.config().vocabSize)
            fail(ErrorCode::Usage,
                 "token id " + std::to_string(id) + " is outside of the vocabulary, expected 0 to " +
                     std::to_string(model.config().vocabSize - 1),
                 {{"id", std::to_string(id)}, {"expected", std::to_string(model.config().vocabSize)}});
}

void checkOptions(const GenerateOptions& o) {
    const auto refuse = [](const std::string& name, double found, const std::string& expected) {
        fail(ErrorCode::Usage, name + " is " + std::to_string(found) + ", expected " + expected, {{"option", name}});
    };
    if (o.tokens < 0)
        refuse("tokens", static_cast<double>(o.tokens), "0 or more");
    if (!(o.temperature > 0) || !std::isfinite(o.temperature))
        refuse("temperature", o.temperature, "a number above 0");
    if (!(o.topP > 0 && o.topP <= 1))
        refuse("top-p", o.topP, "a number above 0, at most 1");
    if (o.topK < 0)
        refuse("top-k", static_cast<double>(o.topK), "0 (off) or more");
}

bool isEnd(const Model& model, TokenId id) {
    const auto& ends = model.config().endTokens;
    return ends.empty() ? modelTokenizer(model).isEndOfText(id) : std::find(ends.begin(), ends.end(), id) != ends.end();
}

// Many vocabularies are padded: the model has ids that its tokenizer doesn't know.
bool hasText(const Tokenizer& tokenizer, TokenId id) {
    return id < tokenizer.vocabSize();
}

// Text appears only once its last character is whole: a token may end inside a UTF-8 sequence.
class PieceStream {
public:
    PieceStream(const Tokenizer& tokenizer, const std::function<void(const std::string&)>& onToken)
        : m_tokenizer(tokenizer), m_onToken(onToken) {}

    void add(TokenId id) {
        if (!m_onToken || !hasText(m_tokenizer, id))
            return;
        m_waiting.push_back(id);
        const std::string text = m_tokenizer.decode(m_waiting);
        constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
        const bool incomplete = text.size() >= kReplacement.size() && text.ends_with(kReplacement);
        if (!incomplete || m_waiting.size() > 4) // a character has at most 4 bytes: more tokens won't complete it
            flush();
    }
    void flush() {
        if (m_onToken && !m_waiting.empty())
            m_onToken(m_tokenizer.decode(m_waiting));
        m_waiting.clear();
    }

private:
    const Tokenizer& m_tokenizer;
    const std::function<void(const std::string&)>& m_onToken;
    std::vector<TokenId> m_waiting;
};

at::Tensor idTensor(const std::vector<TokenId>& ids) {
    return at::tensor(at::ArrayRef<TokenId>(ids), at::kInt).to(at::kLong).unsqueeze(0);
}

// Runs ids [B, T] through the model in pieces; the final hidden state of the last token, [B, hidden].
at::Tensor prefill(const Model& model, const at::Tensor& ids, Cache& cache, const Control& control) {
    at::Tensor last;
    const std::int64_t piece = prefillPiece(model);
    for (std::int64_t start = 0; start < ids.size(1); start += piece) {
        const std::int64_t count = std::min(piece, ids.size(1) - start);
        last = forwardHidden(model, model.mixers(), ids.narrow(1, start, count), control, &cache).select(1, count - 1);
    }
    return last;
}

at::Tensor hostLogits(const Model& model, const at::Tensor& hidden) {
    return model.logits(hidden).to(at::kCPU, at::kFloat).contiguous();
}

Generation generateWith(const Model& model, const std::vector<TokenId>& prompt, const GenerateOptions& options,
                        const std::function<void(const std::string&)>& onToken, const Control& control) {
    Generation result;
    Cache cache(model);
    Sampler sampler(options);
    PieceStream stream(modelTokenizer(model), onToken);
    const auto start = std::chrono::steady_clock::now();
    at::Tensor logits = hostLogits(model, prefill(model, idTensor(prompt), cache, control));
    result.prefillSeconds = secondsSince(start);
    const auto decodeStart = std::chrono::steady_clock::now();
    while (static_cast<std::int64_t>(result.ids.size()) < options.tokens) {
        const auto id = static_cast<TokenId>(sampler.pick(logits.const_data_ptr<float>(), logits.numel()));
        result.ids.push_back(id);
        if (isEnd(model, id)) {
            result.endOfText = true;
            break;
        }
        stream.add(id);
        if (static_cast<std::int64_t>(result.ids.size()) < options.tokens)
            logits = hostLogits(model, forwardHidden(model, model.mixers(), idTensor({id}), control, &cache).select(1, 0));
    }
    stream.flush();
    result.decodeSeconds = secondsSince(decodeStart);
    // The first token's work is the prefill's.
    const auto decoded = static_cast<double>(result.ids.size()) - 1;
    result.tokensPerSecond = decoded > 0 && result.decodeSeconds > 0 ? decoded / result.decodeSeconds : 0;
    std::vector<TokenId> shown = result.ids;
    if (result.endOfText)
        shown.pop_back();
    std::erase_if(shown, [&](TokenId id) { return !hasText(modelTokenizer(model), id); });
    result.text = modelTokenizer(model).decode(shown);
    return result;
}

} // namespace

Result<std::vector<float>> sequenceLogits(const Model& model, const std::vector<TokenId>& ids, const Control& control) {
    return guarded([&] {
        checkIds(model, ids);
        const c10::InferenceMode inference;
        const at::Tensor hidden = forwardHidden(model, model.mixers(), idTensor(ids), control).squeeze(0);
        const auto rows = static_cast<std::int64_t>(ids.size()), vocabulary = model.config().vocabSize;
        std::vector<float> values(static_cast<std::size_t>(rows * vocabulary));
        const at::Tensor out = at::from_blob(values.data(), {rows, vocabulary}, at::TensorOptions().dtype(at::kFloat));
        for (std::int64_t row = 0; row < rows; row += kLogitRows) {
            control.checkpoint();
            const std::int64_t count = std::min(kLogitRows, rows - row);
            out.narrow(0, row, count).copy_(model.logits(hidden.narrow(0, row, count)));
        }
        return values;
    });
}

Result<Generation> generate(const Model& model, const std::vector<TokenId>& prompt, const GenerateOptions& options,
                            const std::function<void(const std::string&)>& onToken, const Control& control) {
    return guarded([&] {
        checkIds(model, prompt);
        checkOptions(options);
        const c10::InferenceMode inference;
        return generateWith(model, prompt, options, onToken, control);
    });
}

// All sequences grow together, from the beginning-of-text token (end of text where the model has none), which isn't kept.
Result<std::vector<TokenId>> sampleSequences(const Model& model, std::int64_t count, std::int64_t length, std::uint64_t seed,
                                             const Control& control) {
    return guarded([&] {
        if (count < 1 || length < 1)
            fail(ErrorCode::Usage, "sampling needs at least one sequence of at least one token");
        const c10::InferenceMode inference;
        const ModelConfig& c = model.config();
        const std::int64_t first = c.bosToken.value_or(c.endTokens.empty() ? 0 : c.endTokens.front());
        constexpr std::int64_t kBatch = 8;
        std::vector<TokenId> all(static_cast<std::size_t>(count * length));
        for (std::int64_t row = 0; row < count; row += kBatch) {
            const std::int64_t batch = std::min(kBatch, count - row);
            std::vector<Sampler> samplers; // one per sequence: a sequence doesn't depend on how many there are
            for (std::int64_t b = 0; b < batch; ++b)
                samplers.emplace_back(GenerateOptions{.greedy = false, .seed = seed + static_cast<std::uint64_t>(row + b)});
            Cache cache(model);
            at::Tensor ids = at::full({batch, 1}, first, at::kLong);
            for (std::int64_t t = 0; t < length; ++t) {
                control.report("sample", static_cast<double>(row * length + t * batch), static_cast<double>(count * length));
                const at::Tensor logits = hostLogits(model, forwardHidden(model, model.mixers(), ids, control, &cache).select(1, 0));
                ids = at::empty({batch, 1}, at::kLong);
                for (std::int64_t b = 0; b < batch; ++b) {
                    const float* values = logits.const_data_ptr<float>() + b * c.vocabSize;
                    const std::int64_t id = samplers[static_cast<std::size_t>(b)].pick(values, c.vocabSize);
                    ids.mutable_data_ptr<std::int64_t>()[b] = id;
                    all[static_cast<std::size_t>((row + b) * length + t)] = static_cast<TokenId>(id);
                }
            }
        }
        return all;
    });
}

} // namespace linnet::core
