// Teachers without QK-norm as transformers' own Qwen3_5ForCausalLM: their softmax heads lifted. Same logits, same tokens; read back as what they were.
#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/export/export.h"
#include "core/io/head_lift.h"
#include "tests/support/convert_fixtures.h"

#include <QTest>

#include <numeric>

namespace fs = std::filesystem;
using namespace linnet::core;
using namespace linnet::tests;

namespace {

const RunOptions kOnCpu{"cpu", "f32", 1, false};

ExportOptions lifted(const std::string& dtype = "f32") {
    ExportOptions options;
    options.format = "qwen3.5";
    options.dtype = dtype;
    options.lift = true;
    return options;
}

std::vector<TokenId> someTokens(std::size_t count, TokenId step) {
    std::vector<TokenId> ids(count);
    for (std::size_t i = 0; i < count; ++i)
        ids[i] = static_cast<TokenId>((7 + i * static_cast<std::size_t>(step)) % 290 + 2);
    return ids;
}
// The last is longer than a chunk of the delta rule and than the length from which llama3 scales.
const std::vector<std::vector<TokenId>> kPrompts{{5, 17, 200, 31, 8, 99, 140, 3, 61, 254}, {77, 4, 120}, someTokens(131, 53)};

at::Tensor logitsOf(const Model& model, const std::vector<TokenId>& ids) {
    return at::tensor(orFail(sequenceLogits(model, ids))).view({static_cast<std::int64_t>(ids.size()), -1});
}

double squaresOf(const std::vector<double>& values) {
    return std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
}

struct Answer { // of transformers
    Json json;
    std::map<std::string, at::Tensor> logits;
};

Answer ask(const fs::path& folder, const std::string& dtype, bool cache, const std::vector<std::vector<TokenId>>& prompts, const fs::path& save = {}) {
    const auto request = folder.string() + ".request", out = folder.string() + "." + dtype + ".out";
    Json asked{{"ids", prompts}, {"text", "a state"}, {"cache", cache}, {"dtype", dtype}};
    if (!save.empty())
        asked["save"] = save.string();
    writeFileAtomically(request, asked.dump());
    const QString said = runOracle("export_oracle.py", {folder.c_str(), request.c_str(), out.c_str()});
    if (!said.isEmpty())
        fail(ErrorCode::Internal, said.toStdString());
    return {readJsonFile(out + ".json"), tensorsOf(out + ".safetensors")};
}

} // namespace

class TestExportLift : public QObject {
    Q_OBJECT

    TinyTeachers m_teachers;
    QTemporaryDir m_folder;

    fs::path at(const std::string& name) const { return fs::path(m_folder.path().toStdString()) / name; }
    fs::path student(const QString& kind, const std::string& keep, const std::string& preset = "naive") {
        const auto run = at("run " + kind.toStdString() + keep + preset);
        if (!fs::exists(run)) {
            ConvertOptions options;
            options.baselines = false;
            orFail(convert(m_teachers.recipe(kind, keep, preset), run, options, {}));
        }
        return run;
    }
    void compare(const fs::path& folder, const Model& model, double allowed, bool cache = true, const std::vector<std::vector<TokenId>>& prompts = kPrompts) {
        const auto answer = ask(folder, "float32", cache, prompts);
        QCOMPARE(QString::fromStdString(answer.json["class"]), QString("Qwen3_5ForCausalLM"));
        GenerateOptions greedy;
        greedy.tokens = 20;
        for (std::size_t i = 0; i < prompts.size(); ++i) {
            LINNET_NEAR(answer.logits.at("logits_" + std::to_string(i)), logitsOf(model, prompts[i]), allowed);
            for (const char* way : {"cached", "uncached"})
                QVERIFY2(answer.json[way][i].get<std::vector<TokenId>>() == orFail(generate(model, prompts[i], greedy)).ids, way);
        }
    }

private Q_SLOTS:
    void initTestCase() {
        at::set_num_threads(1);
        if (oraclePython().isEmpty())
            QSKIP("LINNET_ORACLE_PYTHON is not set: no transformers to compare with");
        const QString said = m_teachers.add({"qwen2", "llama3", "smollm2", "biased", "qwen3", "qwen3_5", "qwen3_5_biased"});
        QVERIFY2(said.isEmpty(), qPrintable(said));
    }

