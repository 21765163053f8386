// Whole conversions of a tiny teacher: what the run folder holds, what alignment does, stopping anywhere, going on exactly.
#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/convert/recipe_checks.h"
#include "core/convert/run_folder.h"
#include "core/convert/select.h"
#include "core/evaluate/evaluate_model.h"
#include "tests/support/convert_fixtures.h"

#include <QTest>

namespace fs = std::filesystem;
using namespace linnet::core;
using namespace linnet::tests;

namespace {

std::map<std::string, std::string> filesOf(const fs::path& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
        if (entry.is_regular_file())
            files[fs::relative(entry.path(), folder).string()] = readTextFile(entry.path());
    return files;
}

} // namespace

class TestConvertRun : public QObject {
    Q_OBJECT

    TinyTeachers m_teachers;
    QTemporaryDir m_runs;
    ModelPtr m_llama;
    fs::path m_plain; // an undisturbed run: bypass:2, 16 steps, baselines
    Report m_report;

    fs::path run(const std::string& name) const { return fs::path(m_runs.path().toStdString()) / name; }
    Recipe recipe() const { return m_teachers.recipe("llama", "bypass:2"); }
    Result<Report> convertTo(const fs::path& folder, const Recipe& recipe, bool baselines = true, const Control& control = {}) const {
        ConvertOptions options;
        options.baselines = baselines;
        return convert(recipe, folder, options, control);
    }

private Q_SLOTS:
    void initTestCase() {
        at::set_num_threads(1);
        LINNET_MAKE_TEACHERS(m_teachers);
        m_llama = m_teachers.open("llama");
        m_plain = run("plain");
        const auto report = convertTo(m_plain, recipe());
        QVERIFY2(report, qPrintable(messageOf(report)));
        m_report = *report;
    }

    void folderAndReport() {
        for (const char* name : {"recipe.json", "metrics.jsonl", "report.json", "log.txt", "environment.json", "samples.safetensors", "checkpoints/student.safetensors"})
            QVERIFY2(fs::exists(m_plain / name), name);
        const Json json = readJsonFile(m_plain / "report.json");
        QCOMPARE(json.dump(), reportToJson(m_report).dump());
        for (const char* key : {"run", "kept_layers", "converted_layers", "stages", "evaluation", "peak_memory_bytes"})
            QVERIFY2(json.contains(key), key);
        QCOMPARE(json["kept_layers"].size() + json["converted_layers"].size(), std::size_t(4));
        QCOMPARE(json["kept_layers"].size(), std::size_t(2));
        QVERIFY(json["peak_memory_bytes"].get<double>() > 1e6);
        std::vector<std::string> stages;
        for (const auto& stage : json["stages"]) {
            stages.push_back(stage["name"]);
            for (const char* key : {"seconds", "steps", "tokens", "loss_first", "loss_last"})
                QVERIFY2(stage.contains(key), key);
        }
        QCOMPARE(stages, (std::vector<std::string>{"data", "select", "align", "evaluate"}));
        QCOMPARE(json["stages"][2]["steps"].get<int>(), 16);
        QVERIFY(json["stages"][2]["loss_last"].get<double>() < json["stages"][2]["loss_first"].get<double>());
        for (const char* model : {"teacher", "naive", "zero_gate", "student"})
            for (const char* key : {"loss", "loss_se", "perplexity", "convention", "seq_len", "tokens", "kl_to_teacher", "top1_agreement"})
                QVERIFY2(json["evaluation"][model].contains(key), qPrintable(QString("%1.%2").arg(model, key)));
        QCOMPARE(json["evaluation"]["student"]["tokens"].get<int>(), 6 * 31);
        QVERIFY(json["evaluation"]["student"]["kl_to_teacher"].get<double>() < json["evaluation"]["zero_gate"]["kl_to_teacher"].get<double>());
        QCOMPARE(orFail(readReport(m_plain)).convertedLayers, m_report.convertedLayers);
    }

    void evaluationsAreThoseOfTheOpenedModels() { // the teacher from its folder, the student from the run folder, over the same tokens
        const auto slices = loadSlices(m_plain / "samples.safetensors");
        const auto teacher = orFail(evaluateChunked(*m_llama, slices.evaluation));
        LINNET_CLOSE(m_report.evaluation.at("teacher").loss, teacher.loss, 1e-6, 0, "teacher loss");
        const auto student = orFail(openModel(m_plain, {"cpu", "", 1, false}));
        const auto measured = orFail(evaluateChunked(*student, slices.evaluation, orFail(teacherReference(*m_llama, slices.evaluation))));
        LINNET_CLOSE(m_report.evaluation.at("student").loss, measured.loss, 1e-6, 0, "student loss");
        LINNET_CLOSE(*m_report.evaluation.at("student").klToTeacher, *measured.klToTeacher, 1e-4, 1e-9, "student KL");
    }

