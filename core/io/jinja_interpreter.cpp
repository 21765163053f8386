#include "core/io/jinja_interpreter.h"

#include "core/base/result.h"
#include "core/io/jinja_builtins.h"
#include "core/io/jinja_evaluator.h"

#include <algorithm>
#include <set>

namespace linnet::core::jinja {
namespace {

constexpr int kMaxCalls = 30; // of macros within each other

class Interpreter : public Evaluator {
public:
    explicit Interpreter(const std::map<std::string, Value>& variables) { m_scopes.emplace_back(variables); }
    ~Interpreter() { // a namespace may hold itself, which no counting of references ends
        for (const auto& dict : m_changed)
            dict->items.clear();
    }
    Interpreter(const Interpreter&) = delete;
    Interpreter& operator=(const Interpreter&) = delete;

    std::string run(const Body& body) {
        execute(body);
        return std::move(m_out);
    }

private:
    using Kind = Statement::Kind;
    enum class Flow { On, Break, Continue };

    void write(const std::string& text) {
        m_out += text;
        if (m_out.size() > kMaxTextBytes)
            typeError("the template writes more than " + std::to_string(kMaxTextBytes) + " bytes");
    }

    Flow execute(const Body& body) {
        for (const Statement& statement : body)
            if (const Flow flow = execute(statement); flow != Flow::On)
                return flow;
        return Flow::On;
    }

    Flow execute(const Statement& statement) {
        step(statement.line);
        switch (statement.kind) {
        case Kind::Text:
            write(statement.text);
            break;
        case Kind::Output:
            write(evaluate(*statement.expression).str());
            break;
        case Kind::If:
            for (const auto& [condition, body] : statement.branches)
                if (!condition || evaluate(*condition).truthy())
                    return execute(body);
            break;
        case Kind::For:
            return loop(statement);
        case Kind::Set:
            assign(statement);
            break;
        case Kind::SetBlock: {
            std::string before = std::exchange(m_out, {});
            const Flow flow = execute(statement.body);
            define(statement.targets[0], std::exchange(m_out, std::move(before)));
            return flow;
        }
        case Kind::Macro:
            define(statement.text, macro(statement));
            break;
        case Kind::Group:
            return execute(statement.body);
        case Kind::Break:
            return Flow::Break;
        case Kind::Continue:
            return Flow::Continue;
        }
        return Flow::On;
    }

    void assign(const Statement& statement) {
        Value value = evaluate(*statement.expression);
        if (statement.member.empty())
            return bind(statement.targets, value);
        const Value* target = lookup(statement.text);
        Dict* dict = target ? target->dict() : nullptr;
        if (!dict || !dict->isNamespace)
            typeError("\"" + statement.text + "\" is no namespace, so its members cannot be set");
        m_changed.insert(std::get<std::shared_ptr<Dict>>(target->data));
        dict->depth = std::max(dict->depth, 1 + value.depth());
        dict->set(statement.member, std::move(value));
    }

    void bind(const std::vector<std::string>& names, const Value& value) {
        if (names.size() == 1)
            return define(names[0], value);
        const auto items = iterate(value);
        if (items.size() != names.size())
            typeError(std::to_string(names.size()) + " names cannot take " + std::to_string(items.size()) + " values");
        for (std::size_t i = 0; i < names.size(); ++i)
            define(names[i], items[i]);
    }

    Flow loop(const Statement& statement) {
        std::vector<Value> items = iterate(evaluate(*statement.expression));
        if (statement.condition)
            std::erase_if(items, [&](const Value& value) {
                m_scopes.emplace_back();
                bind(statement.targets, value);
                const bool wanted = evaluate(*statement.condition).truthy();
                m_scopes.pop_back();
                return !wanted;
            });
        for (std::size_t i = 0; i < items.size(); ++i) {
            step(statement.line);
            m_scopes.emplace_back(); // what an iteration sets is gone with it
            bind(statement.targets, items[i]);
            define("loop", loopVariable(items, i));
            const Flow flow = execute(statement.body);
            m_scopes.pop_back();
            if (flow == Flow::Break)
                break;
        }
        return items.empty() ? execute(statement.otherwise) : Flow::On;
    }

    static Value loopVariable(const std::vector<Value>& items, std::size_t index) {
        const auto at = static_cast<std::int64_t>(index), count = static_cast<std::int64_t>(items.size());
        Dict loop;
        loop.items = {{"index", Value(at + 1)},        {"index0", Value(at)},
                      {"revindex", Value(count - at)}, {"revindex0", Value(count - at - 1)},
                      {"first", Value(at == 0)},       {"last", Value(at + 1 == count)},
                      {"length", Value(count)}};
        if (index > 0)
            loop.set("previtem", items[index - 1]);
        if (index + 1 < items.size())
            loop.set("nextitem", items[index + 1]);
        loop.set("cycle", Function{"loop.cycle", [index](const Arguments& arguments) {
                                       if (arguments.positional.empty())
                                           typeError("loop.cycle needs arguments");
                                       return arguments.positional[index % arguments.positional.size()];
                                   }});
        return loop;
    }

    // A macro sees the template's own variables, not those around its call.
    Value macro(const Statement& statement) {
        return Function{statement.text, [this, &statement](const Arguments& arguments) -> Value {
                            if (arguments.positional.size() > statement.parameters.size())
                                typeError("the macro " + statement.text + " takes " +
                                          std::to_string(statement.parameters.size()) + " arguments");
                            if (++m_calls > kMaxCalls)
                                typeError("macros are called within each other deeper than " + std::to_string(kMaxCalls));
                            auto scopes = m_scopes;
                            m_scopes.resize(1);
                            m_scopes.emplace_back();
                            for (std::size_t i = 0; i < statement.parameters.size(); ++i) {
                                const auto& [name, fallback] = statement.parameters[i];
                                const Value* given = arguments.get(i, name);
                                define(name, given ? *given : fallback ? evaluate(*fallback) : Value(Undefined{name}));
                            }
                            std::string before = std::exchange(m_out, {});
                            execute(statement.body);
                            m_scopes = std::move(scopes);
                            --m_calls;
                            return std::exchange(m_out, std::move(before));
                        }};
    }

    std::string m_out;
    std::set<std::shared_ptr<Dict>> m_changed; // namespaces
    int m_calls = 0;
};

} // namespace

std::string render(const Body& body, const std::map<std::string, Value>& variables, const std::string& origin) {
    Interpreter interpreter(variables);
    try {
        return interpreter.run(body);
    } catch (Failure& failure) {
        const auto line = std::to_string(interpreter.line());
        failure.error.message = origin + ": chat template, line " + line + ": " + failure.error.message;
        failure.error.context.insert({{"file", origin}, {"line", line}});
        throw;
    }
}

} // namespace linnet::core::jinja
