// The expression half of the template parser: tokens in, expressions out.
#pragma once

#include "core/io/jinja_lexer.h"
#include "core/io/jinja_parser.h"

namespace linnet::core::jinja {

class ExpressionParser {
public:
    ExpressionParser(std::vector<Token> tokens, const std::string& origin) : m_tokens(std::move(tokens)), m_origin(origin) {}

protected:
    const Token& current() const { return m_tokens[m_at]; }
    bool at(TokenKind kind) const { return current().kind == kind; }
    bool atName(std::string_view name) const { return at(TokenKind::Name) && current().text == name; }
    bool atOperator(std::string_view op) const { return at(TokenKind::Operator) && current().text == op; }
    Token take() { return m_tokens[m_at].kind == TokenKind::End ? m_tokens[m_at] : m_tokens[m_at++]; }
    bool takeName(std::string_view name);
    bool takeOperator(std::string_view op);
    void expectOperator(std::string_view op);
    std::string expectName();
    [[noreturn]] void malformed(const std::string& what) const;
    [[noreturn]] void unsupported(const std::string& what) const;

    ExpressionPtr expression(bool withConditional = true);
    ExpressionPtr expressionOrTuple(); // a, b without parentheses is a tuple

private:
    ExpressionPtr make(Expression::Kind kind, std::string text = {});
    ExpressionPtr binary(ExpressionPtr left, std::string op, ExpressionPtr right);
    ExpressionPtr disjunction();
    ExpressionPtr conjunction();
    ExpressionPtr negation();
    ExpressionPtr comparison();
    ExpressionPtr sum();
    ExpressionPtr concatenation();
    ExpressionPtr product();
    ExpressionPtr unary(bool withFilter = true);
    ExpressionPtr primary();
    ExpressionPtr parenthesized();
    ExpressionPtr listLiteral();
    ExpressionPtr dictLiteral();
    ExpressionPtr postfix(ExpressionPtr node);
    ExpressionPtr subscript(ExpressionPtr node);
    ExpressionPtr filters(ExpressionPtr node);
    ExpressionPtr test(ExpressionPtr node);
    void arguments(Expression& call); // behind the opening parenthesis

    std::vector<Token> m_tokens;
    const std::string& m_origin;
    std::size_t m_at = 0;
    int m_depth = 0;
    int m_nodes = 0; // of the expression being read
};

} // namespace linnet::core::jinja
