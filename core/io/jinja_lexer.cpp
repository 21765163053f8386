#include "core/io/jinja_lexer.h"

#include "core/base/result.h"
#include "core/io/unicode_text.h"

#include <algorithm>

namespace linnet::core::jinja {
namespace {

bool isDigit(char c) {
    return c >= '0' && c <= '9';
}

bool isNameCharacter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || isDigit(c);
}

// "\n" for every line break, and without one at the very end.
std::string normalizedLines(std::string_view source) {
    std::string out;
    for (std::size_t i = 0; i < source.size(); ++i) {
        if (source[i] == '\r') {
            out += '\n';
            i += i + 1 < source.size() && source[i + 1] == '\n';
        } else {
            out += source[i];
        }
    }
    if (!out.empty() && out.back() == '\n')
        out.pop_back();
    return out;
}

class Lexer {
public:
    Lexer(std::string source, const std::string& origin) : m_source(std::move(source)), m_origin(origin) {}

    std::vector<Token> run() {
        while (m_at < m_source.size())
            textUpToTag();
        add(TokenKind::End, "");
        return std::move(m_tokens);
    }

private:
    [[noreturn]] void malformed(const std::string& what) const {
        const auto line = std::to_string(m_line);
        fail(ErrorCode::Malformed, m_origin + ": chat template, line " + line + ": " + what,
             {{"file", m_origin}, {"line", line}});
    }
    bool startsWith(std::string_view text) const { return std::string_view(m_source).substr(m_at).starts_with(text); }
    void add(TokenKind kind, std::string text) { m_tokens.push_back({kind, std::move(text), m_line}); }
    void advance(std::size_t count) {
        const auto from = m_source.begin() + static_cast<std::ptrdiff_t>(m_at);
        m_line += static_cast<int>(std::count(from, from + static_cast<std::ptrdiff_t>(count), '\n'));
        m_at += count;
        m_lineStarts = m_at > 0 && m_source[m_at - 1] == '\n';
    }
    void skipSpace() { advance(m_source.size() - m_at - stripLeft(std::string_view(m_source).substr(m_at)).size()); }

    void textUpToTag() {
        std::size_t tag = m_at;
        const auto opens = [&](std::size_t i) {
            return m_source[i] == '{' && i + 1 < m_source.size() &&
                   std::string_view("{%#").find(m_source[i + 1]) != std::string_view::npos;
        };
        while (tag < m_source.size() && !opens(tag))
            ++tag;
        std::string_view text = std::string_view(m_source).substr(m_at, tag - m_at);
        const std::size_t length = text.size();
        const char type = tag < m_source.size() ? m_source[tag + 1] : '\0';
        const char sign = tag + 2 < m_source.size() ? m_source[tag + 2] : '\0';
        if (type && sign == '-')
            text = stripRight(text);
        else if (type && type != '{' && sign != '+') {          // lstrip_blocks: white space between line start and tag goes
            const std::size_t lineStart = text.rfind('\n') + 1; // npos + 1 is 0
            if ((lineStart > 0 || m_lineStarts) && stripLeft(text.substr(lineStart)).empty())
                text = text.substr(0, lineStart);
        }
        if (!text.empty())
            add(TokenKind::Text, std::string(text));
        advance(length);
        if (!type)
            return;
        advance(2 + (sign == '-' || sign == '+'));
        if (type == '#')
            comment();
        else
            tagBody(type == '{');
    }

    // After a tag's end: "-" takes all white space, and the first line break behind a block or comment goes (trim_blocks).
    void endTag(char sign, bool variable) {
        advance((sign ? 1 : 0) + 2);
        if (sign == '-')
            skipSpace();
        else if (!variable && sign != '+' && startsWith("\n"))
            advance(1);
    }

    void comment() {
        const std::size_t end = m_source.find("#}", m_at);
        if (end == std::string::npos)
            malformed("a comment is not closed: #} is missing");
        const char last = end > m_at ? m_source[end - 1] : '\0';
        const char sign = last == '-' || last == '+' ? last : '\0';
        advance(end - m_at - (sign ? 1 : 0));
        endTag(sign, false);
    }

    void tagBody(bool variable) {
        add(variable ? TokenKind::VariableBegin : TokenKind::BlockBegin, variable ? "{{" : "{%");
        const std::string close = variable ? "}}" : "%}";
        std::string open; // brackets still open: within them the closing mark is none
        while (true) {
            skipSpace();
            if (m_at >= m_source.size())
                malformed("a tag is not closed: " + close + " is missing");
            const char c = m_source[m_at];
            if (open.empty() && startsWith(close)) {
                add(variable ? TokenKind::VariableEnd : TokenKind::BlockEnd, close);
                return endTag('\0', variable);
            }
            if (open.empty() && (c == '-' || (c == '+' && !variable)) && m_source.compare(m_at + 1, 2, close) == 0) {
                add(variable ? TokenKind::VariableEnd : TokenKind::BlockEnd, close);
                return endTag(c, variable);
            }
            token(c, open);
        }
    }

