#include "core/torch_pch.h"

#include "core/study/study_plan.h"

namespace linnet::core {
namespace {

using Sets = std::vector<SetName>;

class Planner {
public:
    Planner(const StudyScale& scale, const ModelConfig& teacher, const std::string& device, const std::string& dtype)
        : m_scale(scale), m_teacher(teacher), m_device(device), m_dtype(dtype) {
        m_main = Recipe{}.preset == "naive" ? "naive" : "linnet";
        m_other = m_main == "naive" ? "linnet" : "naive";
    }

    StudyPlan plan() {
        const auto main = aligned(m_main, m_scale.mainSteps);
        m_plan.chosenOn = main, m_plan.startsOf = "closed-form";
        Sets compared = everywhere();
        for (const auto& method : selectionMethods())
            if (method != "greedy")
                for (const auto share : m_scale.shares)
                    compared.push_back({method, share});
        add(main, recipe(m_main, m_scale.mainSteps), compared, chosen());
        auto refit = recipe(m_main, m_scale.mainSteps);
        refit.align.drift = "refit";
        add(main + "+refit", refit, drifted());
        add("closed-form", recipe("linnet", 0), everywhere());
        auto corrected = recipe("linnet", 0);
        corrected.align.drift = "refit";
        add("closed-form+refit", corrected, drifted());
        auto distilled = recipe(m_main, m_scale.mainSteps);
        distilled.distill.steps = m_scale.distillSteps;
        distilled.distill.batch = m_scale.distillBatch;
        add(main + "+kl", distilled, distilledSets());
        add("published", recipe("reference", m_scale.mainSteps), everywhere(), chosen());
        const auto windowed = windows(m_scale.seqLen);
        add("naive", recipe("naive", 0), everywhere());
        add("zero-gate", recipe("zero-gate", 0), everywhere());
        add("fixed-0", recipe("paper", 0), everywhere());
        add("fixed", recipe("paper", m_scale.mainSteps), everywhere());
        for (const auto& start : {m_main, m_other})
            for (const auto steps : m_scale.steps)
                if (aligned(start, steps) != main && (start == m_main || seeded(steps)))
                    add(aligned(start, steps), recipe(start, steps), everywhere(), steps == m_scale.mainSteps ? chosen() : Sets());
        auto further = refit;
        further.align.drift = "align";
        further.align.driftSteps = m_scale.driftSteps;
        add(main + "+drift-align", further, {{"chosen", m_scale.ablationShares.back()}});
        const auto longer = longMethods();
        const auto parts = closedFormParts(), alignment = alignmentParts();
        tables(main, windowed, longer, parts, alignment);
        return std::move(m_plan);
    }

private:
    using Rows = std::vector<std::pair<std::string, std::string>>; // method, label

    std::string aligned(const std::string& start, std::int64_t steps) const { return start + "-" + std::to_string(steps); }
    std::string startLabel(const std::string& start) const { return start == "naive" ? "naive copy" : "closed form"; }

