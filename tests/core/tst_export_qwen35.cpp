// A hybrid made from a Qwen3 teacher as transformers' own Qwen3_5ForCausalLM: same logits, same tokens, no code of ours; our reader takes it back.
#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/export/export.h"
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

class TestExportQwen35 : public QObject {
    Q_OBJECT

    TinyTeachers m_teachers;
    QTemporaryDir m_folder;

    fs::path at(const std::string& name) const { return fs::path(m_folder.path().toStdString()) / name; }
    fs::path student(const std::string& name, const std::function<void(Recipe&)>& change = {}) {
        const auto run = at("run " + name);
        if (!fs::exists(run)) {
            Recipe recipe = m_teachers.recipe("qwen3", "layers:0,2");
            if (change)
                change(recipe);
            ConvertOptions options;
            options.baselines = false;
            orFail(convert(recipe, run, options, {}));
        }
        return run;
    }
    // The tiny teacher with norms from 0.02 to 40 and everything in bfloat16's digits, its columns made up for; a run that keeps all layers.
    fs::path unevenTeacher() const {
        const auto folder = at("uneven");
        fs::copy(m_teachers.path("qwen3"), folder, fs::copy_options::recursive);
        auto tensors = tensorsOf(folder / "model.safetensors");
        NamedTensors changed;
        auto generator = at::detail::createCPUGenerator(5);
        for (auto& [name, tensor] : tensors) {
            at::Tensor value = tensor;
            if (name.ends_with("layernorm.weight") || name == "model.norm.weight")
                value = at::exp(at::rand(value.sizes(), generator) * 7.6 - 3.9);
            changed.emplace_back(name, value.to(at::kBFloat16).to(at::kFloat));
        }
        saveTensors(folder / "model.safetensors", changed);
        return folder;
    }
    void transformersSays(const fs::path& folder, const Model& model, double allowed, bool cache = true) {
        const auto request = folder.string() + ".request", out = folder.string() + ".out";
        writeFileAtomically(request, Json{{"ids", kPrompts}, {"text", "a state"}, {"cache", cache}}.dump());
        const QString said = runOracle("export_oracle.py", {folder.c_str(), request.c_str(), out.c_str()});
        QVERIFY2(said.isEmpty(), qPrintable(said));
        const auto logits = tensorsOf(out + ".safetensors");
        const Json answers = readJsonFile(out + ".json");
        QCOMPARE(QString::fromStdString(answers["class"]), QString("Qwen3_5ForCausalLM"));
        GenerateOptions greedy;
        greedy.tokens = 20;
        for (std::size_t i = 0; i < kPrompts.size(); ++i) {
            const at::Tensor expected = logitsOf(model, kPrompts[i]);
            LINNET_NEAR(logits.at("logits_" + std::to_string(i)), expected, allowed);
            if (allowed < 1e-2)
                for (const char* way : {"cached", "uncached"})
                    QVERIFY2(answers[way][i].get<std::vector<TokenId>>() == orFail(generate(model, kPrompts[i], greedy)).ids, way);
        }
    }

private Q_SLOTS:
    void initTestCase() {
        at::set_num_threads(1);
        LINNET_MAKE_TEACHERS(m_teachers);
    }

    void transformersAgrees_data() {
        QTest::addColumn<QString>("keep");
        QTest::addColumn<QString>("preset");
        QTest::newRow("two kept") << "layers:0,2" << "naive";
        QTest::newRow("closed form, trained taps") << "layers:3" << "linnet";
        QTest::newRow("none kept") << "first:0" << "naive";
    }
    void transformersAgrees() {
        QFETCH(QString, keep);
        QFETCH(QString, preset);
        const std::string name = QTest::currentDataTag();
        const auto run = student(name, [&](Recipe& r) {
            r = m_teachers.recipe("qwen3", keep.toStdString(), preset.toStdString());
        });
        const auto report = exportModel(run, at(name), {"qwen3.5", "f32", true}, kOnCpu);
        QVERIFY2(report, qPrintable(messageOf(report)));
        QVERIFY(report->verified && report->parity.meanKl < 1e-9 && report->parity.greedySame == report->parity.greedyTokens);
        QVERIFY(!fs::exists(at(name) / "modeling_linnet.py"));
        const auto original = orFail(openModel(run, kOnCpu)), back = orFail(openModel(at(name), kOnCpu));
        for (const auto& ids : kPrompts)
            LINNET_NEAR(logitsOf(*back, ids), logitsOf(*original, ids), 1e-5);
        QCOMPARE(modelInfo(*back).layerKinds, modelInfo(*original).layerKinds);
        transformersSays(at(name), *original, 1e-4, keep != "first:0");
        const auto verified = verifyExport(at(name), kOnCpu);
        QVERIFY2(verified && verified->format == "qwen3.5", qPrintable(messageOf(verified)));
    }