    void slicesAreDisjoint() {
        const auto slices = loadSlices(m_plain / "samples.safetensors");
        QCOMPARE(slices.calibration.sequences, std::int64_t(24));
        QCOMPARE(slices.selection.sequences, std::int64_t(6));
        QCOMPARE(slices.evaluation.sequences, std::int64_t(6));
        std::set<std::vector<TokenId>> seen;
        for (const auto* slice : {&slices.calibration, &slices.selection, &slices.evaluation})
            for (std::int64_t n = 0; n < slice->sequences; ++n)
                seen.insert({slice->ids.begin() + n * 32, slice->ids.begin() + (n + 1) * 32});
        QCOMPARE(seen.size(), std::size_t(36)); // random text: no window is another's copy
    }

    void bypassRanking() { // against whole forwards without the shared prefix
        const auto slices = loadSlices(m_plain / "samples.safetensors");
        Json measured = Json::object();
        const Control control;
        const auto selection = selectLayers(parseKeepRule("bypass:2"), SelectionJob{*m_llama, slices.selection, nullptr, nullptr, {}, {}, false, measured, [] {}, control});
        QCOMPARE(selection.kept, m_report.keptLayers);
        const double whole = orFail(evaluateChunked(*m_llama, slices.selection)).loss;
        double previous = -INFINITY;
        for (const auto& entry : selection.ranking) {
            Mixers mixers;
            mixers[entry.layer].kind = Mixer::Kind::Bypass;
            const double loss = evaluateMixers(*m_llama, mixers, slices.selection, nullptr, {}).loss;
            LINNET_CLOSE(entry.score, loss - whole, 1e-4, 1e-5, "rise of the loss");
            QVERIFY(entry.score >= previous);
            previous = entry.score;
        }
    }

    void alignmentLowersTheHeldOutLoss() {
        for (const auto layer : m_report.convertedLayers) {
            double first = NAN, best = INFINITY;
            for (const auto& row : orFail(readMetrics(m_plain)))
                if (row.layer == layer && row.heldOutLoss) {
                    first = std::isnan(first) ? *row.heldOutLoss : first;
                    best = std::min(best, *row.heldOutLoss);
                }
            QVERIFY2(best < 0.97 * first, qPrintable(QString("layer %1: %2 -> %3").arg(layer).arg(first).arg(best)));
        }
        QCOMPARE(curveOf(m_plain).size(), std::size_t(2 * 16));
    }

    void sameSeedSameBits() {
        const auto again = convertTo(run("again"), recipe());
        QVERIFY2(again, qPrintable(messageOf(again)));
        QCOMPARE(numbersOf(*again).dump(), numbersOf(m_report).dump());
        QVERIFY(studentBytes(run("again")) == studentBytes(m_plain));
        auto other = recipe();
        other.seed = 4;
        QVERIFY(convertTo(run("other"), other, false));
        QVERIFY(studentBytes(run("other")) != studentBytes(m_plain));
    }

    void streamedTeacher() {
        ConvertOptions options;
        options.teacher = m_teachers.open("llama", true);
        const auto report = convert(recipe(), run("streamed"), options, {});
        QVERIFY2(report, qPrintable(messageOf(report)));
        QVERIFY(studentBytes(run("streamed")) == studentBytes(m_plain));
        QCOMPARE(numbersOf(*report).dump(), numbersOf(m_report).dump());
    }

