#include "core/torch_pch.h"

#include "core/export/parity.h"

#include "core/base/file_hash.h"
#include "core/base/files.h"
#include "core/export/provenance.h"
#include "core/convert/tensor_file.h"

namespace linnet::core {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kParityRows = 8, kGreedyTokens = 16;
constexpr const char* kProbe = "In 1842 the town council voted, by 7 to 5, to build a bridge. \"It will pay for itself,\" said the engineer; nobody "
                               "believed her. Ten years later the toll keeper counted 3,650 carts a month, and the council built a second one.\n"
                               "for (int i = 0; i < n; ++i) sum += a[i] * b[i];\n";

std::vector<TokenId> idsOf(const at::Tensor& floats) {
    std::vector<TokenId> list;
    for (std::int64_t i = 0; i < floats.numel(); ++i)
        list.push_back(static_cast<TokenId>(floats[i].item<float>()));
    return list;
}

std::vector<TokenId> greedyTokens(const Model& model, const std::vector<TokenId>& probe, const Control& control) {
    GenerateOptions options;
    options.tokens = kGreedyTokens;
    return orFail(generate(model, probe, options, {}, control)).ids;
}

bool mayBeEdited(const std::string& file) {
    return file == "README.md" || file == kHashFile;
}

// What a runtime would read, were it put there: weights, code, configuration, tokenizers (merges.txt, vocab.txt, tokenizer.model), templates, tokens.
bool countsWhenAdded(const std::string& file) {
    static const std::vector<std::string> kKinds{".safetensors", ".json", ".gguf", ".py", ".jinja", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".npz", ".npy", ".model", ".tiktoken", ".yaml"};
    const auto name = fs::path(file).filename();
    return (std::ranges::find(kKinds, name.extension().string()) != kKinds.end() || name == "merges.txt" || name == "vocab.txt") && !mayBeEdited(file);
}

// Of the folder and those in it, but for hidden ones (version control, caches of downloads).
void refuseAdded(const fs::path& folder, const Hashes& hashes) {
    const bool older = !hashes.contains(kExportFile); // its recipe and report were not hashed
    for (fs::recursive_directory_iterator entry(folder), end; entry != end; ++entry) {
        const auto name = entry->path().lexically_relative(folder).string();
        if (entry->path().filename().string().starts_with('.')) {
            entry.disable_recursion_pending();
            continue;
        }
        if (countsWhenAdded(name) && !hashes.contains(name) && !(older && (name == "recipe.json" || name == "report.json")) && !entry->is_directory())
            fail(ErrorCode::Malformed, entry->path().string() + " is no part of the export: " + kHashFile + " does not list it", {{"file", entry->path().string()}});
    }
}

} // namespace

void writeParity(const Model& model, const fs::path& folder, const Control& control) {
    const auto ids = modelTokenizer(model).encode(kProbe, true);
    const auto values = orFail(sequenceLogits(model, ids, control));
    const auto rows = std::min<std::int64_t>(kParityRows, static_cast<std::int64_t>(ids.size())), vocab = model.config().vocabSize;
    at::Tensor logits = at::empty({rows, vocab}, at::kFloat);
    std::copy(values.end() - rows * vocab, values.end(), logits.data_ptr<float>());
    const auto floats = [](const std::vector<TokenId>& list) { return at::tensor(std::vector<float>(list.begin(), list.end())); };
    saveTensors(folder / kParityFile, {{"ids", floats(ids)}, {"logits", logits}, {"greedy", floats(greedyTokens(model, ids, control))}});
}

Parity compareParity(const Model& model, const fs::path& folder, const Control& control) {
    at::Tensor ids, expected, greedy;
    for (const auto& [name, tensor] : loadTensors(folder / kParityFile, at::kCPU))
        (name == "ids" ? ids : name == "greedy" ? greedy : expected) = tensor;
    if (!ids.defined() || !expected.defined() || ids.dim() != 1 || expected.dim() != 2 || expected.size(0) > ids.size(0) || expected.size(1) != model.config().vocabSize)
        fail(ErrorCode::Malformed, (folder / kParityFile).string() + ": tensors ids and logits do not fit the model", {{"file", (folder / kParityFile).string()}});
    const auto list = idsOf(ids);
    control.report("verify", 0, 2, "logits of the probe");
    auto values = orFail(sequenceLogits(model, list, control));
    const at::Tensor all = at::from_blob(values.data(), {ids.size(0), model.config().vocabSize}, at::kFloat);
    const at::Tensor found = all.narrow(0, ids.size(0) - expected.size(0), expected.size(0));
    const at::Tensor p = at::log_softmax(expected.to(at::kDouble), -1), q = at::log_softmax(found.to(at::kDouble), -1);
    const at::Tensor difference = (found - expected).abs();
    Parity parity{difference.max().item<double>(), difference.to(at::kDouble).mean().item<double>(), (p.exp() * (p - q)).sum(-1).mean().item<double>(),
                  found.argmax(-1).eq(expected.argmax(-1)).to(at::kDouble).mean().item<double>(), ids.size(0)};
    control.report("verify", 1, 2, "greedy tokens");
    if (greedy.defined()) {
        const auto before = idsOf(greedy), now = greedyTokens(model, list, control);
        const auto end = std::mismatch(before.begin(), before.end(), now.begin(), now.end()).first;
        parity.greedyTokens = std::ssize(before);
        parity.greedySame = end - before.begin();
    }
    control.report("verify", 2, 2);
    return parity;
}

void requireParity(const Parity& parity, const std::string& dtype) {
    // f32 stores the very values; narrower types round the mixers' (and a quantised teacher's) weights
    const double allowed = dtype == "f32" ? 1e-6 : 0.05;
    if (!(parity.meanKl <= allowed))
        fail(ErrorCode::Internal, "export: the reloaded folder does not give the student's logits: mean KL " + std::to_string(parity.meanKl) + ", at most " +
                                      std::to_string(allowed) + " expected; the folder is not to be used", {{"found", std::to_string(parity.meanKl)}});
}

Hashes writeHashes(const fs::path& folder, const std::vector<std::string>& files, const Control& control) {
    Hashes hashes;
    for (const auto& file : files)
        if (!mayBeEdited(file))
            hashes[file] = hashWholeFile(folder / file, control);
    writeFileAtomically(folder / kHashFile, Json(hashes).dump(1) + "\n");
    return hashes;
}

Hashes checkHashes(const fs::path& folder, const Control& control) {
    const auto file = folder / kHashFile;
    const Json json = readJsonFile(file);
    Hashes hashes;
    if (json.is_object())
        for (const auto& [name, hash] : json.items())
            if (hash.is_string() && fs::path(name).is_relative() && name.find("..") == name.npos)
                hashes[name] = hash.get<std::string>();
    if (hashes.empty() || hashes.size() != json.size() || !hashes.contains(kParityFile))
        fail(ErrorCode::Malformed, file.string() + " is no list of an export's hashes", {{"file", file.string()}});
    for (const auto& [name, expected] : hashes) {
        control.checkpoint();
        if (const auto found = hashWholeFile(folder / name, control); expected != found)
            fail(ErrorCode::Malformed, (folder / name).string() + " is damaged or was changed: hash " + found + ", expected " + expected,
                 {{"file", (folder / name).string()}, {"found", found}, {"expected", expected}});
    }
    refuseAdded(folder, hashes);
    return hashes;
}

} // namespace linnet::core
