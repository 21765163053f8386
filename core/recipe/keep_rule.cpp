// Which layers stay softmax: the rule's text, and the layers that it means.
#include "core/recipe/recipe.h"

#include "core/base/json.h"
#include "core/recipe/recipe_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace linnet::core {
namespace {

constexpr std::int64_t kMaxLayers = 100'000; // of any model: a bound for numbers that are read before the model is known
constexpr std::int64_t kMaxCacheBytes = std::int64_t{1} << 49; // whole in a double, and printed without an exponent
constexpr std::int64_t kMaxCacheTokens = 1'000'000'000;
constexpr const char* kForms = "uniform:N, first:N, last:N, layers:0,4-9,15, file:F, or METHOD:N, METHOD:cache=BYTES@TOKENS, "
                               "METHOD:ppl=RATIO with METHOD one of bypass, kl, greedy, restore, ga-s2, score";

const std::vector<std::string>& methodNames() {
    static const std::vector<std::string> names = {"bypass", "kl", "greedy", "restore", "ga-s2", "score"};
    return names;
}

[[noreturn]] void failRule(const std::string& rule, const std::string& why) {
    fail(ErrorCode::Usage, "keep rule \"" + rule + "\": " + why + " (rules: " + kForms + ")",
         {{"key", "keep"}, {"found", rule}, {"expected", kForms}});
}

[[noreturn]] void failPart(const std::string& rule, std::string_view found, const std::string& what,
                           const std::string& expected) {
    failRule(rule, "found \"" + std::string(found) + "\" as " + what + ", expected " + expected);
}

template <typename Number> std::optional<Number> parseNumber(std::string_view text) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

std::int64_t parseCount(const std::string& rule, std::string_view text, const char* what) {
    const auto value = parseNumber<std::int64_t>(text);
    if (!value || *value < 0 || *value > kMaxLayers)
        failPart(rule, text, what, "a whole number from 0");
    return *value;
}

std::int64_t parseBytes(const std::string& rule, std::string_view text) {
    std::string_view digits = text;
    int shift = 0;
    for (const auto& [unit, bits] : {std::pair{"KiB", 10}, {"MiB", 20}, {"GiB", 30}})
        if (text.ends_with(unit)) {
            digits.remove_suffix(3);
            shift = bits;
        }
    const auto value = parseNumber<std::int64_t>(digits);
    if (!value || *value < 1 || *value > kMaxCacheBytes >> shift)
        failPart(rule, text, "BYTES", "a whole number from 1 to 512 TiB, plain or with KiB, MiB or GiB, as 64MiB");
    return *value << shift;
}

KeepRule parseBudget(const std::string& rule, const std::string& method, std::string_view text) {
    KeepRule result{KeepRule::Kind::Method, 0, {}, {}, method};
    const auto equals = text.find('=');
    const std::string name(text.substr(0, equals));
    const auto value = text.substr(equals + 1);
    if (name == "ppl") {
        const auto ratio = parseNumber<double>(value);
        if (!ratio || !(*ratio >= 1) || !std::isfinite(*ratio))
            failPart(rule, value, "RATIO", "a number from 1, as 1.05");
        result.budget = KeepRule::Budget::Perplexity;
        result.limit = *ratio;
    } else if (name == "cache") {
        const auto at = value.find('@');
        if (at == value.npos)
            failPart(rule, value, "cache", "BYTES@TOKENS, as 64MiB@32768");
        const auto tokens = parseNumber<std::int64_t>(value.substr(at + 1));
        if (!tokens || *tokens < 1 || *tokens > kMaxCacheTokens)
            failPart(rule, value.substr(at + 1), "TOKENS", "a whole number from 1 to " + std::to_string(kMaxCacheTokens));
        result.budget = KeepRule::Budget::Cache;
        result.limit = static_cast<double>(parseBytes(rule, value.substr(0, at)));
        result.length = *tokens;
    } else {
        const auto nearest = nearestName(name, {"cache", "ppl"});
        failRule(rule, "unknown budget \"" + name + "\"" + (nearest.empty() ? "" : ", did you mean \"" + nearest + "\"?"));
    }
    return result;
}

std::vector<std::int64_t> parseLayers(const std::string& rule, std::string_view text) {
    std::vector<std::int64_t> layers;
    while (!text.empty()) {
        const auto comma = text.find(',');
        const auto part = text.substr(0, comma);
        const auto dash = part.find('-', 1); // "4-9": a run of layers
        const auto first = parseCount(rule, part.substr(0, dash), "a layer"), last = dash == part.npos ? first : parseCount(rule, part.substr(dash + 1), "a layer");
        if (last < first)
            failPart(rule, part, "a run of layers", "the lower one first, as 4-9");
        for (auto layer = first; layer <= last; ++layer)
            layers.push_back(layer);
        if (comma != text.npos && comma + 1 == text.size())
            failRule(rule, "ends with a comma");
        text.remove_prefix(comma == text.npos ? text.size() : comma + 1);
    }
    std::ranges::sort(layers);
    if (const auto twice = std::ranges::adjacent_find(layers); twice != layers.end())
        failRule(rule, "layer " + std::to_string(*twice) + " appears twice");
    return layers;
}

std::vector<std::int64_t> readLayerFile(const std::filesystem::path& file) {
    const Json json = readJsonFile(file);
    std::vector<std::int64_t> layers;
    const auto expected = [&](const std::string& found) {
        fail(ErrorCode::Malformed,
             file.string() + ": found " + found + ", expected a JSON list of different layer numbers, as [0, 7, 15]",
             {{"key", "keep"}, {"file", file.string()}, {"found", found}});
    };
    if (!json.is_array())
        expected(json.type_name());
    for (const auto& entry : json) {
        if (!entry.is_number_integer() || entry < 0 || entry > kMaxLayers)
            expected(entry.dump(-1, ' ', false, Json::error_handler_t::replace));
        layers.push_back(entry.get<std::int64_t>());
    }
    std::ranges::sort(layers);
    if (const auto twice = std::ranges::adjacent_find(layers); twice != layers.end())
        expected("layer " + std::to_string(*twice) + " twice");
    return layers;
}

// The rule alone, pins aside.
std::vector<std::int64_t> layersOfRule(const Recipe& recipe, std::int64_t layers) {
    const KeepRule& rule = recipe.keep;
    if (rule.count > layers)
        fail(ErrorCode::Malformed,
             "keep: " + rule.text() + " asks for " + std::to_string(rule.count) + " layers, the model has " +
                 std::to_string(layers) + ": expected 0 to " + std::to_string(layers),
             {{"key", "keep"}, {"found", std::to_string(rule.count)}, {"expected", "0 to " + std::to_string(layers)}});
    std::vector<std::int64_t> kept;
    switch (rule.kind) {
    case KeepRule::Kind::Uniform:
        for (std::int64_t i = 0; i < rule.count; ++i)
            kept.push_back(i * layers / rule.count);
        break;
    case KeepRule::Kind::First:
        for (std::int64_t i = 0; i < rule.count; ++i)
            kept.push_back(i);
        break;
    case KeepRule::Kind::Last:
        for (std::int64_t i = layers - rule.count; i < layers; ++i)
            kept.push_back(i);
        break;
    case KeepRule::Kind::Layers:
        kept = rule.layers;
        break;
    case KeepRule::Kind::File:
        kept = readLayerFile(resolvePath(recipe, rule.file));
        break;
    case KeepRule::Kind::Method:
        break;
    }
    for (const auto layer : kept)
        if (layer < 0 || layer >= layers)
            fail(ErrorCode::Malformed,
                 "keep: " + rule.text() + " names layer " + std::to_string(layer) + ", the model has layers 0 to " +
                     std::to_string(layers - 1),
                 {{"key", "keep"}, {"found", std::to_string(layer)}, {"expected", "0 to " + std::to_string(layers - 1)}});
    return kept;
}

} // namespace