    void stopAndResume_data() {
        QTest::addColumn<QString>("stage");
        QTest::addColumn<int>("reports"); // stop at the n-th progress report of the stage
        QTest::addColumn<QString>("preset");
        const auto row = [](const QString& preset, const char* where, const char* stage, int reports) {
            QTest::newRow(qPrintable(preset + " " + where)) << stage << reports << preset;
        };
        for (const char* preset : {"naive", "paper"}) {
            row(preset, "before anything", "", 1);
            row(preset, "select", "select", 3);
            row(preset, "align, first layer", "align", 7);
            row(preset, "align, end of the first layer", "align", 16);
            row(preset, "align, second layer", "align", 20);
            row(preset, "evaluate", "evaluate", 3);
        }
        QTest::newRow("profile") << "profile" << 5 << "paper";
    }
    void stopAndResume() {
        QFETCH(QString, stage);
        QFETCH(int, reports);
        QFETCH(QString, preset);
        Recipe wanted = recipe();
        wanted.preset = preset.toStdString();
        const auto folder = run(QTest::currentDataTag()), undisturbed = preset == "naive" ? m_plain : run("undisturbed paper");
        if (!fs::exists(undisturbed)) {
            const auto made = convertTo(undisturbed, wanted);
            QVERIFY2(made, qPrintable(messageOf(made)));
        }
        std::stop_source stop;
        int seen = 0;
        Control control;
        control.stop = stop.get_token();
        control.onProgress = [&](const Progress& progress) {
            if ((stage.isEmpty() || progress.stage == stage.toStdString()) && ++seen == reports)
                stop.request_stop();
        };
        const auto stopped = convertTo(folder, wanted, true, control);
        QVERIFY2(!stopped && stopped.error().code == ErrorCode::Cancelled, qPrintable("not stopped: " + messageOf(stopped)));
        QVERIFY(!fs::exists(folder / "report.json"));
        const auto finished = resumeRun(folder, {}, {});
        QVERIFY2(finished, qPrintable(messageOf(finished)));
        QCOMPARE(numbersOf(*finished).dump(), numbersOf(orFail(readReport(undisturbed))).dump());
        QVERIFY(studentBytes(folder) == studentBytes(undisturbed));
        QVERIFY(curveOf(folder) == curveOf(undisturbed));
        for (const auto& entry : fs::directory_iterator(folder / "checkpoints"))
            QVERIFY2(!entry.path().filename().string().starts_with("align_"), entry.path().c_str());
    }

    void finishedRunAnswersItsReport() {
        const auto before = filesOf(m_plain);
        const auto report = resumeRun(m_plain, {}, {});
        QVERIFY2(report, qPrintable(messageOf(report)));
        QCOMPARE(reportToJson(*report).dump(), reportToJson(m_report).dump());
        QVERIFY(filesOf(m_plain) == before);
    }

    void lockedTargetsStay() {
        for (const bool locked : {true, false}) {
            Recipe wanted = m_teachers.recipe("llama", "layers:0,1,2");
            HeadTarget target{12.0, 0.3, 1.5, 0.7, {}};
            if (locked)
                target.locked = {"half_life", "beta", "value_scale", "output_gate"};
            wanted.targets[3][4] = target;
            wanted.align.steps = 0;
            const auto startFolder = run(locked ? "locked start" : "free start"), endFolder = run(locked ? "locked end" : "free end");
            QVERIFY(convertTo(startFolder, wanted, false));
            wanted.align.steps = 12;
            const auto report = convertTo(endFolder, wanted, false);
            QVERIFY2(report, qPrintable(messageOf(report)));
            const auto start = tensorsOf(startFolder / "checkpoints/student.safetensors"), end = tensorsOf(endFolder / "checkpoints/student.safetensors");
            const auto part = [](const std::map<std::string, at::Tensor>& all, const char* name) { return all.at("model.layers.3.linear_attn." + std::string(name)); };
            for (const char* name : {"a_proj.weight", "A_log", "dt_bias", "b_proj.weight"}) {
                QCOMPARE(at::equal(part(start, name)[4], part(end, name)[4]), locked);
                QVERIFY2(!at::equal(part(start, name)[3], part(end, name)[3]), name);
            }
            const auto rows = [&](const auto& all, int head) { return part(all, "g_proj.weight").narrow(0, 8 * head, 8); };
            QCOMPARE(at::equal(rows(start, 4), rows(end, 4)), locked);
            QVERIFY(!at::equal(rows(start, 3), rows(end, 3)));
            const auto norm = [&](const auto& all, int head) { return part(all, "o_proj.weight").narrow(1, 8 * head, 8).norm().template item<double>(); };
            QCOMPARE(closeTo(norm(end, 4), norm(start, 4), 1e-5), locked);
            QVERIFY(!at::equal(part(start, "o_proj.weight").narrow(1, 32, 8), part(end, "o_proj.weight").narrow(1, 32, 8))); // its direction is free
        }
    }

