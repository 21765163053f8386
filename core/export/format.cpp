#include "core/torch_pch.h"

#include "core/export/format.h"

#include "core/export/dtypes.h"

namespace linnet::core {

const Format& formatOf(const std::string& name) {
    static const std::vector<Format> kFormats{
        {"hf", writeHfFolder, {"f32", "bf16", "f16"}},
        {"qwen3.5", writeQwen35Folder, {"f32", "bf16", "f16"}},
        {"gguf", writeGgufFolder, {"f32", "bf16", "f16", "q8_0"}},
        {"fla", writeFlaFolder, {"f32", "bf16", "f16"}},
        {"adapter", writeAdapter, {"f32", "bf16", "f16"}},
        {"bundle", writeBundle, {"f32", "bf16", "f16"}},
    };
    for (const auto& format : kFormats)
        if (name == format.name)
            return format;
    fail(ErrorCode::Unsupported, "export format " + name + " is not in this release", {{"option", "--format"}, {"value", name}});
}

const ExportChoice& choiceOf(const ModelInfo& info, const std::string& format) {
    for (const auto& choice : info.exports)
        if (choice.format == format)
            return choice;
    fail(ErrorCode::Usage, "export format \"" + format + "\" is none that this program knows", {{"option", "--format"}, {"value", format}});
}

std::vector<std::string> exportDTypes(const std::string& format, bool lifted) {
    const auto& known = formatOf(format).dtypes;
    std::vector<std::string> dtypes{known.begin(), known.end()};
    if (lifted)
        std::erase(dtypes, "f16");
    return dtypes;
}

void requireExpressible(const WriteJob& job) {
    const auto info = modelInfo(job.model);
    const auto& choice = choiceOf(info, job.options.format);
    if (!choice.available())
        fail(ErrorCode::Unsupported, "export " + job.options.format + ": " + choice.reason, {{"option", "--format"}, {"value", job.options.format}});
    if (choice.fidelity == Fidelity::Lifted && !job.options.lift)
        fail(ErrorCode::Unsupported, "export " + job.options.format + ": this teacher needs the lift, which must be asked for (--lift): " + choice.reason,
             {{"option", "--lift"}, {"value", job.options.format}});
    if (choice.fidelity == Fidelity::Lifted && job.options.dtype == "f16")
        fail(ErrorCode::Unsupported, "export " + job.options.format + ": lifted q and k are smaller than float16's numbers; choose f32 or bf16", {{"option", "--dtype"}, {"value", "f16"}});
    if (job.options.format == "hf" || job.options.format == "bundle" || job.options.format == "adapter")
        return;
    for (const auto& [layer, mixer] : job.model.mixers()) // of a checkpoint that another trainer left
        if (mixer.headNormEps > 0 && mixer.headNormEps != info.config.rmsNormEps)
            fail(ErrorCode::Unsupported, "export " + job.options.format + ": o_norm of layer " + std::to_string(layer) + " was trained with eps " + std::to_string(mixer.headNormEps) +
                                             ", which has no place there; only hf, adapter and bundle keep it", {{"option", "--format"}, {"layer", std::to_string(layer)}});
}

} // namespace linnet::core
