#include "core/torch_pch.h"

#include <ATen/Parallel.h>
#include <torch/headeronly/version.h>

#include "core/convert/convert.h"

#include "core/base/files.h"
#include "core/convert/pipeline.h"
#include "core/convert/select.h"
#include "core/model/device.h"

namespace linnet::core {
namespace {

Report execute(RunFolder& run, const ConvertOptions& options, const Control& control) {
    Control logged = control;
    logged.onLog = [&](const std::string& line) {
        run.log(line);
        control.log(line);
    };
    try {
        return Pipeline(run, options, logged).execute();
    } catch (const Failure& failure) {
        run.log(std::string(failure.error.code == ErrorCode::Cancelled ? "stopped: " : "failed: ") + failure.error.message);
        throw;
    } catch (const std::exception& error) {
        run.log(std::string("failed: ") + error.what());
        throw;
    }
}

} // namespace

Result<Report> convert(const Recipe& recipe, const std::filesystem::path& run, const ConvertOptions& options, const Control& control) {
    return guarded([&] {
        if (const auto errors = validateRecipe(recipe); !errors.empty())
            throw Failure{errors.front()};
        if (recipe.keep.kind == KeepRule::Kind::Method)
            checkMethod(recipe.keep.method);
        if (recipe.mixer != "gated_delta_net")
            fail(ErrorCode::Unsupported, "mixer \"" + recipe.mixer + "\" is not in this release; gated_delta_net is", {{"key", "mixer"}, {"found", recipe.mixer}});
        if (recipe.convention != "chunked")
            fail(ErrorCode::Unsupported, "evaluate.convention \"" + recipe.convention + "\": a conversion evaluates token windows, chunked; linnet-cli eval has " +
                                             "the other one", {{"key", "evaluate.convention"}, {"found", recipe.convention}});
        if (recipe.evaluateSeqLen > 0 && recipe.seqLen % recipe.evaluateSeqLen != 0)
            fail(ErrorCode::Unsupported, "evaluate.seq_len " + std::to_string(recipe.evaluateSeqLen) + " does not divide data.seq_len " + std::to_string(recipe.seqLen),
                 {{"key", "evaluate.seq_len"}, {"found", std::to_string(recipe.evaluateSeqLen)}});
        Recipe frozen = recipe; // absolute paths: the folder must go on from anywhere on this machine
        frozen.teacherSource = recipe.teacherSource == "default" ? defaultTeacher().string() : resolvePath(recipe, recipe.teacherSource).string();
        for (auto& text : frozen.dataText)
            text = text == "default" ? defaultText().string() : resolvePath(recipe, text).string();
        // What can be seen to be wrong fails before a folder is made.
        for (const auto& text : frozen.dataText)
            if (!text.starts_with("self:") && !std::filesystem::exists(text))
                fail(ErrorCode::NotFound, "data.text: there is no " + text, {{"key", "data.text"}, {"file", text}});
        const auto info = orFail(readModelInfo(frozen.teacherSource));
        if (const auto errors = validateRecipe(recipe, info.config.layers, info.config.heads); !errors.empty())
            throw Failure{errors.front()};
        if (!frozen.teacherHash.empty() && frozen.teacherHash != info.hash)
            fail(ErrorCode::Malformed, "teacher.hash: the recipe was made for teacher " + frozen.teacherHash + ", " + frozen.teacherSource + " is " + info.hash,
                 {{"key", "teacher.hash"}, {"expected", frozen.teacherHash}, {"found", info.hash}});
        if (frozen.teacherHash.empty())
            frozen.teacherHash = info.hash;
        if (const auto kept = keptLayers(recipe, info.config.layers); kept && frozen.keep.kind == KeepRule::Kind::File) {
            frozen.keep = KeepRule{KeepRule::Kind::Layers, 0, *kept, "", ""};
        }
        auto folder = RunFolder::create(run, frozen);
        writeFileAtomically(folder.file("environment.json"),
                            Json{{"device", deviceDescription(deviceFromName(frozen.device))}, {"threads", at::get_num_threads()}, {"libtorch", TORCH_VERSION}}.dump(1) + "\n");
        folder.state()["baselines"] = options.baselines;
        folder.save();
        try {
            return execute(folder, options, control);
        } catch (const Failure& failure) {
            // What fails before its first stage is done (too little text, say) leaves the folder empty, as it was
            if (failure.error.code != ErrorCode::Cancelled && !folder.state().contains("stages"))
                for (const auto& entry : std::filesystem::directory_iterator(run))
                    std::filesystem::remove_all(entry.path());
            throw;
        }
    });
}

Result<Report> resumeRun(const std::filesystem::path& run, const ConvertOptions& options, const Control& control) {
    return guarded([&] {
        auto folder = RunFolder::open(run);
        if (folder.state().value("finished", false))
            return orFail(readReport(run));
        folder.log("resumed");
        return execute(folder, options, control);
    });
}

} // namespace linnet::core
