#include "core/convert/run_selection.h"

#include "core/convert/recipe_checks.h"
#include "core/convert/selection_key.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace linnet::core {
namespace {

std::optional<Selection> measuredIn(const std::filesystem::path& folder) {
    const auto read = guarded([&]() -> std::optional<Selection> {
        const Json state = readJsonFile(folder / "state.json");
        const auto selection = state.find("selection");
        if (selection == state.end() || !selection->is_object() || !selection->contains("result"))
            return std::nullopt;
        return selectionFromJson(selection->at("result"));
    });
    return read ? *read : std::nullopt;
}

std::optional<std::vector<std::int64_t>> keptBy(const std::filesystem::path& run, const Recipe& recipe) {
    if (const auto report = readReport(run))
        return report->keptLayers;
    if (recipe.keep.kind == KeepRule::Kind::Layers)
        return recipe.keep.layers;
    return std::nullopt;
}

struct Kept {
    RunSelection selection;
    std::filesystem::file_time_type written;
};

// Of a measurement that was stopped: the layers that were measured, one by one. nullopt where its numbers are no layer's own (greedy, restore).
std::optional<Selection> measuredSoFar(const Json& measured, const std::string& method) {
    const std::string prefix = method == "bypass" ? "bypass " : method == "kl" ? "aligned " : "";
    const auto teacher = measured.find("teacher");
    if (prefix.empty() || teacher == measured.end() || !teacher->at("loss").is_number())
        return std::nullopt;
    Selection selection;
    selection.method = method, selection.unit = method == "kl" ? "nats of KL" : "nats of loss";
    for (const auto& [key, entry] : measured.items()) {
        const auto layer = key.substr(std::min(key.size(), prefix.size()));
        if (!key.starts_with(prefix) || layer.empty() || layer.find_first_not_of("0123456789") != std::string::npos)
            continue;
        const auto& value = entry.at(method == "kl" ? "kl" : "loss");
        const double score = value.is_number() ? value.get<double>() - (method == "kl" ? 0 : teacher->at("loss").get<double>()) : std::numeric_limits<double>::quiet_NaN();
        selection.ranking.push_back({std::stoll(layer), score});
    }
    const auto dear = [](const LayerScore& each) { return std::isnan(each.score) ? std::numeric_limits<double>::infinity() : each.score; };
    std::ranges::sort(selection.ranking, [&](const auto& a, const auto& b) { return std::pair(dear(a), a.layer) < std::pair(dear(b), b.layer); });
    return selection.ranking.empty() ? std::nullopt : std::optional(std::move(selection));
}

// `frozen` has a method as its rule.
std::optional<Kept> keptMeasurement(const Recipe& frozen, const std::filesystem::path& bankFolder) {
    const auto read = guarded([&]() -> std::optional<Kept> {
        const auto file = selectionFolder(frozen, bankFolder) / "state.json";
        if (!std::filesystem::exists(file))
            return std::nullopt;
        const Json state = readJsonFile(file), selection = state.value("selection", Json::object()), results = selection.value("results", Json::object());
        const auto found = results.find(frozen.keep.method);
        if (found == results.end()) {
            auto some = measuredSoFar(selection.value("measured", Json::object()), frozen.keep.method);
            return some ? std::optional(Kept{{std::move(*some), frozen.never, frozen.always, true, false}, std::filesystem::last_write_time(file)}) : std::nullopt;
        }
        Kept kept{{selectionFromJson(found->at("result")), found->at("never").get<std::set<std::int64_t>>(), found->at("always").get<std::set<std::int64_t>>(), false, false}, std::filesystem::last_write_time(file)};
        const auto bank = state.value("bank", std::string()); // measured on layers that may be gone: then they would be made again
        kept.selection.whole = kept.selection.never == frozen.never && kept.selection.always == frozen.always && (bank.empty() || std::filesystem::exists(bankFolder / bank / "bank.json"));
        return kept;
    });
    return read ? *read : std::nullopt;
}

} // namespace

std::optional<RunSelection> knownSelection(const Recipe& recipe, const std::filesystem::path& bankFolder) {
    const auto read = guarded([&]() -> std::optional<RunSelection> {
        auto frozen = frozenRecipe(recipe);
        if (frozen.keep.kind == KeepRule::Kind::Method) {
            auto kept = keptMeasurement(frozen, bankFolder);
            return kept ? std::optional(std::move(kept->selection)) : std::nullopt;
        }
        const auto chosen = frozen.keep.kind == KeepRule::Kind::Layers ? frozen.keep.layers : std::vector<std::int64_t>{};
        std::optional<Kept> best;
        for (const char* method : {"bypass", "kl", "greedy", "restore", "ga-s2", "score"}) {
            frozen.keep = parseKeepRule(std::string(method) + ":0");
            auto kept = keptMeasurement(frozen, bankFolder);
            if (!kept)
                continue;
            const auto rank = [&](const Kept& each) { return std::tuple(!each.selection.partial, each.selection.selection.kept == chosen, each.written); };
            if (!best || rank(*kept) > rank(*best))
                best = std::move(kept);
        }
        return best ? std::optional(std::move(best->selection)) : std::nullopt;
    });
    return read ? *read : std::nullopt;
}

std::optional<RunSelection> selectionOfRun(const std::filesystem::path& run, const std::filesystem::path& bankFolder) {
    const auto recipe = readRecipe(run / "recipe.json");
    if (!recipe)
        return std::nullopt;
    if (const auto report = readReport(run); report && report->selection)
        return RunSelection{*report->selection, recipe->never, recipe->always};
    if (auto own = measuredIn(run))
        return RunSelection{std::move(*own), recipe->never, recipe->always};
    const auto kept = keptBy(run, *recipe);
    std::optional<RunSelection> found;
    std::filesystem::file_time_type newest;
    std::error_code none;
    for (std::filesystem::directory_iterator entry(bankFolder, none), end; !none && kept && entry != end; entry.increment(none)) {
        const auto& path = entry->path();
        if (!path.filename().string().starts_with("select-"))
            continue;
        const auto of = readRecipe(path / "recipe.json");
        if (!of || of->teacherHash.empty() || of->teacherHash != recipe->teacherHash)
            continue;
        std::error_code gone;
        const auto written = std::filesystem::last_write_time(path / "state.json", gone);
        auto measured = gone || (found && written < newest) ? std::nullopt : measuredIn(path);
        if (!measured || measured->kept != *kept)
            continue;
        found = RunSelection{std::move(*measured), of->never, of->always};
        newest = written;
    }
    return found;
}

} // namespace linnet::core
