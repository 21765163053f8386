// The tree of a template. Supported: output, if / elif / else, for (with filter, else, unpacking), set (also of a namespace's
// member, and as a block), macro, break, continue, generation; every operator but **; calls, filters, tests, slices, inline if.
#pragma once

#include "core/io/jinja_value.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace linnet::core::jinja {

struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<Expression>;
using Body = std::vector<Statement>;

struct Expression {
    enum class Kind {
        Literal,     // value
        Name,        // text
        List,        // children
        Tuple,       // children
        Dict,        // children: key, value, key, value, ...
        Attribute,   // children[0] . text
        Item,        // children[0] [ children[1] ]
        Slice,       // children[0] [ children[1] : children[2] : children[3] ], any of the three may be null
        Call,        // children[0] ( the other children, named )
        Filter,      // children[0] | text ( the other children, named )
        Test,        // children[0] is text ( the other children, named )
        Unary,       // text: "-", "+", "not"
        Binary,      // text: "+", "-", "*", "/", "//", "%", "~", "and", "or"
        Compare,     // children[0] operators[0] children[1] operators[1] children[2] ...: "==", "in", "not in", ...
        Conditional, // children[1] if children[0] else children[2], which may be null
    };
    Kind kind;
    int line;
    std::string text{};
    Value value{};
    std::vector<ExpressionPtr> children{};
    std::vector<std::pair<std::string, ExpressionPtr>> named{};
    std::vector<std::string> operators{};
};

struct Statement {
    enum class Kind {
        Text,     // text
        Output,   // expression
        If,       // branches of (condition or null, body)
        For,      // for targets in expression if condition: body, else otherwise
        Set,      // targets = expression, or text . member = expression
        SetBlock, // targets = body, captured
        Macro,    // text (parameters): body
        Group,    // body
        Break,
        Continue,
    };
    Kind kind;
    int line;
    std::string text{};
    std::string member{};
    ExpressionPtr expression{};
    ExpressionPtr condition{};
    std::vector<std::string> targets{};
    std::vector<std::pair<std::string, ExpressionPtr>> parameters{}; // name, default or null
    std::vector<std::pair<ExpressionPtr, Body>> branches{};
    Body body{};
    Body otherwise{};
};

// Throws Malformed naming `origin` and the line of a syntax error, Unsupported naming a tag or operator outside the subset.
Body parseTemplate(std::string_view source, const std::string& origin);

} // namespace linnet::core::jinja
