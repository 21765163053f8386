// The hand-over bundle: an independent build of the reference project's student class computes our logits from it, PyYAML and NumPy read what
// its trainer is told; and what trainers leave (students with other weights, transformers' Trainer, others) opens as a model or says why not.
#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/data/text_data.h"
#include "core/export/bundle.h"
#include "tests/support/convert_fixtures.h"

#include <QTest>

namespace fs = std::filesystem;
using namespace linnet::core;
using namespace linnet::tests;

namespace {

const RunOptions kOnCpu{"cpu", "f32", 1, false};
const std::vector<std::vector<TokenId>> kPrompts{{5, 17, 200, 31, 8, 99, 140, 3, 61, 254}, {77, 4, 120}};

at::Tensor logitsOf(const Model& model, const std::vector<TokenId>& ids) {
    auto values = orFail(sequenceLogits(model, ids));
    return at::tensor(values).view({static_cast<std::int64_t>(ids.size()), -1});
}

} // namespace

class TestExportBundle : public QObject {
    Q_OBJECT

    TinyTeachers m_teachers; // llama, qwen2, qwen3 of 4 layers, eps 1e-5
    QTemporaryDir m_folder;  // teachers/ of tiny_teachers.py: head_dim is not hidden / heads, odd head counts, llama3

    fs::path at(const std::string& name) const { return fs::path(m_folder.path().toStdString()) / name; }
    Recipe recipe(const std::string& teacher, const std::string& keep, std::int64_t steps) const {
        Recipe recipe = m_teachers.recipe("llama", keep);
        recipe.teacherSource = (fs::exists(at("teachers/" + teacher)) ? at("teachers/" + teacher) : m_teachers.path(QString::fromStdString(teacher))).string();
        recipe.align.steps = steps;
        return recipe;
    }
    fs::path student(const std::string& name, const Recipe& recipe) const {
        const auto run = at("run " + name);
        ConvertOptions options;
        options.baselines = false;
        if (!fs::exists(run))
            orFail(convert(recipe, run, options, {}));
        return run;
    }
    void compare(const fs::path& logits, const Model& model, double allowed) const {
        const auto expected = tensorsOf(logits);
        for (std::size_t i = 0; i < kPrompts.size(); ++i)
            LINNET_NEAR(logitsOf(model, kPrompts[i]), expected.at("logits_" + std::to_string(i)), allowed);
    }
    QString ask(const QStringList& arguments) const { return runOracle("bundle_oracle.py", arguments); }
    QString ids() const { return at("ids.json").c_str(); }
    Json yaml(const fs::path& file) const {
        const auto out = file.string() + ".json";
        const auto said = ask({"yaml", file.c_str(), out.c_str()});
        return said.isEmpty() ? readJsonFile(out) : Json(said.toStdString());
    }
    fs::path bundle(const std::string& name, const fs::path& run, const std::string& dtype = "f32") const {
        const auto folder = at("bundle " + name);
        if (!fs::exists(folder))
            orFail(exportModel(run, folder, {"bundle", dtype, true}, kOnCpu));
        return folder;
    }

private Q_SLOTS:
    void initTestCase() {
        at::set_num_threads(1);
        LINNET_MAKE_TEACHERS(m_teachers);
        fs::create_directories(at("teachers"));
        const auto said = runOracle("tiny_teachers.py", {at("teachers").c_str(), "qwen3", "smollm2", "llama3", "biased"});
        QVERIFY2(said.isEmpty(), qPrintable(said));
        fs::rename(at("teachers/qwen3"), at("teachers/wide"));
        Json config = readJsonFile(at("teachers/wide/config.json"));
        config["rms_norm_eps"] = 1e-6; // as Qwen3 has it
        writeFileAtomically(at("teachers/wide/config.json"), config.dump());
        writeFileAtomically(at("ids.json"), Json(kPrompts).dump());
    }

