// UTF-8 text as Hugging Face's tokenizers (Rust) see it: lossy decoding, character classes, normal forms.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace linnet::core {

// Each maximal invalid part becomes one U+FFFD, as Rust's String::from_utf8_lossy does (Unicode, section 3.9).
std::string replaceInvalidUtf8(std::string_view bytes);

// The code point at `position` of valid UTF-8; moves `position` behind it.
char32_t nextCodePoint(std::string_view text, std::size_t& position);
std::size_t codePointStart(std::string_view text, std::size_t end); // where the code point that ends at `end` (> 0) starts
void appendUtf8(std::string& text, char32_t codePoint);

bool isWhiteSpace(char32_t codePoint);    // Unicode White_Space: \s of Rust and Oniguruma
bool isWordCharacter(char32_t codePoint); // \w of Rust's regex: Alphabetic, M, Nd, Pc, joiners

enum class NormalForm { C, D, KC, KD };
std::string normalize(std::string_view validUtf8, NormalForm form);

} // namespace linnet::core