    // Of every head size: the constants' squares are what the norms need, they fit their place and bfloat16, and int(d' f) is d.
    void arithmetic() {
        for (std::int64_t d = 2; d <= 512; d += 2)
            for (const bool half : {false, true}) {
                const auto lift = headLift(d, half);
                QVERIFY(lift.padded % 32 == 0 && lift.padded > d && lift.padded <= d + 64);
                QCOMPARE(squaresOf(lift.queryPads), static_cast<double>(d) * lift.scale * lift.scale);
                QCOMPARE(squaresOf(lift.keyPads), static_cast<double>(lift.padded) * lift.scale * lift.scale);
                QVERIFY(std::ssize(lift.queryPads) <= lift.padded - d && std::ssize(lift.keyPads) <= lift.padded - d);
                for (const auto& pads : {lift.queryPads, lift.keyPads})
                    for (const double pad : pads) {
                        QCOMPARE(static_cast<double>(static_cast<float>(c10::BFloat16(static_cast<float>(pad)))), pad);
                        QVERIFY(!half || pad <= 65504);
                    }
                QCOMPARE(static_cast<std::int64_t>(static_cast<double>(lift.padded) * lift.rotaryPart()), d);
            }
        QCOMPARE(liftedHeadDim(64), 96);
        QCOMPARE(liftedHeadDim(128), 160);
        QCOMPARE(liftedHeadDim(30), 64); // 30 is a sum of three squares at least, two places are left up to 32
    }

    void transformersAgrees_data() {
        QTest::addColumn<QString>("kind");
        QTest::addColumn<QString>("keep");
        QTest::addColumn<QString>("preset");
        QTest::addColumn<QString>("type");
        QTest::newRow("qwen2: biases, untied") << "qwen2" << "layers:0,2" << "naive" << "qwen2";
        QTest::newRow("llama3: scaled rope, tied") << "llama3" << "layers:1" << "naive" << "llama";
        QTest::newRow("smollm2: 9 heads of 24, trained taps") << "smollm2" << "layers:0,3" << "linnet" << "llama";
        QTest::newRow("biased: o_proj too") << "biased" << "layers:1,2" << "naive" << "llama";
        QTest::newRow("nothing converted") << "qwen2" << "" << "" << "qwen2";
        QTest::newRow("nothing kept") << "smollm2" << "first:0" << "naive" << "llama";
    }
    void transformersAgrees() {
        QFETCH(QString, kind);
        QFETCH(QString, keep);
        QFETCH(QString, preset);
        QFETCH(QString, type);
        const auto source = keep.isEmpty() ? m_teachers.path(kind) : student(kind, keep.toStdString(), preset.toStdString());
        const auto folder = at(QTest::currentDataTag());
        const bool kept = keep != "first:0";
        auto options = lifted();
        options.lift = kept; // without softmax layers there is nothing to lift
        const auto report = exportModel(source, folder, options, kOnCpu);
        QVERIFY2(report, qPrintable(messageOf(report)));
        QVERIFY(report->exact && report->verified && report->parity.meanKl < 1e-9 && report->parity.greedySame == report->parity.greedyTokens);
        QCOMPARE(report->fidelity, std::string(kept ? "lifted" : "exact"));
        QCOMPARE(report->notes.empty(), !kept);
        const auto card = QString::fromStdString(readTextFile(folder / "README.md"));
        QVERIFY(card.contains("vllm serve") && card.contains("sglang") == !kept && card.contains("lifted: heads of") == kept);
        const auto original = orFail(openModel(source, kOnCpu)), back = orFail(openModel(folder, kOnCpu));
        QCOMPARE(QString::fromStdString(back->config().modelType), type);
        QCOMPARE(back->config().headDim, original->config().headDim);
        QCOMPARE(modelInfo(*back).layerKinds, modelInfo(*original).layerKinds);
        QCOMPARE(modelInfo(*back).parameters, modelInfo(*original).parameters);
        for (const auto& ids : kPrompts)
            QVERIFY(at::equal(logitsOf(*back, ids), logitsOf(*original, ids)));
        const auto verified = verifyExport(folder, kOnCpu);
        QVERIFY2(verified && verified->format == "qwen3.5", qPrintable(messageOf(verified)));
        compare(folder, *original, 1e-4, kept);
    }

    void realSmolLM2() {
        const auto teacher = qEnvironmentVariable("LINNET_TEACHER"), text = qEnvironmentVariable("LINNET_TEXT");
        if (teacher.isEmpty() || text.isEmpty())
            QSKIP("LINNET_TEACHER and LINNET_TEXT are not set");
        Recipe recipe = defaultRecipe("cpu", "naive");
        recipe.teacherSource = teacher.toStdString();
        recipe.dataText = {text.toStdString()};
        recipe.seqLen = 64;
        recipe.calibrationTokens = recipe.selectionTokens = recipe.evaluationTokens = 4 * 64;
        recipe.keep = parseKeepRule("uniform:15");
        recipe.align.steps = 0;
        ConvertOptions options;
        options.baselines = false;
        orFail(convert(recipe, at("run smol"), options, {}));
        const auto report = exportModel(at("run smol"), at("smol"), lifted(), kOnCpu);
        QVERIFY2(report, qPrintable(messageOf(report)));
        const auto original = orFail(openModel(at("run smol"), kOnCpu));
        const auto& tokenizer = modelTokenizer(*original);
        compare(at("smol"), *original, 1e-3, true, {tokenizer.encode("The capital of France is", true), tokenizer.encode("To mend a broken vase, first gather every piece of it and", true)});
    }