    void theirClassAgrees_data() {
        QTest::addColumn<QString>("teacher");
        QTest::addColumn<QString>("keep");
        QTest::addColumn<int>("steps");
        QTest::addColumn<QString>("dtype");
        QTest::addColumn<QString>("name");
        QTest::newRow("trained taps") << "llama" << "layers:0,2" << 16 << "f32" << "gdn_v3";
        QTest::newRow("identity taps, biases") << "qwen2" << "layers:1" << 0 << "f32" << "gdn_v4";
        QTest::newRow("QK-norm, eps 1e-6, wide heads") << "wide" << "layers:0,2" << 8 << "f32" << "gdn_v3";
        QTest::newRow("odd head counts") << "smollm2" << "last:1" << 0 << "f32" << "gdn_v4";
        QTest::newRow("none kept of a scaled rope") << "llama3" << "first:0" << 0 << "f32" << "gdn_v4";
        QTest::newRow("bf16") << "qwen3" << "layers:0,2" << 0 << "bf16" << "gdn_v4";
    }
    void theirClassAgrees() {
        QFETCH(QString, teacher);
        QFETCH(QString, keep);
        QFETCH(int, steps);
        QFETCH(QString, dtype);
        QFETCH(QString, name);
        const std::string tag = QTest::currentDataTag();
        const auto run = student(tag, recipe(teacher.toStdString(), keep.toStdString(), steps));
        const auto folder = at("bundle " + tag);
        const auto report = exportModel(run, folder, {"bundle", dtype.toStdString(), true}, kOnCpu);
        QVERIFY2(report, qPrintable(messageOf(report)));
        QVERIFY(report->verified && report->parity.meanKl < (dtype == "f32" ? 1e-12 : 0.05));
        QCOMPARE(report->exact, dtype == "f32");
        QCOMPARE(QString::fromStdString(readJsonFile(folder / "config.json")["student_name"].get<std::string>()), name);
        const auto original = orFail(openModel(run, kOnCpu)), back = orFail(openModel(folder, kOnCpu));
        if (dtype == "f32")
            for (const auto& prompt : kPrompts)
                QVERIFY(at::equal(logitsOf(*back, prompt), logitsOf(*original, prompt)));
        QCOMPARE(modelInfo(*back).layerKinds, modelInfo(*original).layerKinds);
        const auto out = folder.string() + ".logits";
        const auto said = ask({"logits", folder.c_str(), ids(), out.c_str()});
        QVERIFY2(said.isEmpty(), qPrintable(said));
        compare(out, *back, 1e-4);
        const auto verified = verifyExport(folder, kOnCpu);
        QVERIFY2(verified && verified->format == "bundle", qPrintable(messageOf(verified)));
        for (const char* file : {"run.sh", "launch.py", "TRAIN.md", "stage1.yaml", "stage2.yaml", "bundle.json"})
            QVERIFY2(readTextFile(folder / file).find(m_folder.path().toStdString()) == std::string::npos, file); // no path of this machine
        QVERIFY((fs::status(folder / "run.sh").permissions() & fs::perms::owner_exec) != fs::perms::none);
    }

