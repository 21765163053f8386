// Recipe file to recipe: version, migration, keys and types here; ranges in recipe_validate.cpp.
#include "core/recipe/recipe_json.h"
#include "core/recipe/recipe_section.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace linnet::core {
namespace {

// Entry i turns a recipe of version i + 1 into one of version i + 2; the newest version is therefore the table's size + 1.
using Migration = void (*)(Json& recipe);
const std::vector<Migration>& migrations() {
    static const std::vector<Migration> steps = {};
    return steps;
}

Json migrated(const Json& json, const std::string& origin) {
    if (!json.is_object())
        failKey(origin, "recipe", foundText(json), "an object");
    const auto newest = static_cast<std::int64_t>(migrations().size()) + 1;
    const auto found = json.find("version");
    if (found == json.end())
        failKey(origin, "version", "nothing", "the recipe's version (now " + std::to_string(newest) + ")");
    if (!found->is_number_unsigned() || *found < 1)
        failKey(origin, "version", foundText(*found), "a whole number from 1 to " + std::to_string(newest));
    if (*found > newest)
        failKey(origin, "version", foundText(*found),
                "at most " + std::to_string(newest) + ": this recipe was written by a newer linnet, update to read it");
    Json result = json;
    for (auto version = found->get<std::int64_t>(); version < newest; ++version)
        migrations()[static_cast<std::size_t>(version - 1)](result);
    result["version"] = newest;
    return result;
}

// What a key that the file leaves out stands for depends on the device and the preset that it names.
Recipe defaultsFor(const Json& json, const std::string& origin) {
    std::string device = "auto", preset = "linnet";
    RecipeSection section(json, "", origin);
    section.read("device", device);
    section.read("preset", preset);
    if (std::ranges::find(presetNames(), preset) == presetNames().end()) {
        const auto nearest = nearestName(preset, presetNames());
        failKey(origin, "preset", foundText(preset),
                "one of " + joinNames(presetNames()) + (nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?"));
    }
    return defaultRecipe(device, preset);
}

void readText(RecipeSection& data, std::vector<std::string>& text) {
    const Json* found = data.find("text");
    if (!found)
        return;
    const Json list = found->is_string() ? Json::array({*found}) : *found;
    const auto isText = [](const Json& entry) { return entry.is_string(); };
    if (!list.is_array() || list.empty() || !std::ranges::all_of(list, isText))
        failKey(data.origin(), data.key("text"), foundText(*found), "a path or a list of paths");
    text = list.get<std::vector<std::string>>();
}

void readKeep(RecipeSection& top, KeepRule& keep) {
    const Json* found = top.find("keep");
    if (!found)
        return;
    if (found->is_array()) {
        std::set<std::int64_t> layers;
        top.read("keep", layers);
        keep = {KeepRule::Kind::Layers, 0, {layers.begin(), layers.end()}, {}, {}};
        return;
    }
    if (!found->is_string())
        failKey(top.origin(), "keep", foundText(*found), "a rule as \"uniform:8\" or a list of layers");
    auto rule = guarded([&] { return parseKeepRule(found->get<std::string>()); });
    if (!rule) {
        rule.error().context["file"] = top.origin();
        fail(ErrorCode::Malformed, top.origin() + ": keep: " + rule.error().message, rule.error().context);
    }
    keep = *rule;
}

// The keys of targets are numbers in JSON's only form for keys, without sign or leading zeros.
std::int64_t readIndex(const std::string& text, const std::string& origin, const std::string& key, const char* what) {
    std::int32_t index = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
    if (error != std::errc{} || end != text.data() + text.size() || index < 0 || std::to_string(index) != text)
        failKey(origin, key, foundText(text) + " as " + what, "a whole number from 0");
    return index;
}

HeadTarget readTarget(const Json& json, const std::string& path, const std::string& origin) {
    HeadTarget target;
    RecipeSection section(json, path, origin);
    const auto number = [&](const char* name, std::optional<double>& value) {
        const Json* found = section.find(name);
        if (!found)
            return;
        const bool halfLife = std::string_view(name) == "half_life";
        if (halfLife && found->is_null())
            value = std::numeric_limits<double>::infinity();
        else if (found->is_number())
            value = found->get<double>();
        else
            failKey(origin, section.key(name), foundText(*found),
                    halfLife ? "a number of tokens, or null for no decay" : "a number");
    };
    number("half_life", target.halfLife);
    number("beta", target.beta);
    number("value_scale", target.valueScale);
    number("output_gate", target.outputGate);
    section.read("locked", target.locked);
    section.finish();
    return target;
}

void readTargets(RecipeSection& top, Recipe& recipe) {
    const Json* found = top.find("targets");
    if (!found)
        return;
    RecipeSection layers(*found, "targets", top.origin());
    for (const auto& [layerName, heads] : found->items()) {
        const auto layer = readIndex(layerName, top.origin(), layers.key(layerName), "layer");
        RecipeSection section(heads, layers.key(layerName), top.origin());
        for (const auto& [headName, values] : heads.items()) {
            const auto head = readIndex(headName, top.origin(), section.key(headName), "head");
            if (auto target = readTarget(values, section.key(headName), top.origin()); !target.empty())
                recipe.targets[layer][head] = std::move(target);
        }
    }
}

void readClosedForm(RecipeSection& top, ClosedFormSettings& closedForm) {
    auto section = top.section("closed_form");
    section.read("half_lives", closedForm.halfLives, true);
    section.read("betas", closedForm.betas);
    section.read("sequences", closedForm.sequences);
    section.read("joint", closedForm.joint);
    section.read("ridge", closedForm.ridge);
    section.read("refine", closedForm.refine);
    section.read("value_rms", closedForm.valueRms);
    section.read("gate", closedForm.gate);
    section.read("gate_rounds", closedForm.gateRounds);
    section.read("ridge_before_alignment", closedForm.ridgeBeforeAlignment);
    section.finish();
}

void readAlign(RecipeSection& top, AlignSettings& align) {
    auto section = top.section("align");
    section.read("steps", align.steps);
    section.read("batch", align.batch);
    section.read("lr", align.lr);
    section.read("lr_new", align.lrNew);
    section.read("schedule", align.schedule);
    section.read("warmup", align.warmup);
    section.read("train_output", align.trainOutput);
    section.read("loss", align.loss);
    section.read("early_stop", align.earlyStop);
    section.read("drift", align.drift);
    section.read("drift_steps", align.driftSteps);
    section.read("weight_decay", align.weightDecay);
    section.read("clip", align.clip);
    section.read("held_out", align.heldOut);
    section.finish();
}

void readData(RecipeSection& top, Recipe& recipe) {
    auto data = top.section("data");
    readText(data, recipe.dataText);
    data.read("seq_len", recipe.seqLen);
    data.read("calibration_tokens", recipe.calibrationTokens);
    data.read("selection_tokens", recipe.selectionTokens);
    data.read("evaluation_tokens", recipe.evaluationTokens);
    data.finish();
}

void readDistill(RecipeSection& top, DistillSettings& distill) {
    auto section = top.section("distill");
    section.read("steps", distill.steps);
    section.read("batch", distill.batch);
    section.read("lr", distill.lr);
    section.read("warmup", distill.warmup);
    section.read("schedule", distill.schedule);
    section.read("temperature", distill.temperature);
    section.read("kl_weight", distill.klWeight);
    section.read("cross_entropy_weight", distill.crossEntropyWeight);
    section.read("weight_decay", distill.weightDecay);
    section.read("clip", distill.clip);
    section.read("tokens", distill.tokens);
    section.finish();
}

void readSections(RecipeSection& top, Recipe& recipe) {
    auto teacher = top.section("teacher");
    teacher.read("source", recipe.teacherSource);
    teacher.read("hash", recipe.teacherHash);
    teacher.finish();
    readData(top, recipe);
    top.read("mixer", recipe.mixer);
    top.read("preset", recipe.preset);
    readKeep(top, recipe.keep);
    readTargets(top, recipe);
    readClosedForm(top, recipe.closedForm);
    readAlign(top, recipe.align);
    readDistill(top, recipe.distill);
    auto window = top.section("window");
    window.read("window", recipe.window);
    window.read("sinks", recipe.sinks);
    window.finish();
    auto evaluate = top.section("evaluate");
    evaluate.read("convention", recipe.convention);
    evaluate.read("seq_len", recipe.evaluateSeqLen);
    evaluate.finish();
    top.read("device", recipe.device);
    top.read("dtype", recipe.dtype);
    if (recipe.dtype == "auto")
        recipe.dtype.clear();
    top.read("memory_gib", recipe.memoryGib);
    top.read("seed", recipe.seed);
    auto treatment = top.section("treatment");
    treatment.read("bias", recipe.biasTreatment);
    treatment.read("qk_norm", recipe.qkNormTreatment);
    treatment.read("rope", recipe.ropeTreatment);
    treatment.finish();
    auto pins = top.section("pins");
    pins.read("never", recipe.never);
    pins.read("always", recipe.always);
    pins.finish();
}

} // namespace

Recipe recipeFromJson(const Json& json, const std::string& origin) {
    const Json current = migrated(json, origin);
    Recipe recipe = defaultsFor(current, origin);
    RecipeSection top(current, "", origin);
    std::int64_t version = 0;
    top.read("version", version);
    recipe.version = static_cast<int>(version);
    readSections(top, recipe);
    top.finish();
    if (auto errors = validateRecipe(recipe); !errors.empty()) {
        Error error = std::move(errors.front());
        error.message = origin + ": " + error.message;
        for (std::size_t i = 1; i < errors.size(); ++i)
            error.message += "; " + errors[i].message;
        error.context["file"] = origin;
        throw Failure{std::move(error)};
    }
    return recipe;
}

Result<Recipe> readRecipe(const std::filesystem::path& file) {
    return guarded([&] {
        Recipe recipe = recipeFromJson(readJsonFile(file), file.string());
        recipe.folder = file.parent_path();
        return recipe;
    });
}

} // namespace linnet::core
