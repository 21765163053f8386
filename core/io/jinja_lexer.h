// Cuts a template into text and tokens, with Jinja's white space control (trim_blocks and lstrip_blocks on, as transformers
// sets them).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace linnet::core::jinja {

enum class TokenKind { Text, BlockBegin, BlockEnd, VariableBegin, VariableEnd, Name, String, Integer, Float, Operator, End };

struct Token {
    TokenKind kind;
    std::string text; // a string's value without quotes and escapes
    int line;
};

// Throws Malformed naming `origin` and the line, Unsupported for "{% raw %}".
std::vector<Token> tokenize(std::string_view source, const std::string& origin);

bool isPythonSpace(char32_t codePoint); // what str.strip() takes away
std::string_view stripLeft(std::string_view text);
std::string_view stripRight(std::string_view text);

} // namespace linnet::core::jinja
