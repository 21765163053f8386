#include "core/io/bpe.h"

#include "core/base/result.h"
#include "core/io/unicode_text.h"

#include <queue>
#include <tuple>
#include <unordered_set>

namespace linnet::core {
namespace {

std::uint64_t pairKey(TokenId left, TokenId right) {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) | static_cast<std::uint32_t>(right);
}

[[noreturn]] void malformed(const std::string& origin, const std::string& what, const std::string& culprit) {
    fail(ErrorCode::Malformed, origin + ": " + what, {{"file", origin}, {"token", culprit}});
}

} // namespace

Bpe::Bpe(TextMap<TokenId> vocabulary, const std::vector<std::pair<std::string, std::string>>& merges, const BpeOptions& options,
         const std::string& origin)
    : m_vocabulary(std::move(vocabulary)), m_fuseUnknown(options.fuseUnknown), m_ignoreMerges(options.ignoreMerges) {
    if (m_vocabulary.empty())
        fail(ErrorCode::Malformed, origin + ": the vocabulary is empty", {{"file", origin}});
    std::unordered_set<TokenId> seen;
    for (const auto& [token, id] : m_vocabulary) {
        if (id < 0)
            malformed(origin, "token \"" + token + "\" has the negative id " + std::to_string(id), token);
        if (!seen.insert(id).second)
            malformed(origin, "id " + std::to_string(id) + " is given to two tokens, one of them \"" + token + "\"", token);
    }
    if (options.unknownToken) {
        m_unknown = find(*options.unknownToken);
        if (!m_unknown)
            malformed(origin, "the unknown token \"" + *options.unknownToken + "\" is not in the vocabulary",
                      *options.unknownToken);
    }
    m_merges.reserve(merges.size());
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
        const auto& [left, right] = merges[rank];
        const auto name = "merge " + std::to_string(rank) + " (\"" + left + "\" + \"" + right + "\")";
        const auto known = [&](const std::string& token) {
            const auto id = find(token);
            if (!id)
                malformed(origin, name + " names \"" + token + "\", which is not in the vocabulary", token);
            return *id;
        };
        const std::uint64_t key = pairKey(known(left), known(right));
        if (!m_merges.emplace(key, Merge{static_cast<std::int32_t>(rank), known(left + right)}).second)
            malformed(origin, name + " comes twice", left + right);
    }
}

std::optional<TokenId> Bpe::find(std::string_view token) const {
    const auto found = m_vocabulary.find(token);
    return found == m_vocabulary.end() ? std::nullopt : std::optional(found->second);
}

const Bpe::Merge* Bpe::findMerge(TokenId left, TokenId right) const {
    const auto found = m_merges.find(pairKey(left, right));
    return found == m_merges.end() ? nullptr : &found->second;
}

std::vector<TokenId> Bpe::characters(std::string_view word) const {
    std::vector<TokenId> ids;
    ids.reserve(word.size());
    bool unknownBefore = false;
    for (std::size_t i = 0; i < word.size();) {
        const std::size_t start = i;
        nextCodePoint(word, i);
        const auto id = find(word.substr(start, i - start));
        if (id)
            ids.push_back(*id);
        else if (m_unknown && !(m_fuseUnknown && unknownBefore))
            ids.push_back(*m_unknown);
        unknownBefore = !id;
    }
    return ids;
}

void Bpe::encodeWord(std::string_view word, std::vector<TokenId>& ids) const {
    if (m_ignoreMerges) {
        if (const auto whole = find(word)) {
            ids.push_back(*whole);
            return;
        }
    }
    struct Symbol {
        TokenId id;
        int previous, next; // -1: none
        bool alive;
    };
    const auto initial = characters(word);
    const int count = static_cast<int>(initial.size());
    std::vector<Symbol> symbols;
    symbols.reserve(initial.size());
    for (int i = 0; i < count; ++i)
        symbols.push_back({initial[static_cast<std::size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1, true});
    const auto at = [&](int position) -> Symbol& { return symbols[static_cast<std::size_t>(position)]; };

    using Candidate = std::tuple<std::int32_t, int, TokenId>; // rank, position of the left symbol, resulting token
    std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue; // lowest rank first, then leftmost
    const auto offer = [&](int left, int right) {
        if (left >= 0 && right >= 0)
            if (const Merge* merge = findMerge(at(left).id, at(right).id))
                queue.emplace(merge->rank, left, merge->result);
    };
    for (int i = 0; i + 1 < count; ++i)
        offer(i, i + 1);
    while (!queue.empty()) {
        const auto [rank, position, result] = queue.top();
        queue.pop();
        Symbol& left = at(position);
        if (!left.alive || left.next < 0)
            continue;
        // one of the two may have changed since the candidate was queued
        const Merge* merge = findMerge(left.id, at(left.next).id);
        if (!merge || merge->result != result)
            continue;
        Symbol& right = at(left.next);
        right.alive = false;
        left.id = result;
        left.next = right.next;
        if (left.next >= 0)
            at(left.next).previous = position;
        offer(left.previous, position);
        offer(position, left.next);
    }
    for (const Symbol& symbol : symbols)
        if (symbol.alive)
            ids.push_back(symbol.id);
}

} // namespace linnet::core
