#include "core/io/jinja_value.h"

#include "core/base/json.h"
#include "core/base/result.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace linnet::core::jinja {
namespace {

// Python's repr of a float: shortest digits, with an exponent below 1e-4 and from 1e16 on.
std::string floatText(double number) {
    if (std::isnan(number))
        return "nan";
    if (std::isinf(number))
        return number < 0 ? "-inf" : "inf";
    const double size = std::abs(number);
    const bool exponent = size != 0 && (size < 1e-4 || size >= 1e16);
    char buffer[400];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, number,
                                   exponent ? std::chars_format::scientific : std::chars_format::fixed);
    std::string text(buffer, end.ptr);
    return exponent || text.find('.') != text.npos ? text : text + ".0";
}

std::string quoted(const std::string& text) { // Python prefers '...' unless only ' occurs within
    const bool single = text.find('\'') == text.npos || text.find('"') != text.npos;
    const char quote = single ? '\'' : '"';
    std::string out(1, quote);
    for (const char c : text) {
        constexpr char kHex[] = "0123456789abcdef";
        if (c == quote || c == '\\')
            out += {'\\', c};
        else if (c == '\n')
            out += "\\n";
        else if (c == '\r')
            out += "\\r";
        else if (c == '\t')
            out += "\\t";
        else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
            out += {'\\', 'x', kHex[(c >> 4) & 15], kHex[c & 15]};
        else
            out += c;
    }
    return out + quote;
}

std::string jsonText(const std::string& text) {
    return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Items between brackets, each on its own line where there is an indent.
std::string block(char open, char close, const std::vector<std::string>& items, int indent, int depth) {
    std::string out(1, open);
    const auto newLine = [&](int level) { return "\n" + std::string(static_cast<std::size_t>(indent * level), ' '); };
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (i)
            out += indent < 0 ? ", " : ",";
        if (indent >= 0)
            out += newLine(depth + 1);
        out += items[i];
    }
    if (indent >= 0 && !items.empty())
        out += newLine(depth);
    return out + close;
}

std::string toJson(const Value& value, int indent, bool sortKeys, int depth) {
    if (value.isNone())
        return "null";
    if (value.is<bool>())
        return value.truthy() ? "true" : "false";
    if (value.isNumber())
        return value.str();
    if (value.text())
        return jsonText(*value.text());
    std::vector<std::string> items;
    if (const List* list = value.list()) {
        for (const Value& item : list->items)
            items.push_back(toJson(item, indent, sortKeys, depth + 1));
        return block('[', ']', items, indent, depth);
    }
    if (const Dict* dict = value.dict(); dict && !dict->isNamespace) {
        auto sorted = dict->items;
        if (sortKeys)
            std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
        for (const auto& [key, item] : sorted)
            items.push_back(jsonText(key) + ": " + toJson(item, indent, sortKeys, depth + 1));
        return block('{', '}', items, indent, depth);
    }
    typeError(std::string("a value of type ") + value.typeName() + " cannot be written as JSON");
}

} // namespace

void typeError(const std::string& what) {
    fail(ErrorCode::Malformed, what);
}

const Value* Dict::find(const std::string& key) const {
    const auto found = std::find_if(items.begin(), items.end(), [&](const auto& item) { return item.first == key; });
    return found == items.end() ? nullptr : &found->second;
}

void Dict::set(const std::string& key, Value value) {
    const auto found = std::find_if(items.begin(), items.end(), [&](const auto& item) { return item.first == key; });
    if (found == items.end())
        items.emplace_back(key, std::move(value));
    else
        found->second = std::move(value);
}

const Value* Arguments::get(std::size_t position, const std::string& name) const {
    if (position < positional.size())
        return &positional[position];
    const auto found = std::find_if(named.begin(), named.end(), [&](const auto& item) { return item.first == name; });
    return found == named.end() ? nullptr : &found->second;
}

const List* Value::list() const {
    const auto* list = std::get_if<std::shared_ptr<List>>(&data);
    return list ? list->get() : nullptr;
}

Dict* Value::dict() const {
    const auto* dict = std::get_if<std::shared_ptr<Dict>>(&data);
    return dict ? dict->get() : nullptr;
}

const Function* Value::function() const {
    const auto* function = std::get_if<std::shared_ptr<Function>>(&data);
    return function ? function->get() : nullptr;
}

