// Keys of the JSON files that say how a model is put together; each failure names file and key.
#pragma once

#include "core/base/json.h"

#include <filesystem>
#include <map>
#include <set>
#include <string>

namespace linnet::core {

const Json& member(const Json& object, const char* key, const std::filesystem::path& file);
std::string textMember(const Json& object, const char* key, const std::filesystem::path& file);
[[noreturn]] void refuseKey(const std::filesystem::path& file, const char* key, const std::string& why); // Malformed

// {"3": value} by layer; empty where object has no such key.
std::map<std::int64_t, Json> byLayer(const Json& object, const char* key, const std::filesystem::path& file);
// "head_norm_eps": {"3": 1e-05}: finite numbers above 0 of layers that are in `layers`.
std::map<std::int64_t, double> headNormEpsOf(const Json& object, const std::set<std::int64_t>& layers, const std::filesystem::path& file);
// "mixer", which names one that there is.
std::string mixerMember(const Json& object, const std::filesystem::path& file);

} // namespace linnet::core
