#include "core/io/unicode_text.h"

#include "core/base/result.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utf8proc.h>

namespace linnet::core {
namespace {

// Length of the valid sequence at `position`, or minus the length of the maximal invalid part there.
int sequenceLength(std::string_view text, std::size_t position) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char lead = byte(position);
    if (lead < 0x80)
        return 1;
    const auto within = [lead](int low, int high) { return lead >= low && lead <= high; };
    const int length = within(0xC2, 0xDF) ? 2 : within(0xE0, 0xEF) ? 3 : within(0xF0, 0xF4) ? 4 : 0;
    if (length == 0)
        return -1;
    // the second byte's range rules out overlong forms, surrogates and code points above U+10FFFF
    const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    for (int i = 1; i < length; ++i) {
        const std::size_t at = position + static_cast<std::size_t>(i);
        if (at >= text.size() || byte(at) < (i == 1 ? low : 0x80) || byte(at) > (i == 1 ? high : 0xBF))
            return -i;
    }
    return length;
}

bool isAscii(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

} // namespace

std::string replaceInvalidUtf8(std::string_view bytes) {
    std::string text;
    text.reserve(bytes.size());
    for (std::size_t i = 0; i < bytes.size();) {
        const int length = sequenceLength(bytes, i);
        const auto step = static_cast<std::size_t>(std::abs(length));
        if (length > 0)
            text.append(bytes.substr(i, step));
        else
            text.append("\xEF\xBF\xBD");
        i += step;
    }
    return text;
}

char32_t nextCodePoint(std::string_view text, std::size_t& position) {
    const auto lead = static_cast<unsigned char>(text[position++]);
    if (lead < 0x80)
        return lead;
    const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    char32_t code = lead & (0x3Fu >> more);
    for (int i = 0; i < more; ++i)
        code = (code << 6) | (static_cast<unsigned char>(text[position++]) & 0x3Fu);
    return code;
}

std::size_t codePointStart(std::string_view text, std::size_t end) {
    std::size_t start = end - 1;
    while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80)
        --start;
    return start;
}

void appendUtf8(std::string& text, char32_t codePoint) {
    utf8proc_uint8_t bytes[4];
    const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(codePoint), bytes);
    text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(count));
}

bool isWhiteSpace(char32_t c) {
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
           c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool isWordCharacter(char32_t c) {
    switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        break;
    }
    // joiners, and the symbols that are Alphabetic: circled and squared letters
    return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
           (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

std::string normalize(std::string_view validUtf8, NormalForm form) {
    if (isAscii(validUtf8))
        return std::string(validUtf8);
    int options = UTF8PROC_STABLE;
    options |= form == NormalForm::C || form == NormalForm::KC ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
    if (form == NormalForm::KC || form == NormalForm::KD)
        options |= UTF8PROC_COMPAT;
    utf8proc_uint8_t* out = nullptr;
    const auto length =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(validUtf8.data()),
                     static_cast<utf8proc_ssize_t>(validUtf8.size()), &out, static_cast<utf8proc_option_t>(options));
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(out, &std::free);
    if (length < 0)
        fail(ErrorCode::Internal, std::string("Unicode normalisation failed: ") + utf8proc_errmsg(length));
    return {reinterpret_cast<const char*>(out), static_cast<std::size_t>(length)};
}

} // namespace linnet::core
