#include "core/torch_pch.h"

#include "core/study/study_results.h"

#include "core/base/files.h"
#include "core/base/result.h"
#include "core/study/study.h"

namespace linnet::core {
namespace {

std::string keyOfRow(const Json& row) {
    return StudyResults::keyOf(row.at("method"), row.at("seed"), row.at("layers"), row.at("share"));
}

} // namespace

StudyResults::StudyResults(std::filesystem::path folder, const Json& head, const Json& tables) : m_folder(std::move(folder)) {
    std::error_code failed;
    std::filesystem::create_directories(m_folder, failed);
    if (failed)
        fail(ErrorCode::Io, "can't make the study's folder " + m_folder.string() + ": " + failed.message(), {{"option", "--out"}, {"file", m_folder.string()}});
    const auto file = m_folder / "results.json";
    m_json = {{"schema", 1}, {"head", head}, {"tables", tables}, {"rows", Json::array()}, {"selections", Json::object()}, {"banks", Json::object()}, {"timing", Json::object()}};
    if (!std::filesystem::exists(file))
        return;
    try {
        const Json before = readJsonFile(file);
        for (const char* key : {"teacher", "corpus", "scale", "device", "dtype"})
            if (before.at("head").at(key) != head.at(key))
                fail(ErrorCode::Usage, file.string() + " holds the study of another " + key + ": choose another --out",
                     {{"option", "--out"}, {"file", file.string()}, {"key", key}, {"found", before.at("head").at(key).dump()}, {"expected", head.at(key).dump()}});
        for (const char* key : {"rows", "selections", "banks", "timing"})
            m_json[key] = before.at(key);
        m_banks = m_json["banks"];
        for (const auto& row : m_json["rows"])
            m_rows.emplace(keyOfRow(row), m_rows.size());
    } catch (const Json::exception& error) {
        fail(ErrorCode::Malformed, file.string() + ": not a study's results: " + error.what(), {{"file", file.string()}});
    }
}

std::string StudyResults::keyOf(const std::string& method, std::int64_t seed, const std::string& layers, std::int64_t share) {
    return method + "/" + std::to_string(seed) + "/" + layers + "/" + std::to_string(share);
}

bool StudyResults::madeOn(const Json& entry, const std::string& bank) const {
    if (const auto own = entry.find("bank"); own != entry.end())
        return *own == bank;
    return bank.empty() || m_banks.contains(bank); // results from before entries named their bank
}

bool StudyResults::has(const std::string& key, const std::vector<std::int64_t>& kept, const std::string& bank) const {
    const auto found = m_rows.find(key);
    if (found == m_rows.end())
        return false;
    const Json& row = m_json.at("rows")[found->second];
    return row.at("kept_layers") == kept && madeOn(row, bank);
}

void StudyResults::addRow(const Json& row) {
    const auto [place, fresh] = m_rows.emplace(keyOfRow(row), m_rows.size());
    if (fresh)
        m_json["rows"].push_back(row);
    else
        m_json["rows"][place->second] = row;
    save();
}

const Json* StudyResults::part(const std::string& list, const std::string& name) const {
    const auto found = m_json.at(list).find(name);
    return found == m_json.at(list).end() ? nullptr : &*found;
}

void StudyResults::setPart(const std::string& list, const std::string& name, const Json& value) {
    m_json[list][name] = value;
    save();
}

void StudyResults::save() const {
    writeFileAtomically(m_folder / "results.json", m_json.dump(1) + "\n");
}

void StudyResults::writeTables() const {
    writeFileAtomically(m_folder / "results.md", studyTables(m_json));
}

} // namespace linnet::core
