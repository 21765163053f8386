#include "core/torch_pch.h"

#include "core/convert/convert.h"

#include "core/convert/recipe_checks.h"
#include "core/convert/select_rankings.h"
#include "core/distill/plan.h"
#include "core/model/device.h"

#include <chrono>

namespace linnet::core {
namespace {

constexpr double kPasses = 1.3;             // what is not matrix products
constexpr double kRuleFlop = 2 * 70e3;      // of the delta rule, a token and head of 64, forward
constexpr double kSelectionStart = 0.5;     // share of the blocks that a choice runs: the stream before them is kept

// FLOP/s of a float32 product on the device, measured in some milliseconds.
double deviceSpeed(const at::Device& device) {
    const c10::InferenceMode inference;
    const at::Tensor a = at::rand({512, 512}, at::TensorOptions(device).dtype(at::kFloat));
    a.matmul(a).sum().item<float>();
    const auto begin = std::chrono::steady_clock::now();
    constexpr int kRepeats = 8;
    at::Tensor b = a;
    for (int i = 0; i < kRepeats; ++i)
        b = a.matmul(b) * 1e-3;
    b.sum().item<float>();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return kRepeats * 2.0 * 512 * 512 * 512 / std::max(seconds, 1e-6);
}

double number(std::int64_t value) {
    return static_cast<double>(value);
}

class Counting {
public:
    Counting(const Recipe& recipe, const ModelInfo& teacher, at::Device device) : m_recipe(recipe), m_c(teacher.config), m_device(device) {
        const auto width = m_c.heads * m_c.headDim;
        m_mixer = number(m_c.hiddenSize * (5 * width + 2 * m_c.heads));
        m_block = number(m_c.hiddenSize * (2 * width + 2 * m_c.kvHeads * m_c.headDim + 3 * m_c.intermediateSize));
        m_head = number(m_c.hiddenSize * m_c.vocabSize);
        m_layers = number(m_c.layers);
        m_ruled = recipe.keep.kind == KeepRule::Kind::Method;
        m_bank = m_ruled ? bankFor(recipe.keep.method) : BankKind::None;
        const auto softmax = std::ranges::count(teacher.layerKinds, "softmax");
        m_before = m_c.layers - softmax;
        m_elementBytes = static_cast<std::int64_t>(teacher.cacheBytesPerToken) / std::max<std::int64_t>(1, 2 * softmax * m_c.kvHeads * m_c.headDim);
        m_kept = keptCount();
    }

    std::int64_t kept() const { return m_kept; }
    std::int64_t converted() const { return m_c.layers - m_before - m_kept; } // by this run
    bool trains() const { return m_recipe.preset != "sliding-window"; }
    std::int64_t window() const { return trains() ? 0 : m_recipe.window + m_recipe.sinks; }
    std::int64_t aligned() const { // a rule that measures on aligned layers needs all that may be converted
        return !trains() ? 0 : m_bank == BankKind::Aligned ? m_c.layers - m_before - std::ssize(m_recipe.never) : converted();
    }
    std::int64_t elementBytes() const { return m_elementBytes; }
    std::uint64_t mixerBytes() const { return static_cast<std::uint64_t>(m_mixer) * 4; }