    Recipe recipe(const std::string& preset, std::int64_t steps, std::int64_t seqLen = 0) const {
        Recipe r = defaultRecipe("cuda", preset);
        const auto length = seqLen > 0 ? seqLen : m_scale.seqLen, tokens = m_scale.seqLen;
        r.seqLen = length;
        r.calibrationTokens = m_scale.calibration * tokens, r.selectionTokens = m_scale.selection * tokens, r.evaluationTokens = m_scale.evaluation * tokens;
        r.keep = parseKeepRule("first:0");
        r.align.steps = steps;
        r.align.batch = std::max<std::int64_t>(1, std::min(r.align.batch, m_scale.batch) * tokens / length); // the published one's is smaller; the same tokens a step
        r.align.drift = "none";
        r.closedForm.sequences = std::max<std::int64_t>(1, m_scale.closedFormSequences * tokens / length);
        r.distill.steps = 0;
        r.device = m_device, r.dtype = m_dtype;
        return r;
    }
    Sets everywhere() const {
        Sets sets;
        for (const char* layers : {"even", "chosen"})
            for (const auto share : m_scale.shares)
                sets.push_back({layers, share});
        sets.push_back({"none", 0});
        return sets;
    }
    Sets both() const { // even and chosen
        Sets sets;
        for (const char* layers : {"even", "chosen"})
            for (const auto share : m_scale.ablationShares)
                sets.push_back({layers, share});
        sets.push_back({"none", 0});
        return sets;
    }
    Sets chosen() const {
        Sets sets;
        for (const auto share : m_scale.ablationShares)
            sets.push_back({"chosen", share});
        return sets;
    }
    Sets distilledSets() const {
        Sets sets{{"none", 0}};
        sets.insert(sets.begin(), {"chosen", m_scale.ablationShares.back()});
        return sets;
    }
    Sets drifted() const { // a pass over the calibration windows each
        Sets sets = chosen();
        sets.push_back({"none", 0});
        return sets;
    }
    bool seeded(std::int64_t steps) const { return std::ranges::find(m_scale.seededSteps, steps) != m_scale.seededSteps.end(); }

    void add(const std::string& id, const Recipe& recipe, const Sets& sets, const Sets& seedSets = {}) { m_plan.methods.push_back({id, recipe, sets, seedSets}); }

    Rows windows(std::int64_t seqLen) {
        Rows rows;
        const std::int64_t sinks = Recipe{}.sinks, equal = m_teacher.heads * m_teacher.headDim / (2 * m_teacher.kvHeads) - sinks;
        auto sizes = m_scale.windows;
        if (equal > 0 && std::ranges::find(sizes, equal) == sizes.end())
            sizes.push_back(equal);
        for (const auto size : sizes) {
            auto r = recipe("sliding-window", 0, seqLen);
            r.window = size;
            const auto text = std::to_string(size);
            const auto id = "window-" + text + suffix(seqLen);
            add(id, r, seqLen == m_scale.seqLen ? everywhere() : both());
            rows.emplace_back(id, "sliding window " + text + " + " + std::to_string(sinks) + (size == equal ? ", a state's bytes" : ""));
        }
        return rows;
    }
    std::string suffix(std::int64_t seqLen) const { return seqLen == m_scale.seqLen ? "" : "@" + std::to_string(seqLen); }

    Rows longMethods() {
        const auto length = m_scale.longSeqLen;
        Rows rows{{"closed-form" + suffix(length), "closed form"}};
        add(rows.back().first, recipe("linnet", 0, length), both());
        const auto id = aligned(m_main, m_scale.mainSteps) + suffix(length), steps = std::to_string(m_scale.mainSteps) + " steps";
        auto r = recipe(m_main, m_scale.mainSteps, length);
        add(id, r, both());
        rows.emplace_back(id, startLabel(m_main) + " + " + steps);
        r.align.drift = "refit";
        add(id + "+refit", r, both());
        rows.emplace_back(id + "+refit", startLabel(m_main) + " + " + steps + " + drift refit");
        for (const auto& row : windows(length))
            rows.push_back(row);
        return rows;
    }

    Rows closedFormParts() {
        const Recipe whole = recipe("linnet", 0);
        Rows rows{{"closed-form", "closed form, whole"}};
        const auto without = [&](const std::string& id, const std::string& label, const auto& change) {
            Recipe r = whole;
            change(r);
            add("closed-form-" + id, r, chosen());
            rows.emplace_back("closed-form-" + id, label);
        };
        without("one-option", "one half-life (8) and write gate (0.1) for all heads", [](Recipe& r) { r.closedForm.halfLives = {8}, r.closedForm.betas = {.1}; });
        without("grid-only", "nothing tried but half-life, write gate and value taps", [](Recipe& r) { r.closedForm.refine = false; });
        without("wide-values", "values of RMS 1", [](Recipe& r) { r.closedForm.valueRms = 1; });
        without("constant-gate", "constant output gate", [](Recipe& r) { r.closedForm.gate = "constant"; });
        without("joint", "heads choose together, by the layer's residual", [](Recipe& r) { r.closedForm.joint = true; });
        without("rope-drop", "RoPE dropped in all heads", [](Recipe& r) { r.ropeTreatment = "drop"; });
        return rows;
    }

