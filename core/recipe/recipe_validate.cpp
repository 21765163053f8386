// The ranges of a recipe's values, and what must agree between them.
#include "core/recipe/recipe_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace linnet::core {
namespace {

constexpr std::int64_t kMaxTokens = 1'000'000'000'000, kMaxSteps = 10'000'000, kMaxBatch = 65536;

class Checks {
public:
    void require(bool ok, const std::string& key, const Json& found, const std::string& expected) {
        if (ok)
            return;
        // JSON would print these as null, which some keys allow.
        const bool finite = !found.is_number_float() || std::isfinite(found.get<double>());
        const auto text = finite ? jsonLine(found) : std::to_string(found.get<double>());
        errors.push_back({ErrorCode::Malformed,
                          key + ": found " + text + ", expected " + expected,
                          {{"key", key}, {"found", text}, {"expected", expected}}});
    }
    void range(const std::string& key, std::int64_t value, std::int64_t least, std::int64_t most) {
        require(value >= least && value <= most, key, value,
                "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    }
    void share(const std::string& key, double value, double most = 1) { // NaN fails too
        require(value >= 0 && value <= most, key, value, "a number from 0 to " + jsonLine(most));
    }
    void positive(const std::string& key, double value) {
        require(value > 0 && std::isfinite(value), key, value, "a number above 0");
    }
    void fromZero(const std::string& key, double value) {
        require(value >= 0 && std::isfinite(value), key, value, "a number from 0");
    }
    void oneOf(const std::string& key, const std::string& value, const std::vector<std::string>& names) {
        const auto nearest = nearestName(value, names);
        require(std::ranges::find(names, value) != names.end(), key, value,
                "one of " + joinNames(names) + (nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?"));
    }
    std::vector<Error> errors;
};

bool isDevice(const std::string& name) {
    if (name == "auto" || name == "cpu" || name == "cuda")
        return true;
    unsigned index = 0;
    const char* const end = name.data() + name.size();
    return name.starts_with("cuda:") && std::from_chars(name.data() + 5, end, index).ptr == end && name.size() > 5 &&
           name.size() < 9;
}

bool isSelfCount(const std::string& text) {
    std::int64_t count = 0;
    const char* const end = text.data() + text.size();
    return std::from_chars(text.data() + 5, end, count).ptr == end && count >= 1 && count <= 1'000'000;
}

void checkData(const Recipe& recipe, Checks& checks) {
    constexpr std::int64_t kMaxSeqLen = 1 << 20;
    checks.require(!recipe.teacherSource.empty(), "teacher.source", recipe.teacherSource, "a model's path or \"default\"");
    checks.require(!recipe.dataText.empty(), "data.text", recipe.dataText, "a path or a list of paths");
    for (const auto& text : recipe.dataText) {
        checks.require(!text.empty(), "data.text", text, "a path");
        if (text.starts_with("self:"))
            checks.require(isSelfCount(text) && recipe.dataText.size() == 1, "data.text", text,
                           "self:N with N from 1 to 1000000, alone in data.text");
    }
    checks.range("data.seq_len", recipe.seqLen, 2, kMaxSeqLen);
    checks.range("data.calibration_tokens", recipe.calibrationTokens, recipe.preset == "sliding-window" ? 0 : 1, kMaxTokens);
    const bool measured =
        recipe.keep.budget == KeepRule::Budget::Perplexity ||
        (recipe.keep.kind == KeepRule::Kind::Method && recipe.keep.method != "score" && recipe.keep.method != "ga-s2");
    checks.range("data.selection_tokens", recipe.selectionTokens, measured ? 1 : 0, kMaxTokens);
    checks.range("data.evaluation_tokens", recipe.evaluationTokens, 0, kMaxTokens); // a choice of layers alone needs none
}

void checkClosedForm(const ClosedFormSettings& closedForm, Checks& checks) {
    const auto entries = [&](const std::string& key, std::size_t count) { // each is tried with each of the other list
        checks.require(count >= 1 && count <= 32, key, count, "1 to 32 entries");
    };
    entries("closed_form.half_lives", closedForm.halfLives.size());
    for (const double halfLife : closedForm.halfLives)
        checks.require(halfLife > 0, "closed_form.half_lives", halfLife, "numbers of tokens above 0, or null for no decay");
    entries("closed_form.betas", closedForm.betas.size());
    for (const double beta : closedForm.betas)
        checks.require(beta > 0 && beta < 1, "closed_form.betas", beta, "numbers between 0 and 1, both excluded");
    checks.range("closed_form.sequences", closedForm.sequences, 1, 1'000'000);
    checks.positive("closed_form.ridge", closedForm.ridge);
    checks.positive("closed_form.value_rms", closedForm.valueRms);
    checks.oneOf("closed_form.gate", closedForm.gate, {"regression", "constant"});
    checks.range("closed_form.gate_rounds", closedForm.gateRounds, 0, 1000);
    checks.positive("closed_form.ridge_before_alignment", closedForm.ridgeBeforeAlignment);
}

void checkAlign(const AlignSettings& align, Checks& checks) {
    checks.range("align.steps", align.steps, 0, kMaxSteps);
    checks.range("align.batch", align.batch, 1, kMaxBatch);
    checks.share("align.lr", align.lr);
    checks.share("align.lr_new", align.lrNew);
    checks.oneOf("align.schedule", align.schedule, {"constant", "cosine"});
    checks.share("align.warmup", align.warmup);
    checks.oneOf("align.loss", align.loss, {"mse", "relative_mse", "kl_metric"});
    checks.range("align.early_stop", align.earlyStop, 0, kMaxSteps);
    checks.oneOf("align.drift", align.drift, {"none", "refit", "align"});
    checks.range("align.drift_steps", align.driftSteps, 0, kMaxSteps);
    checks.share("align.weight_decay", align.weightDecay);
    checks.positive("align.clip", align.clip);
    checks.share("align.held_out", align.heldOut, 0.9);
}

void checkDistill(const DistillSettings& distill, Checks& checks) {
    checks.range("distill.steps", distill.steps, 0, kMaxSteps);
    checks.range("distill.batch", distill.batch, 1, kMaxBatch);
    checks.positive("distill.lr", distill.lr);
    checks.require(distill.warmup >= 0 && distill.warmup < 1, "distill.warmup", distill.warmup, "a number from 0 to below 1");
    checks.oneOf("distill.schedule", distill.schedule, {"constant", "cosine", "linear", "wsd"});
    checks.positive("distill.temperature", distill.temperature);
    checks.fromZero("distill.kl_weight", distill.klWeight);
    checks.fromZero("distill.cross_entropy_weight", distill.crossEntropyWeight);
    checks.require(distill.klWeight != 0 || distill.crossEntropyWeight != 0, "distill.kl_weight", distill.klWeight,
                   "a number above 0 where distill.cross_entropy_weight is 0");
    checks.fromZero("distill.weight_decay", distill.weightDecay);
    checks.positive("distill.clip", distill.clip);
    checks.range("distill.tokens", distill.tokens, 0, kMaxTokens);
}

void checkSettings(const Recipe& recipe, Checks& checks) {
    checks.oneOf("mixer", recipe.mixer, mixerNames());
    checks.oneOf("preset", recipe.preset, presetNames());
    checkClosedForm(recipe.closedForm, checks);
    checkAlign(recipe.align, checks);
    checkDistill(recipe.distill, checks);
    checks.range("window.window", recipe.window, 1, 1 << 20);
    checks.range("window.sinks", recipe.sinks, 0, 1 << 20);
    checks.oneOf("evaluate.convention", recipe.convention, {"chunked", "word"});
    checks.require(recipe.evaluateSeqLen == 0 || (recipe.evaluateSeqLen >= 2 && recipe.evaluateSeqLen <= 1 << 20),
                   "evaluate.seq_len", recipe.evaluateSeqLen,
                   "0 (as data.seq_len) or a whole number from 2 to " + std::to_string(1 << 20));
    checks.require(isDevice(recipe.device), "device", recipe.device, "auto, cpu, cuda or cuda:N");
    const bool dtypeKnown = recipe.dtype.empty() || recipe.dtype == "f32" || recipe.dtype == "bf16" || recipe.dtype == "f16";
    checks.require(dtypeKnown, "dtype", recipe.dtype, "auto, f32, bf16 or f16");
    checks.fromZero("memory_gib", recipe.memoryGib);
    for (const auto& [key, treatment] : {std::pair{"treatment.bias", &recipe.biasTreatment},
                                         {"treatment.qk_norm", &recipe.qkNormTreatment},
                                         {"treatment.rope", &recipe.ropeTreatment}})
        checks.oneOf(key, *treatment, recipe.preset == "linnet" ? std::vector<std::string>{"fold", "drop", "fit"} : std::vector<std::string>{"fold", "drop"}); // the others measure nothing
}

void checkTarget(const HeadTarget& target, const std::string& key, Checks& checks) {
    if (target.halfLife)
        checks.require(*target.halfLife > 0, key + ".half_life", *target.halfLife,
                       "a number of tokens above 0, or null for no decay");
    if (target.beta)
        checks.require(*target.beta > 0 && *target.beta < 1, key + ".beta", *target.beta,
                       "a number between 0 and 1, both excluded");
    if (target.valueScale)
        checks.positive(key + ".value_scale", *target.valueScale);
    if (target.outputGate)
        checks.fromZero(key + ".output_gate", *target.outputGate);
    for (const auto& name : target.locked)
        checks.oneOf(key + ".locked", name, targetNames());
}

void checkTargets(const Recipe& recipe, std::int64_t layers, std::int64_t heads, Checks& checks) {
    for (const auto& [layer, targets] : recipe.targets) {
        const std::string key = "targets." + std::to_string(layer);
        checks.require(layer >= 0 && (layers == 0 || layer < layers), key, layer,
                       layers == 0 ? "a layer from 0" : "a layer from 0 to " + std::to_string(layers - 1));
        for (const auto& [head, target] : targets) {
            const std::string headKey = key + "." + std::to_string(head);
            checks.require(head >= 0 && (heads == 0 || head < heads), headKey, head,
                           heads == 0 ? "a head from 0" : "a head from 0 to " + std::to_string(heads - 1));
            checkTarget(target, headKey, checks);
        }
    }
}

void checkPins(const Recipe& recipe, std::int64_t layers, Checks& checks) {
    for (const auto layer : recipe.always)
        checks.require(!recipe.never.contains(layer), "pins.always", layer, "no layer that pins.never names too");
    for (const auto& [key, pins] : {std::pair{"pins.never", &recipe.never}, {"pins.always", &recipe.always}})
        for (const auto layer : *pins)
            checks.require(layer >= 0 && (layers == 0 || layer < layers), key, layer,
                           layers == 0 ? "a layer from 0" : "a layer from 0 to " + std::to_string(layers - 1));
    if (recipe.keep.kind != KeepRule::Kind::Method || recipe.keep.budget != KeepRule::Budget::None)
        return;
    // A ranking keeps exactly N layers, so the pins must leave room for that.
    const auto never = static_cast<std::int64_t>(recipe.never.size()), always = static_cast<std::int64_t>(recipe.always.size());
    const auto kept = recipe.keep.count;
    checks.require(never <= kept, "pins.never", recipe.never,
                   "at most the " + std::to_string(kept) + " layers that " + recipe.keep.text() + " keeps");
    if (layers > 0 && kept <= layers)
        checks.require(always <= layers - kept, "pins.always", recipe.always,
                       "at most the " + std::to_string(layers - kept) + " layers that " + recipe.keep.text() + " converts");
}

void checkKeep(const KeepRule& keep, Checks& checks) {
    checks.range("keep", keep.count, 0, 100'000);
    // What the parser refuses is refused too where it was set without the parser.
    if (keep.budget != KeepRule::Budget::None)
        checks.require(keep.kind == KeepRule::Kind::Method && guarded([&] { return parseKeepRule(keep.text()); }).has_value(),
                       "keep", keep.text(), "METHOD:cache=BYTES@TOKENS or METHOD:ppl=RATIO");
}

} // namespace

std::vector<Error> validateRecipe(const Recipe& recipe, std::int64_t layers, std::int64_t heads) {
    Checks checks;
    checkData(recipe, checks);
    checkSettings(recipe, checks);
    checkTargets(recipe, layers, heads, checks);
    checkPins(recipe, layers, checks);
    checkKeep(recipe.keep, checks);
    if (layers > 0)
        if (auto kept = guarded([&] { return keptLayers(recipe, layers); }); !kept)
            checks.errors.push_back(std::move(kept.error()));
    return std::move(checks.errors);
}

} // namespace linnet::core