int Value::depth() const {
    return list() ? list()->depth : dict() ? dict()->depth : 0;
}

std::int64_t Value::integer() const {
    return is<bool>() ? std::int64_t{std::get<bool>(data)} : std::get<std::int64_t>(data);
}

double Value::number() const {
    return is<double>() ? std::get<double>(data) : static_cast<double>(integer());
}

bool Value::truthy() const {
    if (isNumber())
        return number() != 0;
    if (text())
        return !text()->empty();
    if (list())
        return !list()->items.empty();
    if (dict())
        return dict()->isNamespace || !dict()->items.empty();
    return function() != nullptr;
}

std::string Value::str() const {
    return text() ? *text() : isUndefined() ? "" : repr();
}

std::string Value::repr() const {
    if (isUndefined())
        return "Undefined";
    if (isNone())
        return "None";
    if (is<bool>())
        return std::get<bool>(data) ? "True" : "False";
    if (is<std::int64_t>())
        return std::to_string(integer());
    if (is<double>())
        return floatText(number());
    if (text())
        return quoted(*text());
    std::string out;
    if (list()) {
        for (const Value& item : list()->items)
            out += (out.empty() ? "" : ", ") + item.repr();
        if (!list()->isTuple)
            return "[" + out + "]";
        return "(" + out + (list()->items.size() == 1 ? ",)" : ")");
    }
    if (dict() && !dict()->isNamespace) { // a namespace may hold itself
        for (const auto& [key, item] : dict()->items)
            out += (out.empty() ? "" : ", ") + quoted(key) + ": " + item.repr();
        return "{" + out + "}";
    }
    typeError(function() ? "the function " + function()->name + " is used as text; call it" : "a namespace is used as text");
}

std::string Value::json(int indent, bool sortKeys) const {
    return toJson(*this, indent, sortKeys, 0);
}

const char* Value::typeName() const {
    constexpr const char* kNames[] = {"undefined", "None", "bool", "int", "float", "str", "list", "dict", "function"};
    return kNames[data.index()];
}

bool equal(const Value& a, const Value& b) {
    if (a.isInteger() && b.isInteger())
        return a.integer() == b.integer();
    if (a.isNumber() && b.isNumber())
        return a.number() == b.number();
    if (a.text() && b.text())
        return *a.text() == *b.text();
    if (a.list() && b.list()) {
        const auto &left = a.list()->items, &right = b.list()->items;
        return a.list()->isTuple == b.list()->isTuple &&
               std::equal(left.begin(), left.end(), right.begin(), right.end(), equal);
    }
    if (a.dict() && b.dict() && (a.dict()->isNamespace || b.dict()->isNamespace))
        return a.dict() == b.dict();
    if (a.dict() && b.dict()) {
        const auto sameIn = [&](const auto& item) {
            const Value* other = b.dict()->find(item.first);
            return other && equal(item.second, *other);
        };
        return a.dict()->items.size() == b.dict()->items.size() &&
               std::all_of(a.dict()->items.begin(), a.dict()->items.end(), sameIn);
    }
    return (a.isNone() && b.isNone()) || (a.isUndefined() && b.isUndefined());
}

int compare(const Value& a, const Value& b) {
    if (a.isNumber() && b.isNumber())
        return a.number() < b.number() ? -1 : a.number() > b.number() ? 1 : 0;
    if (a.text() && b.text()) // UTF-8 sorts as code points do
        return a.text()->compare(*b.text());
    typeError(std::string("values of the types ") + a.typeName() + " and " + b.typeName() + " have no order");
}

bool contains(const Value& container, const Value& item) {
    if (container.text()) {
        if (!item.text())
            typeError(std::string("a value of type ") + item.typeName() + " is looked for in a string");
        return container.text()->find(*item.text()) != std::string::npos;
    }
    if (container.list()) {
        const auto& items = container.list()->items;
        return std::any_of(items.begin(), items.end(), [&](const Value& other) { return equal(item, other); });
    }
    if (container.dict())
        return item.text() && container.dict()->find(*item.text());
    if (container.isUndefined())
        return false;
    typeError(std::string("\"in\" does not work on a value of type ") + container.typeName());
}

} // namespace linnet::core::jinja
