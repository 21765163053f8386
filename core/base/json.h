// JSON with key order kept (nlohmann), and the checks that every reader of a file needs.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace linnet::core {

using Json = nlohmann::ordered_json;

// Parses text; duplicate keys, trailing text, NaN and nesting deeper than 64 are refused. `origin` names the file or option.
// Throws Failure{Malformed} with line and column.
Json parseJson(std::string_view text, const std::string& origin);
// The same for objects of a hundred thousand keys, in which Json, that keeps their order, finds a key only by walking.
nlohmann::json parseLargeJson(std::string_view text, const std::string& origin);
Json readJsonFile(const std::filesystem::path& file);

// The known name nearest to `name` by edit distance, or "" where none is near: for "unknown key X, did you mean Y?".
std::string nearestName(std::string_view name, const std::vector<std::string>& known);

} // namespace linnet::core