    void slidingWindow() {
        Recipe wanted = m_teachers.recipe("llama", "uniform:2", "sliding-window");
        wanted.window = 6;
        wanted.sinks = 2;
        const auto report = convertTo(run("window"), wanted);
        QVERIFY2(report, qPrintable(messageOf(report)));
        QCOMPARE(report->keptLayers, (std::vector<std::int64_t>{0, 2}));
        Mixers mixers;
        for (const std::int64_t l : {1, 3})
            mixers[l] = Mixer{Mixer::Kind::SlidingWindow, nullptr, {}, 6, 2};
        const auto slices = loadSlices(run("window") / "samples.safetensors");
        LINNET_CLOSE(report->evaluation.at("student").loss, evaluateMixers(*m_llama, mixers, slices.evaluation, nullptr, {}).loss, 1e-6, 0, "loss");
        wanted.window = 32; // sees all of 32 tokens: the teacher
        const auto all = convertTo(run("wide window"), wanted);
        QVERIFY2(all, qPrintable(messageOf(all)));
        LINNET_CLOSE(all->evaluation.at("student").klToTeacher.value(), 0, 0, 1e-6, "KL of a window that sees everything");
    }

    void nothingKeptNoSteps() {
        for (const char* kind : {"llama", "qwen2", "qwen3"}) {
            Recipe wanted = m_teachers.recipe(kind, "first:0", "paper");
            wanted.align.steps = 0;
            const auto folder = run(std::string("closed form ") + kind);
            const auto report = convertTo(folder, wanted, false);
            QVERIFY2(report, qPrintable(messageOf(report)));
            QCOMPARE(report->convertedLayers.size(), std::size_t(4));
            QVERIFY(report->evaluation.size() == 2 && std::isfinite(report->evaluation.at("student").loss));
            QVERIFY(orFail(readMetrics(folder)).empty());
            const QString notes = QString::fromStdString(Json(report->notes).dump());
            QVERIFY(notes.contains("layer 0") && notes.contains("RoPE"));
            QCOMPARE(notes.contains("biases"), QString(kind) == "qwen2");
            QCOMPARE(notes.contains("QK-norm"), QString(kind) == "qwen3");
        }
    }

    void shorterEvaluationWindows() {
        Recipe wanted = recipe();
        wanted.evaluateSeqLen = 8;
        wanted.align.steps = 2;
        const auto report = convertTo(run("short windows"), wanted, false);
        QVERIFY2(report, qPrintable(messageOf(report)));
        QCOMPARE(report->evaluation.at("student").seqLen, std::int64_t(8));
        QCOMPARE(report->evaluation.at("student").tokens, std::int64_t(6 * 4 * 7));
    }

    void everythingKept() {
        const auto report = convertTo(run("all kept"), m_teachers.recipe("llama", "first:4"));
        QVERIFY2(report, qPrintable(messageOf(report)));
        QVERIFY(report->convertedLayers.empty());
        LINNET_CLOSE(report->evaluation.at("student").klToTeacher.value(), 0, 0, 1e-6, "KL of the teacher to itself");
    }

    void foldedRope() {
        Recipe wanted = m_teachers.recipe("llama", "layers:0,1,2");
        wanted.ropeTreatment = "fold";
        wanted.align.steps = 0;
        const auto report = convertTo(run("rope"), wanted, false);
        QVERIFY2(report, qPrintable(messageOf(report)));
        const auto student = tensorsOf(run("rope") / "checkpoints/student.safetensors");
        const at::Tensor q = student.at("model.layers.3.linear_attn.q_proj.weight"), teacher = m_llama->layer(3)->attention.q(m_llama->config());
        QVERIFY(!at::equal(q, teacher));
        QVERIFY(q.square().sum().item<double>() < teacher.square().sum().item<double>()); // a mean of turns is shorter
    }

    void nonEmptyFolderIsRefusedUntouched() {
        const auto before = filesOf(m_plain);
        const auto refused = convertTo(m_plain, recipe());
        QVERIFY(!refused && refused.error().code == ErrorCode::Usage && messageOf(refused).contains("plain"));
        QVERIFY(filesOf(m_plain) == before);
        writeFileAtomically(run("a file"), "text");
        QVERIFY(!convertTo(run("a file"), recipe()));
        QCOMPARE(readTextFile(run("a file")), std::string("text"));
    }

