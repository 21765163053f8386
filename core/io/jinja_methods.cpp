// Methods of str, list and dict, and the global functions.
#include "core/base/result.h"
#include "core/io/jinja_builtins.h"
#include "core/io/jinja_lexer.h"
#include "core/io/unicode_text.h"

#include <algorithm>
#include <ctime>
#include <utf8proc.h>

namespace linnet::core::jinja {
namespace {

const std::string& textArgument(const Arguments& arguments, std::size_t position, const std::string& method) {
    const Value* value = arguments.get(position, "");
    if (!value || !value->text())
        typeError(method + " needs a string as argument " + std::to_string(position + 1));
    return *value->text();
}

std::int64_t countArgument(const Arguments& arguments, std::size_t position, const std::string& name) {
    const Value* value = arguments.get(position, name);
    if (value && !value->isInteger())
        typeError(name + " must be a whole number");
    return value ? value->integer() : -1;
}

std::string strip(std::string_view text, const Arguments& arguments, bool left, bool right) {
    const Value* given = arguments.get(0, "chars");
    if (!given || given->isNone()) {
        if (left)
            text = stripLeft(text);
        return std::string(right ? stripRight(text) : text);
    }
    if (!given->text())
        typeError("strip needs a string of characters");
    const auto set = characters(*given->text());
    auto parts = characters(text);
    const auto inSet = [&](const std::string& c) { return std::find(set.begin(), set.end(), c) != set.end(); };
    std::size_t begin = 0, end = parts.size();
    while (left && begin < end && inSet(parts[begin]))
        ++begin;
    while (right && end > begin && inSet(parts[end - 1]))
        --end;
    std::string out;
    for (std::size_t i = begin; i < end; ++i)
        out += parts[i];
    return out;
}

// str.split: by white space (which never gives empty parts) or by a separator; -1: no limit.
List split(std::string_view text, const Arguments& arguments) {
    List parts;
    std::int64_t left = countArgument(arguments, 1, "maxsplit");
    const Value* separator = arguments.get(0, "sep");
    if (!separator || separator->isNone()) {
        for (text = stripLeft(text); !text.empty(); text = stripLeft(text)) {
            std::size_t end = left-- == 0 ? text.size() : 0; // the last part keeps the white space behind it
            for (std::size_t i = end; end < text.size() && !isPythonSpace(nextCodePoint(text, i));)
                end = i;
            parts.items.emplace_back(std::string(text.substr(0, end)));
            text.remove_prefix(end);
        }
        return parts;
    }
    if (!separator->text() || separator->text()->empty())
        typeError("split needs a separator that is not empty");
    for (auto at = text.find(*separator->text()); at != text.npos && left-- != 0; at = text.find(*separator->text())) {
        parts.items.emplace_back(std::string(text.substr(0, at)));
        text.remove_prefix(at + separator->text()->size());
    }
    parts.items.emplace_back(std::string(text));
    return parts;
}

List splitFromRight(std::string_view text, const Arguments& arguments) {
    const std::string& separator = textArgument(arguments, 0, "rsplit");
    if (separator.empty())
        typeError("rsplit needs a separator that is not empty");
    std::int64_t left = countArgument(arguments, 1, "maxsplit");
    List parts;
    for (auto at = text.rfind(separator); at != text.npos && left-- != 0; at = text.rfind(separator)) {
        parts.items.emplace_back(std::string(text.substr(at + separator.size())));
        text = text.substr(0, at);
    }
    parts.items.emplace_back(std::string(text));
    std::reverse(parts.items.begin(), parts.items.end());
    return parts;
}

bool hasAffix(const std::string& text, const Arguments& arguments, bool atStart) {
    const Value* given = arguments.get(0, "");
    const auto matches = [&](const Value& affix) {
        if (!affix.text())
            typeError("startswith and endswith need a string or a tuple of strings");
        return atStart ? text.starts_with(*affix.text()) : text.ends_with(*affix.text());
    };
    if (!given)
        typeError("startswith and endswith need an argument");
    if (given->list())
        return std::any_of(given->list()->items.begin(), given->list()->items.end(), matches);
    return matches(*given);
}

std::string changeCase(std::string_view text, utf8proc_int32_t (*change)(utf8proc_int32_t)) {
    std::string out;
    for (std::size_t i = 0; i < text.size();)
        appendUtf8(out, static_cast<char32_t>(change(static_cast<utf8proc_int32_t>(nextCodePoint(text, i)))));
    return out;
}

std::string capitalized(std::string_view text) {
    std::size_t first = 0;
    if (!text.empty())
        nextCodePoint(text, first);
    return changeCase(text.substr(0, first), utf8proc_totitle) + changeCase(text.substr(first), utf8proc_tolower);
}

std::string titled(std::string_view text) { // each run of letters starts with a capital
    std::string out;
    bool letterBefore = false;
    for (std::size_t i = 0; i < text.size();) {
        const auto c = static_cast<utf8proc_int32_t>(nextCodePoint(text, i));
        appendUtf8(out, static_cast<char32_t>(letterBefore ? utf8proc_tolower(c) : utf8proc_totitle(c)));
        letterBefore = utf8proc_toupper(c) != c || utf8proc_tolower(c) != c;
    }
    return out;
}

Value find(const std::string& text, const std::string& part, bool fromRight) { // in characters
    const auto at = fromRight ? text.rfind(part) : text.find(part);
    if (at == text.npos)
        return std::int64_t{-1};
    return static_cast<std::int64_t>(characters(std::string_view(text).substr(0, at)).size());
}

std::int64_t occurrences(const std::string& text, const std::string& part) {
    if (part.empty())
        return static_cast<std::int64_t>(characters(text).size()) + 1;
    std::int64_t count = 0;
    for (auto at = text.find(part); at != text.npos; at = text.find(part, at + part.size()))
        ++count;
    return count;
}

Value textMethod(const std::string& text, const std::string& name, const Arguments& arguments) {
    if (name == "strip" || name == "lstrip" || name == "rstrip")
        return strip(text, arguments, name != "rstrip", name != "lstrip");
    if (name == "split")
        return split(text, arguments);
    if (name == "rsplit")
        return splitFromRight(text, arguments);
    if (name == "startswith" || name == "endswith")
        return hasAffix(text, arguments, name == "startswith");
    if (name == "replace")
        return replaceAll(text, textArgument(arguments, 0, name), textArgument(arguments, 1, name),
                          countArgument(arguments, 2, "count"));
    if (name == "upper" || name == "lower")
        return changeCase(text, name == "upper" ? utf8proc_toupper : utf8proc_tolower);
    if (name == "capitalize")
        return capitalized(text);
    if (name == "title")
        return titled(text);
    if (name == "find" || name == "rfind")
        return find(text, textArgument(arguments, 0, name), name == "rfind");
    if (name == "count")
        return occurrences(text, textArgument(arguments, 0, name));
    if (name == "join") {
        const Value* items = arguments.get(0, "");
        return applyFilter("join", items ? *items : Value(), {{Value(text)}, {}});
    }
    if (name == "isdigit" || name == "isspace") {
        bool all = !text.empty();
        for (std::size_t i = 0; i < text.size();) {
            const char32_t c = nextCodePoint(text, i);
            all = all && (name == "isspace" ? isPythonSpace(c) : c >= '0' && c <= '9');
        }
        return all;
    }
    fail(ErrorCode::Unsupported, "the method str." + name + " is not supported");
}

Value dictMethod(const Dict& dict, const std::string& name, const Arguments& arguments) {
    if (name == "get") {
        const Value* key = arguments.get(0, "");
        const Value* fallback = arguments.get(1, "");
        const Value* found = key && key->text() ? dict.find(*key->text()) : nullptr;
        return found ? *found : fallback ? *fallback : Value(None{});
    }
    if (name == "items" || name == "keys" || name == "values") {
        List list;
        for (const auto& [key, value] : dict.items)
            list.items.push_back(name == "items"  ? Value(List{{Value(key), value}, true, 1 + value.depth()})
                                 : name == "keys" ? Value(key)
                                                  : value);
        list.depth = 1 + dict.depth;
        return list;
    }
    fail(ErrorCode::Unsupported, "the method dict." + name + " is not supported");
}

Value range(const Arguments& arguments) {
    std::int64_t bounds[3] = {0, 0, 1};
    const auto& given = arguments.positional;
    if (given.empty() || given.size() > 3)
        typeError("range needs one to three whole numbers");
    for (std::size_t i = 0; i < given.size(); ++i) {
        if (!given[i].isInteger())
            typeError("range needs whole numbers");
        bounds[given.size() == 1 ? 1 : i] = given[i].integer();
    }
    const auto [start, stop, step] = bounds;
    if (step == 0)
        typeError("range has a step of 0");
    List list;
    for (std::int64_t i = start; step > 0 ? i < stop : i > stop; i += step) {
        if (list.items.size() == 100000) // the sandbox's limit in Jinja
            typeError("range has more than 100000 items");
        list.items.emplace_back(i);
    }
    return list;
}

Value strftimeNow(const Arguments& arguments) {
    const std::string& format = textArgument(arguments, 0, "strftime_now");
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    localtime_r(&now, &local);
    char buffer[1024];
    return std::string(buffer, std::strftime(buffer, sizeof buffer, format.c_str(), &local));
}

Value makeDict(const Arguments& arguments, bool isNamespace) {
    if (!arguments.positional.empty())
        fail(ErrorCode::Unsupported, "namespace and dict with an argument that has no name are not supported");
    Dict dict{{}, isNamespace};
    for (const auto& [key, value] : arguments.named) {
        dict.set(key, value);
        dict.depth = std::max(dict.depth, 1 + value.depth());
    }
    return dict;
}

} // namespace

Value callMethod(const Value& self, const std::string& name, const Arguments& arguments) {
    if (self.text())
        return textMethod(*self.text(), name, arguments);
    if (self.dict() && !self.dict()->isNamespace)
        return dictMethod(*self.dict(), name, arguments);
    fail(ErrorCode::Unsupported, std::string("the method ") + self.typeName() + "." + name + " is not supported");
}

Value globalFunction(const std::string& name) {
    if (name == "range")
        return Function{name, range};
    if (name == "namespace")
        return Function{name, [](const Arguments& arguments) { return makeDict(arguments, true); }};
    if (name == "dict")
        return Function{name, [](const Arguments& arguments) { return makeDict(arguments, false); }};
    if (name == "strftime_now")
        return Function{name, strftimeNow};
    if (name == "raise_exception")
        return Function{name, [](const Arguments& arguments) -> Value {
                            const Value* message = arguments.get(0, "message");
                            fail(ErrorCode::Usage, "the template refuses the messages: " + (message ? message->str() : ""));
                        }};
    return Undefined{name};
}

std::vector<std::string> characters(std::string_view text) {
    if (text.size() > kMaxCharacters)
        typeError("a string of more than " + std::to_string(kMaxCharacters) + " bytes is cut into characters");
    std::vector<std::string> out;
    for (std::size_t i = 0; i < text.size();) {
        const std::size_t start = i;
        nextCodePoint(text, i);
        out.emplace_back(text.substr(start, i - start));
    }
    return out;
}

std::vector<Value> iterate(const Value& value) {
    if (value.list())
        return value.list()->items;
    std::vector<Value> items;
    if (value.isUndefined())
        return items;
    if (value.text()) {
        for (auto& character : characters(*value.text()))
            items.emplace_back(std::move(character));
    } else if (value.dict() && !value.dict()->isNamespace) {
        for (const auto& item : value.dict()->items)
            items.emplace_back(item.first);
    } else {
        typeError(std::string("a value of type ") + value.typeName() + " has no items");
    }
    return items;
}

std::string replaceAll(const std::string& text, const std::string& from, const std::string& to, std::int64_t atMost) {
    if (from.empty())
        fail(ErrorCode::Unsupported, "replacing the empty string is not supported");
    std::string out;
    std::size_t done = 0;
    for (auto at = text.find(from); at != text.npos && atMost-- != 0; at = text.find(from, done)) {
        out.append(text, done, at - done).append(to);
        if (out.size() > kMaxTextBytes)
            typeError("a string grows beyond " + std::to_string(kMaxTextBytes) + " bytes");
        done = at + from.size();
    }
    return out.append(text, done);
}

} // namespace linnet::core::jinja