    double tokens() const {
        return number(m_recipe.calibrationTokens + 4 * m_recipe.evaluationTokens) + aligned() * alignTokens(m_recipe.align.steps) + choices() * number(m_recipe.selectionTokens) +
               driftTokens() + number(distillTokens());
    }
    double flop() const {
        const auto& r = m_recipe;
        const double calibration = number(r.calibrationTokens), whole = m_layers * m_block;
        const double mixerForward = 2 * m_mixer + kRuleFlop * number(m_c.heads);
        double sum = 2 * calibration * whole;
        sum += 2 * number(r.evaluationTokens) * 4 * (whole + 2 * m_head);
        sum += 2 * choices() * number(r.selectionTokens) * (kSelectionStart * whole + 2 * m_head);
        if (r.preset == "linnet")
            sum += number(startLayers()) * (startFlop() + 2 * calibration * (m_mixer + number(m_c.heads * m_c.headDim * m_c.heads * m_c.headDim)));
        sum += 3 * number(aligned()) * alignTokens(r.align.steps) * mixerForward;
        sum += driftTokens() * 2 * (2 * m_block + 2 * m_mixer); // both streams, readouts fitted and measured
        if (r.align.drift == "align" && trains())
            sum += 3 * number(converted()) * alignTokens(r.align.driftSteps) * mixerForward;
        // The teacher forward, the student forward, again in part, and backward to the first converted layer; the scores likewise.
        sum += number(distillTokens()) * (2 * (whole + m_head) + 8 * (whole + m_head));
        return sum;
    }
    std::uint64_t distillMemory() const {
        if (distillTokens() == 0 || converted() == 0)
            return 0;
        std::set<std::int64_t> layers;
        for (std::int64_t l = m_c.layers - 1; std::ssize(layers) < converted(); --l)
            layers.insert(l);
        const auto dtype = m_device.is_cuda() ? at::kBFloat16 : at::kFloat;
        const auto memory = m_recipe.memoryGib > 0 ? static_cast<std::uint64_t>(m_recipe.memoryGib * double(1 << 30)) : m_device.is_cuda() ? deviceMemoryBytes(m_device) / 2 : 0;
        return distillPlan(distillBytes(m_c, layers, m_recipe.seqLen, dtype, m_device), m_recipe.distill.batch, m_recipe.seqLen, memory, m_device).bytes;
    }

private:
    // Of a budget: what a cache allows; of a quality, that nobody knows before measuring, the most work.
    std::int64_t keptCount() const {
        if (const auto kept = keptLayers(m_recipe, m_c.layers))
            return std::ssize(*kept);
        const auto least = std::ssize(m_recipe.never), most = m_c.layers - std::ssize(m_recipe.always);
        if (m_recipe.keep.budget == KeepRule::Budget::None)
            return std::clamp(m_recipe.keep.count, least, std::max(least, most));
        if (m_recipe.keep.budget == KeepRule::Budget::Cache)
            for (auto kept = most; kept > least; --kept)
                if (number(static_cast<std::int64_t>(studentCacheBytes(m_c, kept, m_recipe.keep.length, m_elementBytes, window()))) <= m_recipe.keep.limit)
                    return kept;
        return least;
    }
    double alignTokens(std::int64_t steps) const { return number(steps * m_recipe.align.batch * m_recipe.seqLen); } // of a layer
    double driftTokens() const { return m_recipe.align.drift == "none" || !trains() ? 0 : number(m_recipe.calibrationTokens * m_c.layers); } // through one layer each
    std::int64_t distillTokens() const { return trains() ? m_recipe.distill.steps * m_recipe.distill.batch * m_recipe.seqLen : 0; }
    std::int64_t startLayers() const { return aligned() + (m_bank == BankKind::Starts ? m_c.layers : 0); }
    double startFlop() const { // every half-life and write gate of every head, with and without taps
        const auto& f = m_recipe.closedForm;
        const double options = 2 * static_cast<double>(f.halfLives.size() * f.betas.size());
        return options * number(f.sequences * m_recipe.seqLen) * number(m_c.heads) * (kRuleFlop + 4 * number(m_c.headDim * m_c.headDim));
    }
    double choices() const { // that are measured on the selection slice
        if (!m_ruled || m_recipe.keep.method == "score")
            return 0;
        const double free = m_layers - number(std::ssize(m_recipe.never) + std::ssize(m_recipe.always)), curve = m_bank == BankKind::None ? 0 : free;
        const bool stepwise = m_recipe.keep.method == "greedy" || m_recipe.keep.method == "restore";
        return 1 + curve + free * (stepwise ? number(kGreedyCandidates) : 1);
    }

    const Recipe& m_recipe;
    const ModelConfig& m_c;
    at::Device m_device;
    double m_mixer, m_block, m_head, m_layers; // parameters of a mixer, a block, the output
    bool m_ruled;
    BankKind m_bank;
    std::int64_t m_before, m_elementBytes, m_kept; // m_before: converted in the teacher already
};

} // namespace

Result<Estimate> estimateRun(const Recipe& recipe, const ModelInfo& teacher) {
    return guarded([&] {
        const auto& c = teacher.config;
        const auto device = deviceFromName(recipe.device);
        const Recipe on = recipeOn(recipe, teacher.layerKinds);
        const Counting count(on, teacher, device);
        Estimate estimate;
        estimate.keptLayers = count.kept();
        estimate.convertedLayers = count.converted();
        estimate.seconds = count.flop() / deviceSpeed(device) * kPasses;
        estimate.tokens = static_cast<std::int64_t>(count.tokens());
        const std::uint64_t capture = static_cast<std::uint64_t>(recipe.calibrationTokens * (3 * c.hiddenSize + c.heads * c.headDim)) * 4;
        const auto made = static_cast<std::uint64_t>(count.aligned());
        const bool stages = recipe.align.drift != "none" || recipe.distill.steps > 0;
        estimate.memoryBytes = teacher.weightBytes + std::max(capture + count.mixerBytes() * (8 + 2 * made), count.distillMemory());
        // The layers aligned and plain, the student's once more a stage, states in progress
        estimate.diskBytes = count.mixerBytes() * (2 * made + (stages ? 2 : 1) * static_cast<std::uint64_t>(count.converted()) + 4) + (64 << 20);
        estimate.teacherCacheBytesAt32k = teacher.cacheBytesPerToken * 32768; // in the dtype that the teacher runs in
        estimate.cacheBytesAt32k = studentCacheBytes(c, count.kept(), 32768, count.elementBytes(), count.window());
        return estimate;
    });
}

Result<Estimate> estimateSelection(const Recipe& recipe, const ModelInfo& teacher) {
    Recipe choice = recipe;
    choice.evaluationTokens = 0;
    choice.align.drift = "none";
    choice.distill.steps = 0;
    if (choice.keep.kind == KeepRule::Kind::Method) {
        const auto bank = bankFor(choice.keep.method);
        const bool students = bank == BankKind::Aligned || choice.keep.budget == KeepRule::Budget::Perplexity;
        if (!students)
            choice.align.steps = 0; // comes after the choice
        if (bank == BankKind::None && !students) {
            choice.preset = "naive"; // no start is made
            choice.calibrationTokens = choice.keep.method == "score" ? choice.calibrationTokens : 0;
        }
    }
    return estimateRun(choice, teacher);
}

} // namespace linnet::core
