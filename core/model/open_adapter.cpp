#include "core/torch_pch.h"

#include "core/model/open_adapter.h"

#include "core/base/files.h"
#include "core/base/json.h"
#include "core/model/model.h"

#include <charconv>

namespace linnet::core {
namespace {

namespace fs = std::filesystem;

class AdapterConfig {
public:
    explicit AdapterConfig(const fs::path& folder) : m_file(folder / kAdapterFile), m_json(readJsonFile(m_file)) {
        if (member(m_json, "linnet_adapter") != 1)
            refuse("linnet_adapter", "1 is what this release reads");
    }

    std::string text(const char* group, const char* key) const {
        const Json& object = group ? member(m_json, group) : m_json;
        if (!object.is_object())
            refuse(group, "an object was expected");
        const Json& value = member(object, key);
        if (!value.is_string())
            refuse(key, "a text was expected");
        return value.get<std::string>();
    }
    // By layer, of the object `key`; empty where there is none.
    std::map<std::int64_t, Json> byLayer(const char* key) const {
        std::map<std::int64_t, Json> result;
        if (!m_json.contains(key))
            return result;
        for (const auto& [name, value] : m_json[key].items()) {
            std::int64_t layer = -1;
            const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), layer);
            if (!m_json[key].is_object() || failed != std::errc() || end != name.data() + name.size() || layer < 0)
                refuse(key, "layers by number were expected, found \"" + name + "\"");
            result[layer] = value;
        }
        return result;
    }
    [[noreturn]] void refuse(const char* key, const std::string& why) const {
        fail(ErrorCode::Malformed, m_file.string() + ": key \"" + key + "\": " + why, {{"file", m_file.string()}, {"key", key}});
    }

private:
    const Json& member(const Json& object, const char* key) const {
        if (!object.is_object() || !object.contains(key))
            refuse(key, "is missing");
        return object[key];
    }
    fs::path m_file;
    Json m_json;
};

std::vector<fs::path> placesOf(const fs::path& folder, const std::string& name, const fs::path& source) {
    if (const char* const given = std::getenv(kTeacherVariable); given && *given)
        return {given};
    const auto home = fs::absolute(folder).lexically_normal();
    std::vector<fs::path> places{home / name, (home.has_filename() ? home : home.parent_path()).parent_path() / name};
    if (!source.empty())
        places.push_back(source.is_absolute() ? source : home / source);
    return places;
}

OpenedModel openTeacher(const fs::path& folder, const AdapterConfig& config) {
    const auto name = config.text("teacher", "name"), expected = config.text("teacher", "hash");
    std::string tried, found, where;
    for (const auto& place : placesOf(folder, name, config.text("teacher", "source"))) {
        std::error_code ignored;
        tried += (tried.empty() ? "" : ", ") + place.string();
        if (!fs::exists(place, ignored) || fs::equivalent(place, folder, ignored))
            continue;
        auto teacher = openFiles(place);
        if (teacher.files.weights->hash() == expected)
            return teacher;
        found = teacher.files.weights->hash(), where = place.string();
    }
    if (!where.empty())
        fail(ErrorCode::Malformed, where + " is not the teacher that adapter " + folder.string() + " was made from: hash " + found + ", expected " + expected + " (" + name +
                                       "); give the right one by --teacher PATH", {{"file", where}, {"found", found}, {"expected", expected}});
    fail(ErrorCode::NotFound, "adapter " + folder.string() + " needs its teacher " + name + " (hash " + expected + "), which is not at " + tried +
                                  "; give it by --teacher PATH or the environment's " + kTeacherVariable, {{"file", tried}, {"expected", expected}});
}

} // namespace

bool isAdapter(const fs::path& folder) {
    std::error_code ignored;
    const auto file = folder / kAdapterFile;
    if (!fs::is_regular_file(file, ignored) || fs::exists(folder / "config.json", ignored))
        return false;
    const Json json = readJsonFile(file); // PEFT's adapters have a file of that name, too
    return json.is_object() && json.contains("linnet_adapter");
}

OpenedModel openAdapter(const fs::path& folder) {
    const AdapterConfig config(folder);
    auto opened = openTeacher(folder, config);
    opened.student = openSafetensorsFile(folder / (std::string(kAdapterWeights) + ".safetensors"));
    opened.mixer = config.text(nullptr, "mixer");
    opened.headNormEps.clear();
    for (const auto& [layer, eps] : config.byLayer("head_norm_eps"))
        if (eps.is_number() && eps.get<double>() > 0)
            opened.headNormEps[layer] = eps.get<double>();
        else
            config.refuse("head_norm_eps", "numbers above 0 were expected");
    std::set<std::int64_t> listed;
    for (const auto& [layer, kind] : config.byLayer("layers"))
        listed.insert(layer);
    if (listed != opened.convertedLayers())
        config.refuse("layers", "names other layers than the tensors are there for");
    return opened;
}

} // namespace linnet::core
