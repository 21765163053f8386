#include "core/io/pretokenizer.h"

#include "core/io/byte_level.h"

#include <algorithm>

namespace linnet::core {
namespace {

struct Part {
    std::size_t begin, end;
    bool match;
};

// The whole of `text`, matches and what lies between them.
std::vector<Part> partition(const Regex& regex, std::string_view text) {
    std::vector<Part> parts;
    std::size_t previous = 0;
    regex.forEachMatch(text, [&](std::size_t begin, std::size_t end) {
        if (previous != begin)
            parts.push_back({previous, begin, false});
        parts.push_back({begin, end, true});
        previous = end;
    });
    if (previous != text.size())
        parts.push_back({previous, text.size(), false});
    return parts;
}

// Joins neighbours where `joins(before, part)`; `before` is whether the part before was a match, false at the start.
template <class Joins> std::vector<Part> merged(const std::vector<Part>& parts, const Joins& joins) {
    std::vector<Part> out;
    bool before = false;
    for (const Part& part : parts) {
        if (joins(before, part.match) && !out.empty()) {
            out.back().begin = std::min(out.back().begin, part.begin);
            out.back().end = std::max(out.back().end, part.end);
        } else {
            out.push_back(part);
        }
        before = part.match;
    }
    return out;
}

std::vector<Part> behave(std::vector<Part> parts, SplitBehavior behavior) {
    const auto matchBehindText = [](bool before, bool match) { return match && !before; };
    switch (behavior) {
    case SplitBehavior::Isolated:
        return parts;
    case SplitBehavior::Removed:
        std::erase_if(parts, [](const Part& part) { return part.match; });
        return parts;
    case SplitBehavior::Contiguous:
        return merged(parts, [](bool before, bool match) { return before == match; });
    case SplitBehavior::MergedWithPrevious:
        return merged(parts, matchBehindText);
    case SplitBehavior::MergedWithNext:
        std::reverse(parts.begin(), parts.end());
        parts = merged(parts, matchBehindText);
        std::reverse(parts.begin(), parts.end());
        return parts;
    }
    return parts;
}

void cut(const Regex& regex, SplitBehavior behavior, bool invert, std::string_view word, std::vector<std::string_view>& out) {
    auto parts = partition(regex, word);
    if (invert)
        for (Part& part : parts)
            part.match = !part.match;
    for (const Part& part : behave(std::move(parts), behavior))
        if (part.begin != part.end)
            out.push_back(word.substr(part.begin, part.end - part.begin));
}

void applyStep(const SplitStep& step, Words& words) {
    std::vector<std::string_view> out;
    for (const auto word : words.words)
        cut(step.regex, step.behavior, step.invert, word, out);
    words.words = std::move(out);
}

void applyStep(const ByteLevelStep& step, Words& words) {
    std::vector<std::string_view> pieces;
    std::size_t bytes = 0;
    for (auto word : words.words) {
        if (step.addPrefixSpace && word.front() != ' ')
            word = words.storage.emplace_back(" " + std::string(word));
        if (step.regex.empty())
            pieces.push_back(word);
        else
            cut(step.regex.front(), SplitBehavior::Isolated, false, word, pieces);
        bytes += word.size();
    }
    std::string& mapped = words.storage.emplace_back();
    mapped.reserve(2 * bytes); // no character is longer, so that the views below stay valid
    words.words.clear();
    for (const auto piece : pieces) {
        const std::size_t begin = mapped.size();
        appendByteLevel(mapped, piece);
        words.words.push_back(std::string_view(mapped).substr(begin));
    }
}

} // namespace

Words Pretokenizer::apply(std::string_view text) const {
    Words words;
    if (!text.empty())
        words.words.push_back(text);
    for (const Step& step : m_steps)
        std::visit([&](const auto& s) { applyStep(s, words); }, step);
    return words;
}

} // namespace linnet::core
