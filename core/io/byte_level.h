// GPT-2's byte-level alphabet: each byte has a printable character, so that a BPE over text is a BPE over bytes.
// Source: Radford et al. 2019, section 2.2; the published encoder's table.
#pragma once

#include <string>
#include <string_view>

namespace linnet::core {

// Printable Latin-1 bytes stand for themselves, the 68 others for U+0100, U+0101, ... in ascending order.
char32_t byteCharacter(unsigned char byte);
int byteOfCharacter(char32_t character); // -1 where the character stands for no byte

void appendByteLevel(std::string& out, std::string_view bytes); // each byte's character, as UTF-8
// The bytes that a token's text stands for. A token with any other character (an added token) is its own UTF-8.
void appendTokenBytes(std::string& out, std::string_view tokenText);

} // namespace linnet::core
