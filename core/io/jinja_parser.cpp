#include "core/io/jinja_parser.h"

#include "core/io/jinja_expressions.h"

#include <algorithm>

namespace linnet::core::jinja {
namespace {

constexpr int kMaxBlocks = 60; // nested in each other: the parser recurses

class TemplateParser : ExpressionParser {
public:
    using ExpressionParser::ExpressionParser;

    Body run() {
        Body body = statements({});
        if (!at(TokenKind::End))
            malformed("the tag \"" + current().text + "\" has nothing to end");
        return body;
    }

private:
    using Kind = Statement::Kind;

    // Up to the end, or to a block that starts with one of `ends`, whose name is then the current token.
    Body statements(const std::vector<std::string_view>& ends) {
        if (++m_blocks > kMaxBlocks)
            malformed("blocks are nested deeper than " + std::to_string(kMaxBlocks));
        Body body;
        while (!at(TokenKind::End)) {
            const Token token = take();
            if (token.kind == TokenKind::Text) {
                body.push_back({Kind::Text, token.line, token.text});
            } else if (token.kind == TokenKind::VariableBegin) {
                Statement output{Kind::Output, token.line};
                output.expression = expressionOrTuple();
                endOf(TokenKind::VariableEnd);
                body.push_back(std::move(output));
            } else {
                const auto isCurrent = [&](std::string_view name) { return atName(name); };
                if (std::any_of(ends.begin(), ends.end(), isCurrent))
                    break;
                body.push_back(block(expectName()));
            }
        }
        if (at(TokenKind::End) && !ends.empty())
            malformed("the template ends before {% " + std::string(ends.back()) + " %}");
        --m_blocks;
        return body;
    }

    void endOf(TokenKind kind) {
        if (!at(kind))
            malformed("the tag should end here, found \"" + current().text + "\"");
        take();
    }

    Statement block(const std::string& name) {
        Statement statement{Kind::Group, current().line};
        if (name == "if")
            ifBlock(statement);
        else if (name == "for")
            forBlock(statement);
        else if (name == "set")
            setBlock(statement);
        else if (name == "macro")
            macroBlock(statement);
        else if (name == "generation") // transformers': marks what the assistant says
            statement.body = bodyUpTo("endgeneration");
        else if (name == "break" || name == "continue") {
            statement.kind = name == "break" ? Kind::Break : Kind::Continue;
            if (m_loops == 0)
                malformed("{% " + name + " %} stands outside of a loop");
            endOf(TokenKind::BlockEnd);
        } else if (name == "else" || name == "elif" || name.starts_with("end"))
            malformed("the tag {% " + name + " %} has nothing to end");
        else
            unsupported("the tag {% " + name + " %}");
        return statement;
    }

    Body bodyUpTo(const std::string& end) {
        endOf(TokenKind::BlockEnd);
        Body body = statements({end});
        take();
        endOf(TokenKind::BlockEnd);
        return body;
    }

    void ifBlock(Statement& statement) {
        statement.kind = Kind::If;
        ExpressionPtr condition = expressionOrTuple();
        while (true) {
            endOf(TokenKind::BlockEnd);
            Body body = statements({"elif", "else", "endif"});
            const bool last = condition == nullptr;
            statement.branches.emplace_back(std::move(condition), std::move(body));
            const std::string end = take().text;
            if (end == "endif")
                break;
            if (last)
                malformed("{% " + end + " %} follows {% else %}");
            condition = end == "elif" ? expressionOrTuple() : nullptr;
        }
        endOf(TokenKind::BlockEnd);
    }

    std::vector<std::string> targets() {
        const bool parentheses = takeOperator("(");
        std::vector<std::string> names{expectName()};
        while (takeOperator(","))
            names.push_back(expectName());
        if (parentheses)
            expectOperator(")");
        return names;
    }

    void forBlock(Statement& statement) {
        statement.kind = Kind::For;
        statement.targets = targets();
        if (!takeName("in"))
            malformed("\"in\" is expected, found \"" + current().text + "\"");
        statement.expression = expression(false); // an "if" here is the loop's filter
        if (takeName("if"))
            statement.condition = expression();
        if (atName("recursive"))
            unsupported("a recursive loop");
        endOf(TokenKind::BlockEnd);
        ++m_loops;
        statement.body = statements({"else", "endfor"});
        --m_loops;
        if (takeName("else")) {
            endOf(TokenKind::BlockEnd);
            statement.otherwise = statements({"endfor"});
        }
        take();
        endOf(TokenKind::BlockEnd);
    }

    void setBlock(Statement& statement) {
        statement.kind = Kind::Set;
        statement.targets = targets();
        if (takeOperator(".")) {
            statement.text = statement.targets[0];
            statement.member = expectName();
        }
        if (takeOperator("=")) {
            statement.expression = expressionOrTuple();
            endOf(TokenKind::BlockEnd);
            return;
        }
        if (!at(TokenKind::BlockEnd) || !statement.member.empty() || statement.targets.size() != 1)
            unsupported("this form of {% set %}");
        statement.kind = Kind::SetBlock;
        statement.body = bodyUpTo("endset");
    }

    void macroBlock(Statement& statement) {
        statement.kind = Kind::Macro;
        statement.text = expectName();
        expectOperator("(");
        while (!atOperator(")")) {
            if (!statement.parameters.empty())
                expectOperator(",");
            std::string name = expectName();
            statement.parameters.emplace_back(std::move(name), takeOperator("=") ? expression() : nullptr);
        }
        take();
        const int loops = std::exchange(m_loops, 0); // a macro's body is in no loop
        statement.body = bodyUpTo("endmacro");
        m_loops = loops;
    }

    int m_blocks = 0;
    int m_loops = 0;
};

} // namespace

Body parseTemplate(std::string_view source, const std::string& origin) {
    return TemplateParser(tokenize(source, origin), origin).run();
}

} // namespace linnet::core::jinja
