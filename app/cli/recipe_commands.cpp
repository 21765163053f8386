#include "app/cli/commands.h"

#include "core/convert/recipe_checks.h"
#include "core/model/diagnose.h"

namespace linnet::app {
namespace {

using namespace core;

struct NewArguments {
    std::string model, preset = presetNames().front(), keep, mixer = "gated_delta_net", drift, out;
    std::int64_t steps = -1, distillSteps = -1;
};

void create(Cli& cli, const NewArguments& a) {
    const auto info = orFail(readModelInfo(modelPath(a.model)));
    auto device = cli.options.device;
    if (device == "auto")
        device = diagnoseDevice();
    Recipe recipe = defaultRecipe(device.starts_with("cuda") ? "cuda" : "cpu", a.preset);
    recipe.device = cli.options.device;
    recipe.dtype = cli.options.dtype;
    recipe.teacherSource = a.model == "default" ? "default" : std::filesystem::absolute(a.model).string();
    recipe.teacherHash = info.hash;
    recipe.mixer = a.mixer;
    if (a.steps >= 0)
        recipe.align.steps = a.steps;
    if (!a.drift.empty())
        recipe.align.drift = a.drift;
    if (a.distillSteps >= 0)
        recipe.distill.steps = a.distillSteps;
    if (cli.options.seedGiven)
        recipe.seed = cli.options.seed;
    recipe.keep = a.keep.empty() ? KeepRule{KeepRule::Kind::Method, (std::ranges::count(info.layerKinds, "softmax") * 22 + 15) / 30, {}, "", recipe.keep.method} : parseKeepRule(a.keep);
    if (recipe.keep.kind == KeepRule::Kind::File) // the rule's path is the caller's; the file's is relative to the recipe
        recipe.keep.file = std::filesystem::absolute(recipe.keep.file).string();
    if (auto errors = validateRecipe(recipeOn(recipe, info.layerKinds), info.config.layers, info.config.heads); !errors.empty()) {
        errors.front().code = ErrorCode::Usage; // no file is malformed here: an option is wrong
        throw Failure{errors.front()};
    }
    orFail(writeRecipe(a.out, recipe));
    cli.console.result(parseJson(recipeToText(recipe), a.out), "wrote " + a.out);
}

void check(Cli& cli, const std::string& file) {
    const auto recipe = orFail(readRecipe(file));
    auto errors = validateRecipe(recipe);
    std::vector<std::string> notes;
    if (errors.empty()) {
        const auto source = recipe.teacherSource == "default" ? defaultTeacher() : resolvePath(recipe, recipe.teacherSource);
        const auto info = orFail(readModelInfo(source));
        errors = checkRecipe(recipe, info);
        for (const auto& each : recipeNotes(recipe, info.config.layers))
            notes.push_back(each.text);
        if (errors.empty() && !recipe.teacherHash.empty() && recipe.teacherHash != info.hash)
            errors.push_back({ErrorCode::Malformed, "teacher.hash: expected " + recipe.teacherHash + ", " + source.string() + " is " + info.hash, {{"key", "teacher.hash"}}});
    }
    if (!errors.empty()) {
        for (std::size_t i = 1; i < errors.size(); ++i)
            cli.console.note(errors[i].message);
        throw Failure{errors.front()};
    }
    std::string text = "ok, " + recipeHash(recipe);
    for (const auto& note : notes)
        text += "\nnote: " + note;
    cli.console.result({{"ok", true}, {"hash", recipeHash(recipe)}, {"notes", notes}}, text);
}

void difference(Cli& cli, const std::string& left, const std::string& right) {
    Json rows = Json::array();
    std::string text;
    for (const auto& d : diffRecipes(orFail(readRecipe(left)), orFail(readRecipe(right)))) {
        rows.push_back({{"key", d.key}, {"left", d.left}, {"right", d.right}});
        text += d.key + ": " + (d.left.empty() ? "-" : d.left) + " -> " + (d.right.empty() ? "-" : d.right) + "\n";
    }
    cli.console.result({{"differences", rows}}, text.empty() ? "no difference" : text);
}

} // namespace

void addRecipeCommands(Cli& cli, CLI::App& app) {
    auto* recipe = app.add_subcommand("recipe", "make, check, show and compare recipe files");
    recipe->require_subcommand(1);
    auto made = std::make_shared<NewArguments>();
    auto* c = cli.add(*recipe, "new", "a recipe with every default written out", [&cli, made] { create(cli, *made); });
    c->add_option("MODEL", made->model)->required();
    c->add_option("--preset", made->preset)->check(CLI::IsMember(presetNames()))->capture_default_str();
    c->add_option("--keep", made->keep,
                  "layers that stay softmax: uniform:N, first:N, last:N, layers:0,7, file:F, or METHOD:N, METHOD:cache=BYTES@TOKENS (as 64MiB@32768), METHOD:ppl=RATIO "
                  "with METHOD bypass, score, kl, greedy, restore or ga-s2");
    c->add_option("--steps", made->steps, "alignment steps, 0 = closed form only (default: the device's)")->check(CLI::NonNegativeNumber);
    c->add_option("--drift", made->drift, "after alignment, on the student's own inputs: none, refit or align")->check(CLI::IsMember({"none", "refit", "align"}));
    c->add_option("--distill-steps", made->distillSteps, "steps of end-to-end distillation by KL (default 0)")->check(CLI::NonNegativeNumber);
    c->add_option("--mixer", made->mixer)->capture_default_str();
    c->add_option("--out", made->out)->required();
    auto file = std::make_shared<std::string>(), other = std::make_shared<std::string>();
    cli.add(*recipe, "check", "is it valid, also for its teacher", [&cli, file] { check(cli, *file); })->add_option("RECIPE", *file)->required();
    cli.add(*recipe, "show", "the canonical text", [&cli, file] {
           const auto text = recipeToText(orFail(readRecipe(*file)));
           cli.console.result(parseJson(text, *file), text);
       })->add_option("RECIPE", *file)->required();
    auto* d = cli.add(*recipe, "diff", "the keys that differ", [&cli, file, other] { difference(cli, *file, *other); });
    d->add_option("A", *file)->required();
    d->add_option("B", *other)->required();
}

} // namespace linnet::app
