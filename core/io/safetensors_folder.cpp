// A Hugging Face folder's weights: model.safetensors, or the shards of model.safetensors.index.json.
#include "core/base/files.h"
#include "core/base/json.h"
#include "core/base/result.h"
#include "core/io/checkpoint_folder.h"
#include "core/io/hf_config.h"
#include "core/io/model_files.h"
#include "core/io/safetensors_source.h"
#include "core/io/text_checks.h"

#include <map>
#include <set>

namespace linnet::core {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostShards = 1024;
constexpr std::uintmax_t kLargestIndex = 1 << 26;

[[noreturn]] void malformed(const fs::path& index, const std::string& what, Context context = {}) {
    context["file"] = index.string();
    fail(ErrorCode::Malformed, index.string() + ": " + what, std::move(context));
}

// Shards lie in the folder itself. Links that leave it are refused, but for the hub's cache, whose snapshots/<commit>/ links
// to blobs/ of the same model.
void checkShardName(const fs::path& folder, const fs::path& index, const std::string& name) {
    const Context context{{"shard", name}};
    if (name.empty() || name == "." || name == ".." || name.find_first_of(std::string("/\\\0", 3)) != name.npos)
        malformed(index, "shard " + printable(name) + " is not a plain file name inside the folder", context);
    std::error_code failed;
    const auto target = fs::canonical(folder / name, failed);
    if (failed)
        fail(ErrorCode::NotFound, index.string() + ": shard " + printable(name) + " is missing; download the whole folder",
             {{"file", (folder / name).string()}, {"shard", name}});
    const auto home = fs::canonical(folder);
    const bool inCache =
        home.parent_path().filename() == "snapshots" && target.parent_path() == home.parent_path().parent_path() / "blobs";
    if (target.parent_path() != home && !inCache)
        malformed(index, "shard " + printable(name) + " is a link that leaves the folder (to " + target.string() + ")",
                  context);
}

struct Index {
    std::map<std::string, std::string> shardOf;
    std::vector<std::string> shards; // in order of name
    std::optional<std::uint64_t> totalSize;
};

Index readIndex(const fs::path& folder, const fs::path& file) {
    std::error_code failed;
    if (fs::file_size(file, failed) > kLargestIndex && !failed)
        malformed(file, "is larger than " + std::to_string(kLargestIndex) + " bytes");
    const auto json = parseLargeJson(readTextFile(file), file.string());
    if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object() || json["weight_map"].empty())
        malformed(file, "\"weight_map\" is missing, empty or no object", {{"key", "weight_map"}});
    Index index;
    std::set<std::string> shards;
    for (const auto& [tensor, shard] : json["weight_map"].items()) {
        if (!shard.is_string())
            malformed(file, "\"weight_map\" gives no file name for tensor " + printable(tensor), {{"tensor", tensor}});
        index.shardOf[tensor] = shard.get<std::string>();
        if (shards.insert(shard.get<std::string>()).second)
            checkShardName(folder, file, shard.get<std::string>());
    }
    if (shards.size() > kMostShards)
        malformed(file,
                  "names " + std::to_string(shards.size()) + " shards, at most " + std::to_string(kMostShards) + " are read");
    index.shards.assign(shards.begin(), shards.end());
    if (json.contains("metadata")) {
        const auto& metadata = json["metadata"];
        if (!metadata.is_object())
            malformed(file, "\"metadata\" must be an object", {{"key", "metadata"}});
        if (metadata.contains("total_size")) { // some writers put 1234.0
            const auto& size = metadata["total_size"];
            if (!size.is_number() || size.get<double>() < 0 || size.get<double>() > 1e15)
                malformed(file, "\"total_size\" is " + size.dump() + ", a size in bytes was expected", {{"key", "total_size"}});
            index.totalSize = static_cast<std::uint64_t>(size.get<double>());
        }
    }
    return index;
}

