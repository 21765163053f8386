#include "core/io/text_checks.h"

#include <cstdio>
#include <utf8proc.h>

namespace linnet::core {
namespace {

// Bytes of the code point at the start of text, 0 where it is not valid UTF-8.
std::size_t codePointBytes(std::string_view text) {
    utf8proc_int32_t codePoint = -1;
    const auto bytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                        static_cast<utf8proc_ssize_t>(text.size()), &codePoint);
    return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

} // namespace

bool isValidUtf8(std::string_view text) {
    while (!text.empty()) {
        const auto bytes = codePointBytes(text);
        if (bytes == 0)
            return false;
        text.remove_prefix(bytes);
    }
    return true;
}

std::string printable(std::string_view text) {
    constexpr std::size_t kLongest = 120;
    std::string shown = "\"";
    while (!text.empty() && shown.size() <= kLongest) {
        const auto bytes = codePointBytes(text);
        const auto first = static_cast<unsigned char>(text.front());
        if (bytes == 0 || first < 0x20 || first == 0x7f) {
            char escaped[8];
            std::snprintf(escaped, sizeof escaped, "\\x%02x", first);
            shown += escaped;
            text.remove_prefix(1);
        } else {
            shown += text.substr(0, bytes);
            text.remove_prefix(bytes);
        }
    }
    return shown + (text.empty() ? "\"" : "...\"");
}

} // namespace linnet::core
