// The recipe: the only thing a person edits; everything else is derived from it and carries its hash.
#pragma once

#include "core/base/json.h"
#include "core/base/result.h"

#include <cstdint>
#include <filesystem>
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
    std::string text() const;          // canonical "uniform:8", "layers:0,7"
    bool operator==(const KeepRule&) const = default;
};
KeepRule parseKeepRule(const std::string& text); // throws Usage naming the rule

struct AlignSettings {
    std::int64_t steps = 300;  // 0 = closed form only
    std::int64_t batch = 8;    // sequences a step
    double lr = 3e-3;          // q, k, v
    double lrNew = 3e-3;       // every other parameter
    std::string schedule = "cosine"; // constant | cosine (to 5 %)
    double warmup = 0.05;      // share of the steps
    bool trainOutput = true;   // o_proj and o_norm too
    std::string loss = "mse";  // mse | relative_mse
    double weightDecay = 0.01;
    double clip = 1.0;         // global gradient norm of one layer
    double heldOut = 0.1;      // share of the calibration windows kept for the held-out loss
    bool operator==(const AlignSettings&) const = default;
};

struct Recipe {
    int version = 1;
    std::string teacherSource = "default", teacherHash; // hash "" = not checked
    std::vector<std::string> dataText = {"default"};
    std::int64_t seqLen = 512, calibrationTokens = 200000, selectionTokens = 16000, evaluationTokens = 50000;
    std::string mixer = "gated_delta_net";
    std::string preset = "naive"; // naive | zero-gate | small-gate | paper | reference | alignment-only | sliding-window
    KeepRule keep;
    std::map<std::int64_t, std::map<std::int64_t, HeadTarget>> targets; // [layer][head]
    AlignSettings align;
    std::int64_t window = 64, sinks = 4; // sliding-window preset
    std::string convention = "chunked";  // evaluate: chunked | word
    std::int64_t evaluateSeqLen = 0;     // 0 = seqLen
    std::string device = "auto", dtype;  // dtype "" = the device's default
    std::uint64_t seed = 0;
    std::string biasTreatment = "fold", qkNormTreatment = "fold", ropeTreatment = "drop"; // fold | drop
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
Recipe defaultRecipe(const std::string& device, const std::string& preset = "naive");
// Kept layers, sorted, for the rules that need no measurement; Method rules give nullopt. Pins applied on top of the rule.
// uniform:N keeps floor(i L / N). Throws where the rule does not fit `layers`, or its file can't be read.
std::optional<std::vector<std::int64_t>> keptLayers(const Recipe& recipe, std::int64_t layers);
// Applies pins to a ranking (best converted first) so that `keep` layers stay; sorted kept layers.
std::vector<std::int64_t> keepByRanking(const std::vector<std::int64_t>& convertFirst, std::int64_t keep,
                                        const std::set<std::int64_t>& never, const std::set<std::int64_t>& always);

} // namespace linnet::core
