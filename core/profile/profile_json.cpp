// A profile as JSON: the keys that the command-line contract names, and a few more. Values that are not defined are null.
#include "core/torch_pch.h"

#include "core/profile/profile.h"

#include <limits>

namespace linnet::core {
namespace {

Json number(double value) {
    return std::isfinite(value) ? Json(value) : Json();
}

Json numbers(const std::vector<double>& values) {
    Json list = Json::array();
    for (const double value : values)
        list.push_back(number(value));
    return list;
}

Json histogram(const std::vector<double>& edges, const std::vector<double>& mass) {
    return {{"edges", edges}, {"mass", numbers(mass)}};
}

Json headToJson(const HeadProfile& head, std::size_t index, std::int64_t group, const std::vector<double>& edges) {
    return {{"head", index},
            {"kv_head", static_cast<std::int64_t>(index) / group},
            {"distance",
             {{"mean", number(head.distance.mean)},
              {"se", number(head.distance.se)},
              {"p10", number(head.p10)},
              {"p50", number(head.p50)},
              {"p90", number(head.p90)}}},
            {"distance_no_sink",
             {{"mean", number(head.distanceNoSink.mean)},
              {"se", number(head.distanceNoSink.se)},
              {"p50", number(head.medianNoSink)}}},
            {"entropy", {{"mean", number(head.entropy.mean)}, {"se", number(head.entropy.se)}}},
            {"concentration", {{"layer", number(head.concentrationLayer)}, {"absolute", number(head.concentrationAbsolute)}}},
            {"output_rms",
             {{"pre_o", number(head.rmsPreO)},
              {"post_o", number(head.rmsPostO)},
              {"pre_o_se", number(head.rmsPreOSe)},
              {"post_o_se", number(head.rmsPostOSe)}}},
            {"sink_mass", number(head.sinkMass)},
            {"sink_mass_se", number(head.sinkSe)},
            {"previous_mass", number(head.previousMass)},
            {"previous_mass_se", number(head.previousSe)},
            {"self_mass", number(head.selfMass)},
            {"self_mass_se", number(head.selfSe)},
            {"histogram", histogram(edges, head.histogram)},
            {"histogram_no_sink", histogram(edges, head.histogramNoSink)}};
}

// Reads one object's keys; a missing one, or one of the wrong type, is an error naming its path.
class Reader {
public:
    Reader(const Json& json, const std::string& origin, std::string path)
        : m_json(json), m_origin(origin), m_path(std::move(path)) {}

