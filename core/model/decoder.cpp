#include "core/torch_pch.h"

#include "core/model/decoder.h"

#include <chrono>

namespace linnet::core {
namespace {

// Tokens at once: keeps stops quick and intermediate tensors small.
std::int64_t prefillPiece(const Model& model) {
    return model.device().is_cuda() ? 4096 : 512;
}

double secondsSince(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

bool isEnd(const Model& model, TokenId id) {
    const auto& ends = model.config().endTokens;
    return ends.empty() ? modelTokenizer(model).isEndOfText(id) : std::find(ends.begin(), ends.end(), id) != ends.end();
}

// Many vocabularies are padded: the model has ids that its tokenizer doesn't know.
bool hasText(const Tokenizer& tokenizer, TokenId id) {
    return id < tokenizer.vocabSize();
}

// Runs ids [B, T] through the model in pieces; the final hidden state of the last token, [B, hidden].
at::Tensor runThrough(const Model& model, const Mixers& mixers, const at::Tensor& ids, Cache& cache, const Control& control) {
    at::Tensor last;
    const std::int64_t piece = prefillPiece(model);
    for (std::int64_t start = 0; start < ids.size(1); start += piece) {
        const std::int64_t count = std::min(piece, ids.size(1) - start);
        last = forwardHidden(model, mixers, ids.narrow(1, start, count), control, &cache).select(1, count - 1);
    }
    return last;
}

} // namespace

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

at::Tensor idTensor(const std::vector<TokenId>& ids) {
    return at::tensor(at::ArrayRef<TokenId>(ids), at::kInt).to(at::kLong).unsqueeze(0);
}

at::Tensor hostLogits(const Model& model, const at::Tensor& hidden) {
    return model.logits(hidden).to(at::kCPU, at::kFloat).contiguous();
}

std::string PieceStream::add(TokenId id) {
    if (!hasText(m_tokenizer, id))
        return {};
    m_waiting.push_back(id);
    const std::string text = m_tokenizer.decode(m_waiting);
    constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
    const bool incomplete = text.size() >= kReplacement.size() && text.ends_with(kReplacement);
    if (incomplete && m_waiting.size() <= 4) // a character has at most 4 bytes: more tokens won't complete it
        return {};
    m_waiting.clear();
    return text;
}

std::string PieceStream::flush() {
    const auto text = m_waiting.empty() ? std::string() : m_tokenizer.decode(m_waiting);
    m_waiting.clear();
    return text;
}

Decoder::Decoder(const Model& model, const Mixers& mixers, const GenerateOptions& options)
    : m_model(model), m_mixers(mixers), m_options(options), m_cache(model), m_sampler(options), m_stream(modelTokenizer(model)) {}

void Decoder::prefill(const std::vector<TokenId>& prompt, const Control& control) {
    const auto start = std::chrono::steady_clock::now();
    m_logits = hostLogits(m_model, runThrough(m_model, m_mixers, idTensor(prompt), m_cache, control));
    m_made.prefillSeconds = secondsSince(start);
}

Decoder::Step Decoder::step(const Control& control) {
    const auto start = std::chrono::steady_clock::now();
    Step made{static_cast<TokenId>(m_sampler.pick(m_logits.const_data_ptr<float>(), m_logits.numel())), {}};
    m_made.ids.push_back(made.id);
    m_made.endOfText = isEnd(m_model, made.id);
    if (!m_made.endOfText)
        made.piece = m_stream.add(made.id);
    if (!done())
        m_logits = hostLogits(m_model, forwardHidden(m_model, m_mixers, idTensor({made.id}), control, &m_cache).select(1, 0));
    m_made.decodeSeconds += secondsSince(start);
    return made;
}

double tokensPerSecond(const Generation& made) {
    const auto decoded = static_cast<double>(made.ids.size()) - 1;
    return decoded > 0 && made.decodeSeconds > 0 ? decoded / made.decodeSeconds : 0;
}

Generation Decoder::finished() const {
    Generation result = m_made;
    result.tokensPerSecond = core::tokensPerSecond(result);
    std::vector<TokenId> shown = result.ids;
    if (result.endOfText)
        shown.pop_back();
    std::erase_if(shown, [&](TokenId id) { return !hasText(modelTokenizer(m_model), id); });
    result.text = modelTokenizer(m_model).decode(shown);
    return result;
}

} // namespace linnet::core
