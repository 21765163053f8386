// Pipeline's part that makes layers: which of them stay softmax, their starts, their alignment, and the cache of whole banks.
#include "core/torch_pch.h"

#include "core/base/file_hash.h"
#include "core/base/files.h"
#include "core/convert/align_parts.h"
#include "core/convert/closed_form.h"
#include "core/convert/group_alignment.h"
#include "core/convert/pipeline.h"

namespace linnet::core {
namespace {

constexpr std::int64_t kCaptureBatch = 4; // sequences of a teacher forward
constexpr std::size_t kCachedBanks = 4;

} // namespace

// What the keep rule is measured on; a perplexity budget wants students whatever ranks the layers.
BankKind Pipeline::measuredOn() const {
    const auto& keep = m_recipe.keep;
    if (keep.kind != KeepRule::Kind::Method)
        return BankKind::None;
    const auto bank = bankFor(keep.method);
    return bank == BankKind::None && keep.budget == KeepRule::Budget::Perplexity ? BankKind::Aligned : bank;
}

// Rules that need no student are settled before alignment; a rule that measures on mixers makes the bank that it measures on first.
void Pipeline::select(BankKind measuredOn) {
    const auto layers = m_teacher->config().layers;
    if (this->measuredOn() != measuredOn) {
        if (measuredOn == BankKind::None) { // not yet known: every layer that may be converted is made
            m_bank = this->measuredOn() == BankKind::Aligned || m_options.wholeBank;
            m_aligned = convertible();
        }
        return;
    }
    if (measuredOn == BankKind::Starts)
        stage("starts", [&](Json& report) {
            Recipe start = m_recipe;
            start.align.steps = 0;
            start.targets.clear();
            makeLayers(start, checkpoint("starts"), report);
        });
    const auto state = [this]() -> Json& { // found anew each time: keys that are added move it
        Json& found = m_run.state()["selection"];
        return found.is_object() ? found : found = Json::object();
    };
    stage("select", [&](Json& report) {
        auto kept = keptLayers(m_recipe, layers);
        if (!kept) {
            Mixers bank = measuredOn == BankKind::None ? Mixers{} : computed(loadMixers(measuredOn == BankKind::Starts ? checkpoint("starts") : alignedFile()));
            if (!bank.empty()) // a hybrid's are in every choice
                bank.insert(m_teacher->mixers().begin(), m_teacher->mixers().end());
            Json measured = state().value("measured", Json::object());
            SelectionJob job{*m_teacher, m_slices.selection, bank.empty() ? nullptr : &bank, m_profile ? &*m_profile : nullptr, m_recipe.never, m_recipe.always, true,
                             measured, [&] { state()["measured"] = measured, m_run.save(); }, m_control};
            job.window = slidingWindow() ? m_recipe.window + m_recipe.sinks : 0;
            const auto selection = selectLayers(m_recipe.keep, job);
            state()["measured"] = measured;
            state()["result"] = selectionToJson(selection);
            state()["results"][selection.method] = {{"result", state()["result"]}, {"never", m_recipe.never}, {"always", m_recipe.always}}; // see knownSelection
            kept = selection.kept;
            report["tokens"] = m_slices.selection.tokens();
            if (m_options.onSelection)
                m_options.onSelection(selection);
        }
        m_run.state()["kept_layers"] = *kept;
    });
    if (state().contains("result"))
        m_selection = selectionFromJson(state()["result"]);
    m_kept = m_run.state()["kept_layers"].get<std::vector<std::int64_t>>();
    for (std::size_t i = 0; i < m_kept.size(); ++i)
        if (m_kept[i] >= layers || (i > 0 && m_kept[i] <= m_kept[i - 1]))
            fail(ErrorCode::Malformed, m_run.file("state.json").string() + ": kept_layers names layer " + std::to_string(m_kept[i]) + ", expected layers from 0 to " +
                     std::to_string(layers - 1) + " in order, each once",
                 {{"file", m_run.file("state.json").string()}, {"key", "kept_layers"}, {"found", std::to_string(m_kept[i])}});
    for (std::int64_t l = 0; l < layers; ++l)
        if (!std::binary_search(m_kept.begin(), m_kept.end(), l) && !m_teacher->mixers().contains(l))
            m_converted.push_back(l);
    if (measuredOn == BankKind::Aligned)
        return;
    if (measuredOn == BankKind::None && m_options.wholeBank && !slidingWindow()) {
        m_bank = true;
        m_aligned = convertible();
    } else {
        m_bank = false;
        m_aligned = m_converted;
    }
}

// All but those that a pin keeps and those that a hybrid has converted already.
std::vector<std::int64_t> Pipeline::convertible() const {
    std::vector<std::int64_t> layers;
    for (std::int64_t l = 0; l < m_teacher->config().layers; ++l)
        if (!m_recipe.never.contains(l) && !m_teacher->mixers().contains(l))
            layers.push_back(l);
    return layers;
}

// The teacher's dtype is what a student is measured in.
Mixers Pipeline::computed(Mixers mixers) const {
    for (auto& [layer, mixer] : mixers)
        if (mixer.kind == Mixer::Kind::Linear)
            mixer.linear = mapped(mixer.linear, [&](const at::Tensor& t) { return t.to(m_teacher->dtype()); });
    return mixers;
}

void Pipeline::alignLayers() {
    if (m_aligned.empty())
        return;
    if (slidingWindow()) { // nothing to train: the student is the teacher with a mask
        Mixers student;
        for (const auto l : m_aligned)
            student[l] = Mixer{Mixer::Kind::SlidingWindow, nullptr, {}, m_recipe.window, m_recipe.sinks};
        saveLinearLayers(alignedFile(), student);
        return;
    }
    stage("align", [&](Json& report) {
        if (!takeBank())
            makeLayers(m_recipe, alignedFile(), report);
        keepBank();
        m_run.state()["bank"] = bankCache().filename().string();
        logKeptStarts();
        report["steps"] = m_recipe.align.steps;
        report["tokens"] = m_slices.calibration.tokens();
        const Json losses = m_run.state().value("align", Json::object());
        const bool known = std::ranges::all_of(m_aligned, [&](std::int64_t layer) { return losses.contains(std::to_string(layer)); });
        if (m_recipe.align.steps > 0 && known) { // a state.json that was lost leaves layers without theirs: not measured, not 0
            double first = 0, final = 0;
            for (const auto layer : m_aligned) {
                first += losses[std::to_string(layer)][0].get<double>() / static_cast<double>(m_aligned.size());
                final += losses[std::to_string(layer)][1].get<double>() / static_cast<double>(m_aligned.size());
            }
            report["loss_first"] = first;
            report["loss_last"] = final;
        }
    });
}

// Of banks that older versions made it is not known.
std::vector<AlignedLayer> Pipeline::alignedLayers(const std::vector<std::int64_t>& layers) const {
    std::vector<AlignedLayer> list;
    const Json noted = m_run.state().value("align", Json::object());
    for (const auto layer : layers)
        if (const auto found = noted.find(std::to_string(layer)); found != noted.end() && found->size() > 3)
            list.push_back({layer, m_recipe.align.steps, (*found)[2].get<std::int64_t>(), (*found)[3].is_number() ? std::optional((*found)[3].get<double>()) : std::nullopt});
    return list;
}

void Pipeline::logKeptStarts() const {
    for (const auto& layer : alignedLayers(m_aligned))
        if (layer.keptStep == 0 && layer.steps > 0)
            m_control.log("layer " + std::to_string(layer.layer) + ": best at step 0 of " + std::to_string(layer.steps) + ", training not kept");
}

// Groups hold the Gated DeltaNet layer only, and pay where launches cost more than arithmetic.
void Pipeline::makeLayers(const Recipe& recipe, const std::filesystem::path& file, Json& report) {
    const at::NoGradGuard noGradients;
    const auto budget = memoryBudget();
    if (budget > 0 && AlignStep::supports(mixerSpec(recipe.mixer)) && (m_teacher->device().is_cuda() || m_options.groupBytes > 0))
        GroupAlignment({m_run, m_options, m_control, recipe, *m_teacher, m_slices.calibration, m_profile ? &*m_profile : nullptr, m_aligned, baselines()}, budget)
            .run(file, checkpoint("naive"));
    else
        alignByLayer(recipe, file);
    report["tokens"] = m_slices.calibration.tokens();
}

LinearLayer Pipeline::startAndAlign(const Recipe& recipe, std::int64_t layer, const LayerWeights& weights, const LayerCapture& capture, const OutputMetric* metric, Mixers& naive) {
    const auto moments = inputMoments(capture.x);
    ClosedFormFit fit;
    LayerContext context{*m_teacher, weights, layer, recipe, capture, moments, m_profile ? &*m_profile : nullptr};
    context.fit = &fit;
    context.control = &m_control;
    if (baselines() && !naive.contains(layer)) {
        Recipe plain = recipe; // the baseline knows nothing of a person's targets
        plain.targets.clear();
        const LayerContext untouched{*m_teacher, weights, layer, plain, capture, moments, context.profile};
        naive[layer] = Mixer{Mixer::Kind::Linear, &mixerSpec(recipe.mixer), initialLayer(untouched, "naive")};
        saveLinearLayers(checkpoint("naive"), naive);
    }
    AlignState state;
    const bool resumed = m_run.loadAlign(layer, m_teacher->device(), state);
    const auto index = std::lower_bound(m_aligned.begin(), m_aligned.end(), layer) - m_aligned.begin();
    const double total = static_cast<double>(recipe.align.steps) * static_cast<double>(m_aligned.size());
    if (!resumed) {
        m_control.report("align", static_cast<double>(index * recipe.align.steps), total, "layer " + std::to_string(layer) + ", its start");
        state = freshAlignState(initialLayer(context, recipe.preset));
        if (!fit.heads.empty())
            m_run.saveClosedForm(layer, closedFormToJson(layer, fit));
    }
    m_run.dropMetrics(layer, state.step);
    if (recipe.align.steps == 0)
        return state.best;
    AlignJob job{*m_teacher, layer, recipe, capture.x, capture.target, {}, {}, {}};
    job.metric = metric;
    job.onMetric = [&](const MetricRow& measured) { keepMetric(measured); };
    job.save = [&](const AlignState& current) { m_run.saveAlign(layer, current); };
    job.onStep = [&](std::int64_t step, double) {
        m_control.report("align", static_cast<double>(index * recipe.align.steps + step), total,
                         "layer " + std::to_string(layer) + ", step " + std::to_string(step) + " of " + std::to_string(recipe.align.steps));
    };
    const at::AutoGradMode gradients(true);
    const auto aligned = alignLayer(job, state);
    const bool measured = heldOutWindows(recipe.align, capture.x.size(0)) > 0;
    m_run.noteAligned(layer, {state.lossFirst, state.lossLast}, state.bestStep, measured ? std::optional(state.bestLoss) : std::nullopt);
    m_run.save(); // before the layer counts as finished: a kill in between must not lose its losses
    return aligned;
}

// The hidden states of all windows go from layer to layer; one layer's inputs and targets exist at a time.
void Pipeline::alignByLayer(const Recipe& recipe, const std::filesystem::path& file) {
    Mixers made = loadMixers(file), naive = loadMixers(checkpoint("naive"));
    const auto remaining = [&](std::int64_t l) {
        return std::binary_search(m_aligned.begin(), m_aligned.end(), l) && !(made.contains(l) && (!baselines() || naive.contains(l)));
    };
    const at::Tensor ids = windowTensor(m_slices.calibration, m_teacher->device());
    const auto N = ids.size(0);
    const auto& config = m_teacher->config();
    std::int64_t last = -1;
    for (const auto l : m_aligned)
        if (remaining(l))
            last = l;
    at::Tensor hidden = at::empty({N, ids.size(1), config.hiddenSize}, at::TensorOptions(m_teacher->device()).dtype(m_teacher->dtype()));
    for (std::int64_t n = 0; n < N && last >= 0; n += kCaptureBatch)
        hidden.narrow(0, n, std::min(kCaptureBatch, N - n)).copy_(m_teacher->embed(ids.narrow(0, n, std::min(kCaptureBatch, N - n))));
    std::vector<OutputMetric> metrics;
    if (recipe.align.loss == "kl_metric" && recipe.align.steps > 0 && last >= 0)
        metrics = outputMetrics(*m_teacher, metricWindows(m_slices.calibration, m_teacher->device()), recipe.seed, m_control);
    for (std::int64_t l = 0; l <= last; ++l) {
        const auto weights = m_teacher->layer(l);
        const auto* const own = mixerAt(m_teacher->mixers(), l); // a hybrid's, which stays as it is
        LayerCapture capture;
        if (remaining(l)) {
            capture.x = at::empty_like(hidden);
            capture.target = at::empty_like(hidden);
            capture.heads = at::empty({N, ids.size(1), config.heads * config.headDim}, hidden.options());
        }
        const auto before = std::lower_bound(m_aligned.begin(), m_aligned.end(), l) - m_aligned.begin(); // layers that are finished, also those of before a stop
        for (std::int64_t n = 0; n < N; n += kCaptureBatch) {
            m_control.report("align", static_cast<double>(before * recipe.align.steps), static_cast<double>(recipe.align.steps * std::ssize(m_aligned)),
                             "the teacher's layer " + std::to_string(l) + ", window " + std::to_string(n) + " of " + std::to_string(N));
            at::Tensor rows = hidden.narrow(0, n, std::min(kCaptureBatch, N - n));
            if (own) {
                rows.copy_(runBlock(*m_teacher, *weights, own, rows));
                continue;
            }
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
        made[l] = Mixer{Mixer::Kind::Linear, &mixerSpec(recipe.mixer), startAndAlign(recipe, l, *weights, capture, metrics.empty() ? nullptr : &metrics[static_cast<std::size_t>(l)], naive)};
        saveLinearLayers(file, made);
        m_run.removeAlign(l);
    }
}

// What an aligned bank depends on: the teacher, the tokens, and the recipe less what comes after alignment.
std::filesystem::path Pipeline::bankCache() const {
    if (m_options.bankFolder.empty() || !m_bank)
        return {};
    Recipe recipe = m_recipe;
    recipe.keep = parseKeepRule("first:0");
    recipe.teacherSource.clear();
    recipe.dataText.clear();
    recipe.selectionTokens = recipe.evaluationTokens = 0;
    recipe.align.drift = "none";
    recipe.align.driftSteps = 0;
    recipe.distill.steps = 0;
    recipe.always.clear();
    recipe.convention = "chunked", recipe.evaluateSeqLen = 0;
    const auto warmup = warmupSteps(recipe.align), share = std::int64_t{std::llround(recipe.align.warmup * static_cast<double>(recipe.align.steps))};
    return m_options.bankFolder / hashBytes(recipeHash(recipe) + m_teacher->hash() + m_slices.calibration.hash() + std::string(m_teacher->device().is_cuda() ? "cuda" : "cpu") +
                                            std::to_string(m_run.state().value("memory_bytes", std::uint64_t{0})) + (baselines() ? "+naive" : "") +
                                            (warmup == share ? std::string() : "warm-up " + std::to_string(warmup)));
}

// A bank that is damaged, or that another process takes away, is made again; the run is not touched before all of it was found whole.
bool Pipeline::takeBank() {
    memoryBudget(); // is part of the key
    const auto cache = bankCache();
    if (cache.empty() || !std::filesystem::exists(cache / "bank.json"))
        return false;
    Json bank;
    std::vector<MetricRow> rows;
    try {
        bank = readJsonFile(cache / "bank.json");
        for (const auto& [name, hash] : bank.at("files").items()) {
            std::filesystem::copy_file(cache / name, part(name), std::filesystem::copy_options::overwrite_existing);
            if (const auto found = hashWholeFile(part(name), m_control); found != hash)
                fail(ErrorCode::Malformed, name + " has hash " + found + ", expected " + hash.get<std::string>());
        }
        rows = orFail(readMetrics(cache));
        for (const auto& fit : bank.at("closed_form"))
            fit.at("layer").get<std::int64_t>();
        if (!bank.at("align").is_object() || !bank["files"].contains("aligned.safetensors") || (baselines() && !bank["files"].contains("naive.safetensors")))
            fail(ErrorCode::Malformed, "bank.json does not list what belongs to it");
    } catch (const Failure& failure) {
        if (failure.error.code == ErrorCode::Cancelled)
            throw;
        return dropBank(cache, failure.error.message);
    } catch (const std::exception& error) {
        return dropBank(cache, error.what());
    }
    std::filesystem::rename(part("aligned.safetensors"), alignedFile());
    if (baselines())
        std::filesystem::rename(part("naive.safetensors"), checkpoint("naive"));
    m_run.dropMetrics(-1, 0);
    for (const auto& row : rows)
        m_run.appendMetric(row);
    for (const auto& fit : bank["closed_form"])
        m_run.saveClosedForm(fit["layer"], fit);
    m_run.state()["align"] = bank["align"];
    std::error_code gone; // by another process, since
    std::filesystem::last_write_time(cache / "bank.json", std::filesystem::file_time_type::clock::now(), gone); // the oldest goes first
    m_run.log("aligned layers taken from " + cache.string());
    return true;
}

std::filesystem::path Pipeline::part(const std::string& name) const {
    return m_run.file("checkpoints/" + name + ".part.bank");
}

bool Pipeline::dropBank(const std::filesystem::path& cache, const std::string& why) {
    m_run.log("aligned layers in " + cache.string() + " are damaged and will be made again: " + why);
    std::error_code ignored;
    std::filesystem::remove_all(cache, ignored);
    for (const char* name : {"aligned.safetensors", "naive.safetensors"})
        std::filesystem::remove(part(name), ignored);
    return false;
}

void Pipeline::keepBank() const {
    const auto cache = bankCache();
    if (cache.empty() || std::filesystem::exists(cache / "bank.json"))
        return;
    const auto part = cache.string() + ".part";
    try { // a cache that can't be written costs time, not the run
        std::filesystem::remove_all(part);
        std::filesystem::remove_all(cache); // without a bank.json it is none
        std::filesystem::create_directories(part);
        std::filesystem::copy_file(alignedFile(), std::filesystem::path(part) / "aligned.safetensors");
        if (baselines())
            std::filesystem::copy_file(checkpoint("naive"), std::filesystem::path(part) / "naive.safetensors");
        std::string rows;
        for (const auto& row : orFail(readMetrics(m_run.path())))
            if (row.stage == "align")
                rows += metricToJson(row).dump() + "\n";
        writeFileAtomically(std::filesystem::path(part) / "metrics.jsonl", rows);
        Json files;
        for (const char* name : {"aligned.safetensors", "naive.safetensors"})
            if (std::filesystem::exists(std::filesystem::path(part) / name))
                files[name] = hashWholeFile(std::filesystem::path(part) / name);
        const auto align = m_run.state().find("align");
        writeFileAtomically(std::filesystem::path(part) / "bank.json",
                            Json{{"files", files}, {"closed_form", m_run.closedForm()}, {"align", align == m_run.state().end() ? Json::object() : *align}}.dump() + "\n");
        std::filesystem::rename(part, cache);
        std::vector<std::pair<std::filesystem::file_time_type, std::filesystem::path>> banks;
        for (const auto& entry : std::filesystem::directory_iterator(m_options.bankFolder))
            if (std::filesystem::exists(entry.path() / "bank.json"))
                banks.emplace_back(std::filesystem::last_write_time(entry.path() / "bank.json"), entry.path());
        std::ranges::sort(banks, std::greater());
        for (std::size_t i = kCachedBanks; i < banks.size(); ++i)
            std::filesystem::remove_all(banks[i].second);
    } catch (const Failure& failure) {
        m_run.log("the aligned layers were not kept for other runs: " + failure.error.message);
    } catch (const std::exception& error) {
        m_run.log(std::string("the aligned layers were not kept for other runs: ") + error.what());
    }
    std::error_code ignored;
    std::filesystem::remove_all(part, ignored); // what a full disk left
}

} // namespace linnet::core
