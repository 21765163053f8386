#include "core/recipe/recipe_section.h"

#include "core/base/result.h"
#include "core/recipe/recipe_json.h"

#include <algorithm>
#include <limits>

namespace linnet::core {

std::string foundText(const Json& value) {
    constexpr std::size_t kLongest = 60;
    std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

void failKey(const std::string& origin, const std::string& key, const std::string& found, const std::string& expected) {
    fail(ErrorCode::Malformed, origin + ": " + key + ": found " + found + ", expected " + expected,
         {{"file", origin}, {"key", key}, {"found", found}, {"expected", expected}});
}

RecipeSection::RecipeSection(const Json& json, std::string path, std::string origin)
    : m_json(json), m_path(std::move(path)), m_origin(std::move(origin)) {
    if (!json.is_object())
        failKey(m_origin, m_path.empty() ? "recipe" : m_path, foundText(json), "an object");
}

const Json* RecipeSection::find(const std::string& name) {
    if (std::ranges::find(m_known, name) == m_known.end())
        m_known.push_back(name);
    const auto found = m_json.find(name);
    return found == m_json.end() ? nullptr : &*found;
}

void RecipeSection::read(const std::string& name, std::int64_t& value) {
    const Json* found = find(name);
    if (!found)
        return;
    if (!found->is_number_integer() ||
        (found->is_number_unsigned() && found->get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}))
        failKey(m_origin, key(name), foundText(*found), "a whole number");
    value = found->get<std::int64_t>();
}

void RecipeSection::read(const std::string& name, std::uint64_t& value) {
    const Json* found = find(name);
    if (!found)
        return;
    if (!found->is_number_unsigned())
        failKey(m_origin, key(name), foundText(*found), "a whole number from 0");
    value = found->get<std::uint64_t>();
}

void RecipeSection::read(const std::string& name, double& value) {
    const Json* found = find(name);
    if (!found)
        return;
    if (!found->is_number())
        failKey(m_origin, key(name), foundText(*found), "a number");
    value = found->get<double>();
}

void RecipeSection::read(const std::string& name, bool& value) {
    const Json* found = find(name);
    if (!found)
        return;
    if (!found->is_boolean())
        failKey(m_origin, key(name), foundText(*found), "true or false");
    value = found->get<bool>();
}

void RecipeSection::read(const std::string& name, std::string& value) {
    const Json* found = find(name);
    if (!found)
        return;
    if (!found->is_string())
        failKey(m_origin, key(name), foundText(*found), "a string");
    value = found->get<std::string>();
}

void RecipeSection::read(const std::string& name, std::vector<double>& value, bool nullIsInfinity) {
    const Json* found = find(name);
    if (!found)
        return;
    const std::string expected = nullIsInfinity ? "a list of numbers, null for no decay" : "a list of numbers";
    if (!found->is_array())
        failKey(m_origin, key(name), foundText(*found), expected);
    value.clear();
    for (const auto& entry : *found) {
        if (!entry.is_number() && !(nullIsInfinity && entry.is_null()))
            failKey(m_origin, key(name), foundText(entry), expected);
        value.push_back(entry.is_null() ? std::numeric_limits<double>::infinity() : entry.get<double>());
    }
}

void RecipeSection::read(const std::string& name, std::set<std::int64_t>& value) {
    const Json* found = find(name);
    if (!found)
        return;
    constexpr const char* kExpected = "a list of different layer numbers";
    if (!found->is_array())
        failKey(m_origin, key(name), foundText(*found), kExpected);
    value.clear();
    for (const auto& entry : *found)
        if (!entry.is_number_unsigned() || entry > std::numeric_limits<std::int32_t>::max() ||
            !value.insert(entry.get<std::int64_t>()).second)
            failKey(m_origin, key(name), foundText(entry), kExpected);
}

void RecipeSection::read(const std::string& name, std::set<std::string>& value) {
    const Json* found = find(name);
    if (!found)
        return;
    constexpr const char* kExpected = "a list of different names";
    if (!found->is_array())
        failKey(m_origin, key(name), foundText(*found), kExpected);
    value.clear();
    for (const auto& entry : *found)
        if (!entry.is_string() || !value.insert(entry.get<std::string>()).second)
            failKey(m_origin, key(name), foundText(entry), kExpected);
}

RecipeSection RecipeSection::section(const std::string& name) {
    static const Json kEmpty = Json::object();
    const Json* found = find(name);
    return {found ? *found : kEmpty, key(name), m_origin};
}

void RecipeSection::finish() const {
    for (const auto& [name, value] : m_json.items()) {
        if (std::ranges::find(m_known, name) != m_known.end())
            continue;
        const auto nearest = nearestName(name, m_known);
        fail(ErrorCode::Malformed,
             m_origin + ": unknown key " + key(name) + (nearest.empty() ? "" : ", did you mean " + key(nearest) + "?") +
                 (m_known.empty() ? " (expected none here)" : " (known here: " + joinNames(m_known) + ")"),
             {{"file", m_origin}, {"key", key(name)}, {"nearest", nearest}});
    }
}

} // namespace linnet::core