    // In 16 bits the norms keep all their digits, since powers of two go into what reads them.
    void unevenNorms() {
        const auto teacher = unevenTeacher();
        const auto report = exportModel(teacher, at("folded"), {"qwen3.5", "bf16", true}, kOnCpu);
        QVERIFY2(report, qPrintable(messageOf(report)));
        const auto original = orFail(openModel(teacher, kOnCpu)), back = orFail(openModel(at("folded"), kOnCpu));
        for (std::int64_t l = 0; l < original->config().layers; ++l) {
            const auto a = original->layer(l), b = back->layer(l);
            QVERIFY(!at::equal(a->inputNorm, b->inputNorm)); // folded
            QVERIFY(at::equal(a->attention.qkv * a->inputNorm, b->attention.qkv * b->inputNorm));
            QVERIFY(at::equal(a->gateUp * a->postNorm, b->gateUp * b->postNorm));
            QVERIFY(at::equal(a->attention.o, b->attention.o));
        }
        transformersSays(at("folded"), *original, 2e-2); // q_norm and k_norm alone are rounded
    }

    void refusals() {
        const auto llama = exportModel(m_teachers.path("llama"), at("llama"), {"qwen3.5", "f32", true}, kOnCpu);
        QVERIFY(!llama && llama.error().code == ErrorCode::Unsupported && messageOf(llama).contains("norm of q and k"));
        const auto window = student("window", [&](Recipe& r) { r = m_teachers.recipe("qwen3", "layers:0,2", "sliding-window"); });
        const auto refused = exportModel(window, at("window"), {"qwen3.5", "f32", true}, kOnCpu);
        QVERIFY(!refused && messageOf(refused).contains("layer 1") && messageOf(refused).contains("sliding window"));
    }

    void foldersOfOthers_data() {
        QTest::addColumn<QString>("key");
        QTest::addColumn<QString>("value");
        QTest::addColumn<QString>("said");
        QTest::newRow("rotary part") << "partial_rotary_factor" << "0.25" << "partial_rotary_factor";
        QTest::newRow("key heads") << "linear_num_key_heads" << "2" << "linear_num_key_heads";
        QTest::newRow("taps") << "linear_conv_kernel_dim" << "2" << "linear_conv_kernel_dim";
        QTest::newRow("layer types") << "layer_types" << R"(["full_attention", "full_attention", "full_attention", "full_attention"])" << "layer_types";
        QTest::newRow("unknown type") << "layer_types" << R"(["mamba"])" << "layer_types";
        QTest::newRow("no types") << "layer_types" << "null" << "layer_types";
    }
    void foldersOfOthers() {
        QFETCH(QString, key);
        QFETCH(QString, value);
        QFETCH(QString, said);
        const auto folder = at("other");
        fs::remove_all(folder);
        QVERIFY(exportModel(student("two kept"), folder, {"qwen3.5", "f32", false}, kOnCpu));
        Json config = readJsonFile(folder / "config.json");
        config[key.toStdString()] = Json::parse(value.toStdString());
        writeFileAtomically(folder / "config.json", config.dump());
        const auto opened = openModel(folder, kOnCpu);
        QVERIFY(!opened);
        QVERIFY2(messageOf(opened).contains(said) && messageOf(opened).contains("config.json"), qPrintable(messageOf(opened)));
    }
    void outputGates() { // of a softmax layer, which ours have not
        const auto folder = at("gated");
        QVERIFY(exportModel(student("two kept"), folder, {"qwen3.5", "f32", false}, kOnCpu));
        NamedTensors tensors = loadTensors(folder / "model.safetensors", at::kCPU);
        for (auto& [name, tensor] : tensors)
            if (name == "model.layers.2.self_attn.q_proj.weight")
                tensor[tensor.size(0) - 1][0] = 0.5;
        saveTensors(folder / "model.safetensors", tensors);
        const auto opened = openModel(folder, kOnCpu);
        QVERIFY(!opened && messageOf(opened).contains("model.layers.2.self_attn.q_proj.weight") && messageOf(opened).contains("gate"));
    }
};

QTEST_APPLESS_MAIN(TestExportQwen35)
#include "tst_export_qwen35.moc"