    void whatTheTrainerIsTold() {
        Recipe settings = recipe("llama", "layers:0,2", 12);
        settings.align.lr = settings.align.lrNew = 1e-5; // which JSON writes as 1e-05 and YAML 1.1 takes for a text
        settings.distill.steps = 3, settings.distill.batch = 6, settings.distill.lr = 2e-4, settings.distill.warmup = 0.34, settings.distill.schedule = "linear";
        settings.distill.crossEntropyWeight = 0.5, settings.distill.tokens = 12 * 32;
        const auto run = student("told", settings);
        const auto report = exportModel(run, at("told"), {"bundle", "f32", false}, kOnCpu);
        QVERIFY2(report, qPrintable(messageOf(report)));
        QVERIFY(std::ranges::any_of(report->notes, [](const std::string& note) { return note.find("cross entropy 0.5") != note.npos; }));
        const Json second = yaml(at("told") / "stage2.yaml"), first = yaml(at("told") / "stage1.yaml");
        const Json expected{{"student_init_ckpt", "."}, {"output_dir", "checkpoints/stage2"}, {"max_steps", 3}, {"batch_size", 6}, {"micro_batch_size", 3}, {"train_seq_len", 32},
                            {"lr_scheduler_type", "linear"}, {"warmup_steps", 1}, {"lr_attn", 2e-4}, {"lr", 0.0}, {"gradient_checkpointing", true}};
        QCOMPARE(QString::fromStdString(second["train"].dump()), QString::fromStdString(expected.dump()));
        QVERIFY(second["data"]["cache_dir"] == "data/stage2/chunked_context32");
        QVERIFY(second["student_model"] == Json({{"name", "gdn_v3"}, {"keep_full_attention_layers", {0, 2}}}));
        QVERIFY(second["teacher_model"]["name"] == "${oc.env:TEACHER}");
        QVERIFY(first["train"]["lr"] == 1e-5 && first["train"]["max_steps"] == 12);
        QVERIFY(first["data"]["cache_dir"] == "data/stage1/chunked_context32");
        const auto slices = loadSlices(run / "samples.safetensors");
        for (const auto& [stage, windows] : {std::pair("stage1", &slices.calibration), std::pair("stage2", &slices.training)}) {
            const auto file = at("told") / "data" / stage / "all_tokens.npy", out = at(stage);
            const auto said = ask({"tokens", file.c_str(), out.c_str()});
            QVERIFY2(said.isEmpty(), qPrintable(said));
            const auto read = tensorsOf(out).at("ids").to(at::kInt);
            QCOMPARE(read.numel(), windows->tokens());
            QVERIFY(windows->tokens() > 0 && at::equal(read, at::tensor(at::ArrayRef<TokenId>(windows->ids), at::kInt)));
        }
        QProcess shell; // the line's syntax, and that it says what it lacks
        shell.start("/bin/sh", {(at("told") / "run.sh").c_str()});
        QVERIFY(shell.waitForFinished() && shell.exitCode() != 0 && shell.readAllStandardError().contains("TAYLOR_CALIBRATE"));
    }

    void launcher() { // sets each norm's eps and the rotary's width, and says so in the configuration that training will save
        const auto folder = bundle("launched", student("QK-norm, eps 1e-6, wide heads", recipe("wide", "layers:0,2", 8)));
        const auto out = at("launched.json");
        const auto said = ask({"launch", folder.c_str(), out.c_str()});
        QVERIFY2(said.isEmpty(), qPrintable(said));
        const Json found = readJsonFile(out);
        for (const char* norm : {"o_norm", "q_norm", "k_norm", "config"})
            QVERIFY2(found[norm] == 1e-6, norm);
        QVERIFY2(found["rotary"] == 16 && found["name"] == "__main__", found.dump().c_str());
    }

    // bundle -> other weights, trained there -> read back, and on to an export that keeps their eps.
    void trainedThere_data() {
        QTest::addColumn<QString>("eps");
        QTest::newRow("through launch.py") << "1e-6";
        QTest::newRow("by its own scripts alone") << "0"; // 1e-5, as they leave it
    }
    void trainedThere() {
        QFETCH(QString, eps);
        const auto folder = bundle("launched", student("QK-norm, eps 1e-6, wide heads", recipe("wide", "layers:0,2", 8)));
        const auto parent = folder / "checkpoints" / ("stage2 " + eps.toStdString());
        for (const char* step : {"90", "1000"}) {
            const auto out = at("trained " + std::string(step));
            const auto said = ask({"train", folder.c_str(), parent.c_str(), step, ids(), out.c_str(), eps});
            QVERIFY2(said.isEmpty(), qPrintable(said));
        }
        fs::create_directories(parent / "checkpoint-2000"); // cut off before its weights
        fs::copy_file(parent / "checkpoint-90" / "config.json", parent / "checkpoint-2000" / "config.json", fs::copy_options::overwrite_existing);
        QVERIFY(fs::exists(parent / "checkpoint-1000" / "model.safetensors.index.json") && !fs::exists(parent / "checkpoint-1000" / "tokenizer.json"));
        const auto model = openModel(parent, kOnCpu), older = openModel(parent / "checkpoint-90", kOnCpu);
        QVERIFY2(model && older, qPrintable(messageOf(model) + messageOf(older)));
        compare(at("trained 1000"), **model, 1e-4);
        compare(at("trained 90"), **older, 1e-4);
        QCOMPARE((*model)->files().warnings.size(), eps == "0" ? 1u : 0u);
        const auto again = at("again " + eps.toStdString());
        const auto report = exportModel(parent, again, {}, kOnCpu);
        QVERIFY2(report, qPrintable(messageOf(report)));
        QVERIFY(at::equal(logitsOf(*orFail(openModel(again, kOnCpu)), kPrompts[0]), logitsOf(**model, kPrompts[0])));
        const auto request = at("again.request"), out = at("again.out");
        writeFileAtomically(request, Json{{"ids", kPrompts}, {"text", "a state"}}.dump());
        const auto said = runOracle("export_oracle.py", {again.c_str(), request.c_str(), out.c_str()});
        QVERIFY2(said.isEmpty(), qPrintable(said));
        compare(out.string() + ".safetensors", **model, 1e-4);
        const auto native = exportModel(parent, at("native"), {"qwen3.5", "f32", false}, kOnCpu);
        QCOMPARE(bool(native), eps != "0"); // whose o_norm has an eps of its own
        QVERIFY(native || messageOf(native).contains("o_norm"));
        fs::remove_all(at("native"));
    }

