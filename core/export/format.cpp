#include "core/torch_pch.h"

#include "core/export/format.h"

namespace linnet::core {

const Format& formatOf(const std::string& name) {
    static const std::vector<Format> kFormats{
        {"hf", writeHfFolder, {"f32", "bf16", "f16"}},
        {"qwen3.5", writeQwen35Folder, {"f32", "bf16", "f16"}},
    };
    for (const auto& format : kFormats)
        if (name == format.name)
            return format;
    fail(ErrorCode::Unsupported, "export format " + name + " is not in this release", {{"option", "--format"}, {"value", name}});
}

void requireExpressible(const WriteJob& job) {
    const auto info = modelInfo(job.model);
    const auto choice = exportChoice(job.options.format, info.config, info.layerKinds);
    if (!choice.available())
        fail(ErrorCode::Unsupported, "export " + job.options.format + ": " + choice.reason, {{"option", "--format"}, {"value", job.options.format}});
    if (choice.fidelity == Fidelity::Lifted && !job.options.lift)
        fail(ErrorCode::Unsupported, "export " + job.options.format + ": this teacher needs the lift, which must be asked for (--lift): " + choice.reason,
             {{"option", "--lift"}, {"value", job.options.format}});
}

} // namespace linnet::core
