// A selection as JSON: what `linnet-cli select --json` prints and run folders keep. Values that are not finite are null.
#include "core/convert/convert.h"

#include <cmath>
#include <limits>

namespace linnet::core {
namespace {

Json orNull(double value) {
    return std::isfinite(value) ? Json(value) : Json();
}

double orNaN(const Json& json) {
    return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

} // namespace

Json selectionToJson(const Selection& selection) {
    Json ranking = Json::array(), curve = Json::array();
    for (const auto& entry : selection.ranking)
        ranking.push_back({{"layer", entry.layer}, {"score", orNull(entry.score)}});
    for (const auto& point : selection.curve)
        curve.push_back({{"kept", point.kept},
                         {"loss", orNull(point.loss)},
                         {"perplexity", orNull(point.perplexity)},
                         {"kl", orNull(point.kl)},
                         {"cache_bytes", point.cacheBytes}});
    return {{"method", selection.method},
            {"unit", selection.unit},
            {"ranking", ranking},
            {"kept_layers", selection.kept},
            {"curve", curve},
            {"teacher_perplexity", selection.teacherPerplexity > 0 ? orNull(selection.teacherPerplexity) : Json()},
            {"cache_length", selection.cacheLength}};
}

Selection selectionFromJson(const Json& json) {
    try {
        Selection selection;
        selection.method = json.at("method").get<std::string>();
        selection.unit = json.at("unit").get<std::string>();
        for (const auto& entry : json.at("ranking"))
            selection.ranking.push_back({entry.at("layer").get<std::int64_t>(), orNaN(entry.at("score"))});
        selection.kept = json.at("kept_layers").get<std::vector<std::int64_t>>();
        for (const auto& point : json.at("curve"))
            selection.curve.push_back({point.at("kept").get<std::int64_t>(), orNaN(point.at("loss")),
                                       orNaN(point.at("perplexity")), orNaN(point.at("kl")),
                                       point.at("cache_bytes").get<std::uint64_t>()});
        const Json& teacher = json.at("teacher_perplexity");
        selection.teacherPerplexity = teacher.is_null() ? 0 : teacher.get<double>(); // not measured
        selection.cacheLength = json.at("cache_length").get<std::int64_t>();
        return selection;
    } catch (const Json::exception& error) {
        fail(ErrorCode::Malformed, std::string("a layer selection's JSON: ") + error.what());
    }
}

} // namespace linnet::core
