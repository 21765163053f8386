#include "core/io/weight_files.h"

#include "core/base/file_hash.h"
#include "core/base/files.h"
#include "core/base/json.h"
#include "core/base/regular_file.h"

#include <set>

namespace linnet::core {

namespace fs = std::filesystem;

std::vector<fs::path> weightFiles(const fs::path& model) {
    std::error_code failed;
    if (!fs::is_directory(model, failed))
        return {model};
    const auto whole = model / "model.safetensors", index = model / "model.safetensors.index.json";
    if (fs::exists(whole, failed) || !fs::exists(index, failed))
        return {whole};
    std::set<fs::path> shards;
    const auto json = parseLargeJson(readRegularFile(index, kMostJsonBytes), index.string());
    for (const auto& [tensor, shard] : json.at("weight_map").items())
        shards.insert(model / shard.get<std::string>());
    return {shards.begin(), shards.end()};
}

std::string weightContents(const fs::path& model, const Control& control) {
    const auto files = weightFiles(model);
    std::string hashes;
    for (std::size_t i = 0; i < files.size(); ++i) {
        control.report("load", static_cast<double>(i), static_cast<double>(files.size()), "hash of " + files[i].filename().string());
        hashes += hashWholeFile(files[i], control);
    }
    return files.size() == 1 ? hashes : hashBytes(hashes);
}

} // namespace linnet::core