    void transformersTrainer() {
        const auto exported = at("to train"), parent = at("trainer");
        QVERIFY(exportModel(student("trained taps", recipe("llama", "layers:0,2", 16)), exported, {}, kOnCpu));
        const auto out = at("trainer.out");
        const auto said = ask({"trainer", exported.c_str(), parent.c_str(), ids(), out.c_str()});
        QVERIFY2(said.isEmpty(), qPrintable(said));
        QVERIFY(fs::exists(parent / "checkpoint-1") && fs::exists(parent / "checkpoint-2" / "optimizer.pt"));
        const auto model = openModel(parent, kOnCpu);
        QVERIFY2(model, qPrintable(messageOf(model)));
        compare(out, **model, 1e-4);
        const auto before = orFail(openModel(exported, kOnCpu));
        QVERIFY(!at::allclose(logitsOf(**model, kPrompts[0]), logitsOf(*before, kPrompts[0]), 1e-2, 1e-2)); // it did train
        QCOMPARE(modelInfo(**model).layerKinds, modelInfo(*before).layerKinds);
    }

    void refusals_data() {
        QTest::addColumn<QString>("key");
        QTest::addColumn<QString>("value");
        QTest::newRow("another student") << "student_name" << R"("gdn_v6")";
        QTest::newRow("no student") << "student_name" << "null";
        QTest::newRow("a window") << "window_size" << "128";
        QTest::newRow("experts") << "num_experts" << "8";
        QTest::newRow("a layer that is not") << "keep_full_attention_layers" << "[0, 4]";
        QTest::newRow("layers as a text") << "keep_full_attention_layers" << R"("0,2")";
        QTest::newRow("another activation") << "hidden_act" << R"("gelu")";
        QTest::newRow("eps of nothing") << "o_norm_eps" << "0";
        QTest::newRow("no heads") << "num_heads" << "null";
    }
    void refusals() {
        QFETCH(QString, key);
        QFETCH(QString, value);
        const auto folder = at("refused");
        fs::remove_all(folder);
        fs::copy(bundle("refused", student("trained taps", recipe("llama", "layers:0,2", 16))), folder, fs::copy_options::recursive);
        Json config = readJsonFile(folder / "config.json");
        config[key.toStdString()] = Json::parse(value.toStdString());
        writeFileAtomically(folder / "config.json", config.dump());
        const auto opened = openModel(folder, kOnCpu);
        QVERIFY(!opened);
        QVERIFY2((messageOf(opened).contains(key) || (key == "num_heads" && messageOf(opened).contains("num_attention_heads"))) && messageOf(opened).contains("config.json"), qPrintable(messageOf(opened)));
    }
    void keptLayersThatAreNot() { // the configuration's layers against the tensors'
        const auto folder = at("moved");
        fs::copy(bundle("refused", student("trained taps", recipe("llama", "layers:0,2", 16))), folder, fs::copy_options::recursive);
        Json config = readJsonFile(folder / "config.json");
        config["keep_full_attention_layers"] = {0, 1};
        writeFileAtomically(folder / "config.json", config.dump());
        const auto opened = openModel(folder, kOnCpu);
        QVERIFY(!opened && messageOf(opened).contains("model.layers.2.attn."));
    }

