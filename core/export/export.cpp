#include "core/torch_pch.h"

#include "core/export/export.h"

#include "core/base/file_hash.h"
#include "core/base/files.h"
#include "core/convert/tensor_file.h"
#include "core/export/format.h"

#include <unistd.h>

namespace linnet::core {
namespace {

namespace fs = std::filesystem;
constexpr const char* kParityFile = "parity.safetensors"; // the student's own logits at the end of a probe: verify needs no student
constexpr const char* kHashFile = "hashes.json";          // of every file that the model is made of: a probe alone misses most flipped bits
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

Parity compare(const Model& model, const fs::path& folder, const Control& control) {
    at::Tensor ids, expected, greedy;
    for (const auto& [name, tensor] : loadTensors(folder / kParityFile, at::kCPU))
        (name == "ids" ? ids : name == "greedy" ? greedy : expected) = tensor;
    if (!ids.defined() || !expected.defined() || ids.dim() != 1 || expected.dim() != 2 || expected.size(1) != model.config().vocabSize)
        fail(ErrorCode::Malformed, (folder / kParityFile).string() + ": tensors ids and logits do not fit the model", {{"file", (folder / kParityFile).string()}});
    const auto list = idsOf(ids);
    auto values = orFail(sequenceLogits(model, list, control));
    const at::Tensor all = at::from_blob(values.data(), {ids.size(0), model.config().vocabSize}, at::kFloat);
    const at::Tensor found = all.narrow(0, ids.size(0) - expected.size(0), expected.size(0));
    const at::Tensor p = at::log_softmax(expected.to(at::kDouble), -1), q = at::log_softmax(found.to(at::kDouble), -1);
    const at::Tensor difference = (found - expected).abs();
    Parity parity{difference.max().item<double>(), difference.to(at::kDouble).mean().item<double>(), (p.exp() * (p - q)).sum(-1).mean().item<double>(),
                  found.argmax(-1).eq(expected.argmax(-1)).to(at::kDouble).mean().item<double>(), ids.size(0)};
    if (greedy.defined()) {
        const auto before = idsOf(greedy), now = greedyTokens(model, list, control);
        const auto end = std::mismatch(before.begin(), before.end(), now.begin(), now.end()).first;
        parity.greedyTokens = std::ssize(before);
        parity.greedySame = end - before.begin();
    }
    return parity;
}

void writeParity(const Model& model, const fs::path& folder, const Control& control) {
    const auto ids = modelTokenizer(model).encode(kProbe, true);
    const auto values = orFail(sequenceLogits(model, ids, control));
    const auto rows = std::min<std::int64_t>(kParityRows, static_cast<std::int64_t>(ids.size())), vocab = model.config().vocabSize;
    at::Tensor logits = at::empty({rows, vocab}, at::kFloat);
    std::copy(values.end() - rows * vocab, values.end(), logits.data_ptr<float>());
    const auto floats = [](const std::vector<TokenId>& list) { return at::tensor(std::vector<float>(list.begin(), list.end())); };
    saveTensors(folder / kParityFile, {{"ids", floats(ids)}, {"logits", logits}, {"greedy", floats(greedyTokens(model, ids, control))}});
}

void writeHashes(const fs::path& folder, const std::vector<std::string>& files, const Control& control) {
    Json hashes = Json::object();
    for (const auto& file : files)
        if (file != "README.md" && file != "recipe.json" && file != "report.json") // a person's to edit
            hashes[file] = hashWholeFile(folder / file, control);
    writeFileAtomically(folder / kHashFile, hashes.dump(1) + "\n");
}

void checkHashes(const fs::path& folder, const Control& control) {
    const auto file = folder / kHashFile;
    const Json hashes = readJsonFile(file);
    if (!hashes.is_object() || !hashes.contains("model.safetensors"))
        fail(ErrorCode::Malformed, file.string() + " is no list of hashes", {{"file", file.string()}});
    for (const auto& [name, expected] : hashes.items())
        if (const auto found = hashWholeFile(folder / name, control); expected != found)
            fail(ErrorCode::Malformed, (folder / name).string() + " is damaged or was changed: hash " + found + ", expected " + expected.dump(),
                 {{"file", (folder / name).string()}, {"found", found}, {"expected", expected.dump()}});
}

void checkParity(const Parity& parity, const std::string& dtype) {
    // f32 stores the very values; bf16 and f16 round the mixers' (and a quantised teacher's) weights
    const double allowed = dtype == "f32" ? 1e-6 : 0.05;
    if (!(parity.meanKl <= allowed))
        fail(ErrorCode::Internal, "export: the reloaded folder does not give the student's logits: mean KL " + std::to_string(parity.meanKl) + ", at most " +
                                      std::to_string(allowed) + " expected; the folder is not to be used", {{"found", std::to_string(parity.meanKl)}});
}

// Removes the half-written folder unless it was renamed.
struct Partial {
    fs::path folder;
    ~Partial() {
        std::error_code ignored;
        fs::remove_all(folder, ignored);
    }
};

std::string exportedDType(const Json& config) {
    const auto dtype = config.value("dtype", std::string("float32"));
    return dtype == "float32" ? "f32" : dtype == "bfloat16" ? "bf16" : "f16";
}

RunOptions inFloat32(RunOptions run) {
    run.dtype = "f32";
    return run;
}

} // namespace

Json exportReportToJson(const ExportReport& report) {
    Json json{{"folder", report.folder.string()}, {"format", report.format}, {"files", report.files}, {"exact", report.exact},
              {"fidelity", report.fidelity}, {"notes", report.notes}, {"parity", nullptr}};
    if (report.verified)
        json["parity"] = {{"max_abs_logit", report.parity.maxAbsLogit}, {"mean_abs_logit", report.parity.meanAbsLogit}, {"mean_kl", report.parity.meanKl},
                          {"top1_agreement", report.parity.top1Agreement}, {"tokens", report.parity.tokens}, {"greedy_tokens", report.parity.greedyTokens},
                          {"greedy_same", report.parity.greedySame}};
    return json;
}

std::uint64_t exportBytes(const ModelInfo& student, const ExportOptions& options) {
    const std::uint64_t element = options.dtype == "f32" ? 4 : 2;
    const auto& c = student.config;
    std::uint64_t converted = 0; // a linear layer: 5 square projections and some vectors for q, k, v, o of the teacher
    for (const auto& kind : student.layerKinds)
        converted += kind != "softmax" && kind != "sliding_window";
    const auto more = static_cast<std::uint64_t>(5 * c.heads * c.headDim * c.hiddenSize + 64 * c.heads * c.headDim + 2 * c.heads * c.hiddenSize);
    const std::uint64_t beside = (16 << 20) + static_cast<std::uint64_t>(kParityRows * c.vocabSize) * 4; // tokenizer, code, parity
    return (static_cast<std::uint64_t>(student.parameters) + converted * more) * element + beside;
}

Result<ExportReport> exportModel(const fs::path& student, const fs::path& out, const ExportOptions& options, const RunOptions& run, const Control& control) {
    return guarded([&] {
        const auto& format = formatOf(options.format);
        std::error_code ignored;
        if (out.empty() || (fs::exists(out) && (!fs::is_directory(out) || !fs::is_empty(out))))
            fail(ErrorCode::Usage, "export folder \"" + out.string() + "\" exists and is not empty; choose another", {{"option", "--out"}, {"file", out.string()}});
        const auto model = orFail(openModel(student, inFloat32(run), control));
        requireExpressible({*model, student, {}, options});
        const std::uint64_t bytes = exportBytes(modelInfo(*model), options);
        if (const auto space = freeDiskBytes(out); space < bytes)
            fail(ErrorCode::Disk, "export to " + out.string() + " needs " + std::to_string(bytes >> 20) + " MiB, " + std::to_string(space >> 20) + " MiB are free",
                 {{"file", out.string()}});
        const auto target = fs::absolute(out).lexically_normal();
        const auto trimmed = target.has_filename() ? target : target.parent_path();
        Partial partial{trimmed.string() + ".part-" + std::to_string(::getpid())};
        fs::create_directories(partial.folder, ignored);
        if (!fs::is_directory(partial.folder))
            fail(ErrorCode::Io, "can't make " + partial.folder.string() + ": " + ignored.message(), {{"file", out.string()}});
        ExportReport report;
        report.folder = trimmed;
        report.format = options.format;
        WrittenFolder written = format.write({*model, student, partial.folder, options}, control);
        report.files = std::move(written.files);
        report.exact = written.exact;
        report.notes = std::move(written.notes);
        const auto info = modelInfo(*model);
        const auto choice = exportChoice(options.format, info.config, info.layerKinds);
        report.fidelity = fidelityName(options.dtype == "f32" ? choice.fidelity : choice.in16Bits);
        writeParity(*model, partial.folder, control);
        report.files.push_back(kParityFile);
        writeHashes(partial.folder, report.files, control);
        report.files.push_back(kHashFile);
        if (options.verify) {
            const auto reloaded = orFail(openModel(partial.folder, inFloat32(run), control));
            report.parity = compare(*reloaded, partial.folder, control);
            checkParity(report.parity, options.dtype);
            report.verified = true;
        }
        control.checkpoint();
        fs::remove(trimmed, ignored); // an empty folder of that name
        fs::rename(partial.folder, trimmed);
        return report;
    });
}

Result<ExportReport> verifyExport(const fs::path& folder, const RunOptions& run, const Control& control) {
    return guarded([&] {
        if (!fs::exists(folder / kParityFile))
            fail(ErrorCode::NotFound, folder.string() + " is no export of ours: " + kParityFile + " is missing", {{"file", (folder / kParityFile).string()}});
        checkHashes(folder, control);
        const auto model = orFail(openModel(folder, inFloat32(run), control));
        ExportReport report;
        report.folder = folder;
        const Json config = readJsonFile(folder / "config.json");
        report.format = config.value("model_type", std::string()) == "linnet" ? "hf" : "qwen3.5";
        const auto dtype = exportedDType(config);
        report.exact = dtype == "f32";
        for (const auto& entry : fs::directory_iterator(folder))
            report.files.push_back(entry.path().filename().string());
        std::sort(report.files.begin(), report.files.end());
        report.parity = compare(*model, folder, control);
        report.verified = true;
        checkParity(report.parity, dtype);
        return report;
    });
}

} // namespace linnet::core
