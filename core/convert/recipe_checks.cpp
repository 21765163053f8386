#include "core/torch_pch.h"

#include "core/convert/recipe_checks.h"

#include "core/convert/select.h"
#include "core/model/device.h"

namespace linnet::core {
namespace {

// Bytes of an element of the keys and values that a run of this recipe keeps; a GPU that is not here counts as one that computes in 16 bits.
std::int64_t cacheElementBytes(const Recipe& recipe, const ModelInfo& teacher) {
    if (!recipe.dtype.empty())
        return static_cast<std::int64_t>(at::elementSize(dtypeFromName(recipe.dtype)));
    const bool cpu = recipe.device == "cpu" || (recipe.device == "auto" && !cudaAvailable());
    return cpu || teacher.config.storedDType == "float32" ? sizeof(float) : sizeof(std::uint16_t);
}

std::string numbers(const std::vector<std::int64_t>& layers) { // "layer 3" or "layers 3, 5"
    std::string text = layers.size() == 1 ? "layer " : "layers ";
    for (const auto layer : layers)
        text += (layer == layers.front() ? "" : ", ") + std::to_string(layer);
    return text;
}

void notePins(const Recipe& recipe, std::int64_t layers, std::vector<RecipeNote>& notes) {
    Recipe unpinned = recipe;
    unpinned.never.clear(), unpinned.always.clear();
    const auto ruled = keptLayers(unpinned, layers);
    if (!ruled)
        return; // a measured rule works around its pins
    const auto note = [&](const char* key, const std::set<std::int64_t>& pins, bool keeps) {
        std::vector<std::int64_t> moved;
        for (const auto layer : pins)
            if (std::ranges::binary_search(*ruled, layer) != keeps)
                moved.push_back(layer);
        if (moved.empty())
            return;
        const std::string become = keeps ? moved.size() == 1 ? " stays softmax" : " stay softmax" : moved.size() == 1 ? " is converted" : " are converted";
        notes.push_back({key, std::string(key) + ": " + numbers(moved) + become + ", against " + recipe.keep.text()});
    };
    note("pins.never", recipe.never, true);
    note("pins.always", recipe.always, false);
}

void noteTargets(const Recipe& recipe, std::int64_t layers, std::vector<RecipeNote>& notes) {
    const auto kept = keptLayers(recipe, layers);
    const auto stays = [&](std::int64_t layer) { return kept ? std::ranges::binary_search(*kept, layer) : recipe.never.contains(layer); };
    for (const auto& [layer, heads] : recipe.targets) {
        const auto set = std::ranges::count_if(heads, [](const auto& head) { return !head.second.empty(); });
        const bool sliding = recipe.preset == "sliding-window";
        if (set == 0 || !(sliding || stays(layer)))
            continue;
        const auto key = "targets." + std::to_string(layer);
        notes.push_back({key, key + ": without effect on " + std::to_string(set) + (set == 1 ? " head: " : " heads: ") +
                                  (sliding ? "preset sliding-window has no targets" : "layer " + std::to_string(layer) + " stays softmax")});
    }
}

} // namespace

std::vector<Error> checkRecipe(const Recipe& recipe, const ModelInfo& teacher) {
    auto errors = validateRecipe(recipe, teacher.config.layers, teacher.config.heads);
    if (!errors.empty() || recipe.keep.budget != KeepRule::Budget::Cache)
        return errors;
    const auto window = recipe.preset == "sliding-window" ? recipe.window + recipe.sinks : 0;
    if (auto fits = guarded([&] { return keptByCache(recipe.keep, teacher.config, cacheElementBytes(recipe, teacher), window, recipe.never, recipe.always); }); !fits)
        errors.push_back(std::move(fits.error()));
    return errors;
}

std::vector<RecipeNote> recipeNotes(const Recipe& recipe, std::int64_t layers) {
    std::vector<RecipeNote> notes;
    if (const auto made = guarded([&] { notePins(recipe, layers, notes), noteTargets(recipe, layers, notes); }); !made)
        notes.clear(); // what validateRecipe says
    return notes;
}

} // namespace linnet::core
