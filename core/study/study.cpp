#include "core/torch_pch.h"

#include "core/study/study.h"

#include <torch/headeronly/version.h>

#include "core/convert/convert.h"
#include "core/convert/select.h"
#include "core/model/device.h"
#include "core/study/study_data.h"
#include "core/study/study_measure.h"
#include "core/study/study_plan.h"
#include "core/study/study_results.h"
#include "core/study/study_students.h"

#include <chrono>
#include <ctime>

namespace linnet::core {
namespace {

using Clock = std::chrono::steady_clock;
using Layers = std::vector<std::int64_t>;

double secondsSince(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string today() {
    const std::time_t now = std::time(nullptr);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", std::localtime(&now));
    return text;
}

std::string dtypeName(at::ScalarType type) {
    return type == at::kFloat ? "f32" : type == at::kBFloat16 ? "bf16" : "f16";
}

StudyScale scaleOf(const StudyOptions& options) {
    return options.quick ? StudyScale::quick() : StudyScale();
}

Json headOf(const StudyOptions& options, const StudyScale& scale, const StudyText& text) {
    const auto info = modelInfo(*options.teacher);
    return {{"teacher", {{"name", info.path.filename().string()}, {"hash", info.hash}, {"layers", info.config.layers}, {"parameters", info.parameters}}},
            {"corpus", text.summary()},
            {"scale", scale.json()},
            {"device", deviceDescription(options.teacher->device())},
            {"dtype", dtypeName(options.teacher->dtype())},
            {"data", options.data.string()},
            {"seeds", options.seeds},
            {"linnet", options.version},
            {"libtorch", TORCH_VERSION},
            {"date", today()},
            {"command", options.command}};
}

class Study {
public:
    Study(const StudyOptions& options, const Control& control)
        : m_options(options), m_outer(control), m_teacher(*options.teacher), m_scale(scaleOf(options)), m_control(innerControl()),
          m_text(options.data, modelTokenizer(*options.teacher), {m_scale.evaluation * m_scale.seqLen, m_scale.selection * m_scale.seqLen, m_scale.calibration * m_scale.seqLen}),
          m_plan(studyPlan(m_scale, m_teacher.config(), m_teacher.device().str(), dtypeName(m_teacher.dtype()))), m_results(options.out, headOf(options, m_scale, m_text), m_plan.tables),
          m_students(m_teacher, options.out / "banks", {m_plan.method(m_plan.chosenOn).recipe, m_plan.method(m_plan.startsOf).recipe}, m_control) {
        for (const auto length : {m_scale.seqLen, m_scale.longSeqLen})
            m_slices[length] = m_text.slices(length);
        m_students.onBank = [this](const std::string& name, double seconds) { m_results.setPart("banks", name, seconds); };
        m_total = 3 + std::ssize(selectionMethods()); // both teachers, the conversion
        for (const auto& method : m_plan.methods)
            m_total += std::ssize(method.sets) + (m_options.seeds - 1) * std::ssize(method.seedSets);
    }

    Json run() {
        const auto begin = Clock::now();
        for (const auto length : {m_scale.seqLen, m_scale.longSeqLen})
            teacher(length);
        for (const auto& method : selectionMethods())
            if (method != "ga-s2")
                select(method, m_plan.chosenOn);
        select("ga-s2", m_plan.startsOf);
        conversion();
        for (const auto& method : m_plan.methods)
            rows(method, 0, method.sets);
        for (std::int64_t seed = 1; seed < m_options.seeds; ++seed)
            for (const auto& method : m_plan.methods)
                rows(method, seed, method.seedSets);
        const Json* before = m_results.part("timing", "study");
        m_results.setPart("timing", "study", (before ? before->get<double>() : 0) + secondsSince(begin));
        m_results.writeTables();
        m_students.removeAll();
        return m_results.json();
    }

private:
    // Stages within a measurement are its detail.
    Control innerControl() {
        Control control = m_outer;
        control.onProgress = [this](const Progress& p) {
            std::string detail = m_label + ": " + p.stage;
            if (p.total > 0)
                detail.append(" ").append(std::to_string(std::llround(100 * p.done / p.total))).append(" %");
            if (m_outer.onProgress)
                m_outer.onProgress({"study", static_cast<double>(m_done), static_cast<double>(m_total), detail});
        };
        return control;
    }
    void begin(const std::string& label) {
        m_label = label;
        m_outer.report("study", static_cast<double>(m_done), static_cast<double>(m_total), label);
    }

    Layers converted(const Layers& kept) const {
        Layers layers;
        for (std::int64_t l = 0; l < m_teacher.config().layers; ++l)
            if (std::ranges::find(kept, l) == kept.end())
                layers.push_back(l);
        return layers;
    }

    Layers keptOfSet(const SetName& set) const {
        const auto layers = m_teacher.config().layers;
        Recipe recipe;
        recipe.keep = {KeepRule::Kind::Uniform, set.layers == "all" ? layers : keptOf(set.share, layers), {}, {}, {}};
        if (set.layers == "all" || set.layers == "even" || set.layers == "none")
            return *keptLayers(recipe, layers);
        const Json* selection = m_results.part("selections", set.layers == "chosen" ? "greedy" : set.layers);
        return selection->at("kept").at(std::to_string(set.share)).get<Layers>();
    }

    const StudyMeasure& measureOf(std::int64_t seqLen) {
        if (!m_measures.contains(seqLen))
            m_measures.try_emplace(seqLen, m_teacher, m_slices.at(seqLen).evaluation, std::max<std::int64_t>(1, m_scale.block * m_scale.seqLen / seqLen), m_control);
        return m_measures.at(seqLen);
    }

    void addRow(const std::string& method, const std::string& bank, std::int64_t seed, std::int64_t seqLen, const SetName& set, const Layers& kept, const Json& measured, double seconds) {
        Json row{{"method", method}, {"bank", bank}, {"seed", seed}, {"seq_len", seqLen}, {"layers", set.layers}, {"share", set.share}, {"kept_layers", kept}};
        row.update(measured);
        row["student_seconds"] = seconds; // what was made for this row alone: drift, distillation; the first row of a bank has the bank's too
        m_results.addRow(row);
        ++m_done;
    }

    void teacher(std::int64_t seqLen) {
        const SetName all{"all", 100};
        const auto id = seqLen == m_scale.seqLen ? std::string("teacher") : "teacher@" + std::to_string(seqLen);
        if (m_results.has(StudyResults::keyOf(id, 0, all.layers, all.share), keptOfSet(all), {})) {
            ++m_done;
            return;
        }
        begin(id);
        addRow(id, {}, 0, seqLen, all, keptOfSet(all), measureOf(seqLen).measure({}), 0);
    }

    void rows(const StudyMethod& method, std::int64_t seed, const std::vector<SetName>& sets) {
        Recipe recipe = method.recipe;
        recipe.seed = static_cast<std::uint64_t>(seed);
        const auto bank = StudyStudents::bankName(recipe);
        bool grown = false;
        for (const auto& set : sets) {
            const auto kept = keptOfSet(set);
            if (m_results.has(StudyResults::keyOf(method.id, seed, set.layers, set.share), kept, bank)) {
                ++m_done;
                continue;
            }
            begin(method.id + ", seed " + std::to_string(seed) + ", " + set.text() + " %");
            const auto start = Clock::now();
            const Mixers student = m_students.student(recipe, m_slices.at(recipe.seqLen), converted(kept));
            const double seconds = secondsSince(start);
            addRow(method.id, bank, seed, recipe.seqLen, set, kept, measureOf(recipe.seqLen).measure(student), seconds);
            grown = true;
        }
        if (grown)
            m_results.writeTables();
    }

    // A method's layers for every share: one ranking, which later choices take up again.
    void select(const std::string& method, const std::string& bankOf) {
        const bool measured = bankFor(method) != BankKind::None;
        const auto bankName = measured ? StudyStudents::bankName(m_plan.method(bankOf).recipe) : std::string();
        if (const Json* known = m_results.part("selections", method); known && m_results.madeOn(*known, bankName)) {
            ++m_done;
            return;
        }
        begin("selection by " + method);
        const auto& slices = m_slices.at(m_scale.seqLen);
        const Mixers bank = measured ? m_students.computed(m_students.bank(m_plan.method(bankOf).recipe, slices.calibration)) : Mixers();
        const Profile* profile = method == "score" ? &m_students.profile(slices.calibration) : nullptr;
        const auto start = Clock::now();
        Json finished = Json::object(), kept = Json::object();
        Selection selection;
        SelectionJob job{m_teacher, slices.selection, measured ? &bank : nullptr, profile, {}, {}, false, finished, [] {}, m_control};
        for (const auto share : m_scale.shares) {
            selection = selectLayers({KeepRule::Kind::Method, keptOf(share, m_teacher.config().layers), {}, {}, method}, job);
            kept[std::to_string(share)] = selection.kept;
        }
        Json result = selectionToJson(selection);
        result.erase("kept_layers");
        result.erase("curve");
        result["kept"] = kept;
        result["bank"] = bankName;
        result["seconds"] = secondsSince(start);
        m_results.setPart("selections", method, result);
        ++m_done;
    }

    // A whole conversion as `convert` runs it, text to evaluation, for its times.
    void conversion() {
        if (m_results.part("timing", "conversion")) {
            ++m_done;
            return;
        }
        begin("a whole conversion");
        const auto folder = m_options.out / "conversion";
        std::filesystem::remove_all(folder); // of a stop
        Recipe recipe = m_plan.method(m_plan.chosenOn).recipe;
        recipe.keep = {KeepRule::Kind::Method, keptOf(m_scale.shares.back(), m_teacher.config().layers), {}, {}, defaultRecipe("cuda").keep.method};
        recipe.teacherSource = std::filesystem::absolute(m_teacher.files().path).string();
        recipe.dataText = {std::filesystem::absolute(m_options.data).string()};
        ConvertOptions options;
        options.teacher = m_options.teacher;
        const auto start = Clock::now();
        const auto report = orFail(convert(recipe, folder, options, m_control));
        Json result{{"recipe", {{"preset", recipe.preset}, {"keep", recipe.keep.text()}, {"steps", recipe.align.steps}}}, {"seconds", secondsSince(start)}};
        const Json json = reportToJson(report);
        for (const char* key : {"stages", "evaluation", "peak_memory_bytes"})
            result[key] = json.at(key);
        m_results.setPart("timing", "conversion", result);
        std::filesystem::remove_all(folder);
        ++m_done;
    }

    const StudyOptions& m_options;
    const Control& m_outer;
    const Model& m_teacher;
    StudyScale m_scale;
    Control m_control;
    StudyText m_text;
    StudyPlan m_plan;
    StudyResults m_results;
    StudyStudents m_students;
    std::map<std::int64_t, Slices> m_slices;        // by window length
    std::map<std::int64_t, StudyMeasure> m_measures; // likewise, made on need
    std::int64_t m_done = 0, m_total = 0;
    std::string m_label;
};

} // namespace

Result<Json> runStudy(const StudyOptions& options, const Control& control) {
    return guarded([&] {
        if (!options.teacher->mixers().empty())
            fail(ErrorCode::Unsupported, "--model: " + std::to_string(options.teacher->mixers().size()) + " of its layers are converted already; a study needs the teacher that it came from", {{"option", "--model"}});
        StudyOptions own = options;
        own.seeds = std::max<std::int64_t>(1, own.seeds);
        return Study(own, control).run();
    });
}

} // namespace linnet::core