    void refusals_data() {
        QTest::addColumn<QString>("change");
        QTest::addColumn<QString>("culprit");
        QTest::newRow("no teacher") << "source" << "no-such-model";
        QTest::newRow("other hash") << "hash" << "0123456789abcdef";
        QTest::newRow("no text") << "text" << "no-such-text.txt";
        QTest::newRow("too few tokens") << "tokens" << "token";
        QTest::newRow("layer out of range") << "layer" << "9";
        QTest::newRow("head out of range") << "head" << "77";
    }
    void refusals() {
        QFETCH(QString, change);
        QFETCH(QString, culprit);
        Recipe wanted = recipe();
        if (change == "source")
            wanted.teacherSource = run("no-such-model").string();
        else if (change == "hash")
            wanted.teacherHash = "0123456789abcdef";
        else if (change == "text")
            wanted.dataText = {run("no-such-text.txt").string()};
        else if (change == "tokens")
            wanted.calibrationTokens = 100'000'000;
        else if (change == "layer")
            wanted.keep = parseKeepRule("layers:0,9");
        else
            wanted.targets[1][77].beta = 0.5;
        const auto refused = convertTo(run("refused " + change.toStdString()), wanted);
        QVERIFY(!refused);
        QVERIFY2(messageOf(refused).contains(culprit), qPrintable(messageOf(refused)));
    }

    void aRunIsUsedOnce() { // a second process (or window) on the same folder is told so
        fs::copy(m_plain, run("locked"), fs::copy_options::recursive);
        const auto open = RunFolder::open(run("locked"));
        const auto refused = resumeRun(run("locked"), {}, {});
        QVERIFY(!refused && messageOf(refused).contains("in use"));
        const auto missing = resumeRun(run("nowhere"), {}, {});
        QVERIFY(!missing && messageOf(missing).contains("nowhere"));
    }

    void aRunKeepsItsRecipe() { // finished or not; and its state is what a state looks like
        const auto folder = run("edited");
        fs::copy(m_plain, folder, fs::copy_options::recursive);
        writeFileAtomically(folder / "metrics.jsonl.part.4711", "what a kill left");
        QVERIFY(resumeRun(folder, {}, {}));
        QVERIFY(!fs::exists(folder / "metrics.jsonl.part.4711"));
        Recipe recipe = orFail(readRecipe(folder / "recipe.json"));
        const auto steps = recipe.align.steps;
        recipe.align.steps = 500;
        orFail(writeRecipe(folder / "recipe.json", recipe));
        const auto refused = resumeRun(folder, {}, {});
        QVERIFY(!refused && refused.error().code == ErrorCode::Usage);
        for (const auto& part : {QString("recipe.json"), QString("align.steps"), QString("500"), QString::number(steps)})
            QVERIFY2(messageOf(refused).contains(part), qPrintable(messageOf(refused)));
        fs::copy_file(m_plain / "recipe.json", folder / "recipe.json", fs::copy_options::overwrite_existing);
        for (const char* state : {"[]", "null", R"({"stages": {"align": 5}})", R"({"kept_layers": [-1]})"}) {
            writeFileAtomically(folder / "state.json", state);
            const auto damaged = resumeRun(folder, {}, {});
            QVERIFY2(!damaged && damaged.error().code == ErrorCode::Malformed && messageOf(damaged).contains("state.json"), state);
        }
    }

    void aLostStateLeavesLossesUnknown() { // the layers are there, their losses are not: no 0 for what nobody knows
        const auto folder = run("lost state");
        fs::copy(m_plain, folder, fs::copy_options::recursive);
        fs::remove(folder / "state.json");
        fs::remove(folder / "report.json");
        const auto report = resumeRun(folder, {}, {});
        QVERIFY2(report, qPrintable(messageOf(report)));
        const auto align = std::ranges::find(report->stages, "align", &StageReport::name);
        QVERIFY(align != report->stages.end() && !align->lossFirst && !align->lossLast);
        for (const auto& stage : reportToJson(*report)["stages"])
            QVERIFY(stage["loss_last"].is_null());
        QVERIFY(studentBytes(folder) == studentBytes(m_plain));
    }

    void keptLayersOfTheStateAreChecked() {
        const auto folder = run("odd layers");
        fs::copy(m_plain, folder, fs::copy_options::recursive);
        for (const char* kept : {"[0, 4]", "[0, 0]", "[2, 1]"}) {
            Json state = readJsonFile(m_plain / "state.json");
            state["finished"] = false;
            state["kept_layers"] = Json::parse(kept);
            writeFileAtomically(folder / "state.json", state.dump());
            const auto refused = resumeRun(folder, {}, {});
            QVERIFY2(!refused && refused.error().code == ErrorCode::Malformed && messageOf(refused).contains("kept_layers") && messageOf(refused).contains("state.json"), kept);
        }
    }

