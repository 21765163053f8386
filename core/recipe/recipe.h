// The recipe: the only thing a person edits; everything else is derived from it and carries its hash.
#pragma once

#include "core/base/json.h"
#include "core/base/result.h"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace linnet::core {

// Of one head. Unset: the preset's automatic value. half_life in tokens, infinity = no decay (null in JSON).
struct HeadTarget {
    std::optional<double> halfLife;   // > 0
    std::optional<double> beta;       // (0, 1): mean of the write gate
    std::optional<double> valueScale; // > 0: multiplies the head's gated output
    std::optional<double> outputGate; // >= 0: level of SiLU(g_proj x)
    std::set<std::string> locked;     // of half_life, beta, value_scale, output_gate: kept through alignment
    bool empty() const { return !halfLife && !beta && !valueScale && !outputGate && locked.empty(); }
    bool operator==(const HeadTarget&) const = default;
};

struct KeepRule { // which layers stay softmax
    enum class Kind { Uniform, First, Last, Layers, File, Method } kind = Kind::Uniform;
    std::int64_t count = 0;            // Uniform, First, Last, Method
    std::vector<std::int64_t> layers;  // Layers
    std::string file;                  // File: JSON list of layers
    std::string method;                // Method: bypass | kl | greedy | restore | ga-s2 | score
    // Method, in place of a count: as few kept layers as a budget allows (cache) or asks for (quality).
    enum class Budget { None, Cache, Perplexity } budget = Budget::None;
    double limit = 0;                  // Cache: bytes of keys, values and states of one sequence; Perplexity: student's / teacher's at most, >= 1
    std::int64_t length = 0;           // Cache: tokens of that sequence
    std::string text() const;          // canonical "uniform:8", "layers:0,7", "kl:cache=67108864@32768", "greedy:ppl=1.05"
    bool operator==(const KeepRule&) const = default;
};
KeepRule parseKeepRule(const std::string& text); // throws Usage naming the rule

struct ClosedFormSettings { // preset linnet (core/convert/closed_form.h)
    std::vector<double> halfLives = {2, 8, 32, 128, std::numeric_limits<double>::infinity()}; // tokens; infinity (null in JSON) = no decay
    std::vector<double> betas = {.01, .05, .2, .5, .8};
    std::int64_t sequences = 24; // calibration windows that options are scored on
    bool joint = true;           // heads choose together, by the layer's residual; false: each by its own
    bool refine = true;          // after half-life, beta and taps also: sign of values, RoPE (fit), key centring, query scale, key prior
    double valueRms = 0.3;       // of a head's centred values before SiLU: small ones pass it almost linearly
    std::string gate = "regression"; // regression: output gate fitted for the teacher's o_proj | constant: 1, o_proj by ridge alone
    std::int64_t gateRounds = 4; // of that regression
    double ridge = 1e-3;         // of o_proj, share of the mean diagonal
    double ridgeBeforeAlignment = 1; // with gate regression, where alignment follows: near the teacher's o_proj it learns faster
    bool operator==(const ClosedFormSettings&) const = default;
};

struct AlignSettings {
    std::int64_t steps = 300;  // 0 = closed form only
    std::int64_t batch = 8;    // sequences a step
    double lr = 3e-3;          // q, k, v
    double lrNew = 3e-3;       // every other parameter
    std::string schedule = "cosine"; // constant | cosine (to 5 %)
    double warmup = 0.05;      // share of the steps
    bool trainOutput = true;   // o_proj and o_norm too
    std::string loss = "mse";  // mse | relative_mse | kl_metric (error weighed by what the next layers make of it)
    std::int64_t earlyStop = 0; // held-out measurements without gain after which a layer stops; 0 = never
    // After alignment, for the chosen layers in order on the student's own inputs: none | refit (o_proj by ridge) | align (driftSteps more steps)
    std::string drift = "none";
    std::int64_t driftSteps = 100;
    double weightDecay = 0.01;
    double clip = 1.0;         // global gradient norm of one layer
    double heldOut = 0.1;      // share of the calibration windows kept for the held-out loss
    bool operator==(const AlignSettings&) const = default;
};

