#include "core/model/config_keys.h"

#include "core/base/result.h"
#include "core/mixers/mixer_spec.h"

#include <charconv>
#include <cmath>

namespace linnet::core {

void refuseKey(const std::filesystem::path& file, const char* key, const std::string& why) {
    fail(ErrorCode::Malformed, file.string() + ": key \"" + key + "\" " + why, {{"file", file.string()}, {"key", key}});
}

const Json& member(const Json& object, const char* key, const std::filesystem::path& file) {
    if (!object.is_object() || !object.contains(key))
        refuseKey(file, key, "is missing");
    return object[key];
}

std::string textMember(const Json& object, const char* key, const std::filesystem::path& file) {
    const Json& value = member(object, key, file);
    if (!value.is_string())
        refuseKey(file, key, "is not a text");
    return value.get<std::string>();
}

std::map<std::int64_t, Json> byLayer(const Json& object, const char* key, const std::filesystem::path& file) {
    std::map<std::int64_t, Json> result;
    if (!object.contains(key))
        return result;
    if (!object[key].is_object())
        refuseKey(file, key, "is " + object[key].dump().substr(0, 80) + ", an object of layers was expected");
    for (const auto& [name, value] : object[key].items()) {
        std::int64_t layer = -1;
        const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), layer);
        if (failed != std::errc() || layer < 0 || std::to_string(layer) != name)
            refuseKey(file, key, "holds \"" + name + "\", layers by number were expected");
        result[layer] = value;
    }
    return result;
}

std::map<std::int64_t, double> headNormEpsOf(const Json& object, const std::set<std::int64_t>& layers, const std::filesystem::path& file) {
    constexpr const char* kKey = "head_norm_eps";
    std::map<std::int64_t, double> result;
    for (const auto& [layer, eps] : byLayer(object, kKey, file)) {
        if (!layers.contains(layer))
            refuseKey(file, kKey, "holds layer " + std::to_string(layer) + ", which is not converted to a linear mixer");
        if (!eps.is_number() || !(eps.get<double>() > 0) || !std::isfinite(eps.get<double>()))
            refuseKey(file, kKey, "holds " + eps.dump().substr(0, 80) + " for layer " + std::to_string(layer) + ", a number above 0 was expected");
        result[layer] = eps.get<double>();
    }
    return result;
}

std::string mixerMember(const Json& object, const std::filesystem::path& file) {
    const auto name = textMember(object, "mixer", file);
    try {
        return mixerSpec(name).name;
    } catch (const Failure& failure) {
        refuseKey(file, "mixer", "is wrong: " + failure.error.message);
    }
}

} // namespace linnet::core
