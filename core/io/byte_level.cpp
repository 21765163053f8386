#include "core/io/byte_level.h"

#include "core/io/unicode_text.h"

#include <array>

namespace linnet::core {
namespace {

constexpr bool isPrintable(int byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

struct Alphabet {
    std::array<char32_t, 256> characters{};
    std::array<int, 0x144> bytes{}; // the last character in use is U+0143
    constexpr Alphabet() {
        for (auto& byte : bytes)
            byte = -1;
        char32_t next = 0x100;
        for (int byte = 0; byte < 256; ++byte) {
            const char32_t character = isPrintable(byte) ? static_cast<char32_t>(byte) : next++;
            characters[static_cast<std::size_t>(byte)] = character;
            bytes[character] = byte;
        }
    }
};

constexpr Alphabet kAlphabet;

} // namespace

char32_t byteCharacter(unsigned char byte) {
    return kAlphabet.characters[byte];
}

int byteOfCharacter(char32_t character) {
    return character < kAlphabet.bytes.size() ? kAlphabet.bytes[character] : -1;
}

void appendByteLevel(std::string& out, std::string_view bytes) {
    for (const char c : bytes) {
        const char32_t character = byteCharacter(static_cast<unsigned char>(c));
        if (character < 0x80) {
            out.push_back(static_cast<char>(character));
        } else { // at most U+0143: two bytes
            out.push_back(static_cast<char>(0xC0 | (character >> 6)));
            out.push_back(static_cast<char>(0x80 | (character & 0x3F)));
        }
    }
}

void appendTokenBytes(std::string& out, std::string_view tokenText) {
    const std::size_t before = out.size();
    for (std::size_t i = 0; i < tokenText.size();) {
        const int byte = byteOfCharacter(nextCodePoint(tokenText, i));
        if (byte < 0) {
            out.resize(before);
            out.append(tokenText);
            return;
        }
        out.push_back(static_cast<char>(byte));
    }
}

} // namespace linnet::core
