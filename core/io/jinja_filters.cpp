// Filters and tests.
#include "core/base/result.h"
#include "core/io/jinja_builtins.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace linnet::core::jinja {
namespace {

Value length(const Value& value) {
    if (value.text()) {
        const auto startsCharacter = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
        return std::int64_t{std::count_if(value.text()->begin(), value.text()->end(), startsCharacter)};
    }
    return static_cast<std::int64_t>(iterate(value).size());
}

Value toJson(const Value& value, const Arguments& arguments) {
    const auto isSet = [&](std::size_t position, const char* name) {
        const Value* given = arguments.get(position, name);
        return given && given->truthy();
    };
    if (isSet(0, "ensure_ascii") || isSet(2, "separators"))
        fail(ErrorCode::Unsupported, "tojson with ensure_ascii or separators is not supported");
    const Value* indent = arguments.get(1, "indent");
    if (indent && !indent->isNone() && !indent->isInteger())
        fail(ErrorCode::Unsupported, "tojson with an indent that is no number is not supported");
    const bool indented = indent && !indent->isNone();
    const int width = indented ? static_cast<int>(std::clamp<std::int64_t>(indent->integer(), 0, 40)) : -1;
    return value.json(width, isSet(3, "sort_keys"));
}

Value join(const Value& value, const Arguments& arguments) {
    const Value* separator = arguments.get(0, "d");
    if (arguments.get(1, "attribute"))
        fail(ErrorCode::Unsupported, "join with an attribute is not supported");
    const auto items = iterate(value);
    std::string out;
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (i && separator)
            out += separator->str();
        out += items[i].str();
        if (out.size() > kMaxTextBytes)
            typeError("a string grows beyond " + std::to_string(kMaxTextBytes) + " bytes");
    }
    return out;
}

Value toInteger(const Value& value, const Arguments& arguments) {
    const Value* fallback = arguments.get(0, "default");
    if (value.isInteger())
        return value.integer();
    if (value.isNumber())
        return std::abs(value.number()) < 9e18 ? Value(static_cast<std::int64_t>(value.number())) : Value(std::int64_t{0});
    if (value.text()) {
        const std::string text = *callMethod(value, "strip", {}).text();
        char* end = nullptr;
        const long long whole = std::strtoll(text.c_str(), &end, 10);
        if (!text.empty() && *end == '\0')
            return std::int64_t{whole};
        const double real = std::strtod(text.c_str(), &end);
        if (!text.empty() && *end == '\0' && std::abs(real) < 9e18)
            return static_cast<std::int64_t>(real);
    }
    return fallback ? *fallback : Value(std::int64_t{0});
}

Value toFloat(const Value& value, const Arguments& arguments) {
    if (value.isNumber())
        return value.number();
    if (value.text()) {
        char* end = nullptr;
        const double real = std::strtod(value.text()->c_str(), &end);
        if (!value.text()->empty() && *end == '\0')
            return real;
    }
    const Value* fallback = arguments.get(0, "default");
    return fallback ? *fallback : Value(0.0);
}

Value absolute(const Value& value) {
    if (!value.isNumber())
        typeError(std::string("abs needs a number, found a value of type ") + value.typeName());
    return value.isInteger() ? Value(std::abs(value.integer())) : Value(std::abs(value.number()));
}

Value reversed(const Value& value) {
    auto items = iterate(value);
    std::reverse(items.begin(), items.end());
    return value.text() ? join(List{items}, {}) : Value(List{items, false, 1 + value.depth()});
}

Value member(const Value& value, const Value& key) {
    const Value* found = value.dict() && key.text() ? value.dict()->find(*key.text()) : nullptr;
    return found ? *found : Value(Undefined{key.str()});
}

Arguments rest(const Arguments& arguments, std::size_t from) {
    const auto begin = arguments.positional.begin() + static_cast<std::ptrdiff_t>(std::min(from, arguments.positional.size()));
    return {{begin, arguments.positional.end()}, arguments.named};
}

Value map(const Value& value, const Arguments& arguments) {
    List out{{}, false, 1 + value.depth()};
    const Value* attribute = arguments.positional.empty() ? arguments.get(0, "attribute") : nullptr;
    const Value* fallback = arguments.positional.empty() ? arguments.get(1, "default") : nullptr;
    if (!attribute && (arguments.positional.empty() || !arguments.positional[0].text()))
        typeError("map needs the name of a filter or an attribute");
    for (const Value& item : iterate(value)) {
        Value result =
            attribute ? member(item, *attribute) : applyFilter(*arguments.positional[0].text(), item, rest(arguments, 1));
        out.items.push_back(result.isUndefined() && fallback ? *fallback : std::move(result));
    }
    return out;
}

