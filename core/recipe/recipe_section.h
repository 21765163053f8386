// Inside core/recipe: one object of a recipe file, read key by key; every refusal names file, dotted key, found and expected.
#pragma once

#include "core/base/json.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace linnet::core {

[[noreturn]] void failKey(const std::string& origin, const std::string& key, const std::string& found,
                          const std::string& expected);
std::string foundText(const Json& value); // the value, shortened where it is long

// Keys that are absent leave their variable as it is. finish() refuses what nobody asked for.
class RecipeSection {
public:
    RecipeSection(const Json& json, std::string path, std::string origin);

    std::string key(const std::string& name) const { return m_path.empty() ? name : m_path + "." + name; }
    const std::string& origin() const { return m_origin; }
    const Json* find(const std::string& name); // null where absent
    void read(const std::string& name, std::int64_t& value);
    void read(const std::string& name, std::uint64_t& value);
    void read(const std::string& name, double& value);
    void read(const std::string& name, bool& value);
    void read(const std::string& name, std::string& value);
    void read(const std::string& name, std::vector<double>& value, bool nullIsInfinity = false); // infinity: no decay
    void read(const std::string& name, std::set<std::int64_t>& value);
    void read(const std::string& name, std::set<std::string>& value);
    RecipeSection section(const std::string& name); // an empty one where absent
    void finish() const;

private:
    const Json& m_json;
    std::string m_path, m_origin;
    std::vector<std::string> m_known;
};

} // namespace linnet::core
