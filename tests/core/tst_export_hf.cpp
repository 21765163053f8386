// Exported folders: transformers loads them and computes what we compute; our own reader takes them back; damage is noticed; the
// write is whole or nothing.
#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/export/export.h"
#include "core/export/hf_folder.h"
#include "tests/support/convert_fixtures.h"

#include <QTest>

namespace fs = std::filesystem;
using namespace linnet::core;
using namespace linnet::tests;

namespace {

const RunOptions kOnCpu{"cpu", "", 1, false};
const std::vector<std::vector<TokenId>> kPrompts{{5, 17, 200, 31, 8, 99, 140, 3, 61, 254}, {77, 4, 120}};
constexpr const char* kText = "Linear attention has no cache; 1842 états, \"quoted\"\n\tand a tab <|eos|>";

at::Tensor logitsOf(const Model& model, const std::vector<TokenId>& ids) {
    auto values = orFail(sequenceLogits(model, ids));
    return at::tensor(values).view({static_cast<std::int64_t>(ids.size()), -1});
}

bool nothingLike(const fs::path& folder) { // neither the folder nor a half-written neighbour
    for (const auto& entry : fs::directory_iterator(folder.parent_path()))
        if (entry.path().filename().string().starts_with(folder.filename().string()))
            return false;
    return true;
}

} // namespace

class TestExportHf : public QObject {
    Q_OBJECT

    TinyTeachers m_teachers;
    QTemporaryDir m_folder;

    fs::path at(const std::string& name) const { return fs::path(m_folder.path().toStdString()) / name; }
    // A run of two converted layers, made once a kind.
    fs::path student(const QString& kind, bool window = false) {
        const auto run = at("run " + kind.toStdString() + (window ? " window" : ""));
        if (!fs::exists(run)) {
            Recipe recipe = m_teachers.recipe(kind, "layers:0,2", window ? "sliding-window" : "naive");
            recipe.window = 3;
            recipe.sinks = 1;
            ConvertOptions options;
            options.baselines = false;
            orFail(convert(recipe, run, options, {}));
        }
        return run;
    }

private Q_SLOTS:
    void initTestCase() {
        at::set_num_threads(1);
        LINNET_MAKE_TEACHERS(m_teachers);
    }

    void transformersAgrees_data() {
        QTest::addColumn<QString>("kind");
        QTest::addColumn<bool>("window");
        QTest::addColumn<QString>("dtype");
        for (const char* kind : {"llama", "qwen2", "qwen3"})
            QTest::newRow(kind) << kind << false << "f32";
        QTest::newRow("llama, sliding window") << "llama" << true << "f32";
        QTest::newRow("qwen3, sliding window") << "qwen3" << true << "f32";
        QTest::newRow("llama, bf16") << "llama" << false << "bf16";
        QTest::newRow("qwen2, f16") << "qwen2" << false << "f16";
    }
    void transformersAgrees() {
        QFETCH(QString, kind);
        QFETCH(bool, window);
        QFETCH(QString, dtype);
        const std::string name = "export " + std::string(QTest::currentDataTag());
        ExportOptions options;
        options.dtype = dtype.toStdString();
        const auto report = exportModel(student(kind, window), at(name), options, kOnCpu);
        QVERIFY2(report, qPrintable(messageOf(report)));
        QCOMPARE(report->exact, dtype == "f32");
        QVERIFY(report->verified && report->parity.meanKl < (dtype == "f32" ? 1e-9 : 0.05));
        const auto& parity = report->parity; // the rounding is seen, and no more than it
        QCOMPARE(parity.maxAbsLogit == 0 && parity.meanAbsLogit == 0, dtype == "f32");
        QVERIFY(parity.meanAbsLogit <= parity.maxAbsLogit && parity.greedyTokens > 0 && parity.greedySame <= parity.greedyTokens);
        QVERIFY(dtype != "f32" || parity.greedySame == parity.greedyTokens);
        for (const auto& file : report->files)
            QVERIFY2(fs::is_regular_file(at(name) / file), file.c_str());

        const auto ours = openModel(at(name), kOnCpu); // our own reader takes it back
        QVERIFY2(ours, qPrintable(messageOf(ours)));
        const auto original = orFail(openModel(student(kind, window), kOnCpu));
        if (dtype == "f32")
            QVERIFY(at::equal(logitsOf(**ours, kPrompts[0]), logitsOf(*original, kPrompts[0])));
        else
            LINNET_NEAR(logitsOf(**ours, kPrompts[0]), logitsOf(*original, kPrompts[0]), dtype == "bf16" ? 5e-2 : 5e-3);

        const auto request = at(name + ".request"), out = at(name + ".out");
        writeFileAtomically(request, Json{{"ids", kPrompts}, {"text", kText}}.dump());
        const QString said = runOracle("export_oracle.py", {at(name).c_str(), request.c_str(), out.c_str()});
        QVERIFY2(said.isEmpty(), qPrintable(said));
        const auto logits = tensorsOf(out.string() + ".safetensors");
        const Json answers = readJsonFile(out.string() + ".json");
        QCOMPARE(QString::fromStdString(answers["class"]), QString("LinnetForCausalLM"));
        QCOMPARE(answers["text_ids"].get<std::vector<TokenId>>(), modelTokenizer(**ours).encode(kText, true));
        GenerateOptions greedy;
        greedy.tokens = 20;
        for (std::size_t i = 0; i < kPrompts.size(); ++i) {
            const at::Tensor found = logitsOf(**ours, kPrompts[i]);
            LINNET_NEAR(logits.at("logits_" + std::to_string(i)), found, 1e-4);
            LINNET_NEAR(logits.at("padded_" + std::to_string(i)), found, 1e-4);
            const auto made = orFail(generate(**ours, kPrompts[i], greedy)).ids;
            for (const char* way : {"cached", "uncached", "batch", "batch_uncached"})
                QVERIFY2(answers[way][i].get<std::vector<TokenId>>() == made,
                         qPrintable(QString("%1: %2, ours %3").arg(way, QString::fromStdString(answers[way][i].dump()), QString::fromStdString(Json(made).dump()))));
        }
    }