// select, reject (test, arguments...); selectattr, rejectattr (attribute, test, arguments...); without a test: truth.
Value select(const std::string& name, const Value& value, const Arguments& arguments) {
    const bool wanted = name.starts_with("select");
    const std::size_t testAt = name.ends_with("attr") ? 1 : 0;
    const auto& given = arguments.positional;
    if (given.size() < testAt || (given.size() > testAt && !given[testAt].text()))
        typeError(name + " needs names of an attribute and a test");
    List out{{}, false, 1 + value.depth()};
    for (const Value& item : iterate(value)) {
        const Value subject = testAt ? member(item, given[0]) : item;
        const bool passes =
            given.size() > testAt ? applyTest(*given[testAt].text(), subject, rest(arguments, testAt + 1)) : subject.truthy();
        if (passes == wanted)
            out.items.push_back(item);
    }
    return out;
}

bool compares(const std::string& test, const Value& a, const Value& b) {
    if (test == "eq" || test == "equalto" || test == "sameas")
        return equal(a, b) && (test != "sameas" || a.data.index() == b.data.index());
    if (test == "ne")
        return !equal(a, b);
    const int order = compare(a, b);
    return test.starts_with("g") ? order > 0 || (test == "ge" && order == 0) : order < 0 || (test == "le" && order == 0);
}

} // namespace

Value applyFilter(const std::string& name, const Value& value, const Arguments& arguments) {
    if (name == "default" || name == "d") {
        const Value* fallback = arguments.get(0, "default_value");
        const Value* alsoFalse = arguments.get(1, "boolean");
        const bool replace = value.isUndefined() || (alsoFalse && alsoFalse->truthy() && !value.truthy());
        return !replace ? value : fallback ? *fallback : Value("");
    }
    if (name == "trim")
        return callMethod(value.str(), "strip", arguments);
    if (name == "tojson")
        return toJson(value, arguments);
    if (name == "length" || name == "count")
        return length(value);
    if (name == "string")
        return value.str();
    if (name == "safe")
        return value;
    if (name == "join")
        return join(value, arguments);
    if (name == "upper" || name == "lower" || name == "capitalize" || name == "title" || name == "replace")
        return callMethod(value.str(), name, arguments);
    if (name == "first" || name == "last") {
        const auto items = iterate(value);
        if (items.empty())
            return Undefined{name + " item of an empty list"};
        return name == "first" ? items.front() : items.back();
    }
    if (name == "list")
        return List{iterate(value), false, 1 + value.depth()};
    if (name == "items")
        return value.isUndefined() ? Value(List{}) : callMethod(value, "items", {});
    if (name == "int")
        return toInteger(value, arguments);
    if (name == "float")
        return toFloat(value, arguments);
    if (name == "abs")
        return absolute(value);
    if (name == "reverse")
        return reversed(value);
    if (name == "map")
        return map(value, arguments);
    if (name == "select" || name == "reject" || name == "selectattr" || name == "rejectattr")
        return select(name, value, arguments);
    fail(ErrorCode::Unsupported, "the filter \"" + name + "\" is not supported");
}

bool applyTest(const std::string& name, const Value& value, const Arguments& arguments) {
    if (name == "defined" || name == "undefined")
        return value.isUndefined() == (name == "undefined");
    if (name == "none")
        return value.isNone();
    if (name == "string")
        return value.text() != nullptr;
    if (name == "mapping")
        return value.dict() && !value.dict()->isNamespace;
    if (name == "iterable" || name == "sequence") // Undefined can be walked through and has a length
        return value.text() || value.list() || value.isUndefined() || (value.dict() && !value.dict()->isNamespace);
    if (name == "number")
        return value.isNumber();
    if (name == "integer")
        return value.is<std::int64_t>();
    if (name == "float")
        return value.is<double>();
    if (name == "boolean")
        return value.is<bool>();
    if (name == "true" || name == "false")
        return value.is<bool>() && value.truthy() == (name == "true");
    if (name == "callable")
        return value.function() != nullptr;
    const auto number = [&](const Value& given) {
        if (!given.isInteger())
            typeError("the test \"" + name + "\" needs whole numbers");
        return given.integer();
    };
    if (name == "odd" || name == "even")
        return (number(value) % 2 != 0) == (name == "odd");
    const std::vector<std::string> binary = {"eq", "equalto",     "ne", "lt",     "lessthan", "le",
                                             "gt", "greaterthan", "ge", "sameas", "in",       "divisibleby"};
    if (std::find(binary.begin(), binary.end(), name) == binary.end())
        fail(ErrorCode::Unsupported, "the test \"" + name + "\" is not supported");
    const Value* other = arguments.get(0, "other");
    if (!other)
        typeError("the test \"" + name + "\" needs an argument");
    if (name == "in")
        return contains(*other, value);
    if (name != "divisibleby")
        return compares(name, value, *other);
    if (number(*other) == 0)
        typeError("division by zero");
    return number(value) % number(*other) == 0;
}

} // namespace linnet::core::jinja
