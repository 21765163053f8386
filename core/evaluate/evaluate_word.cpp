// The `word` convention: lm-eval's rolling log likelihood over documents.
#include "core/torch_pch.h"

#include "core/evaluate/evaluate_model.h"
#include "core/evaluate/score_rows.h"

#include <chrono>
#include <numeric>

namespace linnet::core {
namespace {

// Of a document's tokens with the prefix token in front, `ids`: the model reads ids[first .. first + length) and its last
// `scored` predictions count.
struct RollingWindow {
    std::size_t document;
    std::int64_t first, length, scored;
};

std::vector<RollingWindow> rollingWindows(std::size_t document, std::int64_t tokens, std::int64_t seqLen) {
    std::vector<RollingWindow> windows;
    for (std::int64_t done = 0; done < tokens;) {
        const auto scored = std::min(seqLen, tokens - done);
        const auto end = done + scored, first = std::max<std::int64_t>(0, end - seqLen);
        windows.push_back({document, first, end - first, scored});
        done = end;
    }
    return windows;
}

// What Python's \s matches in UTF-8 text: length of the whitespace character at `at`, 0 where there is none.
std::size_t whitespaceAt(std::string_view text, std::size_t at) {
    const auto byte = [&](std::size_t i) { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U; };
    if ((byte(0) >= 0x09 && byte(0) <= 0x0d) || (byte(0) >= 0x1c && byte(0) <= 0x20))
        return 1;
    if (byte(0) == 0xc2 && (byte(1) == 0x85 || byte(1) == 0xa0))
        return 2;
    const unsigned code = byte(0) << 16 | byte(1) << 8 | byte(2);
    const bool space = code == 0xe19a80 || (code >= 0xe28080 && code <= 0xe2808a) || code == 0xe280a8 || code == 0xe280a9 ||
                       code == 0xe280af || code == 0xe2819f || code == 0xe38080;
    return space ? 3 : 0;
}

std::int64_t countWords(std::string_view text) {
    std::int64_t runs = 0;
    for (std::size_t at = 0; at < text.size();) {
        std::size_t length = whitespaceAt(text, at);
        if (length == 0) {
            ++at;
            continue;
        }
        for (++runs; length != 0; length = whitespaceAt(text, at))
            at += length;
    }
    return runs + 1; // the pieces between runs, empty ones at the ends included, as re.split counts
}

TokenId prefixToken(const ModelConfig& config, const std::string& name) {
    if (config.bosToken)
        return static_cast<TokenId>(*config.bosToken);
    if (config.endTokens.empty())
        fail(ErrorCode::Unsupported,
             name + " names neither a BOS nor an end-of-text token: the word convention has nothing to condition "
                    "the first token on; use the chunked one",
             {{"file", name}});
    return static_cast<TokenId>(config.endTokens.front());
}

// Sum of log likelihoods of the windows' scored predictions, per window. All have the same length.
std::vector<double> windowLikelihoods(const Model& model, const std::vector<std::vector<TokenId>>& ids,
                                      const std::vector<RollingWindow>& windows, const Control& control) {
    const auto length = windows.front().length;
    TokenWindows inputs, targets;
    inputs.seqLen = targets.seqLen = length;
    inputs.sequences = targets.sequences = static_cast<std::int64_t>(windows.size());
    for (const auto& window : windows) {
        const auto from = ids[window.document].begin() + window.first;
        inputs.ids.insert(inputs.ids.end(), from, from + length);
        targets.ids.insert(targets.ids.end(), from + 1, from + 1 + length);
    }
    const auto hidden = forwardHidden(model, model.mixers(), windowTensor(inputs, model.device()), control);
    const auto wanted = windowTensor(targets, model.device());
    std::vector<double> sums;
    for (std::size_t i = 0; i < windows.size(); ++i) {
        const auto row = static_cast<std::int64_t>(i), skipped = length - windows[i].scored;
        const auto scores = scoreRows(model, hidden[row].narrow(0, skipped, windows[i].scored),
                                      wanted[row].narrow(0, skipped, windows[i].scored), {}, {}, control);
        sums.push_back(-scores.loss.sum().item<double>());
    }
    return sums;
}

Evaluation wordEvaluation(const Model& model, const std::vector<std::string>& documents, std::int64_t seqLen,
                          const Control& control) {
    if (seqLen < 2)
        fail(ErrorCode::Usage, "the word convention needs windows of at least 2 tokens, got " + std::to_string(seqLen));
    const at::NoGradGuard noGrad;
    const auto start = std::chrono::steady_clock::now();
    const TokenId prefix = prefixToken(model.config(), model.files().path.string());
    Evaluation result;
    result.convention = "word", result.seqLen = seqLen;
    std::vector<std::vector<TokenId>> ids;
    std::vector<RollingWindow> windows;
    for (const auto& document : documents) {
        control.report("evaluate", 0, 0, "tokenising");
        result.words += countWords(document);
        auto tokens = model.files().tokenizer->encode(document, false);
        if (tokens.empty())
            continue;
        checkTokenIds(model, tokens);
        const auto rolled = rollingWindows(ids.size(), static_cast<std::int64_t>(tokens.size()), seqLen);
        windows.insert(windows.end(), rolled.begin(), rolled.end());
        result.tokens += static_cast<std::int64_t>(tokens.size());
        tokens.insert(tokens.begin(), prefix);
        ids.push_back(std::move(tokens));
    }
    if (ids.empty())
        fail(ErrorCode::Usage, "the text has no token to evaluate (" + std::to_string(documents.size()) + " documents)");

    std::vector<double> losses(ids.size()), counts(ids.size());
    for (std::size_t document = 0; document < ids.size(); ++document)
        counts[document] = static_cast<double>(ids[document].size() - 1);
    const auto batch = static_cast<std::size_t>(forwardBatch(model, seqLen));
    for (std::size_t from = 0; from < windows.size();) {
        control.report("evaluate", static_cast<double>(from), static_cast<double>(windows.size()), "windows");
        std::size_t to = from; // neighbours of one length go through the model together
        while (to < windows.size() && to - from < batch && windows[to].length == windows[from].length)
            ++to;
        const std::vector<RollingWindow> part(windows.begin() + static_cast<std::ptrdiff_t>(from),
                                              windows.begin() + static_cast<std::ptrdiff_t>(to));
        const auto sums = windowLikelihoods(model, ids, part, control);
        for (std::size_t i = 0; i < part.size(); ++i)
            losses[part[i].document] -= sums[i];
        from = to;
    }
    control.report("evaluate", static_cast<double>(windows.size()), static_cast<double>(windows.size()), "windows");
    const double total = std::accumulate(losses.begin(), losses.end(), 0.0);
    result.sequences = static_cast<std::int64_t>(ids.size());
    result.loss = total / static_cast<double>(result.tokens);
    result.lossSe = ratioStandardError(losses, counts);
    result.perplexity = std::exp(total / static_cast<double>(result.words));
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
}

} // namespace

Result<Evaluation> evaluateWord(const Model& model, const std::vector<std::string>& documents, std::int64_t seqLen,
                                const Control& control) {
    return guarded([&] { return wordEvaluation(model, documents, seqLen, control); });
}

} // namespace linnet::core
