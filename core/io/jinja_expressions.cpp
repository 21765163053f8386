#include "core/io/jinja_expressions.h"

#include "core/base/result.h"

#include <cstdlib>

namespace linnet::core::jinja {
namespace {

constexpr int kMaxDepth = 100;  // of nested expressions: the parser recurses
constexpr int kMaxNodes = 3000; // of one expression: whoever walks the tree recurses too, also along "a + a + a + ..."

} // namespace

using Kind = Expression::Kind;

bool ExpressionParser::takeName(std::string_view name) {
    const bool found = atName(name);
    if (found)
        take();
    return found;
}

bool ExpressionParser::takeOperator(std::string_view op) {
    const bool found = atOperator(op);
    if (found)
        take();
    return found;
}

void ExpressionParser::expectOperator(std::string_view op) {
    if (!takeOperator(op))
        malformed("\"" + std::string(op) + "\" is expected, found \"" + current().text + "\"");
}

std::string ExpressionParser::expectName() {
    if (!at(TokenKind::Name))
        malformed("a name is expected, found \"" + current().text + "\"");
    return take().text;
}

void ExpressionParser::malformed(const std::string& what) const {
    const auto line = std::to_string(current().line);
    fail(ErrorCode::Malformed, m_origin + ": chat template, line " + line + ": " + what, {{"file", m_origin}, {"line", line}});
}

void ExpressionParser::unsupported(const std::string& what) const {
    const auto line = std::to_string(current().line);
    fail(ErrorCode::Unsupported, m_origin + ": chat template, line " + line + ": " + what + " is not supported",
         {{"file", m_origin}, {"line", line}});
}

ExpressionPtr ExpressionParser::make(Kind kind, std::string text) {
    if (++m_nodes > kMaxNodes)
        malformed("an expression has more than " + std::to_string(kMaxNodes) + " parts");
    return std::make_unique<Expression>(Expression{kind, current().line, std::move(text)});
}

ExpressionPtr ExpressionParser::binary(ExpressionPtr left, std::string op, ExpressionPtr right) {
    auto node = make(Kind::Binary, std::move(op));
    node->children.push_back(std::move(left));
    node->children.push_back(std::move(right));
    return node;
}

ExpressionPtr ExpressionParser::expression(bool withConditional) {
    if (m_depth == 0)
        m_nodes = 0;
    if (++m_depth > kMaxDepth)
        malformed("expressions are nested deeper than " + std::to_string(kMaxDepth));
    auto node = disjunction();
    while (withConditional && takeName("if")) {
        auto conditional = make(Kind::Conditional);
        conditional->children.push_back(disjunction());
        conditional->children.push_back(std::move(node));
        conditional->children.push_back(takeName("else") ? expression() : nullptr);
        node = std::move(conditional);
    }
    --m_depth;
    return node;
}

ExpressionPtr ExpressionParser::expressionOrTuple() {
    auto first = expression();
    if (!atOperator(","))
        return first;
    auto tuple = make(Kind::Tuple);
    tuple->children.push_back(std::move(first));
    while (takeOperator(","))
        if (!at(TokenKind::BlockEnd) && !at(TokenKind::VariableEnd) && !atOperator(")"))
            tuple->children.push_back(expression());
    return tuple;
}

ExpressionPtr ExpressionParser::disjunction() {
    auto node = conjunction();
    while (takeName("or"))
        node = binary(std::move(node), "or", conjunction());
    return node;
}

ExpressionPtr ExpressionParser::conjunction() {
    auto node = negation();
    while (takeName("and"))
        node = binary(std::move(node), "and", negation());
    return node;
}

ExpressionPtr ExpressionParser::negation() {
    if (!atName("not"))
        return comparison();
    if (++m_depth > kMaxDepth)
        malformed("expressions are nested deeper than " + std::to_string(kMaxDepth));
    auto node = make(Kind::Unary, take().text);
    node->children.push_back(negation());
    --m_depth;
    return node;
}

ExpressionPtr ExpressionParser::comparison() {
    auto first = sum();
    auto node = make(Kind::Compare);
    node->children.push_back(std::move(first));
    while (true) {
        std::string op;
        for (const char* symbol : {"==", "!=", "<", "<=", ">", ">="})
            if (atOperator(symbol))
                op = symbol;
        if (op.empty() && atName("in"))
            op = "in";
        if (op.empty() && atName("not") && m_tokens[m_at + 1].kind == TokenKind::Name && m_tokens[m_at + 1].text == "in") {
            take();
            op = "not in";
        }
        if (op.empty())
            break;
        take();
        node->operators.push_back(op);
        node->children.push_back(sum());
    }
    return node->operators.empty() ? std::move(node->children[0]) : std::move(node);
}

ExpressionPtr ExpressionParser::sum() {
    auto node = concatenation();
    while (atOperator("+") || atOperator("-")) {
        std::string op = take().text;
        node = binary(std::move(node), std::move(op), concatenation());
    }
    return node;
}

ExpressionPtr ExpressionParser::concatenation() {
    auto node = product();
    while (takeOperator("~"))
        node = binary(std::move(node), "~", product());
    return node;
}

ExpressionPtr ExpressionParser::product() {
    auto node = unary();
    while (atOperator("*") || atOperator("/") || atOperator("//") || atOperator("%")) {
        std::string op = take().text;
        node = binary(std::move(node), std::move(op), unary());
    }
    if (atOperator("**"))
        unsupported("the operator **");
    return node;
}

ExpressionPtr ExpressionParser::unary(bool withFilter) {
    ExpressionPtr node;
    if (atOperator("-") || atOperator("+")) {
        if (++m_depth > kMaxDepth)
            malformed("expressions are nested deeper than " + std::to_string(kMaxDepth));
        node = make(Kind::Unary, take().text);
        node->children.push_back(unary(false));
        --m_depth;
    } else {
        node = primary();
    }
    node = postfix(std::move(node));
    return withFilter ? filters(std::move(node)) : std::move(node);
}

ExpressionPtr ExpressionParser::primary() {
    auto node = make(Kind::Literal);
    if (at(TokenKind::String)) {
        std::string text;
        while (at(TokenKind::String))
            text += take().text;
        node->value = Value(std::move(text));
    } else if (at(TokenKind::Integer)) {
        node->value = Value(std::int64_t{std::strtoll(take().text.c_str(), nullptr, 10)});
    } else if (at(TokenKind::Float)) {
        node->value = Value(std::strtod(take().text.c_str(), nullptr));
    } else if (at(TokenKind::Name)) {
        const std::string name = take().text;
        if (name == "true" || name == "True" || name == "false" || name == "False")
            node->value = Value(name == "true" || name == "True");
        else if (name == "none" || name == "None")
            node->value = Value(None{});
        else
            node = make(Kind::Name, name);
    } else if (takeOperator("(")) {
        return parenthesized();
    } else if (takeOperator("[")) {
        return listLiteral();
    } else if (takeOperator("{")) {
        return dictLiteral();
    } else {
        malformed("a value is expected, found \"" + current().text + "\"");
    }
    return node;
}

ExpressionPtr ExpressionParser::parenthesized() {
    auto node = atOperator(")") ? make(Kind::Tuple) : expressionOrTuple();
    expectOperator(")");
    return node;
}

ExpressionPtr ExpressionParser::listLiteral() {
    auto node = make(Kind::List);
    while (!atOperator("]")) {
        if (!node->children.empty())
            expectOperator(",");
        if (!atOperator("]"))
            node->children.push_back(expression());
    }
    take();
    return node;
}

ExpressionPtr ExpressionParser::dictLiteral() {
    auto node = make(Kind::Dict);
    while (!atOperator("}")) {
        if (!node->children.empty())
            expectOperator(",");
        if (atOperator("}"))
            break;
        node->children.push_back(expression());
        expectOperator(":");
        node->children.push_back(expression());
    }
    take();
    return node;
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr node) {
    while (true) {
        if (takeOperator(".")) {
            if (at(TokenKind::Integer))
                unsupported("a number behind a point");
            auto attribute = make(Kind::Attribute, expectName());
            attribute->children.push_back(std::move(node));
            node = std::move(attribute);
        } else if (takeOperator("[")) {
            node = subscript(std::move(node));
        } else if (takeOperator("(")) {
            auto call = make(Kind::Call);
            call->children.push_back(std::move(node));
            arguments(*call);
            node = std::move(call);
        } else {
            return node;
        }
    }
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr node) {
    auto item = make(Kind::Item);
    item->children.push_back(std::move(node));
    if (!atOperator(":"))
        item->children.push_back(expression());
    if (atOperator(":")) {
        item->kind = Kind::Slice;
        item->children.resize(2);
        while (takeOperator(":"))
            item->children.push_back(atOperator(":") || atOperator("]") ? nullptr : expression());
        if (item->children.size() > 4)
            malformed("a slice has three parts at most");
        item->children.resize(4);
    }
    if (atOperator(","))
        unsupported("more than one index");
    expectOperator("]");
    return item;
}

void ExpressionParser::arguments(Expression& call) {
    bool first = true;
    while (!atOperator(")")) {
        if (!first)
            expectOperator(",");
        if (atOperator(")"))
            break;
        first = false;
        if (atOperator("*") || atOperator("**"))
            unsupported("the argument list \"" + current().text + "...\"");
        const Token& next = m_tokens[m_at + 1];
        if (at(TokenKind::Name) && next.kind == TokenKind::Operator && next.text == "=") {
            std::string name = take().text;
            take();
            call.named.emplace_back(std::move(name), expression());
        } else if (!call.named.empty()) {
            malformed("an argument without a name follows one with a name");
        } else {
            call.children.push_back(expression());
        }
    }
    take();
}

ExpressionPtr ExpressionParser::filters(ExpressionPtr node) {
    while (true) {
        if (takeOperator("|")) {
            auto filter = make(Kind::Filter, expectName());
            filter->children.push_back(std::move(node));
            if (takeOperator("("))
                arguments(*filter);
            node = std::move(filter);
        } else if (takeName("is")) {
            node = test(std::move(node));
        } else if (atOperator("(")) { // calls the result of a filter
            node = postfix(std::move(node));
        } else {
            return node;
        }
    }
}

ExpressionPtr ExpressionParser::test(ExpressionPtr node) {
    const bool negated = takeName("not");
    auto result = make(Kind::Test, expectName());
    result->children.push_back(std::move(node));
    const bool name = at(TokenKind::Name) && !atName("else") && !atName("or") && !atName("and") && !atName("if");
    const bool literal = at(TokenKind::String) || at(TokenKind::Integer) || at(TokenKind::Float);
    if (takeOperator("("))
        arguments(*result);
    else if (name || literal || atOperator("[") || atOperator("{"))
        result->children.push_back(postfix(primary()));
    if (!negated)
        return result;
    auto inverse = make(Kind::Unary, "not");
    inverse->children.push_back(std::move(result));
    return inverse;
}

} // namespace linnet::core::jinja
