#include "core/torch_pch.h"

#include "core/model/open_gguf_hybrid.h"

#include "core/base/result.h"
#include "core/io/gguf_hybrid.h"

namespace linnet::core {

namespace fs = std::filesystem;

fs::path ggufIn(const fs::path& path) {
    std::error_code failed;
    if (path.extension() == ".gguf" && fs::is_regular_file(path, failed))
        return path;
    if (!fs::is_directory(path, failed) || fs::exists(path / "config.json", failed))
        return {};
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(path))
        if (entry.path().extension() == ".gguf")
            found.push_back(entry.path());
    if (found.size() > 1)
        fail(ErrorCode::Usage, path.string() + " holds " + std::to_string(found.size()) + " .gguf files and no config.json: name the one to open", {{"file", path.string()}});
    return found.empty() ? fs::path() : found.front();
}

OpenedModel openGgufHybridModel(const fs::path& file) {
    auto hybrid = openGgufHybrid(file);
    OpenedModel opened;
    opened.files.path = file;
    opened.files.config = hybrid.config;
    opened.files.weights = hybrid.weights;
    opened.files.tokenizer = openGgufTokenizer(file);
    opened.student = opened.files.weights;
    opened.mixer = "gated_delta_net";
    for (const auto layer : hybrid.linearLayers) // llama.cpp has one eps for all norms, so measured with it and PyPI's xllamacpp
        opened.qkNormEps[layer] = hybrid.config.rmsNormEps;
    return opened;
}

} // namespace linnet::core