    // transformers' cache protocol: whole against in pieces, by generate and by hand, and what can't be honoured is refused.
    void cache_data() {
        QTest::addColumn<QString>("kind");
        QTest::addColumn<int>("converted"); // 0 none, 1 linear, 2 windows
        for (const char* kind : {"llama", "qwen2", "qwen3"})
            QTest::newRow(kind) << kind << 1;
        QTest::newRow("qwen3, sliding window") << "qwen3" << 2;
        QTest::newRow("llama, untouched") << "llama" << 0;
        QTest::newRow("qwen3, untouched") << "qwen3" << 0;
    }
    void cache() {
        QFETCH(QString, kind);
        QFETCH(int, converted);
        const auto from = converted ? student(kind, converted == 2) : m_teachers.path(kind), out = at(std::string("cache ") + QTest::currentDataTag());
        const auto report = exportModel(from, out, {}, kOnCpu);
        QVERIFY2(report, qPrintable(messageOf(report)));
        const auto& ids = kPrompts[0];
        const Json teacher = converted ? Json() : Json(m_teachers.path(kind).string());
        const auto request = out.string() + ".request", answer = out.string() + ".out";
        writeFileAtomically(request, Json{{"ids", ids}, {"teacher", teacher}}.dump());
        const QString said = runOracle("hf_cache_oracle.py", {out.c_str(), request.c_str(), answer.c_str()});
        QVERIFY2(said.isEmpty(), qPrintable(said));
        const auto model = orFail(openModel(out, kOnCpu));
        const at::Tensor whole = logitsOf(*model, ids), shorter = logitsOf(*model, {ids.begin() + 2, ids.end()});
        const auto logits = tensorsOf(answer + ".safetensors");
        QCOMPARE(logits.size(), converted == 1 ? 16u : 17u); // linear layers can't be cut back
        for (const auto& [name, found] : logits) {
            const auto& expected = name == "short" || name.ends_with("_1") ? shorter : whole;
            const double apart = (found - expected).abs().max().item<double>() / expected.abs().max().item<double>();
            QVERIFY2(apart < 1e-4, (name + " " + std::to_string(apart)).c_str());
        }
        const Json answers = readJsonFile(answer + ".json");
        for (const auto& [way, rows] : answers["tokens"].items())
            QVERIFY2(rows == answers["tokens"]["uncached"], (way + " " + rows.dump()).c_str());
        QCOMPARE(answers["tokens"].size(), converted == 1 ? 4u : 5u);
        QVERIFY(answers["beams"]["cached"] == answers["beams"]["uncached"]);
        QCOMPARE(answers["hidden"].size(), converted ? 2u : 7u); // embedding, four layers' outputs, the last normed, as transformers' own class
        for (const auto& apart : answers["hidden"])
            QVERIFY2(apart.get<double>() < 1e-5, answers["hidden"].dump().c_str());
        QCOMPARE(answers["none"].dump(), std::string("[true,true,true,true]"));
        QCOMPARE(answers["refused"].size(), converted == 1 ? 9u : 7u);
        for (const auto& [what, word] : {std::pair("packed", "position_ids"), std::pair("cache", "DynamicCache"), std::pair("attentions", "output_attentions"), std::pair("mask", "attention_mask"),
                                         std::pair("short mask", "attention_mask"), std::pair("unknown", "cu_seq_lens_q")})
            QVERIFY2(answers["refused"][what].is_string() && answers["refused"][what].get<std::string>().find(word) != std::string::npos, answers["refused"].dump().c_str());
        QCOMPARE(answers["refused"]["holes"].is_string(), converted == 1); // softmax layers may have any
        QCOMPARE(answers["refused"].contains("crop") && answers["refused"]["crop"].get<std::string>().find("linear layer") != std::string::npos, converted == 1);
    }

