// A model's chat template, applied: the Jinja subset of jinja_parser.h with what transformers gives a template.
#pragma once

#include "core/io/tokenizer.h"

#include <map>
#include <string>
#include <vector>

namespace linnet::core {

struct ChatInput {
    std::vector<ChatMessage> messages;
    bool addGenerationPrompt = false;
    std::map<std::string, std::string> specialTokens; // "bos_token", "eos_token", ...
};

// Throws Unsupported naming `origin` and the construct that is outside the subset, Malformed for a syntax error (with its
// line), Usage with the template's own words where it calls raise_exception.
std::string renderChatTemplate(const std::string& source, const ChatInput& input, const std::string& origin);

} // namespace linnet::core
