// The whole conversion: recipe in, run folder out. Torch-free: what the command line and the window see.
//
// Run folder: recipe.json (frozen), samples.safetensors, state.json, profile.json, metrics.jsonl, checkpoints/, report.json,
// log.txt, environment.json. It can be read while the run goes on; a stopped or killed run goes on with resumeRun.
#pragma once

#include "core/base/control.h"
#include "core/base/json.h"
#include "core/base/result.h"
#include "core/evaluate/evaluate.h"
#include "core/profile/profile.h"
#include "core/recipe/recipe.h"

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace linnet::core {

struct MetricRow { // one line of metrics.jsonl
    double time = 0; // seconds since the run began, pauses and interruptions included once
    std::string stage = "align";
    std::int64_t layer = -1, step = 0, tokens = 0;
    double loss = 0, lr = 0, gradNorm = 0, tokensPerSecond = 0;
    std::optional<double> heldOutLoss, relativeLoss; // MSE / mean square of the target, on the held-out windows
};
Json metricToJson(const MetricRow& row);
Result<std::vector<MetricRow>> readMetrics(const std::filesystem::path& run); // tolerates a torn last line

struct StageReport {
    std::string name; // data, profile, select, starts, align, drift, distill, evaluate
    double seconds = 0;
    std::int64_t steps = 0, tokens = 0;
    std::optional<double> lossFirst, lossLast; // means over the converted layers
};

struct LayerScore {
    std::int64_t layer = 0;
    double score = 0; // lower: cheaper to convert
};
struct SelectionPoint { // the student that keeps so many layers, measured on the selection slice
    std::int64_t kept = 0;
    double loss = 0, perplexity = 0, kl = 0; // nats a token, perplexity, KL(teacher || student)
    std::uint64_t cacheBytes = 0;            // of one sequence of `cacheLength` tokens
};
struct Selection {
    std::string method, unit;        // "bypass", "nats of loss"
    std::vector<LayerScore> ranking; // cheapest first; greedy and restore: in their order, with the cost of each step
    std::vector<std::int64_t> kept;  // sorted
    std::vector<SelectionPoint> curve; // by kept layers, descending, over the ranking's nested choices (pins applied); may be empty
    double teacherPerplexity = 0;    // on the selection slice; 0 = not measured
    std::int64_t cacheLength = 32768;
};
Json selectionToJson(const Selection& selection);
Selection selectionFromJson(const Json& json);

// What a part of the teacher that a Gated DeltaNet layer cannot hold costs: mean residual of the heads' closed-form maps (0: nothing is
// lost, 1: all) over the converted layers with the part folded in, and with it dropped.
struct Treatment {
    std::string part, treatment; // rope, bias, qk_norm; fold, drop or fit, as the recipe says
    double folded = 0, dropped = 0;
    double headsFolded = 0; // share of the heads
};

// Which state of a layer's alignment was kept: the one whose held-out loss was measured lowest. Step 0: its start, all training was in vain.
struct AlignedLayer {
    std::int64_t layer = 0, steps = 0, keptStep = 0; // steps: as the recipe says
    std::optional<double> heldOutLoss;               // of the kept state, in the metric of align.loss; nothing was held out: none
};

struct Report {
    std::filesystem::path run;
    std::vector<std::int64_t> keptLayers, convertedLayers;
    std::vector<StageReport> stages;
    std::map<std::string, Evaluation> evaluation; // teacher, naive, zero_gate, student (those that were measured)
    std::uint64_t peakMemoryBytes = 0;
    std::vector<Treatment> treatments; // preset linnet
    std::vector<AlignedLayer> aligned; // of the converted layers, where alignment had steps and it is known
    std::optional<Selection> selection; // where a keep rule measured something
    std::vector<std::string> notes; // what a Gated DeltaNet layer cannot hold and what became of it; warnings
};
Json reportToJson(const Report& report);
Report reportFromJson(const Json& json, const std::string& origin);
Result<Report> readReport(const std::filesystem::path& run);

struct ConvertOptions {
    bool baselines = true;                 // naive and zero-gate evaluated too; a resumed run keeps what it began with
    std::filesystem::path cacheFolder;     // profiles; "" = none
    std::filesystem::path bankFolder;      // aligned banks, and what was measured on them, for other runs to use; "" = none
    bool wholeBank = false;                // aligns every layer but the pinned ones, whatever the keep rule needs: for the bank's sake
    std::shared_ptr<const TokenWindows> windows; // the recipe's text, tokenised before (its own seq_len); null: read here
    std::function<void(const MetricRow&)> onMetric;
    std::function<void(const std::string& stage)> onStage;
    std::function<void(const std::string& name, const Evaluation&)> onEvaluation;
    std::function<void(const Selection&)> onSelection;
    ModelPtr teacher;                      // already loaded (same source, device and dtype): used instead of opening it again
    // For tests: memory of stages that depend on it, in place of what recipe.memory_gib means here.
    std::uint64_t groupBytes = 0;
};

// Refuses a folder that exists and is not empty. Cancelled (by control.stop): a checkpoint is written first.
Result<Report> convert(const Recipe& recipe, const std::filesystem::path& run, const ConvertOptions& options, const Control& control);
// Goes on exactly: the same numbers as an undisturbed run. A finished run returns its report.
Result<Report> resumeRun(const std::filesystem::path& run, const ConvertOptions& options, const Control& control);

// The layer choice of a recipe's keep rule and nothing more. What it needs (an aligned bank of all layers, say) is made in, or taken
// from, options.cacheFolder / "banks": one bank serves every rule, and what was measured on it is kept beside it.
Result<Selection> selectLayers(const Recipe& recipe, const ConvertOptions& options, const Control& control);

// The automatic targets that a preset would use, per layer and head: shown beside measured and user values.
std::vector<std::vector<HeadTarget>> automaticTargets(const Profile& profile, const std::string& preset);

struct Estimate {
    std::uint64_t memoryBytes = 0, diskBytes = 0, cacheBytesAt32k = 0, teacherCacheBytesAt32k = 0;
    double seconds = 0;      // rough: counts FLOPs against a speed measured in milliseconds on this device
    std::int64_t tokens = 0; // that pass through a model
    std::int64_t keptLayers = 0, convertedLayers = 0;
};
Result<Estimate> estimateSelection(const Recipe& recipe, const ModelInfo& teacher); // of selectLayers; nothing found in the cache
Result<Estimate> estimateRun(const Recipe& recipe, const ModelInfo& teacher);

// `default` and relative paths resolved to what is on this machine (environment, then the cache that set-up fills).
std::filesystem::path defaultTeacher(); // throws Failure{NotFound} saying how to install it
std::filesystem::path defaultText();
std::filesystem::path cacheFolder(); // $XDG_CACHE_HOME/linnet
TokenWindows windowsOf(const Model& model, const std::vector<std::string>& text, std::int64_t seqLen, std::int64_t tokens,
                       std::uint64_t seed, const Control& control); // TEXT, default or self:N; throws Failure
// splitSlices by the recipe; too little text names the text.
struct Slices;
Slices slicesOf(const TokenWindows& all, const Recipe& recipe);
std::vector<std::string> resolveText(const std::vector<std::string>& text); // default -> path; throws

} // namespace linnet::core