    void untouchedTensors() { // everything but the converted layers' attention, bit for bit the teacher's
        for (const char* kind : {"llama", "qwen2", "qwen3"}) {
            const auto out = at(std::string("untouched ") + kind);
            QVERIFY(exportModel(student(kind), out, {}, kOnCpu));
            const auto teacher = tensorsOf(m_teachers.path(kind) / "model.safetensors"), exported = tensorsOf(out / "model.safetensors");
            std::size_t same = 0;
            for (const auto& [name, tensor] : teacher) {
                const bool converted = name.starts_with("model.layers.1.self_attn.") || name.starts_with("model.layers.3.self_attn.");
                QVERIFY2(exported.contains(name) != converted, name.c_str());
                if (!converted) {
                    QVERIFY2(at::equal(tensor, exported.at(name)), name.c_str());
                    ++same;
                }
            }
            QCOMPARE(exported.size(), same + 2 * LinearLayer::names().size());
            for (const char* name : {"q", "k", "v"}) {
                const std::string prefix = std::string("model.layers.1.linear_attn.") + name;
                QCOMPARE(exported.at(prefix + "_proj.weight").sizes(), at::IntArrayRef({48, 48}));
                QCOMPARE(exported.at(prefix + "_conv1d.weight").sizes(), at::IntArrayRef({48, 1, 4}));
            }
            const auto run = tensorsOf(student(kind) / "checkpoints" / "student.safetensors");
            for (const auto& [name, tensor] : run)
                QVERIFY2(at::equal(exported.at(name).flatten(), tensor.flatten()), name.c_str());
        }
    }

    void configAndCard() {
        const auto out = at("card");
        QVERIFY(exportModel(student("llama"), out, {}, kOnCpu));
        const Json config = readJsonFile(out / "config.json");
        QCOMPARE(config["linnet"]["converted_layers"].dump(), std::string("[1,3]"));
        QCOMPARE(config["linnet"]["teacher_type"].get<std::string>(), std::string("llama"));
        QCOMPARE(config["dtype"].get<std::string>(), std::string("float32"));
        const QString card = QString::fromStdString(readTextFile(out / "README.md"));
        QVERIFY(card.contains("student") && card.contains("trust_remote_code"));
        QVERIFY(readTextFile(out / "recipe.json") == readTextFile(student("llama") / "recipe.json"));
        const auto info = readModelInfo(out);
        QVERIFY2(info, qPrintable(messageOf(info)));
        QCOMPARE(info->layerKinds, (std::vector<std::string>{"softmax", "gated_delta_net", "softmax", "gated_delta_net"}));
    }

    void exportOfAnExport() { // and of an untouched teacher
        QVERIFY(exportModel(student("qwen3"), at("first"), {}, kOnCpu));
        const auto second = exportModel(at("first"), at("second"), {}, kOnCpu);
        QVERIFY2(second, qPrintable(messageOf(second)));
        QVERIFY(readTextFile(at("first") / "model.safetensors") == readTextFile(at("second") / "model.safetensors"));
        const auto teacher = exportModel(m_teachers.path("qwen2"), at("teacher"), {}, kOnCpu);
        QVERIFY2(teacher, qPrintable(messageOf(teacher)));
        QVERIFY(teacher->parity.meanKl < 1e-9);
    }

