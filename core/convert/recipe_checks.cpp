#include "core/torch_pch.h"

#include "core/convert/recipe_checks.h"

#include "core/convert/select.h"
#include "core/model/device.h"

namespace linnet::core {
namespace {

constexpr std::int64_t kFewSteps = 60;
constexpr double kRateOfFewSteps = 2e-3;

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

// SmolLM2-135M, layers 5 and 20, 30 steps of 4 x 256 after a closed-form start, held-out losses from .100 and .973 to: .104 and 1.19 at a
// learning rate of 6e-3, .088 and .944 at 2e-3, .088 and .915 at 1e-3.
void noteShortAlignment(const Recipe& recipe, std::vector<RecipeNote>& notes) {
    const auto& align = recipe.align;
    const double rate = std::max(align.lr, align.lrNew);
    if (recipe.preset != "linnet" || align.steps < 1 || align.steps >= kFewSteps || rate <= kRateOfFewSteps)
        return;
    notes.push_back({"align.lr", "align.lr " + Json(rate).dump() + " with " + std::to_string(align.steps) + (align.steps == 1 ? " step" : " steps") +
                                     ": so few at this rate rarely beat the start, which is then kept; " + Json(kRateOfFewSteps).dump() + " or less does, or 100 steps"});
}

// Which softmax layers of a hybrid a rule that counts layers keeps.
KeepRule countedAmong(const KeepRule& keep, const std::vector<std::int64_t>& softmax) {
    Recipe counted;
    counted.keep = keep;
    const auto kept = keptLayers(counted, std::ssize(softmax));
    KeepRule rule{KeepRule::Kind::Layers, 0, {}, {}, {}};
    for (const auto place : *kept)
        rule.layers.push_back(softmax[static_cast<std::size_t>(place)]);
    return rule;
}

} // namespace

Recipe recipeOn(const Recipe& recipe, const std::vector<std::string>& layerKinds) {
    std::vector<std::int64_t> softmax;
    std::set<std::int64_t> converted;
    for (std::int64_t l = 0; l < std::ssize(layerKinds); ++l)
        if (layerKinds[static_cast<std::size_t>(l)] == "softmax")
            softmax.push_back(l);
        else
            converted.insert(l);
    if (converted.empty())
        return recipe;
    const auto refuse = [](const std::string& key, const std::string& what) { fail(ErrorCode::Usage, key + ": " + what, {{"key", key}}); };
    for (const auto layer : converted) {
        const auto name = "layer " + std::to_string(layer) + " is converted in the teacher already";
        if (recipe.never.contains(layer))
            refuse("pins.never", name + " and can't stay softmax");
        if (const auto heads = recipe.targets.find(layer); heads != recipe.targets.end())
            for (const auto& [head, target] : heads->second)
                if (!target.empty())
                    refuse("targets." + std::to_string(layer), name + "; it stays as it is");
    }
    Recipe result = recipe;
    result.always.insert(converted.begin(), converted.end());
    const auto kind = recipe.keep.kind;
    const bool counts = kind == KeepRule::Kind::Uniform || kind == KeepRule::Kind::First || kind == KeepRule::Kind::Last;
    const bool ranks = kind == KeepRule::Kind::Method && recipe.keep.budget == KeepRule::Budget::None;
    if ((counts || ranks) && recipe.keep.count > std::ssize(softmax))
        refuse("keep", recipe.keep.text() + " keeps more layers than the " + std::to_string(softmax.size()) + " softmax layers that the teacher has");
    if (counts)
        result.keep = countedAmong(recipe.keep, softmax);
    return result;
}

std::vector<Error> checkRecipe(const Recipe& given, const ModelInfo& teacher) {
    const auto on = guarded([&] { return recipeOn(given, teacher.layerKinds); });
    if (!on)
        return {on.error()};
    const Recipe& recipe = *on;
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
    if (const auto made = guarded([&] { notePins(recipe, layers, notes), noteTargets(recipe, layers, notes), noteShortAlignment(recipe, notes); }); !made)
        notes.clear(); // what validateRecipe says
    return notes;
}

} // namespace linnet::core
