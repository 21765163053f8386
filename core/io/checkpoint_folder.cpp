#include "core/io/checkpoint_folder.h"

#include "core/base/result.h"

#include <charconv>
#include <optional>

namespace linnet::core {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> stepOf(const fs::path& folder, std::string_view prefix) { // checkpoint-1500 -> 1500
    const auto name = folder.filename().string();
    std::int64_t step = -1;
    if (!name.starts_with(prefix))
        return std::nullopt;
    const auto parsed = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), step);
    return parsed.ec == std::errc() && parsed.ptr == name.data() + name.size() && step >= 0 ? std::optional(step) : std::nullopt;
}

bool hasConfig(const fs::path& folder) {
    std::error_code ignored;
    return fs::is_regular_file(folder / "config.json", ignored);
}

bool isModel(const fs::path& folder) { // not one that was cut off before its weights were saved
    std::error_code ignored;
    if (!hasConfig(folder))
        return false;
    for (const auto& entry : fs::directory_iterator(folder, ignored))
        if (const auto name = entry.path().filename().string(); entry.path().extension() == ".safetensors" || name.starts_with("pytorch_model"))
            return true;
    return false;
}

fs::path named(fs::path folder) { // "run/" and "run/." are run
    folder = folder.lexically_normal();
    return folder.has_filename() ? folder : folder.parent_path();
}

// flame: EXPERIMENT/checkpoint/step-N/*.distcp (fla-org/flame, flame/checkpoint.py); the line is of flame's utils/convert_dcp_to_hf.py.
void refuseDistributed(const fs::path& folder) {
    std::error_code ignored;
    for (const auto& steps : {folder / "checkpoint", folder}) {
        std::int64_t newest = -1;
        for (const auto& entry : fs::directory_iterator(steps, ignored)) {
            if (entry.path().extension() == ".distcp")
                newest = std::max(newest, stepOf(named(folder), "step-").value_or(0));
            if (const auto step = stepOf(entry.path(), "step-"))
                for (const auto& shard : fs::directory_iterator(entry.path(), ignored))
                    newest = shard.path().extension() == ".distcp" ? std::max(newest, *step) : newest;
        }
        if (newest >= 0)
            fail(ErrorCode::Unsupported,
                 folder.string() + ": it holds torch's distributed checkpoints (.distcp), which are not read; make them a model folder with flame's "
                     "\"python -m flame.utils.convert_dcp_to_hf --path EXPERIMENT --step " + std::to_string(newest) +
                     " --config CONFIG --tokenizer TOKENIZER\" and open EXPERIMENT",
                 {{"file", folder.string()}, {"found", ".distcp"}});
    }
}

} // namespace

fs::path newestCheckpoint(const fs::path& path) {
    std::error_code ignored;
    if (!fs::is_directory(path, ignored) || hasConfig(path))
        return path;
    if (isModel(path / "final"))
        return path / "final";
    fs::path newest;
    std::int64_t largest = -1;
    for (const auto& entry : fs::directory_iterator(path, ignored))
        if (const auto step = stepOf(entry.path(), "checkpoint-"); step && *step > largest && isModel(entry.path()))
            largest = *step, newest = entry.path();
    if (!newest.empty())
        return newest;
    refuseDistributed(path);
    return path;
}

fs::path tokenizerFolder(const fs::path& folder) {
    std::error_code ignored;
    const auto here = named(fs::absolute(folder));
    if (!stepOf(here, "checkpoint-") && here.filename() != "final")
        return folder;
    auto at = here;
    for (int up = 0; up <= 3; ++up, at = at.parent_path())
        if (fs::is_regular_file(at / "tokenizer.json", ignored))
            return at;
    return folder;
}

std::string safetensorsLine(const std::string& pickled) {
    return "python -c \"import torch, safetensors.torch as s; d = torch.load('" + pickled + "', map_location='cpu', weights_only=True); d = d.get('model', d); "
           "s.save_file({k: v.clone().contiguous() for k, v in d.items()}, 'model.safetensors', {'format': 'pt'})\"";
}

} // namespace linnet::core
