#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/convert/pipeline.h"

#include "core/base/file_hash.h"
#include "core/base/files.h"
#include "core/convert/align_parts.h"
#include "core/convert/drift.h"
#include "core/convert/recipe_checks.h"
#include "core/distill/train.h"
#include "core/io/weight_files.h"
#include "core/model/device.h"

namespace linnet::core {
namespace {

// Several passes over the same windows as one bar, each with its share of the work.
class PassBar {
public:
    PassBar(const Control& control, std::vector<std::pair<std::string, double>> passes) : m_control(control), m_passes(std::move(passes)) {}
    void add(const std::string& name, double work) { m_passes.emplace_back(name, work); }
    Control next() { // of the next pass
        double before = 0, all = 0;
        for (std::size_t i = 0; i < m_passes.size(); ++i)
            (i < m_at ? before : all) += m_passes[i].second;
        all += before;
        const auto [name, work] = m_passes[m_at++];
        Control control = m_control;
        if (m_control.onProgress)
            control.onProgress = [report = m_control.onProgress, name = name, work = work, before, all](const Progress& pass) {
                Progress whole = pass;
                whole.done = before + (pass.total > 0 ? work * pass.done / pass.total : 0);
                whole.total = all;
                whole.detail = name + ", window " + std::to_string(std::llround(pass.done)) + " of " + std::to_string(std::llround(pass.total));
                report(whole);
            };
        return control;
    }

private:
    const Control& m_control;
    std::vector<std::pair<std::string, double>> m_passes;
    std::size_t m_at = 0;
};

} // namespace

Pipeline::Pipeline(RunFolder& run, const ConvertOptions& options, const Control& control)
    : m_run(run), m_options(options), m_control(control), m_recipe(run.recipe()) {}

bool Pipeline::done(const std::string& stage) const {
    return m_run.state().contains("stages") && m_run.state()["stages"].contains(stage);
}

// Runs a stage once: seconds are added up over interruptions, and what it found is in the state when it is marked done.
void Pipeline::stage(const std::string& name, const std::function<void(Json& report)>& body) {
    if (done(name))
        return;
    if (m_options.onStage)
        m_options.onStage(name);
    m_run.log("stage " + name);
    const auto begin = std::chrono::steady_clock::now();
    const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
    Json& spent = m_run.state()["spent"][name];
    const double before = spent.is_number() ? spent.get<double>() : 0.0;
    Json report{{"steps", 0}, {"tokens", 0}};
    try {
        body(report);
    } catch (...) {
        m_run.state()["spent"][name] = before + seconds();
        m_run.save();
        throw;
    }
    report["seconds"] = before + seconds();
    m_run.state()["stages"][name] = report;
    m_run.save();
}

void Pipeline::openTeacher() {
    m_teacher = m_options.teacher;
    if (!m_teacher) {
        RunOptions options;
        options.device = m_recipe.device;
        options.dtype = m_recipe.dtype;
        options.threads = at::get_num_threads();
        const auto info = orFail(readModelInfo(m_recipe.teacherSource));
        options.streamed = info.weightBytes > availableMemoryBytes() / 2 && deviceFromName(m_recipe.device).is_cpu();
        m_teacher = orFail(openModel(m_recipe.teacherSource, options, m_control));
    }
    if (!m_recipe.teacherHash.empty() && m_recipe.teacherHash != m_teacher->hash())
        fail(ErrorCode::Malformed, "teacher.hash: the recipe was made for teacher " + m_recipe.teacherHash + ", " + m_recipe.teacherSource + " is " + m_teacher->hash(),
             {{"key", "teacher.hash"}, {"expected", m_recipe.teacherHash}, {"found", m_teacher->hash()}});
    m_recipe = recipeOn(m_recipe, modelInfo(*m_teacher).layerKinds);
    const auto& config = m_teacher->config();
    if (const auto errors = validateRecipe(m_recipe, config.layers, config.heads); !errors.empty())
        throw Failure{errors.front()};
}

void Pipeline::data() {
    stage("data", [&](Json& report) {
        std::vector<std::string> text = m_recipe.dataText;
        const auto all = m_options.windows ? *m_options.windows : windowsOf(*m_teacher, text, m_recipe.seqLen, 0, m_recipe.seed, m_control);
        auto slices = slicesOf(all, m_recipe);
        if (distils())
            slices.training = remainingWindows(all, slices, m_recipe.distill.tokens);
        saveSlices(m_run.file("samples.safetensors"), slices);
        report["tokens"] = slices.calibration.tokens() + slices.selection.tokens() + slices.evaluation.tokens() + slices.training.tokens();
    });
    m_slices = loadSlices(m_run.file("samples.safetensors"));
    if (const auto length = m_recipe.evaluateSeqLen; length > 0) // the same tokens in shorter windows
        m_slices.evaluation = {m_slices.evaluation.ids, m_slices.evaluation.tokens() / length, length};
}

void Pipeline::profile() {
    const bool fold = m_recipe.ropeTreatment != "drop" && m_recipe.preset != "linnet"; // whose closed form takes its own histogram
    const bool scored = m_recipe.keep.kind == KeepRule::Kind::Method && m_recipe.keep.method == "score";
    if (!(m_recipe.preset == "paper" || fold || scored) || slidingWindow())
        return;
    const auto file = m_run.file("profile.json");
    stage("profile", [&](Json& report) {
        ProfileOptions options;
        options.cacheFolder = m_options.cacheFolder.empty() ? m_run.file("checkpoints") : m_options.cacheFolder;
        options.binsPerOctave = fold ? 0 : 2;
        const auto measured = orFail(profileModel(*m_teacher, m_slices.calibration, options, m_control));
        writeFileAtomically(file, profileToJson(measured).dump() + "\n");
        report["tokens"] = m_slices.calibration.tokens();
    });
    m_profile = profileFromJson(readJsonFile(file), file.string());
}

Mixers Pipeline::loadMixers(const std::filesystem::path& file) const {
    if (!std::filesystem::exists(file))
        return {};
    return loadLinearLayers(*openSafetensorsFile(file), m_teacher->linearShape(), m_teacher->device(), at::kFloat, m_recipe.mixer);
}

Mixers Pipeline::converted(const Mixers& bank) const {
    Mixers chosen;
    for (const auto layer : m_converted)
        if (const auto found = bank.find(layer); found != bank.end())
            chosen.insert(*found);
    return chosen;
}

// What a stage may take above the teacher, by the recipe or half of a GPU; 0 on a CPU: no limit known. Fixed when the run begins,
// because numbers depend on which layers share a group.
std::uint64_t Pipeline::memoryBudget() {
    if (m_options.groupBytes > 0)
        return m_options.groupBytes;
    Json& fixed = m_run.state()["memory_bytes"];
    if (!fixed.is_number()) {
        const auto device = m_teacher->device();
        fixed = m_recipe.memoryGib > 0 ? static_cast<std::uint64_t>(m_recipe.memoryGib * double(1 << 30)) : device.is_cuda() ? deviceMemoryBytes(device) / 2 : 0;
        m_run.save();
    }
    return fixed.get<std::uint64_t>();
}

void Pipeline::drift() {
    if (!drifts() || m_converted.empty())
        return;
    stage("drift", [&](Json& report) {
        m_run.dropMetrics(-1, 0, "drift"); // it begins anew, from the aligned layers
        Mixers student = converted(loadMixers(alignedFile()));
        DriftJob job{*m_teacher, m_recipe, m_slices.calibration, m_control, {}, {}, {}};
        job.onMetric = [&](const MetricRow& measured) { keepMetric(measured); };
        job.onLog = [&](const std::string& line) { m_run.log(line); };
        job.budget = memoryBudget();
        correctDrift(job, student);
        saveLinearLayers(driftedFile(), student);
        report["steps"] = m_recipe.align.drift == "align" ? m_recipe.align.driftSteps : 0;
        report["tokens"] = m_slices.calibration.tokens();
    });
}

void Pipeline::distill() {
    if (!distils() || m_converted.empty())
        return;
    stage("distill", [&](Json& report) {
        DistillState state;
        if (!m_run.loadDistill(m_teacher->device(), state))
            state = freshDistillState(converted(loadMixers(drifts() ? driftedFile() : alignedFile())));
        m_run.dropMetrics(-1, state.step, "distill");
        std::map<std::int64_t, std::function<void(LinearLayer&)>> locked;
        std::map<std::int64_t, AlignLocks> locks;
        for (auto& [layer, parameters] : state.parameters)
            if (m_recipe.targets.contains(layer)) {
                locks.try_emplace(layer, parameters, m_recipe, layer, m_teacher->config().headDim);
                locked[layer] = [&, layer](LinearLayer&) { locks.at(layer).restore(); };
            }
        DistillJob job{*m_teacher, mixerSpec(m_recipe.mixer), m_recipe.distill, m_recipe.seed, m_slices.training, locked, memoryBudget(), m_control, {}, {}};
        job.onRow = [&](const DistillRow& row) {
            MetricRow line;
            line.stage = "distill";
            line.step = row.step, line.tokens = row.tokens, line.loss = row.loss, line.lr = row.lr;
            line.gradNorm = row.gradNorm, line.tokensPerSecond = row.tokensPerSecond;
            keepMetric(line);
        };
        job.save = [&](const DistillState& current) { m_run.saveDistill(current); };
        const at::AutoGradMode gradients(true);
        distillStudent(job, state);
        saveLinearLayers(checkpoint("student"), distilledMixers(state, mixerSpec(m_recipe.mixer)));
        m_run.removeDistill();
        report["steps"] = m_recipe.distill.steps;
        report["tokens"] = m_recipe.distill.steps * m_recipe.distill.batch * m_recipe.seqLen;
        report["loss_first"] = state.lossFirst;
        report["loss_last"] = state.lossLast;
    });
}

void Pipeline::keepMetric(const MetricRow& measured) {
    MetricRow row = measured;
    row.time = m_run.secondsSoFar();
    m_run.appendMetric(row);
    if (m_options.onMetric)
        m_options.onMetric(row);
}
// `name` over the evaluation windows, unless it was measured before a stop.
void Pipeline::measure(const std::string& name, const std::function<Evaluation()>& evaluation) {
    Json& finished = m_run.state()["evaluation"];
    if (!finished.contains(name)) {
        const auto measured = evaluation();
        finished[name] = evaluationToJson(measured);
        m_run.save();
        m_run.log(name + ": perplexity " + std::to_string(measured.perplexity));
    }
    if (m_options.onEvaluation)
        m_options.onEvaluation(name, evaluationFromJson(finished[name]));
}

void Pipeline::evaluate() {
    stage("evaluate", [&](Json& report) {
        const c10::InferenceMode inference;
        const auto& c = m_teacher->config();
        // Multiply-adds of a token, in a forward and in the vocabulary's scores (the model's and the teacher's)
        const double forward = static_cast<double>(c.layers * c.hiddenSize) * static_cast<double>(2 * (c.heads + c.kvHeads) * c.headDim + 3 * c.intermediateSize);
        const double scores = 2 * static_cast<double>(c.hiddenSize) * static_cast<double>(c.vocabSize);
        const bool others = baselines() && std::filesystem::exists(checkpoint("naive"));
        PassBar bar(m_control, {{"teacher's outputs", forward}, {"teacher", scores}});
        for (const char* name : {"naive copy", "zero gate"})
            if (others)
                bar.add(name, forward + scores);
        bar.add("student", forward + scores);
        const auto windows = m_slices.evaluation;
        m_reference = *orFail(teacherReference(*m_teacher, windows, bar.next()));
        const auto students = [&](const std::string& name, const Mixers& mixers) {
            const auto control = bar.next();
            measure(name, [&] { return evaluateMixers(*m_teacher, mixers, windows, &*m_reference, control); });
        };
        const auto ofTeacher = evaluateReference(*m_teacher, windows, *m_reference, bar.next()); // also after a stop: students are compared with it window by window
        measure("teacher", [&] { return ofTeacher; });
        if (m_bank && !drifts() && !distils())
            saveLinearLayers(checkpoint("student"), converted(loadMixers(alignedFile())));
        const Mixers student = computed(loadMixers(checkpoint("student")));
        if (Mixers naive = others ? computed(converted(loadMixers(checkpoint("naive")))) : Mixers{}; !naive.empty()) {
            students("naive", naive);
            for (auto& [layer, mixer] : naive)
                mixer.linear.gProj = at::zeros_like(mixer.linear.gProj);
            students("zero_gate", naive);
        } else if (others) {
            bar.next(), bar.next();
        }
        students("student", student);
        report["tokens"] = windows.tokens();
    });
}

void Pipeline::noteTreatments() {
    const auto& config = m_teacher->config();
    std::vector<std::string> notes;
    const auto where = [](const std::string& treatment) { return std::string(treatment == "fit" ? " in the heads that lose less by it" : ""); };
    if (m_recipe.preset != "sliding-window" && !m_converted.empty()) {
        if (config.qkvBias)
            notes.push_back("q, k and v biases: " + std::string(m_recipe.biasTreatment == "drop" ? "dropped" : "folded into the projections by least squares" + where(m_recipe.biasTreatment)));
        if (config.qkNorm)
            notes.push_back("QK-norm weights: " + std::string(m_recipe.qkNormTreatment == "drop" ? "dropped" : "folded into the rows they scale" + where(m_recipe.qkNormTreatment)));
        notes.push_back("RoPE in converted layers: " + std::string(m_recipe.ropeTreatment == "drop" ? "dropped" : "folded in expectation" + where(m_recipe.ropeTreatment)));
        notes.push_back("attention's scale 1/sqrt(head_dim): has no counterpart; queries and keys are normalised to unit length");
    }
    if (m_recipe.keep.kind == KeepRule::Kind::Method && m_recipe.keep.method == "score" && m_recipe.seqLen < 48)
        notes.push_back("keep " + m_recipe.keep.text() + " counts attention beyond 32 tokens, of which windows of " + std::to_string(m_recipe.seqLen) + " tokens show next to nothing: the choice is chance");
    if (std::vector<std::int64_t> before; !m_teacher->mixers().empty()) {
        for (const auto& [layer, mixer] : m_teacher->mixers())
            before.push_back(layer);
        notes.push_back("converted in the teacher already, and as they were there: layers " + Json(before).dump());
    }
    std::string vain;
    std::int64_t count = 0;
    for (const auto& layer : alignedLayers(m_converted))
        if (layer.keptStep == 0 && layer.steps > 0)
            vain += (vain.empty() ? "" : ", ") + std::to_string(layer.layer), ++count;
    if (count > 0)
        notes.push_back((count == 1 ? "layer " : "layers ") + vain + (count == 1 ? " keeps its start" : " keep their starts") + ": alignment never got the held-out loss below that of step 0, so its training was not kept; a lower learning rate or more steps may help");
    for (const auto l : m_converted)
        if (l < 2)
            notes.push_back("layer " + std::to_string(l) + " is converted: layers 0 and 1 cost most by far; consider keeping it");
    m_run.state()["notes"] = notes;
}

Report Pipeline::report() {
    Report report;
    report.run = m_run.path();
    report.keptLayers = m_kept;
    report.convertedLayers = m_converted;
    for (const auto& [layer, mixer] : m_teacher->mixers())
        report.convertedLayers.push_back(layer);
    std::ranges::sort(report.convertedLayers);
    const bool chosenFirst = measuredOn() != BankKind::Aligned;
    for (const char* name : {"data", "profile", "starts", chosenFirst ? "select" : "align", chosenFirst ? "align" : "select", "drift", "distill", "evaluate"})
        if (done(name)) {
            const Json& json = m_run.state()["stages"][name];
            const auto number = [&](const char* key) { return json.contains(key) ? std::optional(json[key].get<double>()) : std::nullopt; };
            report.stages.push_back({name, json["seconds"], json["steps"], json["tokens"], number("loss_first"), number("loss_last")});
        }
    for (const auto& [name, value] : m_run.state()["evaluation"].items())
        report.evaluation[name] = evaluationFromJson(value);
    auto& peak = m_run.state()["peak_memory_bytes"];
    report.peakMemoryBytes = std::max(peak.is_number() ? peak.get<std::uint64_t>() : 0, peakDeviceBytes(m_teacher->device()));
    peak = report.peakMemoryBytes;
    report.treatments = treatments();
    report.aligned = alignedLayers(m_converted);
    if (const auto fits = m_run.closedForm(); !fits.empty())
        writeFileAtomically(m_run.file("closed_form.json"), fits.dump() + "\n");
    report.selection = m_selection;
    report.notes = m_run.state()["notes"].get<std::vector<std::string>>();
    if (const auto student = checkpoint("student"); std::filesystem::exists(student))
        m_run.state()["student_hash"] = hashWholeFile(student); // what the numbers are of
    if (const auto contents = guarded([&] { return weightContents(m_teacher->files().path, m_control); }); contents)
        m_run.state()["teacher_contents"] = *contents;
    else if (contents.error().code == ErrorCode::Cancelled)
        throw Failure{contents.error()};
    writeFileAtomically(m_run.file("report.json"), reportToJson(report).dump(1) + "\n");
    m_run.state()["finished"] = true;
    m_run.save();
    m_run.log("finished");
    return report;
}

// Means over the converted layers of what their closed forms measured.
std::vector<Treatment> Pipeline::treatments() const {
    std::vector<Treatment> all;
    std::map<std::string, double> layers;
    for (const auto& fit : m_run.closedForm()) {
        if (!std::binary_search(m_converted.begin(), m_converted.end(), fit.at("layer").get<std::int64_t>()))
            continue;
        const auto heads = static_cast<double>(fit.at("heads").size());
        for (const auto& cost : fit.at("treatments")) {
            const auto part = cost.at("part").get<std::string>();
            auto found = std::ranges::find(all, part, &Treatment::part);
            if (found == all.end())
                found = all.insert(all.end(), Treatment{part, cost.at("treatment")});
            found->folded += cost.at("residual_folded").get<double>();
            found->dropped += cost.at("residual_dropped").get<double>();
            found->headsFolded += cost.at("heads_folded").get<double>() / heads;
            ++layers[part];
        }
    }
    for (auto& treatment : all)
        for (double* value : {&treatment.folded, &treatment.dropped, &treatment.headsFolded})
            *value /= layers[treatment.part];
    return all;
}

// `choice`: no further than the choice of layers needs.
void Pipeline::prepare(bool choice) {
    openTeacher();
    data();
    profile();
    select(BankKind::None);
    if (choice && m_selection)
        return;
    select(BankKind::Starts);
    if (choice && m_selection)
        return;
    alignLayers();
    select(BankKind::Aligned);
}

Selection Pipeline::executeSelection() {
    prepare(true);
    return *m_selection;
}

Report Pipeline::execute() {
    prepare(false);
    m_run.log("converting " + std::to_string(m_converted.size()) + " layers, keeping " + std::to_string(m_kept.size()));
    drift();
    distill();
    noteTreatments();
    evaluate();
    return report();
}

} // namespace linnet::core
