// Documents to cold windows of tokens, and the three disjoint slices of them.
#include "core/data/text_data.h"

#include "core/base/files.h"
#include "core/base/result.h"

#include <algorithm>
#include <array>

namespace linnet::core {
namespace {

std::string number(std::int64_t value) {
    return std::to_string(value);
}

std::int64_t windowsFor(std::int64_t tokens, std::int64_t seqLen, const char* what) {
    if (tokens < 0)
        fail(ErrorCode::Usage, std::string(what) + ": found " + number(tokens) + " tokens, expected a number from 0",
             {{"key", what}});
    return tokens == 0 ? 0 : std::max<std::int64_t>(1, tokens / seqLen);
}

} // namespace

std::string TokenWindows::hash() const {
    const std::string shape = number(sequences) + "x" + number(seqLen) + ":";
    return hashBytes(shape + std::string(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(TokenId)));
}

TokenWindows TokenWindows::rows(const std::vector<std::int64_t>& indices) const {
    TokenWindows result{{}, static_cast<std::int64_t>(indices.size()), seqLen};
    result.ids.reserve(indices.size() * static_cast<std::size_t>(seqLen));
    for (const auto index : indices) {
        if (index < 0 || index >= sequences)
            fail(ErrorCode::Internal, "window " + number(index) + " of " + number(sequences));
        const auto first = ids.begin() + index * seqLen;
        result.ids.insert(result.ids.end(), first, first + seqLen);
    }
    return result;
}

TokenWindows tokenWindows(const Tokenizer& tokenizer, const std::vector<std::string>& documents, std::int64_t seqLen,
                          std::int64_t maxTokens) {
    if (seqLen < 1)
        fail(ErrorCode::Usage, "seq-len: found " + number(seqLen) + ", expected a number from 1", {{"key", "seq_len"}});
    if (maxTokens != 0 && maxTokens < seqLen)
        fail(ErrorCode::Usage,
             "tokens: found " + number(maxTokens) + ", expected at least one window of " + number(seqLen) + " (seq-len)",
             {{"key", "tokens"}, {"found", number(maxTokens)}, {"expected", number(seqLen)}});
    std::string text;
    for (std::size_t i = 0; i < documents.size(); ++i)
        text += (i == 0 ? "" : "\n\n") + documents[i];
    auto ids = tokenizer.encode(text, false);
    const auto found = static_cast<std::int64_t>(ids.size());
    if (found < seqLen)
        fail(ErrorCode::Usage,
             "the text has " + number(found) + " tokens, one window needs " + number(seqLen) +
                 " (seq-len): give more text or shorter windows",
             {{"key", "seq_len"}, {"found", number(found)}, {"expected", number(seqLen)}});
    const auto sequences = maxTokens == 0 ? found / seqLen : std::min(found / seqLen, maxTokens / seqLen);
    ids.resize(static_cast<std::size_t>(sequences * seqLen));
    return {std::move(ids), sequences, seqLen};
}

namespace {

using Deal = std::array<std::vector<std::int64_t>, 3>; // windows of calibration, selection, evaluation

Deal deal(const TokenWindows& all, const std::array<std::int64_t, 3>& wanted) {
    const std::int64_t total = wanted[0] + wanted[1] + wanted[2];
    Deal chosen;
    for (std::int64_t i = 0; i < total; ++i) {
        // The slice furthest behind its share of the i + 1 windows dealt so far takes the next one.
        std::size_t behind = 0;
        std::int64_t most = -1;
        for (std::size_t slice = 0; slice < chosen.size(); ++slice) {
            const auto dealt = static_cast<std::int64_t>(chosen[slice].size());
            if (const auto lack = wanted[slice] * (i + 1) - dealt * total; dealt < wanted[slice] && lack > most) {
                most = lack;
                behind = slice;
            }
        }
        chosen[behind].push_back(i * all.sequences / total);
    }
    return chosen;
}

// Windows that no slice has and that are further than `guard` from those that something is measured on.
std::vector<std::int64_t> windowsLeft(const TokenWindows& all, const Deal& chosen, std::int64_t guard) {
    std::vector<bool> taken(static_cast<std::size_t>(all.sequences), false);
    for (std::size_t slice = 0; slice < chosen.size(); ++slice)
        for (const auto window : chosen[slice])
            for (auto near = window - (slice == 0 ? 0 : guard); near <= window + (slice == 0 ? 0 : guard); ++near)
                if (near >= 0 && near < all.sequences)
                    taken[static_cast<std::size_t>(near)] = true;
    std::vector<std::int64_t> left;
    for (std::int64_t window = 0; window < all.sequences; ++window)
        if (!taken[static_cast<std::size_t>(window)])
            left.push_back(window);
    return left;
}

} // namespace

Slices splitSlices(const TokenWindows& all, std::int64_t calibrationTokens, std::int64_t selectionTokens,
                   std::int64_t evaluationTokens) {
    const std::array<std::int64_t, 3> wanted = {windowsFor(calibrationTokens, all.seqLen, "data.calibration_tokens"),
                                                windowsFor(selectionTokens, all.seqLen, "data.selection_tokens"),
                                                windowsFor(evaluationTokens, all.seqLen, "data.evaluation_tokens")};
    const std::int64_t total = wanted[0] + wanted[1] + wanted[2];
    if (total > all.sequences)
        fail(ErrorCode::Usage,
             "the text has " + number(all.sequences) + " windows of " + number(all.seqLen) +
                 " tokens, calibration, selection and evaluation need " + number(wanted[0]) + " + " + number(wanted[1]) +
                 " + " + number(wanted[2]) + " = " + number(total) +
                 ": give more text, or lower data.calibration_tokens, selection_tokens or evaluation_tokens",
             {{"key", "data"}, {"found", number(all.sequences)}, {"expected", number(total)}});
    const Deal chosen = deal(all, wanted);
    return {all.rows(chosen[0]), all.rows(chosen[1]), all.rows(chosen[2]), {{}, 0, all.seqLen}};
}

TokenWindows remainingWindows(const TokenWindows& all, const Slices& slices, std::int64_t tokens) {
    constexpr std::int64_t kGuardTokens = 6400; // a document's length: what is trained on is then not what is measured on
    const Deal chosen = deal(all, {slices.calibration.sequences, slices.selection.sequences, slices.evaluation.sequences});
    const auto anything = windowsLeft(all, chosen, 0);
    auto left = anything;
    for (auto guard = kGuardTokens / all.seqLen; guard > 0; guard /= 2)
        if (left = windowsLeft(all, chosen, guard); 2 * left.size() >= anything.size())
            break; // short texts have less to spare
    if (2 * left.size() < anything.size())
        left = anything;
    if (left.empty())
        fail(ErrorCode::Usage,
             "distill.steps: the text has " + number(all.sequences) + " windows of " + number(all.seqLen) +
                 " tokens and the slices take them all: give more text, or lower data.calibration_tokens",
             {{"key", "distill.steps"}, {"found", "0 windows"}, {"expected", "at least 1"}});
    const auto count = std::ssize(left);
    const auto wanted = tokens == 0 ? count : std::min(count, windowsFor(tokens, all.seqLen, "distill.tokens"));
    std::vector<std::int64_t> spread;
    for (std::int64_t i = 0; i < wanted; ++i)
        spread.push_back(left[static_cast<std::size_t>(i * count / wanted)]);
    return all.rows(spread);
}

} // namespace linnet::core