    const Json& at(const char* key) const {
        if (!m_json.is_object() || !m_json.contains(key))
            malformed(key, "is missing");
        return m_json[key];
    }
    Reader object(const char* key) const { return {at(key), m_origin, join(key)}; }
    const Json& array(const char* key) const {
        const Json& value = at(key);
        if (!value.is_array())
            malformed(key, "is not a list");
        return value;
    }
    double number(const char* key) const { return toNumber(at(key), key); }
    std::vector<double> numbers(const char* key) const {
        std::vector<double> values;
        for (const Json& value : array(key))
            values.push_back(toNumber(value, key));
        return values;
    }
    std::int64_t count(const char* key) const {
        if (!at(key).is_number_integer())
            malformed(key, "is not a whole number");
        return at(key).get<std::int64_t>();
    }
    std::string text(const char* key) const {
        if (!at(key).is_string())
            malformed(key, "is not a text");
        return at(key).get<std::string>();
    }
    [[noreturn]] void malformed(const std::string& key, const std::string& what) const {
        fail(ErrorCode::Malformed, m_origin + ": key " + join(key) + " " + what, {{"file", m_origin}, {"key", join(key)}});
    }

private:
    std::string join(const std::string& key) const { return m_path.empty() ? key : m_path + "." + key; }
    double toNumber(const Json& value, const char* key) const {
        if (value.is_null())
            return std::numeric_limits<double>::quiet_NaN();
        if (!value.is_number())
            malformed(key, "is not a number");
        return value.get<double>();
    }
    const Json& m_json;
    const std::string& m_origin;
    std::string m_path;
};

HeadProfile headFromJson(const Reader& json) {
    HeadProfile head;
    const auto distance = json.object("distance"), noSink = json.object("distance_no_sink"), entropy = json.object("entropy");
    head.distance = {distance.number("mean"), distance.number("se")};
    head.p10 = distance.number("p10"), head.p50 = distance.number("p50"), head.p90 = distance.number("p90");
    head.distanceNoSink = {noSink.number("mean"), noSink.number("se")};
    head.medianNoSink = noSink.number("p50");
    head.entropy = {entropy.number("mean"), entropy.number("se")};
    const auto concentration = json.object("concentration"), rms = json.object("output_rms");
    head.concentrationLayer = concentration.number("layer"), head.concentrationAbsolute = concentration.number("absolute");
    head.rmsPreO = rms.number("pre_o"), head.rmsPreOSe = rms.number("pre_o_se");
    head.rmsPostO = rms.number("post_o"), head.rmsPostOSe = rms.number("post_o_se");
    head.sinkMass = json.number("sink_mass"), head.sinkSe = json.number("sink_mass_se");
    head.previousMass = json.number("previous_mass"), head.previousSe = json.number("previous_mass_se");
    head.selfMass = json.number("self_mass"), head.selfSe = json.number("self_mass_se");
    head.histogram = json.object("histogram").numbers("mass");
    head.histogramNoSink = json.object("histogram_no_sink").numbers("mass");
    return head;
}

} // namespace

Json profileToJson(const Profile& profile) {
    Json layers = Json::array();
    for (std::size_t layer = 0; layer < profile.layers.size(); ++layer) {
        const auto& heads = profile.layers[layer];
        const auto group =
            std::max<std::int64_t>(1, static_cast<std::int64_t>(heads.size()) / std::max<std::int64_t>(1, profile.kvHeads));
        Json list = Json::array();
        for (std::size_t head = 0; head < heads.size(); ++head)
            list.push_back(headToJson(heads[head], head, group, profile.edges));
        layers.push_back({{"layer", layer}, {"heads", std::move(list)}});
        if (heads.empty())
            layers.back()["converted"] = true;
    }
    return {{"schema", profile.schema},
            {"model", {{"name", profile.modelName}, {"hash", profile.modelHash}, {"kv_heads", profile.kvHeads}}},
            {"sample",
             {{"tokens", profile.tokens},
              {"sequences", profile.sequences},
              {"seq_len", profile.seqLen},
              {"hash", profile.dataHash}}},
            {"edges", profile.edges},
            {"layers", std::move(layers)}};
}

Profile profileFromJson(const Json& json, const std::string& origin) {
    const Reader root(json, origin, "");
    Profile profile;
    if (const auto schema = root.count("schema"); schema != profile.schema)
        root.malformed("schema", "is " + std::to_string(schema) + ", expected " + std::to_string(profile.schema));
    const auto model = root.object("model"), sample = root.object("sample");
    profile.modelName = model.text("name"), profile.modelHash = model.text("hash"), profile.kvHeads = model.count("kv_heads");
    profile.tokens = sample.count("tokens"), profile.sequences = sample.count("sequences"),
    profile.seqLen = sample.count("seq_len");
    profile.dataHash = sample.text("hash");
    profile.edges = root.numbers("edges");
    for (const Json& layer : root.array("layers")) {
        const auto layerPath = "layers[" + std::to_string(profile.layers.size()) + "]";
        auto& heads = profile.layers.emplace_back();
        for (const Json& head : Reader(layer, origin, layerPath).array("heads")) {
            const Reader reader(head, origin, layerPath + ".heads[" + std::to_string(heads.size()) + "]");
            heads.push_back(headFromJson(reader));
            if (heads.back().histogram.size() + 1 != profile.edges.size() ||
                heads.back().histogramNoSink.size() + 1 != profile.edges.size())
                reader.malformed("histogram",
                                 "has not one bin between each two of the " + std::to_string(profile.edges.size()) + " edges");
        }
    }
    return profile;
}

} // namespace linnet::core
