// results.json: what a study has measured, written after every row, so that a stopped one goes on.
#pragma once

#include "core/base/json.h"

#include <filesystem>
#include <map>
#include <vector>

namespace linnet::core {

class StudyResults {
public:
    // `head`: of this study. Its keys teacher, corpus, scale, device and dtype must be those of what is there.
    StudyResults(std::filesystem::path folder, const Json& head, const Json& tables);

    static std::string keyOf(const std::string& method, std::int64_t seed, const std::string& layers, std::int64_t share);
    // Is there a row of the same layers and bank? One of before a recipe's change is as good as none.
    bool has(const std::string& key, const std::vector<std::int64_t>& kept, const std::string& bank) const;
    bool madeOn(const Json& entry, const std::string& bank) const; // a row or a selection
    void addRow(const Json& row); // in place of its predecessor; and saves
    const Json* part(const std::string& list, const std::string& name) const; // "selections" "greedy"; null where it is not there
    void setPart(const std::string& list, const std::string& name, const Json& value); // and saves
    const Json& json() const { return m_json; }
    void save() const;       // results.json
    void writeTables() const; // results.md

private:
    std::filesystem::path m_folder;
    Json m_json;
    Json m_banks = Json::object();             // those of before
    std::map<std::string, std::size_t> m_rows; // by key
};

} // namespace linnet::core