    void whatHasNoPlaceThere() {
        for (const auto& [teacher, word] : {std::pair("llama3", "rope"), std::pair("biased", "o_proj")}) {
            const auto report = exportModel(at("teachers") / teacher, at("no"), {"bundle", "f32", true}, kOnCpu);
            QVERIFY(!report && report.error().code == ErrorCode::Unsupported);
            QVERIFY2(messageOf(report).contains(word), qPrintable(messageOf(report)));
            QVERIFY(!fs::exists(at("no")));
        }
        Recipe windows = m_teachers.recipe("llama", "layers:0,2", "sliding-window");
        const auto refused = exportModel(student("windows", windows), at("no"), {"bundle", "f32", true}, kOnCpu);
        QVERIFY(!refused && messageOf(refused).contains("sliding window"));
    }

    void othersFolders_data() {
        QTest::addColumn<QStringList>("files");
        QTest::addColumn<QString>("said");
        QTest::newRow("pickled") << QStringList{"config.json", "pytorch_model.bin", "optimizer.pt"} << "torch.load('pytorch_model.bin'";
        QTest::newRow("deepspeed") << QStringList{"config.json", "zero_to_fp32.py", "global_step5/mp_rank_00_model_states.pt"} << "zero_to_fp32.py . . --safe_serialization";
        QTest::newRow("flame") << QStringList{"checkpoint/step-200/__0_0.distcp", "checkpoint/step-1000/__0_0.distcp"} << "convert_dcp_to_hf --path EXPERIMENT --step 1000";
        QTest::newRow("one of flame's") << QStringList{"step-30/__0_0.distcp"} << "--step 30";
    }
    void othersFolders() {
        QFETCH(QStringList, files);
        QFETCH(QString, said);
        const auto folder = at(std::string("other ") + QTest::currentDataTag());
        fs::create_directories(folder);
        for (const auto& teacherFile : {"tokenizer.json", "tokenizer_config.json"})
            fs::copy_file(m_teachers.path("llama") / teacherFile, folder / teacherFile);
        for (const auto& file : files) {
            fs::create_directories((folder / file.toStdString()).parent_path());
            if (file == "config.json")
                fs::copy_file(m_teachers.path("llama") / "config.json", folder / "config.json");
            else
                writeFileAtomically(folder / file.toStdString(), "x");
        }
        const auto opened = openModel(folder, kOnCpu);
        QVERIFY(!opened);
        QVERIFY2(messageOf(opened).contains(said), qPrintable(messageOf(opened)));
    }
    void pickledFile() {
        writeFileAtomically(at("student.pt"), "x");
        const auto opened = openModel(at("student.pt"), kOnCpu);
        QVERIFY(!opened && opened.error().code == ErrorCode::Unsupported);
        QVERIFY2(messageOf(opened).contains("torch.load('student.pt', map_location='cpu', weights_only=True)"), qPrintable(messageOf(opened)));
    }
    void stage1() { // the wrapper's names, as scripts/train_stage1.py saves them
        const auto folder = at("stage 1");
        fs::create_directories(folder);
        writeFileAtomically(folder / "config.json", R"({"model_type": "transformer"})");
        saveTensors(folder / "model.safetensors", {{"model.layers.1.attn.student_attn.q_proj.weight", at::ones({2, 2})}});
        const auto opened = openModel(folder, kOnCpu);
        QVERIFY(!opened);
        QVERIFY2(messageOf(opened).contains("convert_stage1.py"), qPrintable(messageOf(opened)));
    }
};

QTEST_APPLESS_MAIN(TestExportBundle)
#include "tst_export_bundle.moc"
