#include "core/convert/run_selection.h"

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

} // namespace

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
