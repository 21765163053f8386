// Jinja's filters, tests and global functions, and the methods of Python's str, list and dict, as far as chat templates use
// them. All throw Unsupported naming what is not there, Malformed for wrong types.
#pragma once

#include "core/io/jinja_value.h"

#include <string>
#include <string_view>
#include <vector>

namespace linnet::core::jinja {

constexpr std::size_t kMaxTextBytes = std::size_t{64} << 20; // of any string that a template makes
constexpr std::size_t kMaxCharacters = std::size_t{1} << 20; // of a string that is walked through, reversed or indexed

Value applyFilter(const std::string& name, const Value& value, const Arguments& arguments);
bool applyTest(const std::string& name, const Value& value, const Arguments& arguments);
Value callMethod(const Value& self, const std::string& name, const Arguments& arguments);
// range, namespace, dict, raise_exception, strftime_now; undefined for any other name.
Value globalFunction(const std::string& name);

std::vector<Value> iterate(const Value& value); // list: items; dict: keys; string: characters; undefined: nothing
std::vector<std::string> characters(std::string_view text);
std::string replaceAll(const std::string& text, const std::string& from, const std::string& to, std::int64_t atMost);

} // namespace linnet::core::jinja