std::vector<SafetensorsFile> openShards(const fs::path& folder, const fs::path& indexFile) {
    const auto index = readIndex(folder, indexFile);
    std::vector<SafetensorsFile> files;
    std::set<std::string> present;
    std::uint64_t bytes = 0;
    for (const auto& shard : index.shards) {
        files.emplace_back(folder / shard);
        for (const auto& entry : files.back().entries()) {
            bytes += entry.bytes;
            const auto listed = index.shardOf.find(entry.name);
            if (listed == index.shardOf.end())
                malformed(indexFile,
                          "tensor " + printable(entry.name) + " of shard " + printable(shard) + " is not in the index",
                          {{"tensor", entry.name}, {"shard", shard}});
            if (listed->second != shard)
                malformed(indexFile,
                          "tensor " + printable(entry.name) + " is in shard " + printable(shard) + ", the index says " +
                              printable(listed->second),
                          {{"tensor", entry.name}, {"expected", listed->second}, {"found", shard}});
            present.insert(entry.name);
        }
    }
    for (const auto& [tensor, shard] : index.shardOf)
        if (!present.contains(tensor))
            malformed(indexFile, "tensor " + printable(tensor) + " is not in its shard " + printable(shard),
                      {{"tensor", tensor}, {"shard", shard}});
    // Writers count shared tensors differently and some counted another dtype: only a wild number is a sign of damage.
    if (index.totalSize && (*index.totalSize > 4 * bytes || *index.totalSize < bytes / 4))
        malformed(indexFile,
                  "\"total_size\" is " + std::to_string(*index.totalSize) + ", but the shards hold " + std::to_string(bytes) +
                      " bytes of tensors",
                  {{"key", "total_size"}, {"expected", std::to_string(bytes)}, {"found", std::to_string(*index.totalSize)}});
    return files;
}

bool isPickledModel(const std::string& name) { // and none of what trainers keep of themselves
    for (const char* other : {"optimizer", "scheduler", "scaler", "rng_state", "training_args"})
        if (name.starts_with(other))
            return false;
    return name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth");
}

[[noreturn]] void failWithoutWeights(const fs::path& folder) {
    std::string advice = "it has neither model.safetensors nor model.safetensors.index.json";
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(folder, failed)) {
        const auto name = entry.path().filename().string();
        if (name == "adapter_config.json")
            advice = "it holds an adapter (adapter_config.json); merge it into its base model first";
        else if (name.ends_with(".gguf"))
            advice = "open the file " + name + " in it instead";
        else if (name == "zero_to_fp32.py") // DeepSpeed's, beside its shards
            advice = "its weights are DeepSpeed's shards; run \"python zero_to_fp32.py . . --safe_serialization\" in it";
        else if (isPickledModel(name))
            advice = "it has only pickled weights (" + name + "), which can run code and are not read; save them as safetensors, in that folder: " + safetensorsLine(name);
    }
    fail(ErrorCode::NotFound, folder.string() + ": no weights found: " + advice, {{"file", folder.string()}});
}

// Tensors by which other quantised formats are known, where config.json does not give them away.
void refuseOtherFormats(const std::vector<SafetensorsFile>& files) {
    const std::vector<std::pair<std::string, std::string>> kSigns{
        {".qweight", "GPTQ or AWQ"},
        {".qzeros", "GPTQ or AWQ"},
        {".g_idx", "GPTQ"},
        {".weight_packed", "compressed-tensors"},
        {".weight_scale", "compressed-tensors"},
        {".absmax", "bitsandbytes"},
        {".quant_map", "bitsandbytes"},
        {".SCB", "bitsandbytes"},
    };
    for (const auto& file : files)
        for (const auto& entry : file.entries())
            for (const auto& [suffix, format] : kSigns)
                if (entry.name.ends_with(suffix))
                    fail(ErrorCode::Unsupported,
                         file.path().string() + ": tensor " + printable(entry.name) + " belongs to " + format +
                             " quantisation, which is not supported; use the unquantised model or a GGUF file",
                         {{"file", file.path().string()}, {"tensor", entry.name}, {"found", format}});
}

} // namespace

std::unique_ptr<SafetensorsSource> openSafetensorsShards(const fs::path& folder) {
    std::error_code failed;
    if (!fs::is_directory(folder, failed))
        fail(fs::exists(folder, failed) ? ErrorCode::Io : ErrorCode::NotFound,
             folder.string() + (fs::exists(folder, failed) ? " is no folder" : ": there is no such folder"),
             {{"file", folder.string()}});
    BlockSize block;
    if (const auto config = folder / "config.json"; fs::exists(config, failed))
        block = quantisationBlock(readJsonFile(config), config.string());
    std::vector<SafetensorsFile> files;
    if (const auto whole = folder / "model.safetensors"; fs::exists(whole, failed))
        files.emplace_back(whole);
    else if (const auto index = folder / "model.safetensors.index.json"; fs::exists(index, failed))
        files = openShards(folder, index);
    else
        failWithoutWeights(folder);
    refuseOtherFormats(files);
    return std::make_unique<SafetensorsSource>(std::move(files), block);
}

std::unique_ptr<WeightSource> openSafetensorsFolder(const fs::path& folder) {
    return openSafetensorsShards(folder);
}

} // namespace linnet::core
