#include "core/io/jinja_evaluator.h"

#include "core/base/result.h"
#include "core/io/jinja_builtins.h"

#include <algorithm>
#include <cmath>

namespace linnet::core::jinja {
namespace {

constexpr std::size_t kMaxSteps = 2'000'000; // a long conversation takes some ten thousand
constexpr int kMaxValueDepth = 200;          // of lists and dicts within each other: whoever walks them recurses

using Kind = Expression::Kind;

Value arithmetic(const std::string& op, std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    if (op == "+"   ? __builtin_add_overflow(a, b, &result)
        : op == "-" ? __builtin_sub_overflow(a, b, &result)
                    : op == "*" && __builtin_mul_overflow(a, b, &result))
        typeError("a whole number grows beyond 64 bits");
    if (op == "+" || op == "-" || op == "*")
        return result;
    if (b == 0)
        typeError("division by zero");
    if (op == "/")
        return static_cast<double>(a) / static_cast<double>(b);
    if (b == -1) // the one quotient that may overflow
        return op == "%" ? Value(std::int64_t{0}) : arithmetic("-", 0, a);
    const std::int64_t remainder = a % b;
    const bool borrow = remainder != 0 && (remainder < 0) != (b < 0); // Python rounds down
    return op == "%" ? Value(remainder + (borrow ? b : 0)) : Value(a / b - (borrow ? 1 : 0));
}

Value arithmetic(const std::string& op, double a, double b) {
    if (op == "+" || op == "-" || op == "*")
        return op == "+" ? a + b : op == "-" ? a - b : a * b;
    if (b == 0)
        typeError("division by zero");
    return op == "/" ? a / b : op == "//" ? std::floor(a / b) : a - b * std::floor(a / b);
}

Value repeated(const std::string& text, std::int64_t times) {
    if (times > 0 && text.size() > kMaxTextBytes / static_cast<std::size_t>(times))
        typeError("a string grows beyond " + std::to_string(kMaxTextBytes) + " bytes");
    std::string out;
    for (std::int64_t i = 0; i < times; ++i)
        out += text;
    return out;
}

Value operate(const std::string& op, const Value& a, const Value& b) {
    if (op == "~")
        return a.str() + b.str();
    if (a.isInteger() && b.isInteger())
        return arithmetic(op, a.integer(), b.integer());
    if (a.isNumber() && b.isNumber())
        return arithmetic(op, a.number(), b.number());
    if (op == "+" && a.text() && b.text())
        return *a.text() + *b.text();
    if (op == "*" && ((a.text() && b.isInteger()) || (a.isInteger() && b.text())))
        return a.text() ? repeated(*a.text(), b.integer()) : repeated(*b.text(), a.integer());
    if (op == "+" && a.list() && b.list() && a.list()->isTuple == b.list()->isTuple) {
        List joined = *a.list();
        joined.items.insert(joined.items.end(), b.list()->items.begin(), b.list()->items.end());
        joined.depth = std::max(a.depth(), b.depth());
        return joined;
    }
    if (op == "%" && a.text())
        fail(ErrorCode::Unsupported, "formatting with % is not supported");
    for (const Value* value : {&a, &b})
        if (const auto* undefined = std::get_if<Undefined>(&value->data))
            typeError("\"" + undefined->name + "\" is undefined");
    typeError(std::string("\"") + op + "\" does not work on values of the types " + a.typeName() + " and " + b.typeName());
}

} // namespace

void Evaluator::step(int line, std::size_t work) {
    m_line = line;
    m_steps += work;
    if (m_steps > kMaxSteps)
        typeError("the template does more than " + std::to_string(kMaxSteps) + " steps");
}

const Value* Evaluator::lookup(const std::string& name) const {
    for (auto scope = m_scopes.rbegin(); scope != m_scopes.rend(); ++scope)
        if (const auto found = scope->find(name); found != scope->end())
            return &found->second;
    return nullptr;
}

Value Evaluator::name(const std::string& name) const {
    const Value* found = lookup(name);
    return found ? *found : globalFunction(name);
}

Value Evaluator::evaluate(const Expression& expression) {
    step(expression.line);
    Value value = compute(expression);
    const bool makesList = value.list() && expression.kind != Kind::Name && expression.kind != Kind::Attribute;
    step(expression.line, makesList ? value.list()->items.size() / 8 : value.text() ? value.text()->size() / 256 : 0);
    if (value.text() && value.text()->size() > kMaxTextBytes)
        typeError("a string grows beyond " + std::to_string(kMaxTextBytes) + " bytes");
    if (value.depth() > kMaxValueDepth)
        typeError("lists are nested deeper than " + std::to_string(kMaxValueDepth));
    return value;
}

Value Evaluator::compute(const Expression& expression) {
    const auto child = [&](std::size_t i) { return evaluate(*expression.children[i]); };
    switch (expression.kind) {
    case Kind::Literal:
        return expression.value;
    case Kind::Name:
        return name(expression.text);
    case Kind::List:
    case Kind::Tuple:
    case Kind::Dict:
        return collection(expression);
    case Kind::Attribute:
        return attribute(child(0), expression.text);
    case Kind::Item: {
        const Value object = child(0);
        return item(object, child(1));
    }
    case Kind::Slice:
        return slice(expression);
    case Kind::Call:
        return call(expression);
    case Kind::Filter: {
        const Value value = child(0);
        return applyFilter(expression.text, value, arguments(expression));
    }
    case Kind::Test: {
        const Value value = child(0);
        return applyTest(expression.text, value, arguments(expression));
    }
    case Kind::Unary:
        return unary(expression);
    case Kind::Binary:
        return binary(expression);
    case Kind::Compare:
        return comparison(expression);
    case Kind::Conditional:
        if (child(0).truthy())
            return child(1);
        return expression.children[2] ? child(2) : Value(Undefined{"the value of an \"if\" without \"else\""});
    }
    return {};
}

Value Evaluator::attribute(const Value& object, const std::string& name) const {
    if (const auto* undefined = std::get_if<Undefined>(&object.data))
        typeError("\"" + undefined->name + "\" is undefined, so it has no \"" + name + "\"");
    const Value* found = object.dict() ? object.dict()->find(name) : nullptr;
    return found ? *found : Value(Undefined{name});
}

Value Evaluator::item(const Value& object, const Value& key) const {
    if (key.text())
        return attribute(object, *key.text());
    if (const auto* undefined = std::get_if<Undefined>(&object.data))
        typeError("\"" + undefined->name + "\" is undefined, so it has no items");
    if (!key.isInteger() || (!object.list() && !object.text()))
        return Undefined{"item " + key.str()};
    const auto items = object.list() ? std::vector<Value>() : iterate(object);
    const auto& all = object.list() ? object.list()->items : items;
    const auto count = static_cast<std::int64_t>(all.size());
    const std::int64_t index = key.integer() < 0 ? key.integer() + count : key.integer();
    return index < 0 || index >= count ? Value(Undefined{"item " + key.str()}) : all[static_cast<std::size_t>(index)];
}

// Python's: absent bounds mean the ends, negative ones count from the end, all are clamped.
Value Evaluator::slice(const Expression& expression) {
    const Value object = evaluate(*expression.children[0]);
    if (!object.list() && !object.text())
        typeError(std::string("a value of type ") + object.typeName() + " cannot be sliced");
    const auto bound = [&](std::size_t i) -> Value {
        const Value value = expression.children[i] ? evaluate(*expression.children[i]) : Value(None{});
        if (!value.isNone() && !value.isInteger())
            typeError("a slice needs whole numbers");
        return value;
    };
    const Value startValue = bound(1), stopValue = bound(2), stepValue = bound(3);
    const auto items = iterate(object);
    const auto count = static_cast<std::int64_t>(items.size());
    const std::int64_t by = stepValue.isNone() ? 1 : std::clamp<std::int64_t>(stepValue.integer(), -count - 1, count + 1);
    if (by == 0)
        typeError("a slice has a step of 0");
    const auto clamp = [&](const Value& value, std::int64_t absent) {
        if (value.isNone())
            return absent;
        const std::int64_t index = value.integer() < 0 ? value.integer() + count : value.integer();
        return by > 0 ? std::clamp<std::int64_t>(index, 0, count) : std::clamp<std::int64_t>(index, -1, count - 1);
    };
    const std::int64_t start = clamp(startValue, by > 0 ? 0 : count - 1), stop = clamp(stopValue, by > 0 ? count : -1);
    List out{{}, object.list() && object.list()->isTuple, std::max(1, object.depth())};
    for (std::int64_t i = start; by > 0 ? i < stop : i > stop; i += by)
        out.items.push_back(items[static_cast<std::size_t>(i)]);
    return object.text() ? applyFilter("join", out, {}) : Value(out);
}

Value Evaluator::collection(const Expression& expression) {
    if (expression.kind == Kind::Dict) {
        Dict dict;
        for (std::size_t i = 0; i < expression.children.size(); i += 2) {
            const Value key = evaluate(*expression.children[i]);
            if (!key.text())
                fail(ErrorCode::Unsupported, "a dict key that is no string is not supported");
            Value value = evaluate(*expression.children[i + 1]);
            dict.depth = std::max(dict.depth, 1 + value.depth());
            dict.set(*key.text(), std::move(value));
        }
        return dict;
    }
    List list{{}, expression.kind == Kind::Tuple};
    for (const auto& child : expression.children) {
        list.items.push_back(evaluate(*child));
        list.depth = std::max(list.depth, 1 + list.items.back().depth());
    }
    return list;
}

Arguments Evaluator::arguments(const Expression& expression) {
    Arguments out;
    for (std::size_t i = 1; i < expression.children.size(); ++i)
        out.positional.push_back(evaluate(*expression.children[i]));
    for (const auto& [argument, value] : expression.named)
        out.named.emplace_back(argument, evaluate(*value));
    return out;
}

Value Evaluator::call(const Expression& expression) {
    const Expression& callee = *expression.children[0];
    if (callee.kind == Kind::Attribute) {
        const Value self = evaluate(*callee.children[0]);
        if (const auto* undefined = std::get_if<Undefined>(&self.data))
            typeError("\"" + undefined->name + "\" is undefined, so it has no \"" + callee.text + "\"");
        const Value* member = self.dict() ? self.dict()->find(callee.text) : nullptr;
        const Arguments given = arguments(expression);
        return member && member->function() ? member->function()->call(given) : callMethod(self, callee.text, given);
    }
    const Value function = evaluate(callee);
    if (const auto* undefined = std::get_if<Undefined>(&function.data))
        fail(ErrorCode::Unsupported, "the function \"" + undefined->name + "\" is not known");
    if (!function.function())
        typeError(std::string("a value of type ") + function.typeName() + " is called like a function");
    return function.function()->call(arguments(expression));
}

Value Evaluator::unary(const Expression& expression) {
    const Value value = evaluate(*expression.children[0]);
    if (expression.text == "not")
        return !value.truthy();
    if (!value.isNumber())
        typeError("\"" + expression.text + "\" needs a number, found a value of type " + value.typeName());
    if (expression.text == "+")
        return value.isInteger() ? Value(value.integer()) : value;
    return value.isInteger() ? arithmetic("-", 0, value.integer()) : Value(-value.number());
}

Value Evaluator::binary(const Expression& expression) {
    Value left = evaluate(*expression.children[0]);
    if (expression.text == "and" || expression.text == "or") // the value of the side that decides
        return left.truthy() == (expression.text == "or") ? left : evaluate(*expression.children[1]);
    return operate(expression.text, left, evaluate(*expression.children[1]));
}

Value Evaluator::comparison(const Expression& expression) { // a < b < c is a < b and b < c
    Value left = evaluate(*expression.children[0]);
    for (std::size_t i = 0; i < expression.operators.size(); ++i) {
        const std::string& op = expression.operators[i];
        Value right = evaluate(*expression.children[i + 1]);
        const bool holds = op == "=="       ? equal(left, right)
                           : op == "!="     ? !equal(left, right)
                           : op == "in"     ? contains(right, left)
                           : op == "not in" ? !contains(right, left)
                           : op == "<"      ? compare(left, right) < 0
                           : op == "<="     ? compare(left, right) <= 0
                           : op == ">"      ? compare(left, right) > 0
                                            : compare(left, right) >= 0;
        if (!holds)
            return false;
        left = std::move(right);
    }
    return true;
}

} // namespace linnet::core::jinja
