#include "core/torch_pch.h"

#include <ATen/Parallel.h>
#include <torch/headeronly/version.h>

#include "core/convert/convert.h"

#include "core/base/files.h"
#include "core/convert/pipeline.h"
#include "core/convert/recipe_checks.h"
#include "core/convert/select.h"
#include "core/convert/selection_key.h"
#include "core/model/device.h"

namespace linnet::core {
namespace {

// Runs `body` with its log also in the run folder, and how it ended.
template <class F> auto executed(RunFolder& run, const Control& control, F&& body) {
    Control logged = control;
    logged.onLog = [&](const std::string& line) {
        run.log(line);
        control.log(line);
    };
    try {
        return body(logged);
    } catch (const Failure& failure) {
        run.log(std::string(failure.error.code == ErrorCode::Cancelled ? "stopped: " : "failed: ") + failure.error.message);
        throw;
    } catch (const std::exception& error) {
        run.log(std::string("failed: ") + error.what());
        throw;
    }
}

} // namespace

Recipe frozenRecipe(const Recipe& recipe) {
    if (const auto errors = validateRecipe(recipe); !errors.empty())
        throw Failure{errors.front()};
    if (recipe.keep.kind == KeepRule::Kind::Method)
        bankFor(recipe.keep.method); // throws for an unknown one
    if (recipe.mixer != "gated_delta_net")
        fail(ErrorCode::Unsupported, "mixer \"" + recipe.mixer + "\" is not in this release; gated_delta_net is", {{"key", "mixer"}, {"found", recipe.mixer}});
    if (recipe.convention != "chunked")
        fail(ErrorCode::Unsupported, "evaluate.convention \"" + recipe.convention + "\": a conversion evaluates token windows, chunked; linnet-cli eval has " +
                                         "the other one", {{"key", "evaluate.convention"}, {"found", recipe.convention}});
    if (recipe.evaluateSeqLen > 0 && recipe.seqLen % recipe.evaluateSeqLen != 0)
        fail(ErrorCode::Unsupported, "evaluate.seq_len " + std::to_string(recipe.evaluateSeqLen) + " does not divide data.seq_len " + std::to_string(recipe.seqLen),
             {{"key", "evaluate.seq_len"}, {"found", std::to_string(recipe.evaluateSeqLen)}});
    Recipe result = recipe;
    result.teacherSource = recipe.teacherSource == "default" ? defaultTeacher().string() : resolvePath(recipe, recipe.teacherSource).string();
    for (auto& text : result.dataText)
        text = text == "default" ? defaultText().string() : resolvePath(recipe, text).string();
    for (const auto& text : result.dataText)
        if (!text.starts_with("self:") && !std::filesystem::exists(text))
            fail(ErrorCode::NotFound, "data.text: there is no " + text, {{"key", "data.text"}, {"file", text}});
    const auto info = orFail(readModelInfo(result.teacherSource));
    if (const auto errors = checkRecipe(recipe, info); !errors.empty())
        throw Failure{errors.front()};
    if (!result.teacherHash.empty() && result.teacherHash != info.hash)
        fail(ErrorCode::Malformed, "teacher.hash: the recipe was made for teacher " + result.teacherHash + ", " + result.teacherSource + " is " + info.hash,
             {{"key", "teacher.hash"}, {"expected", result.teacherHash}, {"found", info.hash}});
    if (result.teacherHash.empty())
        result.teacherHash = info.hash;
    if (const auto kept = keptLayers(recipeOn(recipe, info.layerKinds), info.config.layers); kept && result.keep.kind == KeepRule::Kind::File) {
        result.keep = KeepRule{KeepRule::Kind::Layers, 0, *kept, "", ""};
    }
    return result;
}

Result<Report> convert(const Recipe& recipe, const std::filesystem::path& run, const ConvertOptions& options, const Control& control) {
    return guarded([&] {
        if (recipe.evaluationTokens < 2) // seen at the end only, otherwise
            fail(ErrorCode::Usage, "data.evaluation_tokens: found " + std::to_string(recipe.evaluationTokens) + ", a conversion is measured on at least 2",
                 {{"key", "data.evaluation_tokens"}, {"found", std::to_string(recipe.evaluationTokens)}, {"expected", "at least 2"}});
        auto folder = RunFolder::create(run, frozenRecipe(recipe));
        writeFileAtomically(folder.file("environment.json"),
                            Json{{"device", deviceDescription(deviceFromName(folder.recipe().device))}, {"threads", at::get_num_threads()}, {"libtorch", TORCH_VERSION}}.dump(1) + "\n");
        folder.state()["baselines"] = options.baselines;
        folder.save();
        try {
            return executed(folder, control, [&](const Control& logged) { return Pipeline(folder, options, logged).execute(); });
        } catch (const Failure& failure) {
            // What fails before its first stage is done (too little text, say) leaves the folder empty, as it was
            if (failure.error.code != ErrorCode::Cancelled && !folder.state().contains("stages"))
                for (const auto& entry : std::filesystem::directory_iterator(run))
                    std::filesystem::remove_all(entry.path());
            throw;
        }
    });
}

Result<Selection> selectLayers(const Recipe& recipe, const ConvertOptions& options, const Control& control) {
    return guarded([&] {
        Recipe chosen = frozenRecipe(recipe);
        chosen.align.drift = "none"; // comes after the choice
        chosen.distill.steps = 0;
        if (chosen.keep.kind != KeepRule::Kind::Method)
            fail(ErrorCode::Usage, "keep rule " + chosen.keep.text() + " measures nothing; select takes bypass, kl, greedy, restore, ga-s2 or score", {{"key", "keep"}, {"found", chosen.keep.text()}});
        // A run folder of its own that never sees an end: a stopped choice goes on, and what is measured serves every rule.
        const auto path = selectionFolder(chosen, options.bankFolder);
        const auto fresh = !std::filesystem::exists(path / "recipe.json");
        auto folder = fresh ? RunFolder::create(path, chosen) : RunFolder::open(path);
        if (!fresh)
            folder.replaceRecipe(chosen);
        folder.state()["baselines"] = false;
        if (folder.state().contains("stages"))
            folder.state()["stages"].erase("select");
        auto selection = executed(folder, control, [&](const Control& logged) { return Pipeline(folder, options, logged).executeSelection(); });
        if (!options.bankFolder.empty()) { // the layers lie in the cache now
            folder.state()["stages"].erase("align");
            folder.save();
            std::filesystem::remove(folder.file("checkpoints/aligned.safetensors"));
        }
        return selection;
    });
}

Result<Report> resumeRun(const std::filesystem::path& run, const ConvertOptions& options, const Control& control) {
    return guarded([&] {
        auto folder = RunFolder::open(run);
        if (folder.state().value("finished", false))
            return orFail(readReport(run));
        folder.log("resumed");
        return executed(folder, control, [&](const Control& logged) { return Pipeline(folder, options, logged).execute(); });
    });
}

} // namespace linnet::core
