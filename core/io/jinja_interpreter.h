// Runs a parsed template.
#pragma once

#include "core/io/jinja_parser.h"

#include <map>
#include <string>

namespace linnet::core::jinja {

// What the template writes. Work, memory and nesting are bounded, so that no template hangs or fells the program. Errors name
// `origin` and the line: Malformed (wrong types, undefined values), Unsupported (a filter, test or method outside the subset),
// Usage (raise_exception).
std::string render(const Body& body, const std::map<std::string, Value>& variables, const std::string& origin);

} // namespace linnet::core::jinja
