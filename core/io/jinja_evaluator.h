// The expression half of the interpreter: variables and the values of expressions.
#pragma once

#include "core/io/jinja_parser.h"

#include <map>
#include <string>
#include <vector>

namespace linnet::core::jinja {

class Evaluator {
public:
    int line() const { return m_line; } // of what was evaluated last

protected:
    using Scope = std::map<std::string, Value>;

    Value evaluate(const Expression& expression);
    void step(int line, std::size_t work = 1); // counts work, which is bounded
    void define(const std::string& name, Value value) { m_scopes.back()[name] = std::move(value); }
    const Value* lookup(const std::string& name) const; // innermost first; null where there is none

    std::vector<Scope> m_scopes;

private:
    Value compute(const Expression& expression);
    Value name(const std::string& name) const;
    Value attribute(const Value& object, const std::string& name) const;
    Value item(const Value& object, const Value& key) const;
    Value slice(const Expression& expression);
    Value collection(const Expression& expression);
    Value call(const Expression& expression);
    Value unary(const Expression& expression);
    Value binary(const Expression& expression);
    Value comparison(const Expression& expression);
    Arguments arguments(const Expression& expression);

    int m_line = 1;
    std::size_t m_steps = 0;
};

} // namespace linnet::core::jinja
