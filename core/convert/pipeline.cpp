#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/convert/pipeline.h"

#include "core/base/files.h"
#include "core/convert/group_alignment.h"
#include "core/convert/select.h"
#include "core/convert/tensor_file.h"
#include "core/model/device.h"

namespace linnet::core {
namespace {

constexpr std::int64_t kCaptureBatch = 4; // sequences of a teacher forward
constexpr std::uint64_t kGroupBytes = std::uint64_t(4) << 30; // above the teacher

std::string plural(std::size_t count, const std::string& word) {
    return std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

} // namespace

Pipeline::Pipeline(RunFolder& run, const ConvertOptions& options, const Control& control)
    : m_run(run), m_options(options), m_control(control), m_recipe(run.recipe()) {}

bool Pipeline::done(const std::string& stage) const {
    return m_run.state().contains("stages") && m_run.state()["stages"].contains(stage);
}

// Runs a stage once: seconds are added up over interruptions, and what it found is in the state when it is marked done.
template <class F> void Pipeline::stage(const std::string& name, F&& body) {
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
    if (!m_teacher->mixers().empty())
        fail(ErrorCode::Unsupported, "teacher.source: " + m_recipe.teacherSource + " is already a converted model; give the teacher that it came from",
             {{"key", "teacher.source"}, {"found", m_recipe.teacherSource}});
    const auto& config = m_teacher->config();
    if (const auto errors = validateRecipe(m_recipe, config.layers, config.heads); !errors.empty())
        throw Failure{errors.front()};
}

void Pipeline::data() {
    stage("data", [&](Json& report) {
        std::vector<std::string> text = m_recipe.dataText;
        const auto all = windowsOf(*m_teacher, text, m_recipe.seqLen, 0, m_recipe.seed, m_control);
        const auto slices = splitSlices(all, m_recipe.calibrationTokens, m_recipe.selectionTokens, m_recipe.evaluationTokens);
        saveSlices(m_run.file("samples.safetensors"), slices);
        report["tokens"] = slices.calibration.tokens() + slices.selection.tokens() + slices.evaluation.tokens();
    });
    m_slices = loadSlices(m_run.file("samples.safetensors"));
    if (const auto length = m_recipe.evaluateSeqLen; length > 0) // the same tokens in shorter windows
        m_slices.evaluation = {m_slices.evaluation.ids, m_slices.evaluation.tokens() / length, length};
}

void Pipeline::select() {
    const auto layers = m_teacher->config().layers;
    stage("select", [&](Json& report) {
        auto kept = keptLayers(m_recipe, layers);
        if (!kept) {
            checkMethod(m_recipe.keep.method);
            std::map<std::int64_t, double> scores;
            for (const auto& [layer, loss] : m_run.state()["bypass"].items())
                scores[std::stoll(layer)] = loss.get<double>();
            const auto save = [&] {
                for (const auto& [layer, loss] : scores)
                    m_run.state()["bypass"][std::to_string(layer)] = loss;
                m_run.save();
            };
            const auto ranking = bypassRanking(*m_teacher, m_slices.selection, scores, save, m_control);
            const auto selection = selectionOf(*m_teacher, m_recipe.keep.method, ranking, m_recipe.keep.count, m_recipe.never, m_recipe.always);
            if (m_options.onSelection)
                m_options.onSelection(selection);
            kept = selection.kept;
            report["tokens"] = m_slices.selection.tokens();
        }
        m_run.state()["kept_layers"] = *kept;
    });
    m_kept = m_run.state()["kept_layers"].get<std::vector<std::int64_t>>();
    for (std::int64_t l = 0; l < layers; ++l)
        if (!std::binary_search(m_kept.begin(), m_kept.end(), l))
            m_converted.push_back(l);
    m_run.log("converting " + plural(m_converted.size(), "layer") + ", keeping " + plural(m_kept.size(), "layer"));
}

void Pipeline::profile() {
    const bool needed = (m_recipe.preset == "paper" || m_recipe.ropeTreatment == "fold") && !m_converted.empty();
    if (!needed)
        return;
    const auto file = m_run.file("profile.json");
    stage("profile", [&](Json& report) {
        ProfileOptions options;
        options.cacheFolder = m_options.cacheFolder.empty() ? m_run.file("checkpoints") : m_options.cacheFolder;
        options.binsPerOctave = m_recipe.ropeTreatment == "fold" ? 0 : 2;
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

LinearLayer Pipeline::startAndAlign(std::int64_t layer, const LayerWeights& weights, const LayerCapture& capture, Mixers& naive) {
    const auto moments = inputMoments(capture.x);
    const LayerContext context{*m_teacher, weights, layer, m_recipe, capture, moments, m_profile ? &*m_profile : nullptr};
    if (baselines()) {
        Recipe plain = m_recipe; // the baseline knows nothing of a person's targets
        plain.targets.clear();
        const LayerContext untouched{*m_teacher, weights, layer, plain, capture, moments, context.profile};
        naive[layer] = Mixer{Mixer::Kind::Linear, &mixerSpec(m_recipe.mixer), initialLayer(untouched, "naive")};
        saveLinearLayers(naiveFile(), naive);
    }
    AlignState state;
    const bool resumed = m_run.loadAlign(layer, m_teacher->device(), state);
    if (!resumed)
        state = freshAlignState(initialLayer(context, m_recipe.preset));
    m_run.dropMetrics(layer, state.step);
    if (m_recipe.align.steps == 0)
        return state.best;
    const auto index = std::lower_bound(m_converted.begin(), m_converted.end(), layer) - m_converted.begin();
    const double total = static_cast<double>(m_recipe.align.steps) * static_cast<double>(m_converted.size());
    AlignJob job{*m_teacher, layer, m_recipe, capture.x, capture.target, {}, {}, {}};
    job.onMetric = [&](const MetricRow& measured) {
        MetricRow row = measured;
        row.time = m_run.secondsSoFar();
        m_run.appendMetric(row);
        if (m_options.onMetric)
            m_options.onMetric(row);
    };
    job.save = [&](const AlignState& current) { m_run.saveAlign(layer, current); };
    job.onStep = [&](std::int64_t step, double) {
        m_control.report("align", static_cast<double>(index * m_recipe.align.steps + step), total,
                         "layer " + std::to_string(layer) + ", step " + std::to_string(step) + " of " + std::to_string(m_recipe.align.steps));
    };
    const auto aligned = alignLayer(job, state);
    m_run.state()["align"][std::to_string(layer)] = {state.lossFirst, state.lossLast};
    m_run.save(); // before the layer counts as finished: a kill in between must not lose its losses
    return aligned;
}

// The hidden states of all windows go from layer to layer; one layer's inputs and targets exist at a time.
void Pipeline::alignByLayer(Mixers& student, Mixers& naive) {
    const auto remaining = [&](std::int64_t l) {
        return std::binary_search(m_converted.begin(), m_converted.end(), l) && !(student.contains(l) && (!baselines() || naive.contains(l)));
    };
    const at::Tensor ids = windowTensor(m_slices.calibration, m_teacher->device());
    const auto N = ids.size(0);
    const auto& config = m_teacher->config();
    std::int64_t last = -1;
    for (const auto l : m_converted)
        if (remaining(l))
            last = l;
    at::Tensor hidden = at::empty({N, ids.size(1), config.hiddenSize}, at::TensorOptions(m_teacher->device()).dtype(m_teacher->dtype()));
    for (std::int64_t n = 0; n < N && last >= 0; n += kCaptureBatch)
        hidden.narrow(0, n, std::min(kCaptureBatch, N - n)).copy_(m_teacher->embed(ids.narrow(0, n, std::min(kCaptureBatch, N - n))));
    for (std::int64_t l = 0; l <= last; ++l) {
        const auto weights = m_teacher->layer(l);
        LayerCapture capture;
        if (remaining(l)) {
            capture.x = at::empty_like(hidden);
            capture.target = at::empty_like(hidden);
            capture.heads = at::empty({N, ids.size(1), config.heads * config.headDim}, hidden.options());
        }
        for (std::int64_t n = 0; n < N; n += kCaptureBatch) {
            m_control.checkpoint();
            const at::Tensor rows = hidden.narrow(0, n, std::min(kCaptureBatch, N - n));
            const at::Tensor x = attentionInput(*m_teacher, *weights, rows), heads = headOutputs(*m_teacher, *weights, x);
            const at::Tensor target = outputProjection(*weights, heads);
            if (capture.x.defined()) {
                capture.x.narrow(0, n, rows.size(0)).copy_(x);
                capture.heads.narrow(0, n, rows.size(0)).copy_(heads);
                capture.target.narrow(0, n, rows.size(0)).copy_(target);
            }
            if (l < last) {
                rows.add_(target);
                rows.add_(feedForward(*m_teacher, *weights, rows));
            }
        }
        if (!capture.x.defined())
            continue;
        const at::AutoGradMode gradients(true);
        student[l] = Mixer{Mixer::Kind::Linear, &mixerSpec(m_recipe.mixer), startAndAlign(l, *weights, capture, naive)};
        saveLinearLayers(studentFile(), student);
        m_run.removeAlign(l);
    }
}

// Groups hold the Gated DeltaNet layer only, and pay where launches cost more than arithmetic.
std::uint64_t Pipeline::groupBudget() const {
    if (!AlignStep::supports(mixerSpec(m_recipe.mixer)))
        return 0;
    if (m_options.groupBytes > 0)
        return m_options.groupBytes;
    return m_teacher->device().is_cuda() ? kGroupBytes : 0;
}

void Pipeline::convertLayers() {
    if (m_converted.empty())
        return;
    if (m_recipe.preset == "sliding-window") { // nothing to train: the student is the teacher with a mask
        Mixers student;
        for (const auto l : m_converted)
            student[l] = Mixer{Mixer::Kind::SlidingWindow, nullptr, {}, m_recipe.window, m_recipe.sinks};
        saveLinearLayers(studentFile(), student);
        return;
    }
    stage("align", [&](Json& report) {
        const at::NoGradGuard noGradients;
        if (const auto budget = groupBudget(); budget > 0) {
            GroupAlignment({m_run, m_options, m_control, m_recipe, *m_teacher, m_slices.calibration, m_profile ? &*m_profile : nullptr, m_converted, baselines()}, budget).run(studentFile(), naiveFile());
        } else {
            Mixers student = loadMixers(studentFile()), naive = loadMixers(naiveFile());
            alignByLayer(student, naive);
        }
        report["steps"] = m_recipe.align.steps;
        report["tokens"] = m_slices.calibration.tokens();
        double first = 0, final = 0;
        for (const auto& [layer, losses] : m_run.state()["align"].items()) {
            first += losses[0].get<double>() / static_cast<double>(m_converted.size());
            final += losses[1].get<double>() / static_cast<double>(m_converted.size());
        }
        if (m_recipe.align.steps > 0) {
            report["loss_first"] = first;
            report["loss_last"] = final;
        }
    });
}

void Pipeline::measure(const std::string& name, const Mixers& mixers) {
    Json& finished = m_run.state()["evaluation"];
    if (!finished.contains(name)) {
        const auto measured = evaluateMixers(*m_teacher, mixers, m_slices.evaluation, &*m_reference, m_control);
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
        m_reference = *orFail(teacherReference(*m_teacher, m_slices.evaluation, m_control));
        measure("teacher", {});
        Mixers student = loadMixers(studentFile());
        Mixers naive = baselines() ? loadMixers(naiveFile()) : Mixers{};
        const auto compute = [&](const at::Tensor& t) { return t.to(m_teacher->dtype()); };
        for (auto* mixers : {&student, &naive})
            for (auto& [layer, mixer] : *mixers)
                if (mixer.kind == Mixer::Kind::Linear)
                    mixer.linear = mapped(mixer.linear, compute);
        if (!naive.empty()) {
            measure("naive", naive);
            for (auto& [layer, mixer] : naive)
                mixer.linear.gProj = at::zeros_like(mixer.linear.gProj);
            measure("zero_gate", naive);
        }
        measure("student", student);
        report["tokens"] = m_slices.evaluation.tokens();
    });
}

void Pipeline::noteTreatments() {
    const auto& config = m_teacher->config();
    std::vector<std::string> notes;
    if (m_recipe.preset != "sliding-window" && !m_converted.empty()) {
        if (config.qkvBias)
            notes.push_back("q, k and v biases: " + std::string(m_recipe.biasTreatment == "fold" ? "folded into the projections by least squares" : "dropped"));
        if (config.qkNorm)
            notes.push_back("QK-norm weights: " + std::string(m_recipe.qkNormTreatment == "fold" ? "folded into the rows they scale" : "dropped"));
        notes.push_back("RoPE in converted layers: " + std::string(m_recipe.ropeTreatment == "fold" ? "folded in expectation" : "dropped"));
    }
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
    for (const char* name : {"data", "select", "profile", "align", "evaluate"})
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
    report.notes = m_run.state()["notes"].get<std::vector<std::string>>();
    writeFileAtomically(m_run.file("report.json"), reportToJson(report).dump(1) + "\n");
    m_run.state()["finished"] = true;
    m_run.save();
    m_run.log("finished");
    return report;
}

Report Pipeline::execute() {
    openTeacher();
    data();
    select();
    profile();
    convertLayers();
    noteTreatments();
    evaluate();
    return report();
}

} // namespace linnet::core
