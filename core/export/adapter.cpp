// `--format adapter`: the converted layers alone, to lie over the teacher again (core/model/open_adapter.h has the files).
#include "core/torch_pch.h"

#include "core/base/files.h"
#include "core/export/hf_folder.h"
#include "core/export/provenance.h"
#include "core/export/tensor_plan.h"
#include "core/model/open_adapter.h"

namespace linnet::core {
namespace {

// What it is to lie over: the model's own files, but where those hold the converted layers too, the teacher that their export.json names.
Json teacherOf(const WriteJob& job, const std::string& contents) {
    const auto& weights = *job.model.files().weights;
    const bool whole = !layersWith(weights, kLinearModule).empty() || !layersWith(weights, kSlidingWindow).empty();
    if (whole && std::filesystem::exists(job.student / kExportFile)) {
        const auto teacher = readProvenance(job.student).teacher;
        if (contents.empty())
            fail(ErrorCode::Unsupported, "export adapter: " + (job.student / kExportFile).string() + " does not say its teacher's contents (key teacher.contents); export the run or the student that it was made from",
                 {{"file", (job.student / kExportFile).string()}, {"key", "teacher.contents"}});
        return {{"name", teacher.name}, {"hash", teacher.hash}, {"contents", contents}, {"source", ""}};
    }
    const auto path = std::filesystem::absolute(job.model.files().path).lexically_normal();
    return {{"name", (path.has_filename() ? path : path.parent_path()).filename().string()}, {"hash", job.model.files().weights->hash()},
            {"contents", contents}, {"source", path.string()}};
}

Json adapterConfig(const WriteJob& job, const std::string& contents) {
    Json layers = Json::object(), eps = Json::object();
    std::string name = "gated_delta_net";
    for (const auto& [layer, mixer] : job.model.mixers()) {
        const bool window = mixer.kind == Mixer::Kind::SlidingWindow;
        if (!window)
            name = mixer.spec->name;
        layers[std::to_string(layer)] = window ? kSlidingWindow : mixer.spec->name.c_str();
        if (mixer.headNormEps > 0)
            eps[std::to_string(layer)] = mixer.headNormEps;
    }
    Json config{{"linnet_adapter", 1}, {"mixer", name}, {"layers", layers}, {"head_norm_eps", eps}, {"teacher", teacherOf(job, contents)}, {"recipe", nullptr}};
    if (const auto recipe = job.student / "recipe.json"; std::filesystem::exists(recipe))
        config["recipe"] = readJsonFile(recipe);
    return config;
}

std::uint64_t bytesOf(const std::vector<PlannedTensor>& plan) {
    std::uint64_t bytes = 0;
    for (const auto& tensor : plan)
        bytes += tensorBytes(tensor.entry);
    return bytes;
}

std::string megabytes(std::uint64_t bytes) {
    char text[32];
    std::snprintf(text, sizeof text, "%.*f MB", bytes < 10'000'000 ? 2 : 0, static_cast<double>(bytes) / 1e6);
    return text;
}

} // namespace

WrittenFolder writeAdapter(const WriteJob& job, const Control& control) {
    if (job.model.mixers().empty())
        fail(ErrorCode::Unsupported, "export adapter: no layer of " + job.student.string() + " is converted: there is nothing to write", {{"file", job.student.string()}});
    const std::string type = storedTypeName(job.options.dtype);
    std::vector<PlannedTensor> plan;
    planConvertedLayers(job.model, type, plan);
    const auto whole = bytesOf(hfPlan(job.model, type)), own = bytesOf(plan);
    const auto contents = teacherContents(job.model, job.student, control);
    writeFileAtomically(job.folder / kAdapterFile, adapterConfig(job, contents).dump(2) + "\n");
    WrittenFolder written{writeRunFiles(job), true, {"converted layers only: " + megabytes(own) + " against " + megabytes(whole) + " of the whole student; opens where its teacher is at hand"}, contents};
    written.files.emplace_back(kAdapterFile);
    WriteJob oneFile = job;
    oneFile.options.shardBytes = std::numeric_limits<std::uint64_t>::max(); // readers of adapters know one file
    writeTensors(oneFile, plan, written, control, kAdapterWeights);
    return written;
}

} // namespace linnet::core