struct DistillSettings { // end to end, after alignment: KL to the teacher over the whole vocabulary; only converted layers learn
    std::int64_t steps = 0;    // 0 = none
    std::int64_t batch = 16;   // sequences a step
    double lr = 1e-3;
    double warmup = 0.1;       // share of the steps
    std::string schedule = "cosine"; // constant | cosine (to 10 %) | linear | wsd
    double temperature = 1, klWeight = 1, crossEntropyWeight = 0;
    double weightDecay = 0.01, clip = 1.0;
    std::int64_t tokens = 0;   // of the text that no slice has; 0 = all of it
    bool operator==(const DistillSettings&) const = default;
};

struct Recipe {
    int version = 1;
    std::string teacherSource = "default", teacherHash; // hash "" = not checked
    std::vector<std::string> dataText = {"default"};
    std::int64_t seqLen = 512, calibrationTokens = 400000, selectionTokens = 16000, evaluationTokens = 50000;
    std::string mixer = "gated_delta_net";
    std::string preset = "linnet"; // linnet | naive | zero-gate | small-gate | paper | reference | alignment-only | sliding-window
    KeepRule keep;
    std::map<std::int64_t, std::map<std::int64_t, HeadTarget>> targets; // [layer][head]
    ClosedFormSettings closedForm;
    AlignSettings align;
    DistillSettings distill;
    double memoryGib = 0; // of the device, above the teacher, that a stage may take; 0 = half of a GPU's memory
    std::int64_t window = 64, sinks = 4; // sliding-window preset
    std::string convention = "chunked";  // evaluate: chunked | word
    std::int64_t evaluateSeqLen = 0;     // 0 = seqLen
    std::string device = "auto", dtype;  // dtype "" = the device's default
    std::uint64_t seed = 0;
    std::string biasTreatment = "fold", qkNormTreatment = "fold", ropeTreatment = "drop"; // fold | drop | fit (by head, what its residual prefers)
    std::set<std::int64_t> never, always; // pins: never convert, always convert
    std::filesystem::path folder;         // where the file lies: relative paths start here; not part of the file
    bool operator==(const Recipe&) const = default;
};

// Canonical JSON: fixed key order, defaults written out, one head a line, shortest round-trip numbers.
std::string recipeToText(const Recipe& recipe);
Recipe recipeFromJson(const Json& json, const std::string& origin); // throws; unknown keys refused with the nearest known one
Result<Recipe> readRecipe(const std::filesystem::path& file);
Result<void> writeRecipe(const std::filesystem::path& file, const Recipe& recipe);
std::string recipeHash(const Recipe& recipe); // of the canonical text without device
// A path of the recipe from where the recipe lies; absolute paths, "default" and "self:N" pass through.
std::filesystem::path resolvePath(const Recipe& recipe, const std::string& path);

// Everything that can be checked without the teacher; `layers`, `heads` > 0 also check against it. Each entry names key and value.
std::vector<Error> validateRecipe(const Recipe& recipe, std::int64_t layers = 0, std::int64_t heads = 0);

struct RecipeDifference {
    std::string key, left, right; // dotted key, values as JSON text ("" = absent)
};
std::vector<RecipeDifference> diffRecipes(const Recipe& left, const Recipe& right);

const std::vector<std::string>& presetNames();
const std::vector<std::string>& mixerNames();  // those of core/mixers/mixer_spec.h
const std::vector<std::string>& targetNames(); // half_life, beta, value_scale, output_gate
// Defaults of method.md section 9 for the device ("cpu" or "cuda"), with a preset's own alignment (paper: lr 1e-4 / 1e-3, o frozen).
Recipe defaultRecipe(const std::string& device, const std::string& preset = "linnet");
// Kept layers, sorted, for the rules that need no measurement; Method rules give nullopt. Pins applied on top of the rule.
// uniform:N keeps floor(i L / N). Throws where the rule does not fit `layers`, or its file can't be read.
std::optional<std::vector<std::int64_t>> keptLayers(const Recipe& recipe, std::int64_t layers);
// Applies pins to a ranking (best converted first) so that `keep` layers stay; sorted kept layers.
std::vector<std::int64_t> keepByRanking(const std::vector<std::int64_t>& convertFirst, std::int64_t keep,
                                        const std::set<std::int64_t>& never, const std::set<std::int64_t>& always);

} // namespace linnet::core