    void verifyNoticesDamage_data() {
        QTest::addColumn<QString>("file");
        QTest::addColumn<double>("where"); // share of the file
        for (const double where : {0.4, 0.5, 0.9, 0.999})
            QTest::addRow("weights at %g", where) << "model.safetensors" << where;
        QTest::newRow("weights' header") << "model.safetensors" << 0.001;
        QTest::newRow("config") << "config.json" << 0.3;
        QTest::newRow("parity") << "parity.safetensors" << 0.9;
    }
    void verifyNoticesDamage() {
        QFETCH(QString, file);
        QFETCH(double, where);
        const auto whole = at("whole"), damaged = at("damaged");
        if (!fs::exists(whole))
            QVERIFY(exportModel(student("llama"), whole, {}, kOnCpu));
        const auto good = verifyExport(whole, kOnCpu);
        QVERIFY2(good, qPrintable(messageOf(good)));
        QVERIFY(good->verified && good->exact && good->parity.meanKl < 1e-9);
        fs::remove_all(damaged);
        fs::copy(whole, damaged);
        std::string bytes = readTextFile(damaged / file.toStdString());
        char& byte = bytes[static_cast<std::size_t>(where * static_cast<double>(bytes.size()))];
        byte = static_cast<char>(byte ^ 1); // one bit, wherever it falls
        writeFileAtomically(damaged / file.toStdString(), bytes);
        const auto verdict = verifyExport(damaged, kOnCpu);
        QVERIFY(!verdict);
        QVERIFY2(messageOf(verdict).contains(file) || messageOf(verdict).contains("damaged"), qPrintable(messageOf(verdict)));
    }

    void verifyMissesNothingMissing() {
        const auto none = verifyExport(m_teachers.path("llama"), kOnCpu);
        QVERIFY(!none && none.error().code == ErrorCode::NotFound && messageOf(none).contains("parity.safetensors"));
    }

    void cancelLeavesNothing_data() {
        QTest::addColumn<int>("reports");
        for (const int reports : {1, 3, 20})
            QTest::addRow("report %d", reports) << reports;
    }
    void cancelLeavesNothing() {
        QFETCH(int, reports);
        const auto run = student("llama"), out = at("cancelled " + std::to_string(reports));
        std::stop_source stop;
        int seen = 0;
        Control control;
        control.stop = stop.get_token();
        control.onProgress = [&](const Progress& progress) {
            if (progress.stage == "export" && ++seen == reports)
                stop.request_stop();
        };
        const auto result = exportModel(run, out, {}, kOnCpu, control);
        QVERIFY(!result && result.error().code == ErrorCode::Cancelled);
        QVERIFY(nothingLike(out));
    }

    void refusals() {
        const auto run = student("llama"), out = at("occupied");
        fs::create_directories(out);
        writeFileAtomically(out / "mine.txt", "mine");
        auto result = exportModel(run, out, {}, kOnCpu);
        QVERIFY(!result && result.error().code == ErrorCode::Usage && messageOf(result).contains("occupied"));
        QCOMPARE(readTextFile(out / "mine.txt"), std::string("mine"));
        QCOMPARE(std::distance(fs::directory_iterator(out), fs::directory_iterator()), std::ptrdiff_t(1));
        result = exportModel(run, at("format"), {"qwen3.5", "f32", true}, kOnCpu); // a lift that was not asked for
        QVERIFY(!result && result.error().code == ErrorCode::Unsupported && messageOf(result).contains("qwen3.5") && messageOf(result).contains("--lift"));
        result = exportModel(run, at("dtype"), {"hf", "int4", true}, kOnCpu);
        QVERIFY(!result && messageOf(result).contains("int4") && nothingLike(at("dtype")));
        result = exportModel(at("no such run"), at("none"), {}, kOnCpu);
        QVERIFY(!result && messageOf(result).contains("no such run") && nothingLike(at("none")));
        fs::create_directories(at("empty")); // an empty folder is taken
        QVERIFY(exportModel(run, at("empty"), {"hf", "f32", false}, kOnCpu));
    }
};

QTEST_APPLESS_MAIN(TestExportHf)
#include "tst_export_hf.moc"
