#include "core/torch_pch.h"

#include "core/export/export.h"

#include "core/base/file_hash.h"
#include "core/base/files.h"
#include "core/export/format.h"
#include "core/export/model_card.h"
#include "core/export/parity.h"
#include "core/export/partial_folder.h"

namespace linnet::core {
namespace {

namespace fs = std::filesystem;

RunOptions inFloat32(RunOptions run) {
    run.dtype = "f32";
    return run;
}

void requireDType(const Format& format, const std::string& dtype) {
    std::string known;
    for (const char* each : format.dtypes) {
        if (dtype == each)
            return;
        known += (known.empty() ? "" : ", ") + std::string(each);
    }
    fail(ErrorCode::Usage, "export " + std::string(format.name) + ": dtype \"" + dtype + "\" is none of " + known, {{"option", "--dtype"}, {"value", dtype}});
}

void requireSpace(const fs::path& out, std::uint64_t bytes) {
    if (const auto space = freeDiskBytes(out); space < bytes)
        fail(ErrorCode::Disk, "export to " + out.string() + " needs " + std::to_string(bytes >> 20) + " MiB, " + std::to_string(space >> 20) + " MiB are free",
             {{"file", out.string()}, {"expected", std::to_string(bytes)}, {"found", std::to_string(space)}});
}

// One rule for all formats: what is not finite may hide from the probe (a decay of 0) and from the reader of one class alone.
void requireFinite(const Model& model, const fs::path& student) {
    for (const auto& [layer, mixer] : model.mixers())
        if (mixer.kind == Mixer::Kind::Linear)
            mixer.linear.forEach([&](const std::string& part, const at::Tensor& values) {
                const auto name = "model.layers." + std::to_string(layer) + "." + kLinearModule + "." + part;
                if (!at::isfinite(values).all().item<bool>())
                    fail(ErrorCode::Malformed, student.string() + ": tensor " + name + " holds values that are not finite; convert the layer again with a lower learning rate, or keep it",
                         {{"file", student.string()}, {"tensor", name}});
            });
}

// A run's state says of which student file the report speaks (student_hash). Another one: its numbers do not belong here.
void leaveOutForeignReport(const WriteJob& job, WrittenFolder& written, const Control& control) {
    const auto file = job.student / "checkpoints" / "student.safetensors", stateFile = job.student / "state.json";
    if (!fs::exists(job.folder / "report.json") || !fs::exists(file) || !fs::exists(stateFile))
        return;
    const Json state = readJsonFile(stateFile);
    if (!state.is_object() || !state.contains("student_hash") || state["student_hash"] == hashWholeFile(file, control))
        return;
    fs::remove(job.folder / "report.json");
    std::erase(written.files, "report.json");
    written.notes.emplace_back("the run's report.json was measured on other weights than its student has now; its numbers are left out");
}

// Every byte of the run's teacher is as it was when the run ended; recipe.json knows samples of it.
void requireSameTeacher(const WriteJob& job, const std::string& contents) {
    const auto stateFile = job.student / "state.json";
    const Json state = fs::exists(stateFile) ? readJsonFile(stateFile) : Json();
    const auto& teacher = job.model.files().path;
    if (state.is_object() && state.contains("teacher_contents") && state["teacher_contents"] != contents)
        fail(ErrorCode::Malformed, teacher.string() + " has changed since run " + job.student.string() + " was made from it: a hash of all its bytes is " + contents + ", expected " +
                                       state["teacher_contents"].dump(), {{"file", teacher.string()}, {"found", contents}, {"expected", state["teacher_contents"].dump()}});
}

std::uint64_t bytesOf(const fs::path& folder) {
    std::uint64_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
        bytes += entry.is_regular_file() ? entry.file_size() : 0;
    return bytes;
}

void writeCard(const WriteJob& job, ExportReport& report, const Provenance& origin) {
    std::string gguf;
    for (const auto& file : report.files)
        if (file.ends_with(".gguf"))
            gguf = file;
    CardFacts facts;
    facts.provenance = origin;
    facts.teacherType = job.model.config().modelType;
    const auto& c = job.model.config();
    facts.loading = loadLines(report.format, "FOLDER", gguf, (c.qkvBias || c.outputBias) && std::ssize(job.model.mixers()) < c.layers);
    facts.ownCode = report.format == "hf";
    if (auto recipe = readRecipe(job.student / "recipe.json"); recipe)
        facts.recipe = std::move(*recipe);
    if (auto measured = readReport(job.folder); measured) // gguf and adapter, too, have it there
        facts.report = std::move(*measured);
    if (report.verified)
        facts.parity = report.parity;
    writeFileAtomically(job.folder / "README.md", modelCard(facts));
    report.files.push_back("README.md");
}

// Folders of releases before export.json: their configuration tells.
void guessOrigin(const fs::path& folder, ExportReport& report) {
    const Json config = readJsonFile(folder / "config.json");
    report.format = config.value("model_type", std::string()) == "linnet" ? "hf" : "qwen3.5";
    const auto dtype = config.value("dtype", std::string("float32"));
    report.dtype = dtype == "float32" ? "f32" : dtype == "bfloat16" ? "bf16" : "f16";
    report.exact = report.dtype == "f32";
}

void takeOrigin(const fs::path& folder, ExportReport& report) {
    if (!fs::exists(folder / kExportFile))
        return guessOrigin(folder, report);
    const auto origin = readProvenance(folder);
    report.format = origin.format, report.dtype = origin.dtype, report.fidelity = origin.fidelity, report.exact = origin.exact, report.notes = origin.notes;
}

} // namespace

Json exportReportToJson(const ExportReport& report) {
    Json json{{"folder", report.folder.string()}, {"format", report.format}, {"dtype", report.dtype}, {"files", report.files}, {"hashes", report.hashes}, {"bytes", report.bytes}, {"exact", report.exact},
              {"fidelity", report.fidelity}, {"notes", report.notes}, {"parity", nullptr}};
    if (report.verified)
        json["parity"] = {{"max_abs_logit", report.parity.maxAbsLogit}, {"mean_abs_logit", report.parity.meanAbsLogit}, {"mean_kl", report.parity.meanKl},
                          {"top1_agreement", report.parity.top1Agreement}, {"tokens", report.parity.tokens}, {"greedy_tokens", report.parity.greedyTokens},
                          {"greedy_same", report.parity.greedySame}};
    return json;
}

Result<ExportReport> exportModel(const fs::path& student, const fs::path& out, const ExportOptions& options, const RunOptions& run, const Control& control) {
    return guarded([&] {
        const auto target = exportTarget(out);
        const auto& format = formatOf(options.format);
        requireDType(format, options.dtype);
        const auto model = orFail(openModel(student, inFloat32(run), control));
        requireExpressible({*model, student, {}, options});
        requireFinite(*model, student);
        const auto info = modelInfo(*model);
        requireSpace(target, exportBytes(info, options));
        PartialFolder partial(target, control);
        const auto& folder = partial.path();
        const WriteJob job{*model, student, folder, options};
        WrittenFolder written = format.write(job, control);
        leaveOutForeignReport(job, written, control);
        const auto contents = written.contents.empty() ? teacherContents(*model, student, control) : written.contents;
        requireSameTeacher(job, contents);
        ExportReport report;
        report.folder = target;
        report.format = options.format, report.dtype = options.dtype;
        report.files = std::move(written.files);
        report.exact = written.exact;
        report.notes = std::move(written.notes);
        const auto& choice = choiceOf(info, options.format);
        report.fidelity = fidelityName(options.dtype == "f32" ? choice.fidelity : choice.in16Bits);
        writeParity(*model, folder, control);
        auto origin = provenanceOf(*model, student, contents);
        origin.format = report.format, origin.dtype = report.dtype, origin.fidelity = report.fidelity, origin.exact = report.exact, origin.notes = report.notes;
        writeFileAtomically(folder / kExportFile, provenanceToJson(origin).dump(2) + "\n");
        report.files.insert(report.files.end(), {kParityFile, kExportFile});
        report.hashes = writeHashes(folder, report.files, control);
        report.files.push_back(kHashFile);
        if (options.verify) {
            report.parity = compareParity(*orFail(openModel(folder, inFloat32(run), control)), folder, control);
            requireParity(report.parity, options.dtype);
            report.verified = true;
        }
        writeCard(job, report, origin);
        report.bytes = bytesOf(folder);
        control.checkpoint();
        partial.finish();
        return report;
    });
}

Result<ExportReport> verifyExport(const fs::path& folder, const RunOptions& run, const Control& control) {
    return guarded([&] {
        if (!fs::exists(folder / kParityFile))
            fail(ErrorCode::NotFound, folder.string() + " is no export of ours: " + kParityFile + " is missing", {{"file", (folder / kParityFile).string()}});
        ExportReport report;
        report.folder = folder;
        report.hashes = checkHashes(folder, control);
        takeOrigin(folder, report);
        for (const auto& entry : fs::recursive_directory_iterator(folder))
            if (entry.is_regular_file())
                report.files.push_back(entry.path().lexically_relative(folder).string());
        std::sort(report.files.begin(), report.files.end());
        report.bytes = bytesOf(folder);
        report.parity = compareParity(*orFail(openModel(folder, inFloat32(run), control)), folder, control);
        report.verified = true;
        requireParity(report.parity, report.dtype);
        return report;
    });
}

} // namespace linnet::core
