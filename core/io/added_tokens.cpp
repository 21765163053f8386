#include "core/io/added_tokens.h"

#include "core/io/unicode_text.h"

#include <algorithm>

namespace linnet::core {
namespace {

bool endsWithWord(std::string_view text) {
    if (text.empty())
        return false;
    std::size_t start = codePointStart(text, text.size());
    return isWordCharacter(nextCodePoint(text, start));
}

bool startsWithWord(std::string_view text) {
    std::size_t position = 0;
    return !text.empty() && isWordCharacter(nextCodePoint(text, position));
}

std::size_t withoutTrailingSpace(std::string_view text) { // the length left
    std::size_t end = text.size();
    while (end > 0) {
        const std::size_t start = codePointStart(text, end);
        std::size_t position = start;
        if (!isWhiteSpace(nextCodePoint(text, position)))
            break;
        end = start;
    }
    return end;
}

std::size_t leadingSpace(std::string_view text) { // its length
    std::size_t end = 0;
    while (end < text.size()) {
        std::size_t next = end;
        if (!isWhiteSpace(nextCodePoint(text, next)))
            break;
        end = next;
    }
    return end;
}

} // namespace

AddedTokenFinder::AddedTokenFinder(const std::vector<std::pair<std::string, AddedToken>>& needles) : m_nodes(1) {
    for (const auto& [needle, token] : needles) {
        if (needle.empty())
            continue;
        m_first[static_cast<unsigned char>(needle.front())] = true;
        std::size_t node = 0;
        for (const char c : needle) {
            const auto [child, inserted] = m_nodes[node].children.emplace(c, m_nodes.size());
            node = child->second;
            if (inserted)
                m_nodes.emplace_back();
        }
        m_nodes[node].token = static_cast<int>(m_tokens.size());
        m_tokens.push_back(token);
    }
}

const AddedToken* AddedTokenFinder::longestAt(std::string_view text, std::size_t position, std::size_t& end) const {
    const AddedToken* longest = nullptr;
    std::size_t node = 0;
    for (std::size_t i = position; i < text.size(); ++i) {
        const auto child = m_nodes[node].children.find(text[i]);
        if (child == m_nodes[node].children.end())
            break;
        node = child->second;
        if (m_nodes[node].token >= 0) {
            longest = &m_tokens[static_cast<std::size_t>(m_nodes[node].token)];
            end = i + 1;
        }
    }
    return longest;
}

std::vector<TextPart> AddedTokenFinder::split(std::string_view text) const {
    std::vector<TextPart> parts;
    std::size_t done = 0; // text before this is in `parts`
    for (std::size_t position = 0; position < text.size();) {
        std::size_t end = 0;
        const AddedToken* token =
            m_first[static_cast<unsigned char>(text[position])] ? longestAt(text, position, end) : nullptr;
        if (!token) {
            ++position;
            continue;
        }
        std::size_t start = position;
        position = end;
        if (token->singleWord && (endsWithWord(text.substr(0, start)) || startsWithWord(text.substr(end))))
            continue;
        if (token->leftStrip) // spaces that the token before has taken stay with it
            start = std::max(withoutTrailingSpace(text.substr(0, start)), done);
        if (token->rightStrip)
            end += leadingSpace(text.substr(end));
        if (done < start)
            parts.push_back({text.substr(done, start - done), std::nullopt});
        parts.push_back({text.substr(start, end - start), token->id});
        done = end;
    }
    if (done < text.size())
        parts.push_back({text.substr(done), std::nullopt});
    return parts;
}

} // namespace linnet::core
