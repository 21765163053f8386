// results.json: what a study has measured, written after every row, so that a stopped one goes on.
#pragma once

#include "core/base/json.h"

#include <filesystem>
#include <set>

namespace linnet::core {

class StudyResults {
public:
    // `head`: of this study. Its keys teacher, corpus, scale, device and dtype must be those of what is there.
    StudyResults(std::filesystem::path folder, const Json& head, const Json& tables);

    static std::string keyOf(const std::string& method, std::int64_t seed, const std::string& layers, std::int64_t share);
    bool has(const std::string& key) const { return m_keys.contains(key); }
    void addRow(const Json& row); // and saves
    const Json* part(const std::string& list, const std::string& name) const; // "selections" "greedy"; null where it is not there
    void setPart(const std::string& list, const std::string& name, const Json& value); // and saves
    const Json& json() const { return m_json; }
    void save() const;       // results.json
    void writeTables() const; // results.md

private:
    std::filesystem::path m_folder;
    Json m_json;
    std::set<std::string> m_keys;
};

} // namespace linnet::core
