// select: which layers to convert, by any ranking, a number of layers or a budget.
#include "app/cli/commands.h"

#include "core/convert/convert.h"
#include "core/model/diagnose.h"

#include <sstream>

namespace linnet::app {
namespace {

using namespace core;

struct SelectArguments {
    std::string model, recipe, method, preset, maxCache, maxRatio, never, always;
    std::vector<std::string> text;
    std::int64_t keep = -1, steps = -1, tokens = 0, seqLen = 0;
};

std::set<std::int64_t> layerList(const std::string& option, const std::string& text) {
    const auto rule = guarded([&] { return parseKeepRule("layers:" + text); });
    if (!rule || text.empty())
        fail(ErrorCode::Usage, option + ": found \"" + text + "\", expected layers as 0,1,5", {{"option", option}, {"value", text}});
    return {rule->layers.begin(), rule->layers.end()};
}

KeepRule ruleOf(const SelectArguments& a, const KeepRule& base) {
    const bool ruled = base.kind == KeepRule::Kind::Method && !a.recipe.empty();
    const std::string method = !a.method.empty() ? a.method : ruled ? base.method : "bypass";
    const int given = (a.keep >= 0) + !a.maxCache.empty() + !a.maxRatio.empty();
    if (given > 1)
        fail(ErrorCode::Usage, "--keep, --max-cache and --max-ppl: only one of them can be given", {{"option", "--keep"}});
    if (given == 0 && !ruled)
        fail(ErrorCode::Usage, "--keep is required: how many layers stay softmax; or give --max-cache or --max-ppl", {{"option", "--keep"}});
    if (given == 0) {
        KeepRule rule = base;
        rule.method = method;
        return parseKeepRule(rule.text());
    }
    return parseKeepRule(method + ":" + (a.keep >= 0 ? std::to_string(a.keep) : !a.maxCache.empty() ? "cache=" + a.maxCache : "ppl=" + a.maxRatio));
}

Recipe recipeOf(Cli& cli, const SelectArguments& a, const ModelInfo& info) {
    const auto device = cli.options.device == "auto" ? diagnoseDevice() : cli.options.device;
    Recipe recipe = a.recipe.empty() ? defaultRecipe(device.starts_with("cuda") ? "cuda" : "cpu", a.preset.empty() ? Recipe{}.preset : a.preset) : orFail(readRecipe(a.recipe));
    if (!a.recipe.empty() && !a.preset.empty())
        fail(ErrorCode::Usage, "--preset and --recipe: only one of them can be given", {{"option", "--preset"}});
    if (a.recipe.empty() || cli.options.device != "auto")
        recipe.device = cli.options.device;
    if (!cli.options.dtype.empty())
        recipe.dtype = cli.options.dtype;
    if (cli.options.seedGiven)
        recipe.seed = cli.options.seed;
    recipe.teacherSource = a.model == "default" ? "default" : std::filesystem::absolute(a.model).string();
    recipe.teacherHash = info.hash;
    recipe.keep = ruleOf(a, recipe.keep);
    if (!a.text.empty()) {
        recipe.dataText = a.text;
        for (auto& text : recipe.dataText)
            if (text != "default" && !text.starts_with("self:"))
                text = std::filesystem::absolute(text).string();
    }
    if (a.steps >= 0)
        recipe.align.steps = a.steps;
    if (a.seqLen > 0)
        recipe.seqLen = a.seqLen;
    if (a.tokens > 0)
        recipe.selectionTokens = a.tokens;
    if (a.recipe.empty() && recipe.keep.method == "bypass" && recipe.keep.budget != KeepRule::Budget::Perplexity) { // needs no other slice
        recipe.calibrationTokens = recipe.seqLen;
        recipe.evaluationTokens = 0;
    }
    if (!a.never.empty())
        recipe.never = layerList("--never", a.never);
    if (!a.always.empty())
        recipe.always = layerList("--always", a.always);
    if (auto errors = validateRecipe(recipe, info.config.layers, info.config.heads); !errors.empty()) {
        if (a.recipe.empty())
            errors.front().code = ErrorCode::Usage; // no file is malformed here: an option is wrong
        throw Failure{errors.front()};
    }
    if (recipe.keep.budget == KeepRule::Budget::None && recipe.keep.count > info.config.layers)
        fail(ErrorCode::Usage, "--keep: found " + std::to_string(recipe.keep.count) + ", the teacher has " + std::to_string(info.config.layers) + " layers", {{"option", "--keep"}});
    return recipe;
}

std::string selectionText(const Selection& selection) {
    std::ostringstream text;
    const bool stepwise = selection.method == "greedy" || selection.method == "restore";
    text << (stepwise ? "in the order of " + selection.method : "cheapest to convert first") << " (" << selection.unit << ")\n";
    for (const auto& entry : selection.ranking)
        text << "  layer " << entry.layer << "  " << number(entry.score, 5) << "\n";
    if (!selection.curve.empty()) {
        std::vector<std::vector<std::string>> rows{{"kept", "perplexity", "of teacher", "KL", "cache of " + std::to_string(selection.cacheLength) + " tokens", ""}};
        for (const auto& point : selection.curve)
            rows.push_back({std::to_string(point.kept), number(point.perplexity, 3), number(point.perplexity / selection.teacherPerplexity, 3), number(point.kl, 4), byteCount(point.cacheBytes),
                            point.kept == std::ssize(selection.kept) ? "*" : ""});
        for (const auto& line : table(rows))
            text << line << "\n";
        text << "teacher's perplexity " << number(selection.teacherPerplexity, 3) << "; * the choice\n";
    }
    std::string kept;
    for (const auto layer : selection.kept)
        kept += (kept.empty() ? "" : ",") + std::to_string(layer);
    text << "kept: layers:" << kept << "\n";
    return text.str();
}

void select(Cli& cli, const SelectArguments& a) {
    const auto info = orFail(readModelInfo(modelPath(a.model)));
    const auto recipe = recipeOf(cli, a, info);
    useThreads(cli.options.threads);
    ConvertOptions options;
    options.cacheFolder = cacheFolder() / "profiles";
    options.bankFolder = cacheFolder() / "banks";
    options.baselines = false;
    const auto selection = orFail(selectLayers(recipe, options, cli.console.control()));
    cli.console.result(selectionToJson(selection), selectionText(selection));
}

} // namespace

void addSelectCommand(Cli& cli, CLI::App& app) {
    auto a = std::make_shared<SelectArguments>();
    auto* c = cli.add(app, "select", "rank the layers by what their conversion costs, and choose", [&cli, a] { select(cli, *a); });
    c->add_option("MODEL", a->model)->required();
    c->add_option("--method", a->method, "bypass (no student needed), score (profile only), kl, greedy, restore (an aligned bank), ga-s2 (a bank of starts); default bypass");
    c->add_option("--keep", a->keep, "layers that stay softmax")->check(CLI::NonNegativeNumber);
    c->add_option("--max-cache", a->maxCache, "BYTES@TOKENS: as many kept layers as fit into the cache of one sequence, e.g. 64MiB@32768");
    c->add_option("--max-ppl", a->maxRatio, "RATIO: as few kept layers as keep the perplexity within RATIO times the teacher's, e.g. 1.05");
    c->add_option("--preset", a->preset, "what the bank's layers start from (default: " + Recipe{}.preset + ")")->check(CLI::IsMember(presetNames()));
    c->add_option("--steps", a->steps, "alignment steps of the bank; 0 = starts only (default: the device's)")->check(CLI::NonNegativeNumber);
    c->add_option("--recipe", a->recipe, "take every setting that no option gives from this recipe");
    c->add_option("--never", a->never, "layers that are never converted: 0,1");
    c->add_option("--always", a->always, "layers that are always converted: 5");
    c->add_option("--data", a->text, ".txt or .jsonl files, folders of them, default, or self:N");
    c->add_option("--tokens", a->tokens, "tokens of the selection slice (default: the device's)")->check(CLI::NonNegativeNumber);
    c->add_option("--seq-len", a->seqLen, "tokens of one window (default: the device's)")->check(CLI::Range(std::int64_t{2}, std::int64_t{1} << 20));
}

} // namespace linnet::app