    void savedAgainByTransformers() {
        const auto run = student("llama3", "layers:1");
        QVERIFY(exportModel(run, at("first"), lifted(), kOnCpu));
        ask(at("first"), "float32", true, {kPrompts[1]}, at("second"));
        const auto original = orFail(openModel(run, kOnCpu));
        const auto back = openModel(at("second"), kOnCpu);
        QVERIFY2(back, qPrintable(messageOf(back)));
        QVERIFY(at::equal(logitsOf(**back, kPrompts[2]), logitsOf(*original, kPrompts[2])));
    }

    // transformers' own save_pretrained, in the shape that we write: opens with the logits that transformers has.
    void theirFolders_data() {
        QTest::addColumn<QString>("kind");
        QTest::addColumn<bool>("biases");
        QTest::newRow("tied") << "qwen3_5" << false;
        QTest::newRow("biases, untied") << "qwen3_5_biased" << true;
    }
    void theirFolders() {
        QFETCH(QString, kind);
        QFETCH(bool, biases);
        const auto opened = openModel(m_teachers.path(kind), kOnCpu);
        QVERIFY2(opened, qPrintable(messageOf(opened)));
        const auto info = modelInfo(**opened);
        QCOMPARE(info.layerKinds, (std::vector<std::string>{"gated_delta_net", "softmax", "gated_delta_net", "softmax"}));
        QCOMPARE(info.config.qkvBias, biases);
        compare(m_teachers.path(kind), **opened, 1e-4);
        // And goes back out as it came, biases too.
        auto options = lifted();
        options.lift = false;
        const auto report = exportModel(m_teachers.path(kind), at("again " + kind.toStdString()), options, kOnCpu);
        QVERIFY2(report && report->fidelity == "exact" && report->exact, qPrintable(messageOf(report)));
        compare(at("again " + kind.toStdString()), **opened, 1e-4);
    }

    // Constants are the format's: 16 bits lose what they lose of the teacher itself, measured against float32 by the same runtime.
    void in16Bits_data() {
        QTest::addColumn<QString>("kind");
        QTest::addColumn<QString>("dtype");
        QTest::addColumn<QString>("theirs");
        for (const char* kind : {"qwen2", "smollm2"}) {
            QTest::addRow("%s bf16", kind) << kind << "bf16" << "bfloat16";
            QTest::addRow("%s f16", kind) << kind << "f16" << "float16";
        }
    }
    void in16Bits() {
        QFETCH(QString, kind);
        QFETCH(QString, dtype);
        QFETCH(QString, theirs);
        const auto folder = at(QTest::currentDataTag()), teacher = m_teachers.path(kind);
        const auto report = exportModel(teacher, folder, lifted(dtype.toStdString()), kOnCpu);
        QVERIFY2(report, qPrintable(messageOf(report)));
        const std::vector<std::vector<TokenId>> prompts{someTokens(200, 53), someTokens(200, 71)};
        const auto exact = ask(teacher, "float32", true, prompts), plain = ask(teacher, theirs.toStdString(), true, prompts), ours = ask(folder, theirs.toStdString(), true, prompts);
        double same[2] = {0, 0}, error[2] = {0, 0};
        for (const char* name : {"logits_0", "logits_1"})
            for (const bool lift : {false, true}) {
                const auto& expected = exact.logits.at(name);
                const auto& found = (lift ? ours : plain).logits.at(name);
                same[lift] += found.argmax(-1).eq(expected.argmax(-1)).to(at::kDouble).mean().item<double>() / 2;
                error[lift] += (found - expected).square().mean().item<double>();
            }
        qInfo("%s: top-1 of float32 %.3f (the teacher itself %.3f), mean square error x%.2f of the teacher's", QTest::currentDataTag(), same[1], same[0], error[1] / error[0]);
        QVERIFY2(same[1] >= same[0] - 0.03, "top-1 agreement");
        QVERIFY2(error[1] <= 2 * error[0], "mean square error");
    }

    void askedFor() {
        auto options = lifted();
        options.lift = false;
        const auto refused = exportModel(m_teachers.path("smollm2"), at("no"), options, kOnCpu);
        QVERIFY(!refused && refused.error().code == ErrorCode::Unsupported);
        QVERIFY2(messageOf(refused).contains("--lift") && messageOf(refused).contains("24") && messageOf(refused).contains("32") && messageOf(refused).contains("x1.33"),
                 qPrintable(messageOf(refused)));
        const auto window = exportModel(student("qwen2", "layers:0,2", "sliding-window"), at("window"), lifted(), kOnCpu);
        QVERIFY(!window && messageOf(window).contains("sliding window"));
        const auto plain = exportModel(m_teachers.path("qwen3"), at("plain"), lifted(), kOnCpu); // the option changes nothing where nothing needs it
        QVERIFY2(plain && plain->fidelity == "exact" && plain->notes.empty(), qPrintable(messageOf(plain)));
    }