    void token(char c, std::string& open) {
        const std::size_t start = m_at;
        if (c == '"' || c == '\'')
            return string(c);
        if (isDigit(c))
            return number();
        if (isNameCharacter(c)) {
            while (m_at < m_source.size() && isNameCharacter(m_source[m_at]))
                ++m_at;
            const auto name = m_source.substr(start, m_at - start);
            if (name == "raw" && m_tokens.back().kind == TokenKind::BlockBegin)
                fail(ErrorCode::Unsupported,
                     m_origin + ": chat template, line " + std::to_string(m_line) + ": the tag {% raw %} is not supported",
                     {{"file", m_origin}});
            return add(TokenKind::Name, name);
        }
        for (const char* two : {"**", "//", "==", "!=", ">=", "<="})
            if (startsWith(two)) {
                advance(2);
                return add(TokenKind::Operator, two);
            }
        if (std::string_view("+-*/%~[](){}<>=.:|,").find(c) == std::string_view::npos)
            malformed(std::string("unexpected character '") + c + "'");
        if (c == '(' || c == '[' || c == '{')
            open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
        if (c == ')' || c == ']' || c == '}') {
            if (open.empty() || open.back() != c)
                malformed(std::string("unexpected '") + c + "'");
            open.pop_back();
        }
        advance(1);
        add(TokenKind::Operator, std::string(1, c));
    }

    void number() {
        const std::size_t start = m_at;
        const auto digits = [&] {
            while (m_at < m_source.size() && (isDigit(m_source[m_at]) || m_source[m_at] == '_'))
                ++m_at;
        };
        digits();
        bool real = false;
        if (m_at + 1 < m_source.size() && m_source[m_at] == '.' && isDigit(m_source[m_at + 1])) {
            real = true;
            ++m_at;
            digits();
        }
        if (m_at < m_source.size() && (m_source[m_at] == 'e' || m_source[m_at] == 'E')) {
            real = true;
            m_at += m_at + 1 < m_source.size() && (m_source[m_at + 1] == '-' || m_source[m_at + 1] == '+') ? 2 : 1;
            digits();
        }
        std::string text = m_source.substr(start, m_at - start);
        std::erase(text, '_');
        if (text.size() > 18 || !isDigit(text.back()) || (!real && text.size() > 1 && text[0] == '0'))
            malformed("\"" + text + "\" is not a number that is supported");
        add(real ? TokenKind::Float : TokenKind::Integer, text);
    }

    char32_t hex(std::size_t digits) {
        char32_t code = 0;
        for (std::size_t i = 0; i < digits; ++i) {
            const char c = m_at < m_source.size() ? m_source[m_at] : '\0';
            const auto digit = std::string_view("0123456789abcdef").find(c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c);
            if (digit == std::string_view::npos)
                malformed("a string holds an escape that is cut short");
            code = code * 16 + static_cast<char32_t>(digit);
            ++m_at;
        }
        return code;
    }

    void string(char quote) {
        std::string value;
        for (advance(1); m_at < m_source.size() && m_source[m_at] != quote;) {
            const char c = m_source[m_at];
            advance(1);
            if (c != '\\' || m_at >= m_source.size()) {
                value += c;
                continue;
            }
            const char escape = m_source[m_at];
            advance(1);
            constexpr std::string_view kEscapes = "nrtabfv\\'\"", kMeaning = "\n\r\t\a\b\f\v\\'\"";
            if (const auto found = kEscapes.find(escape); found != kEscapes.npos)
                value += kMeaning[found];
            else if (escape == 'x' || escape == 'u' || escape == 'U')
                appendUtf8(value, hex(escape == 'x' ? 2 : escape == 'u' ? 4 : 8));
            else if (isDigit(escape) || escape == 'N')
                malformed(std::string("the escape \\") + escape + " in a string is not supported");
            else if (escape != '\n') // Python keeps the backslash of what is no escape
                value += {'\\', escape};
        }
        if (m_at >= m_source.size())
            malformed("a string is not closed");
        advance(1);
        add(TokenKind::String, value);
    }

    std::string m_source;
    const std::string& m_origin;
    std::vector<Token> m_tokens;
    std::size_t m_at = 0;
    int m_line = 1;
    bool m_lineStarts = true; // what lies before m_at ends with a line break
};

} // namespace

std::vector<Token> tokenize(std::string_view source, const std::string& origin) {
    return Lexer(normalizedLines(replaceInvalidUtf8(source)), origin).run();
}

bool isPythonSpace(char32_t codePoint) {
    return isWhiteSpace(codePoint) || (codePoint >= 0x1C && codePoint <= 0x1F);
}

std::string_view stripLeft(std::string_view text) {
    for (std::size_t i = 0; i < text.size();) {
        const std::size_t start = i;
        if (!isPythonSpace(nextCodePoint(text, i)))
            return text.substr(start);
    }
    return {};
}

std::string_view stripRight(std::string_view text) {
    while (!text.empty()) {
        std::size_t start = codePointStart(text, text.size()), position = start;
        if (!isPythonSpace(nextCodePoint(text, position)))
            break;
        text = text.substr(0, start);
    }
    return text;
}

} // namespace linnet::core::jinja
