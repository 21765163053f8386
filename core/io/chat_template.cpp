#include "core/io/chat_template.h"

#include "core/io/jinja_interpreter.h"

namespace linnet::core {

std::string renderChatTemplate(const std::string& source, const ChatInput& input, const std::string& origin) {
    using jinja::Value;
    jinja::List messages{{}, false, 2};
    for (const ChatMessage& message : input.messages)
        messages.items.emplace_back(jinja::Dict{{{"role", message.role}, {"content", message.content}}});
    std::map<std::string, Value> variables = {{"messages", std::move(messages)},
                                              {"add_generation_prompt", Value(input.addGenerationPrompt)},
                                              {"tools", jinja::None{}}, // what transformers passes where nothing is given
                                              {"documents", jinja::None{}}};
    for (const auto& [name, token] : input.specialTokens)
        variables[name] = token;
    return jinja::render(jinja::parseTemplate(source, origin), variables, origin);
}

} // namespace linnet::core
