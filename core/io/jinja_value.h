// Values of a chat template: what Python's None, bool, int, float, str, list, tuple and dict do in Jinja.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace linnet::core::jinja {

class Value;

struct Undefined {
    std::string name; // what was looked for
};
struct None {};
struct List {
    std::vector<Value> items;
    bool isTuple = false;
    int depth = 1; // of lists and dicts within each other; the interpreter bounds it
};
struct Dict { // in order of insertion; keys are strings
    std::vector<std::pair<std::string, Value>> items;
    bool isNamespace = false; // the only kind that a template may change
    int depth = 1;

    const Value* find(const std::string& key) const;
    void set(const std::string& key, Value value);
};
struct Arguments {
    std::vector<Value> positional;
    std::vector<std::pair<std::string, Value>> named;

    // The argument at `position` or called `name`; null where it is not given.
    const Value* get(std::size_t position, const std::string& name) const;
};
struct Function {
    std::string name;
    std::function<Value(const Arguments&)> call;
};

class Value {
public:
    using Data = std::variant<Undefined, None, bool, std::int64_t, double, std::string, std::shared_ptr<List>,
                              std::shared_ptr<Dict>, std::shared_ptr<Function>>;
    Data data;

    Value() : data(Undefined{}) {}
    Value(Undefined undefined) : data(std::move(undefined)) {}
    Value(None none) : data(none) {}
    Value(bool flag) : data(flag) {}
    Value(std::int64_t number) : data(number) {}
    Value(double number) : data(number) {}
    Value(std::string text) : data(std::move(text)) {}
    Value(const char* text) : data(std::string(text)) {} // else a literal would become a bool
    Value(List list) : data(std::make_shared<List>(std::move(list))) {}
    Value(Dict dict) : data(std::make_shared<Dict>(std::move(dict))) {}
    Value(Function function) : data(std::make_shared<Function>(std::move(function))) {}

    template <class T> bool is() const { return std::holds_alternative<T>(data); }
    bool isUndefined() const { return is<Undefined>(); }
    bool isNone() const { return is<None>(); }
    const std::string* text() const { return std::get_if<std::string>(&data); }
    const List* list() const;
    Dict* dict() const;
    const Function* function() const;
    bool isInteger() const { return is<bool>() || is<std::int64_t>(); }
    bool isNumber() const { return isInteger() || is<double>(); }
    int depth() const;            // 0 for what is no list or dict
    std::int64_t integer() const; // of an integer or a bool
    double number() const;        // of any number

    bool truthy() const;
    std::string str() const;                                        // as Python's str(); "" for undefined
    std::string repr() const;                                       // as Python's repr()
    std::string json(int indent = -1, bool sortKeys = false) const; // as json.dumps(ensure_ascii=False)
    const char* typeName() const;
};

bool equal(const Value& a, const Value& b);
// Below zero, zero or above; throws Malformed where the two have no order.
int compare(const Value& a, const Value& b);
bool contains(const Value& container, const Value& item); // item in container

[[noreturn]] void typeError(const std::string& what); // Malformed; the interpreter adds origin and line

} // namespace linnet::core::jinja