    Rows alignmentParts() {
        const auto main = aligned(m_main, m_scale.mainSteps);
        Rows rows{{main, "our alignment, whole"}};
        const auto without = [&](const std::string& id, const std::string& label, const auto& change) {
            Recipe r = recipe(m_main, m_scale.mainSteps);
            change(r);
            add(main + "-" + id, r, chosen());
            rows.emplace_back(main + "-" + id, label);
        };
        without("frozen", "o_proj and o_norm frozen", [](Recipe& r) { r.align.trainOutput = false; });
        without("paper-rates", "rates 1e-4 and 1e-3", [](Recipe& r) { r.align.lr = 1e-4, r.align.lrNew = 1e-3; });
        without("half-rate", "rate 3e-3", [](Recipe& r) { r.align.lr = r.align.lrNew = 3e-3; });
        without("small-batch", "a quarter of the batch", [](Recipe& r) { r.align.batch = std::max<std::int64_t>(1, r.align.batch / 4); });
        without("scrambled", "published start, heads scrambled", [](Recipe& r) { r.preset = "reference", r.ropeTreatment = "drop"; });
        return rows;
    }

    Json column(const std::string& prefix, const std::string& layers, std::int64_t share) const {
        return {{"title", prefix + std::to_string(share) + " % (" + std::to_string(keptOf(share, m_teacher.layers)) + ")"}, {"layers", layers}, {"share", share}};
    }
    void table(const std::string& title, const std::string& note, const Json& columns, const Rows& rows) {
        Json list = Json::array();
        for (const auto& [method, label] : rows)
            list.push_back({{"label", label}, {"method", method}});
        m_plan.tables.push_back({{"title", title}, {"note", note}, {"columns", columns}, {"rows", list}});
    }

    void tables(const std::string& main, const Rows& windowed, const Rows& longer, const Rows& parts, const Rows& alignment) {
        const auto steps = std::to_string(m_scale.mainSteps) + " steps";
        Rows rows{{"zero-gate", "naive copy, output gate zero"}, {"naive", "naive copy"}, {"published", "published code, bug for bug, " + steps},
                  {"fixed-0", "published method, bugs fixed, no steps"}, {"fixed", "published method, bugs fixed, " + steps},
                  {"closed-form", "closed form, no steps"}, {"closed-form+refit", "closed form + drift refit"}};
        for (const auto& start : {m_main, m_other})
            for (const auto count : m_scale.steps) {
                if (start == m_other && !seeded(count))
                    continue;
                rows.emplace_back(aligned(start, count), startLabel(start) + " + " + std::to_string(count) + " steps");
                if (aligned(start, count) != main)
                    continue;
                rows.emplace_back(main + "+refit", startLabel(start) + " + " + steps + " + drift refit");
                rows.emplace_back(main + "+drift-align", startLabel(start) + " + " + steps + " + " + std::to_string(m_scale.driftSteps) + " on its own inputs");
                rows.emplace_back(main + "+kl", startLabel(start) + " + " + steps + " + " + std::to_string(m_scale.distillSteps) + " KL steps");
            }
        rows.insert(rows.end(), windowed.begin(), windowed.end());
        m_plan.tables = Json::array();
        const std::string greedy = "Kept layers are greedy's, chosen on the selection slice over the layers of " + main + ".";
        for (const auto& [layers, title, note] : {std::tuple("even", "Evenly spaced layers", "Kept layers are floor(i L / N), so layer 0 always."),
                                                  std::tuple("chosen", "Chosen layers", greedy.c_str())}) {
            Json columns = Json::array({column("", "all", 100)});
            for (const auto share : m_scale.shares)
                columns.push_back(column("", layers, share));
            columns.push_back(column("", "none", 0));
            table(title, note, columns, rows);
        }
        selectionTable(main);
        Json wide = Json::array();
        for (const char* layers : {"even", "chosen"})
            for (const auto share : m_scale.ablationShares)
                wide.push_back(column(std::string(layers) + " ", layers, share));
        wide.push_back(column("", "none", 0));
        table("Windows of " + std::to_string(m_scale.longSeqLen) + " tokens", "Calibration, alignment and evaluation in such windows, the same tokens otherwise; layers as above.", wide, longer);
        Json few = Json::array();
        for (const auto share : m_scale.ablationShares)
            few.push_back(column("", "chosen", share));
        table("The closed form, a part of it changed", "Chosen layers, no steps, no drift refit.", few, parts);
        table("Our alignment without each of its parts", "Chosen layers, " + steps + " from the " + startLabel(m_main) + ".", few, alignment);
    }

