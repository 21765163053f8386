#include "core/convert/head_evidence.h"

#include <utf8proc.h>

namespace linnet::core {
namespace {

struct Piece {
    bool leadingSpace = false, lineEnd = false, empty = true; // empty: spaces only
    bool digit = false, letters = false;                      // of the first character; anywhere
    bool endsSentence = false, quotes = true;                 // . ! ? among its signs; nothing but quotes and brackets
};

bool isLetter(utf8proc_int32_t c) {
    const auto category = utf8proc_category(c);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_MC; // marks go with their letters
}

bool isDigit(utf8proc_int32_t c) {
    return utf8proc_category(c) == UTF8PROC_CATEGORY_ND;
}

bool isSpace(utf8proc_int32_t c) {
    const auto category = utf8proc_category(c);
    return c == '\n' || c == '\t' || c == '\r' || (category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP);
}

bool isQuoteOrBracket(utf8proc_int32_t c) {
    const auto category = utf8proc_category(c);
    return c == '"' || c == '\'' || category == UTF8PROC_CATEGORY_PS || category == UTF8PROC_CATEGORY_PE || category == UTF8PROC_CATEGORY_PI || category == UTF8PROC_CATEGORY_PF;
}

Piece read(const std::string& text) {
    Piece piece;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
    const auto size = static_cast<utf8proc_ssize_t>(text.size());
    for (utf8proc_ssize_t at = 0; at < size;) {
        utf8proc_int32_t c = 0xFFFD;
        at += std::max<utf8proc_ssize_t>(1, utf8proc_iterate(bytes + at, size - at, &c));
        if (isSpace(c)) {
            piece.leadingSpace |= piece.empty;
            piece.lineEnd |= c == '\n';
            continue;
        }
        piece.digit |= piece.empty && isDigit(c);
        piece.empty = false;
        piece.letters |= isLetter(c);
        piece.endsSentence |= c == '.' || c == '!' || c == '?' || c == 0x3002;
        piece.quotes &= isQuoteOrBracket(c);
    }
    return piece;
}

} // namespace

const char* tokenClassName(TokenClass kind) {
    static const char* const names[kTokenClasses] = {"sentence start", "word start", "continuation", "digit", "punctuation", "space"};
    return names[static_cast<int>(kind)];
}

std::vector<TokenClass> tokenClasses(const std::vector<std::string>& pieces) {
    std::vector<TokenClass> classes;
    bool sentence = true, word = true; // what a word here would begin
    for (const auto& text : pieces) {
        const Piece piece = read(text);
        if (piece.empty) {
            classes.push_back(TokenClass::Space);
            sentence |= piece.lineEnd;
            word = true;
            continue;
        }
        sentence |= piece.lineEnd && piece.leadingSpace;
        if (piece.digit) {
            classes.push_back(TokenClass::Digit);
            sentence = word = false;
        } else if (piece.letters) {
            classes.push_back(sentence ? TokenClass::SentenceStart : word || piece.leadingSpace ? TokenClass::WordStart : TokenClass::Continuation);
            sentence = word = false;
        } else {
            classes.push_back(TokenClass::Punctuation);
            sentence = piece.endsSentence || piece.lineEnd || (sentence && piece.quotes);
            word = true;
        }
    }
    return classes;
}

} // namespace linnet::core