    void impossibleCacheFailsAtOnce() { // 4 layers of 2 key/value heads of 8 channels: no choice fits a kilobyte; nothing is made
        const auto info = orFail(readModelInfo(m_teachers.path("llama")));
        auto wanted = recipe();
        wanted.keep = parseKeepRule("bypass:cache=1KiB@4096");
        const auto errors = checkRecipe(wanted, info);
        QCOMPARE(errors.size(), std::size_t(1));
        const auto refused = convertTo(run("no cache"), wanted);
        QVERIFY(!refused && !fs::exists(run("no cache")));
        QCOMPARE(messageOf(refused), QString::fromStdString(errors.front().message));
        const auto smallest = std::stoll(errors.front().context.at("expected"));
        wanted.keep = parseKeepRule("bypass:cache=" + std::to_string(smallest) + "@4096");
        QVERIFY(checkRecipe(wanted, info).empty());
        wanted.keep = parseKeepRule("bypass:cache=" + std::to_string(smallest - 1) + "@4096");
        QCOMPARE(checkRecipe(wanted, info).size(), std::size_t(1));
        wanted.dtype = "bf16"; // half the keys and values; the states stay float32
        wanted.never = {0, 1, 2, 3};
        wanted.keep = parseKeepRule("bypass:cache=" + std::to_string(4 * 4096 * 2 * info.config.kvHeads * info.config.headDim * 2) + "@4096");
        QVERIFY(checkRecipe(wanted, info).empty());
        wanted.dtype = "f32";
        QVERIFY(checkRecipe(wanted, info).front().message.find("pins.never") != std::string::npos);
    }

    void whatHasNoEffectIsSaid() {
        auto wanted = recipe();
        const auto keys = [&] {
            QStringList found;
            for (const auto& note : recipeNotes(wanted, 4))
                found << QString::fromStdString(note.key);
            return found.join(' ');
        };
        wanted.keep = parseKeepRule("layers:0,2");
        QCOMPARE(keys(), QString());
        wanted.never = {0, 1, 3};
        wanted.always = {2};
        QCOMPARE(keys(), QString("pins.never pins.always"));
        QCOMPARE(recipeNotes(wanted, 4)[0].text, std::string("pins.never: layers 1, 3 stay softmax, against layers:0,2"));
        QCOMPARE(recipeNotes(wanted, 4)[1].text, std::string("pins.always: layer 2 is converted, against layers:0,2"));
        wanted.never.clear(), wanted.always.clear();
        wanted.targets[0][3].beta = 0.5;
        wanted.targets[1][3].beta = 0.5;
        QCOMPARE(keys(), QString("targets.0"));
        wanted.always = {0}; // the pin converts it
        QCOMPARE(keys(), QString("pins.always"));
        wanted.always.clear();
        wanted.keep = parseKeepRule("bypass:2"); // not yet known
        QCOMPARE(keys(), QString());
        wanted.never = {1};
        QCOMPARE(keys(), QString("targets.1"));
        wanted.preset = "sliding-window";
        QCOMPARE(keys(), QString("targets.0 targets.1"));
        wanted.keep = parseKeepRule("layers:9"); // validateRecipe says that
        QCOMPARE(keys(), QString());
    }

    void aKillBeforeTheRecipe() { // leaves a folder that a run may still take
        const auto folder = run("killed at once");
        fs::create_directories(folder / "checkpoints");
        writeFileAtomically(folder / "recipe.json.part.4711", "{");
        { const auto made = RunFolder::create(folder, recipe()); }
        QVERIFY(fs::exists(folder / "recipe.json") && !fs::exists(folder / "recipe.json.part.4711"));
        const auto again = guarded([&] { (void)RunFolder::create(folder, recipe()); });
        QVERIFY(!again && messageOf(again).contains("not empty"));
        QVERIFY(messageOf(guarded([&] { (void)RunFolder::create({}, recipe()); })).contains("\"\""));
    }

    void tornMetrics() {
        fs::copy(m_plain, run("torn"), fs::copy_options::recursive);
        std::ofstream(run("torn") / "metrics.jsonl", std::ios::app) << "{\"time\": 12.5, \"sta";
        QCOMPARE(orFail(readMetrics(run("torn"))).size(), orFail(readMetrics(m_plain)).size());
    }
};

QTEST_APPLESS_MAIN(TestConvertRun)
#include "tst_convert_run.moc"