    void selectionTable(const std::string& main) {
        Json columns = Json::array(), rows = Json::array({{{"label", "even spacing"}, {"method", main}, {"layers", "even"}}});
        for (const auto share : m_scale.shares)
            columns.push_back(column("", "", share));
        for (const auto& method : selectionMethods())
            rows.push_back({{"label", method}, {"method", main}, {"layers", method == "greedy" ? "chosen" : method}, {"selection", method}});
        m_plan.tables.push_back({{"title", "Layer selection"},
                                 {"note", "Layers of " + main + ", chosen in several ways; ga-s2 ranks the closed form's. Seconds: of all choices, without the bank."},
                                 {"columns", columns},
                                 {"rows", rows}});
    }

    StudyScale m_scale;
    ModelConfig m_teacher;
    std::string m_device, m_dtype, m_main, m_other; // presets
    StudyPlan m_plan;
};

} // namespace

StudyScale StudyScale::quick() {
    StudyScale s;
    s.seqLen = 32, s.longSeqLen = 128;
    s.evaluation = 16, s.selection = 8, s.calibration = 24, s.block = 4;
    s.shares = {50}, s.ablationShares = {50};
    s.steps = {2, 3, 4, 5}, s.seededSteps = {3, 4};
    s.mainSteps = 4, s.batch = 4, s.driftSteps = 2;
    s.distillSteps = 2, s.distillBatch = 2;
    s.closedFormSequences = 4;
    s.windows = {8, 16};
    return s;
}

Json StudyScale::json() const {
    return {{"seq_len", seqLen}, {"long_seq_len", longSeqLen}, {"evaluation", evaluation}, {"selection", selection}, {"calibration", calibration}, {"block", block},
            {"shares", shares}, {"ablation_shares", ablationShares}, {"steps", steps}, {"seeded_steps", seededSteps}, {"main_steps", mainSteps}, {"batch", batch},
            {"drift_steps", driftSteps}, {"distill_steps", distillSteps}, {"distill_batch", distillBatch}, {"closed_form_sequences", closedFormSequences}, {"windows", windows}};
}

const StudyMethod& StudyPlan::method(const std::string& id) const {
    const auto found = std::ranges::find(methods, id, &StudyMethod::id);
    if (found == methods.end())
        fail(ErrorCode::Internal, "the study has no method " + id);
    return *found;
}

StudyPlan studyPlan(const StudyScale& scale, const ModelConfig& teacher, const std::string& device, const std::string& dtype) {
    return Planner(scale, teacher, device, dtype).plan();
}

std::int64_t keptOf(std::int64_t share, std::int64_t layers) {
    return std::llround(static_cast<double>(share * layers) / 100);
}

const std::vector<std::string>& selectionMethods() {
    static const std::vector<std::string> methods = {"bypass", "kl", "greedy", "restore", "ga-s2", "score"};
    return methods;
}

} // namespace linnet::core