    // A folder that says it is lifted but is not of that form is not read as if it were.
    void otherForms_data() {
        QTest::addColumn<QString>("tensor");
        QTest::addColumn<int>("row");
        QTest::addColumn<double>("value");
        const QString layer = "model.layers.1.self_attn.";
        QTest::newRow("a query's padded row") << layer + "q_proj.weight" << 24 << 0.5;
        QTest::newRow("a gate") << layer + "q_proj.weight" << 32 + 3 << 0.5;
        QTest::newRow("a gate's bias") << layer + "q_proj.bias" << 32 + 3 << 0.5; // SmolLM2 has none: seen with the weights
        QTest::newRow("a key's padded row") << layer + "k_proj.weight" << 31 << 0.5;
        QTest::newRow("a value's padded row") << layer + "v_proj.weight" << 25 << 0.5;
        QTest::newRow("a constant") << layer + "k_proj.bias" << 24 << 0.5;
        QTest::newRow("a bias of queries") << layer + "q_proj.bias" << 3 << 0.5;
        QTest::newRow("a bias of values") << layer + "v_proj.bias" << 3 << 0.5;
        QTest::newRow("a bias of the output") << layer + "o_proj.bias" << 3 << 0.5;
        QTest::newRow("a norm's scale") << layer + "q_norm.weight" << 5 << 1.0;
        QTest::newRow("a norm of constants") << layer + "k_norm.weight" << 30 << 0.0;
        QTest::newRow("a column of the output") << layer + "o_proj.weight" << 0 << 0.5; // [0, last]
    }
    void otherForms() {
        QFETCH(QString, tensor);
        QFETCH(int, row);
        QFETCH(double, value);
        const auto folder = at("other form");
        fs::remove_all(folder);
        auto options = lifted();
        options.verify = false;
        QVERIFY(exportModel(student("smollm2", "layers:0,1"), folder, options, kOnCpu));
        NamedTensors tensors = loadTensors(folder / "model.safetensors", at::kCPU);
        bool found = false;
        for (auto& [name, t] : tensors)
            if (QString::fromStdString(name) == tensor) {
                t.dim() == 1 ? t[row].fill_(value) : t[row][t.size(1) - 1].fill_(value);
                found = true;
            }
        QVERIFY(found);
        saveTensors(folder / "model.safetensors", tensors);
        const auto opened = openModel(folder, kOnCpu);
        QVERIFY(!opened && opened.error().code == ErrorCode::Unsupported);
        const QString named = tensor.contains("norm") || row == 24 ? tensor.left(tensor.indexOf("_attn.") + 7) : tensor; // a constant and its norm are judged together
        QVERIFY2(messageOf(opened).contains(named), qPrintable(messageOf(opened)));
    }

    void otherConfigs_data() {
        QTest::addColumn<QString>("key");
        QTest::addColumn<QString>("value");
        QTest::newRow("another head") << "linnet_lift/head_dim" << "16";
        QTest::newRow("a larger head") << "linnet_lift/head_dim" << "48";
        QTest::newRow("another teacher") << "linnet_lift/teacher_type" << "\"qwen3\"";
        QTest::newRow("no answer") << "linnet_lift/qkv_bias" << "null";
        QTest::newRow("more rotated dims") << "partial_rotary_factor" << "1.0";
        QTest::newRow("more rotated dims, inside") << "rope_parameters/partial_rotary_factor" << "0.25";
        QTest::newRow("not ours") << "linnet_lift" << "";
    }
    void otherConfigs() {
        QFETCH(QString, key);
        QFETCH(QString, value);
        const auto folder = at("other config");
        fs::remove_all(folder);
        auto options = lifted();
        options.verify = false;
        QVERIFY(exportModel(student("smollm2", "layers:0,1"), folder, options, kOnCpu));
        Json config = readJsonFile(folder / "config.json");
        if (value.isEmpty())
            config.erase(key.toStdString());
        else
            config[Json::json_pointer("/" + key.toStdString())] = Json::parse(value.toStdString());
        writeFileAtomically(folder / "config.json", config.dump());
        const auto opened = openModel(folder, kOnCpu);
        QVERIFY(!opened && opened.error().code == ErrorCode::Unsupported);
        QVERIFY2(messageOf(opened).contains("config.json"), qPrintable(messageOf(opened)));
    }
};

QTEST_APPLESS_MAIN(TestExportLift)
#include "tst_export_lift.moc"
