#define PCRE2_CODE_UNIT_WIDTH 8
#include "core/io/regex.h"

#include "core/base/result.h"

#include <pcre2.h>

namespace linnet::core {
namespace {

[[noreturn]] void refuse(const std::string& origin, const std::string& pattern, const std::string& why) {
    fail(ErrorCode::Unsupported, origin + ": the pattern \"" + pattern + "\" " + why, {{"file", origin}, {"pattern", pattern}});
}

// PCRE2's \s also matches U+180E, and its \w, \b and \h differ from Oniguruma's in more ways: \s and \S are spelt out as
// Unicode's White_Space, the others are refused.
std::string translate(const std::string& pattern, const std::string& origin) {
    constexpr std::string_view kSpaces = R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a})"
                                         R"(\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
    constexpr std::string_view kSameInBoth = "pPdDnrtfvAxeaGzk";
    std::string out;
    bool inClass = false;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        const char c = pattern[i];
        if (c != '\\') {
            if (c == '[' && inClass)
                refuse(origin, pattern, "has a class within a class");
            if (c == '[' || c == ']')
                inClass = c == '[';
            out.push_back(c);
            continue;
        }
        if (++i == pattern.size())
            refuse(origin, pattern, "ends with a backslash");
        const char escape = pattern[i];
        const bool letterOrDigit =
            (escape >= 'a' && escape <= 'z') || (escape >= 'A' && escape <= 'Z') || (escape >= '0' && escape <= '9');
        if (escape == 's' || (escape == 'S' && !inClass)) {
            const std::string open = inClass ? "" : escape == 's' ? "[" : "[^";
            out += open + std::string(kSpaces) + (inClass ? "" : "]");
        } else if (letterOrDigit && kSameInBoth.find(escape) == kSameInBoth.npos) {
            refuse(origin, pattern,
                   std::string("uses \\") + escape + (inClass ? " in a class" : "") + ", which is not supported");
        } else if (escape == 'v') { // PCRE2: any vertical white space; Oniguruma: one character
            out += "\\x{b}";
        } else {
            out += {'\\', escape};
        }
    }
    return out;
}

} // namespace

Regex::Regex(const std::string& pattern, const std::string& origin) {
    const std::string translated = translate(pattern, origin);
    int error = 0;
    PCRE2_SIZE errorOffset = 0;
    // Oniguruma's Ruby syntax: ^ and $ match at every line
    constexpr std::uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(), kOptions, &error,
                                     &errorOffset, nullptr);
    if (!code) {
        PCRE2_UCHAR message[256];
        pcre2_get_error_message(error, message, sizeof message);
        refuse(origin, pattern, std::string("does not compile: ") + reinterpret_cast<const char*>(message));
    }
    m_code = std::shared_ptr<void>(code, [](void* p) { pcre2_code_free(static_cast<pcre2_code*>(p)); });
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); // where there is no JIT the interpreter does the same
}

void Regex::forEachMatch(std::string_view text, const std::function<void(std::size_t, std::size_t)>& visit) const {
    const auto* code = static_cast<const pcre2_code*>(m_code.get());
    const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
        pcre2_match_data_create_from_pattern(code, nullptr), &pcre2_match_data_free);
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    std::size_t start = 0;
    while (start <= text.size()) {
        int found = pcre2_match(code, subject, text.size(), start, PCRE2_NO_UTF_CHECK, match.get(), nullptr);
        if (found == PCRE2_ERROR_JIT_STACKLIMIT) // the interpreter backtracks on the heap
            found = pcre2_match(code, subject, text.size(), start, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match.get(), nullptr);
        if (found == PCRE2_ERROR_NOMATCH)
            return;
        if (found < 0) {
            PCRE2_UCHAR message[256];
            pcre2_get_error_message(found, message, sizeof message);
            fail(ErrorCode::Internal, "the tokenizer's pattern failed on the text at byte " + std::to_string(start) + ": " +
                                          reinterpret_cast<const char*>(message));
        }
        const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match.get());
        visit(bounds[0], bounds[1]);
        start = bounds[1];
        if (bounds[0] == bounds[1]) { // an empty match: go on behind the next character
            ++start;
            while (start < text.size() && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80)
                ++start;
        }
    }
}

std::string Regex::escaped(std::string_view literal) {
    std::string pattern;
    for (const char c : literal) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                           static_cast<unsigned char>(c) >= 0x80 || c == '\0';
        if (!plain)
            pattern.push_back('\\');
        pattern.push_back(c);
    }
    return pattern;
}

} // namespace linnet::core