std::string KeepRule::text() const {
    switch (kind) {
    case Kind::Uniform:
        return "uniform:" + std::to_string(count);
    case Kind::First:
        return "first:" + std::to_string(count);
    case Kind::Last:
        return "last:" + std::to_string(count);
    case Kind::File:
        return "file:" + file;
    case Kind::Method:
        return method + ":" +
               (budget == Budget::Cache        ? "cache=" + jsonLine(limit) + "@" + std::to_string(length)
                : budget == Budget::Perplexity ? "ppl=" + jsonLine(limit)
                                               : std::to_string(count));
    case Kind::Layers:
        break;
    }
    std::string list;
    for (const auto layer : layers)
        list += (list.empty() ? "" : ",") + std::to_string(layer);
    return "layers:" + list;
}

KeepRule parseKeepRule(const std::string& text) {
    const auto colon = text.find(':');
    if (colon == text.npos)
        failRule(text, "expected a name, a colon and a value");
    const std::string name = text.substr(0, colon), value = text.substr(colon + 1);
    if (name == "layers")
        return {KeepRule::Kind::Layers, 0, parseLayers(text, value), {}, {}};
    if (name == "file") {
        if (value.empty())
            failRule(text, "names no file");
        return {KeepRule::Kind::File, 0, {}, value, {}};
    }
    const bool method = std::ranges::find(methodNames(), name) != methodNames().end();
    if (!method && name != "uniform" && name != "first" && name != "last") {
        auto known = methodNames();
        known.insert(known.end(), {"uniform", "first", "last", "layers", "file"});
        const auto nearest = nearestName(name, known);
        failRule(text, "unknown name \"" + name + "\"" + (nearest.empty() ? "" : ", did you mean \"" + nearest + "\"?"));
    }
    if (method && value.find('=') != value.npos)
        return parseBudget(text, name, value);
    const auto kind = method              ? KeepRule::Kind::Method
                      : name == "uniform" ? KeepRule::Kind::Uniform
                      : name == "first"   ? KeepRule::Kind::First
                                          : KeepRule::Kind::Last;
    return {kind, parseCount(text, value, "N"), {}, {}, method ? name : ""};
}

std::optional<std::vector<std::int64_t>> keptLayers(const Recipe& recipe, std::int64_t layers) {
    const auto ruled = layersOfRule(recipe, layers);
    if (recipe.keep.kind == KeepRule::Kind::Method)
        return std::nullopt;
    std::set<std::int64_t> kept(ruled.begin(), ruled.end());
    kept.insert(recipe.never.begin(), recipe.never.end());
    for (const auto layer : recipe.always)
        kept.erase(layer);
    return std::vector<std::int64_t>(kept.begin(), kept.end());
}

std::vector<std::int64_t> keepByRanking(const std::vector<std::int64_t>& convertFirst, std::int64_t keep,
                                        const std::set<std::int64_t>& never, const std::set<std::int64_t>& always) {
    // Kept in this order: pinned to stay, then the worst to convert first; pinned to convert, never.
    std::set<std::int64_t> kept;
    for (const auto layer : convertFirst)
        if (never.contains(layer))
            kept.insert(layer);
    for (auto layer = convertFirst.rbegin(); layer != convertFirst.rend(); ++layer)
        if (static_cast<std::int64_t>(kept.size()) < keep && !always.contains(*layer))
            kept.insert(*layer);
    return {kept.begin(), kept.end()};
}

} // namespace linnet::core
