// Presets and defaults (method.md section 9), and what is derived from a recipe without its values' meaning.
#include "core/recipe/recipe.h"

#include "core/base/files.h"
#include "core/recipe/recipe_json.h"

#include <algorithm>

namespace linnet::core {
namespace {

// The published method's alignment: small steps, no schedule, the output projection frozen.
void usePaperAlignment(AlignSettings& align) {
    align.lr = 1e-4;
    align.lrNew = 1e-3;
    align.batch = std::min<std::int64_t>(align.batch, 8);
    align.schedule = "constant";
    align.warmup = 0;
    align.trainOutput = false;
}

void flatten(const Json& json, const std::string& key, std::vector<std::pair<std::string, std::string>>& out) {
    if (!json.is_object()) {
        out.emplace_back(key, jsonLine(json));
        return;
    }
    for (const auto& [name, value] : json.items())
        flatten(value, key.empty() ? name : key + "." + name, out);
}

} // namespace

const std::vector<std::string>& presetNames() {
    static const std::vector<std::string> names = {"linnet", "naive",    "zero-gate",      "small-gate",
                                                   "paper", "reference", "alignment-only", "sliding-window"};
    return names;
}

const std::vector<std::string>& mixerNames() {
    static const std::vector<std::string> names = {"linear_attention", "retnet", "gla",  "delta_net",
                                                   "gated_delta_net",  "kda",    "xlstm"};
    return names;
}

const std::vector<std::string>& targetNames() {
    static const std::vector<std::string> names = {"half_life", "beta", "value_scale", "output_gate"};
    return names;
}

Recipe defaultRecipe(const std::string& device, const std::string& preset) {
    if (std::ranges::find(presetNames(), preset) == presetNames().end()) {
        const auto nearest = nearestName(preset, presetNames());
        fail(ErrorCode::Usage,
             "unknown preset \"" + preset + "\"" + (nearest.empty() ? "" : ", did you mean \"" + nearest + "\"?") +
                 " (presets: " + joinNames(presetNames()) + ")",
             {{"key", "preset"}, {"found", preset}, {"expected", joinNames(presetNames())}});
    }
    Recipe recipe;
    recipe.preset = preset;
    recipe.keep = parseKeepRule(device.starts_with("cuda") ? "kl:22" : "bypass:22");
    recipe.align.lr = recipe.align.lrNew = 6e-3; // measured at 100 to 300 steps (docs/results.md)
    recipe.align.batch = 16;
    if (!device.starts_with("cuda")) {
        recipe.seqLen = 256;
        recipe.calibrationTokens = 32768;
        recipe.selectionTokens = 2048;
        recipe.evaluationTokens = 4096;
        recipe.align.steps = 100;
        recipe.align.batch = 4;
        recipe.closedForm.sequences = 16;
    }
    if (preset == "linnet") {
        recipe.ropeTreatment = "fit";
        recipe.closedForm.joint = false; // a third of the closed form's time for 0.3 % of perplexity after 300 steps, a quarter kept
    }
    if (preset == "paper" || preset == "reference" || preset == "alignment-only")
        usePaperAlignment(recipe.align);
    if (preset == "sliding-window")
        recipe.align.steps = 0;
    return recipe;
}

std::filesystem::path resolvePath(const Recipe& recipe, const std::string& path) {
    if (path == "default" || path.starts_with("self:"))
        return path;
    return (recipe.folder / path).lexically_normal();
}

std::string recipeHash(const Recipe& recipe) {
    Recipe anywhere = recipe;
    anywhere.device = "auto";
    return hashBytes(recipeToText(anywhere));
}

std::vector<RecipeDifference> diffRecipes(const Recipe& left, const Recipe& right) {
    std::vector<std::pair<std::string, std::string>> leftValues, rightValues;
    flatten(recipeToJson(left), "", leftValues);
    flatten(recipeToJson(right), "", rightValues);
    const std::map<std::string, std::string> ofLeft(leftValues.begin(), leftValues.end()),
        ofRight(rightValues.begin(), rightValues.end());
    std::vector<RecipeDifference> differences;
    for (const auto& [key, value] : leftValues) {
        const auto other = ofRight.find(key);
        if (other == ofRight.end() || other->second != value)
            differences.push_back({key, value, other == ofRight.end() ? "" : other->second});
    }
    for (const auto& [key, value] : rightValues)
        if (!ofLeft.contains(key))
            differences.push_back({key, "", value});
    return differences;
}

} // namespace linnet::core
