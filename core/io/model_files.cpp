#include "core/io/model_files.h"

#include "core/base/result.h"
#include "core/io/gguf_hybrid.h"
#include "core/io/checkpoint_folder.h"
#include "core/io/safetensors_source.h"

namespace linnet::core {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void missing(const fs::path& path, const std::string& what) {
    fail(ErrorCode::NotFound, path.string() + ": " + what, {{"file", path.string()}});
}

void checkFolder(const fs::path& folder) {
    std::error_code failed;
    if (!fs::exists(folder / "config.json", failed)) {
        if (fs::exists(folder / "snapshots", failed))
            missing(folder, "this is the hub's cache of a model; open one of the folders under snapshots");
        missing(folder, "there is no config.json; a model folder holds config.json, tokenizer.json and *.safetensors");
    }
    if (fs::exists(folder / "tokenizer.json", failed))
        return;
    for (const char* other : {"tokenizer.model", "vocab.json"})
        if (fs::exists(folder / other, failed))
            missing(folder, std::string("there is no tokenizer.json, only ") + other +
                                "; save the tokenizer with transformers' save_pretrained to get one");
    missing(folder, "there is no tokenizer.json; copy it from where the model was published");
}

ModelFiles openFolder(const fs::path& folder) {
    checkFolder(folder);
    ModelFiles files{folder, readHfConfig(folder / "config.json"), nullptr, nullptr, {}};
    files.weights = openFolderWeights(folder, files.config.tiedEmbeddings, files.warnings);
    checkTeacherTensors(files.config, *files.weights);
    files.tokenizer = openTokenizerJson(folder);
    return files;
}

ModelFiles openGgufFile(const fs::path& file) {
    if (isGgufHybrid(file))
        fail(ErrorCode::Unsupported, file.string() + " holds a hybrid (architecture qwen35), a model of softmax layers alone was expected", {{"file", file.string()}});
    ModelFiles files{file, readGgufConfig(file), openGguf(file), nullptr, {}};
    checkTeacherTensors(files.config, *files.weights);
    files.tokenizer = openGgufTokenizer(file);
    return files;
}

// The check of tensors does not know where they come from; its message gains the path here.
ModelFiles withPath(ModelFiles (*open)(const fs::path&), const fs::path& path) {
    try {
        auto files = open(path);
        if (files.tokenizer->vocabSize() > files.config.vocabSize)
            fail(ErrorCode::Malformed,
                 path.string() + ": the tokenizer has " + std::to_string(files.tokenizer->vocabSize()) +
                     " tokens, but the model's vocabulary (vocab_size) only " + std::to_string(files.config.vocabSize),
                 {{"key", "vocab_size"}});
        return files;
    } catch (Failure& failure) {
        if (failure.error.context.emplace("file", path.string()).second && !failure.error.message.starts_with(path.string()))
            failure.error.message = path.string() + ": " + failure.error.message;
        throw;
    }
}

} // namespace

std::shared_ptr<const WeightSource> openFolderWeights(const fs::path& folder, bool tied, std::vector<std::string>& warnings, const std::string& embedding) {
    std::shared_ptr<const SafetensorsSource> weights = openSafetensorsShards(folder);
    if (tied && weights->find("lm_head.weight") && weights->find(embedding) && !weights->sameBytes("lm_head.weight", embedding))
        warnings.push_back("lm_head.weight is ignored: it differs from " + embedding + ", but config.json ties the two (tie_word_embeddings); transformers 5 takes the head as it is stored");
    return weights;
}

std::string ModelFiles::hash() const {
    return identity.empty() ? weights->hash() : identity;
}

ModelFiles openModelFiles(const fs::path& path) {
    std::error_code failed;
    if (fs::is_directory(path, failed))
        return withPath(openFolder, path);
    if (!fs::exists(path, failed))
        missing(path, "there is no such file or folder; give a Hugging Face model folder or a .gguf file");
    if (path.extension() == ".gguf")
        return withPath(openGgufFile, path);
    const bool pickled = path.extension() == ".pt" || path.extension() == ".pth" || path.extension() == ".bin";
    fail(ErrorCode::Unsupported,
         path.string() + " is neither a model folder nor a .gguf file" +
             (path.extension() == ".safetensors" ? "; open the folder that holds it"
              : pickled ? "; pickled weights can run code and are not read: save them as safetensors beside a config.json and open that folder: " + safetensorsLine(path.filename().string())
                        : std::string()),
         {{"file", path.string()}});
}

} // namespace linnet::core
