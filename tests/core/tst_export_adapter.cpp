// An adapter over its teacher is the run, bit for bit; another teacher, or none, is refused by name.
#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/model/open_adapter.h"
#include "tests/support/export_fixtures.h"

#include <QTest>

namespace fs = std::filesystem;
using namespace linnet::core;
using namespace linnet::tests;

namespace {

const std::vector<TokenId> kIds{5, 17, 200, 31, 8, 99, 140, 3, 61, 254, 7};

ExportOptions adapter(const std::string& dtype = "f32") {
    ExportOptions options;
    options.format = "adapter", options.dtype = dtype;
    return options;
}

} // namespace

class TestExportAdapter : public QObject {
    Q_OBJECT

    TinyTeachers m_teachers;
    TinyStudents m_students{m_teachers};
    fs::path at(const std::string& name) const { return m_students.at(name); }
    // The teacher's name is found nowhere but where the test puts it.
    fs::path homeless(const std::string& name) {
        const auto out = at(name) / "adapter";
        fs::create_directories(at(name));
        orFail(exportModel(m_students.run("qwen2"), out, adapter(), kOneThread));
        Json config = readJsonFile(out / kAdapterFile);
        config["teacher"]["source"] = "/nowhere/qwen2";
        writeFileAtomically(out / kAdapterFile, config.dump());
        return out;
    }

private Q_SLOTS:
    void initTestCase() {
        at::set_num_threads(1);
        LINNET_MAKE_TEACHERS(m_teachers);
    }
    void init() { qunsetenv(kTeacherVariable); }

    void sameAsTheRun_data() {
        QTest::addColumn<QString>("kind");
        QTest::addColumn<QString>("keep");
        QTest::addColumn<QString>("preset");
        for (const char* kind : {"llama", "qwen2", "qwen3"})
            QTest::newRow(kind) << kind << "layers:0,2" << "naive";
        QTest::newRow("trained taps") << "qwen2" << "layers:3" << "linnet";
        QTest::newRow("sliding windows") << "llama" << "layers:0,2" << "sliding-window";
        QTest::newRow("every layer") << "qwen3" << "first:0" << "naive";
    }
    void sameAsTheRun() {
        QFETCH(QString, kind);
        QFETCH(QString, keep);
        QFETCH(QString, preset);
        const auto run = m_students.run(kind, keep.toStdString(), preset.toStdString()), out = at("same " + std::string(QTest::currentDataTag()));
        const auto report = exportModel(run, out, adapter(), kOneThread);
        QVERIFY2(report, qPrintable(messageOf(report)));
        QVERIFY(report->exact && report->fidelity == "exact" && report->parity.maxAbsLogit == 0);
        const auto original = orFail(openModel(run, kOneThread)), back = orFail(openModel(out, kOneThread));
        QVERIFY(at::equal(logitsOf(*back, kIds), logitsOf(*original, kIds)));
        QCOMPARE(modelInfo(*back).layerKinds, modelInfo(*original).layerKinds);
        const auto info = readModelInfo(out);
        QVERIFY2(info && info->layerKinds == modelInfo(*original).layerKinds, qPrintable(messageOf(info)));
        for (const auto& [name, tensor] : tensorsOf(out / "adapter.safetensors")) // nothing of the teacher is in it
            QVERIFY2(name.find(".linear_attn.") != name.npos || name.ends_with(".sliding_window"), name.c_str());
        QVERIFY(fs::exists(out / "recipe.json") && !fs::exists(out / "tokenizer.json"));
        QVERIFY2(verifyExport(out, kOneThread), "verify");
        QVERIFY(preset == "sliding-window" || fs::file_size(out / "adapter.safetensors") < fs::file_size(m_teachers.path(kind) / "model.safetensors"));
        QVERIFY2(!report->notes.empty() && report->notes[0].find(" MB against ") != std::string::npos, "its size");
    }

    void inSixteenBits() {
        const auto run = m_students.run("qwen2"), out = at("bf16");
        const auto report = exportModel(run, out, adapter("bf16"), kOneThread);
        QVERIFY2(report, qPrintable(messageOf(report)));
        QVERIFY(!report->exact && report->parity.meanKl > 0 && report->parity.meanKl < 0.05);
        QCOMPARE(readJsonFile(out / kAdapterFile)["layers"].dump(), std::string(R"({"1":"gated_delta_net","3":"gated_delta_net"})"));
    }

    void exportOfAnAdapter() { // is the export of the run
        const auto run = m_students.run("qwen3");
        QVERIFY(exportModel(run, at("first"), adapter(), kOneThread));
        const auto second = exportModel(at("first"), at("second"), adapter(), kOneThread);
        QVERIFY2(second, qPrintable(messageOf(second)));
        QVERIFY(readTextFile(at("first") / "adapter.safetensors") == readTextFile(at("second") / "adapter.safetensors"));
        const auto whole = exportModel(at("first"), at("whole"), {}, kOneThread);
        QVERIFY2(whole, qPrintable(messageOf(whole)));
        QVERIFY(at::equal(logitsOf(*orFail(openModel(at("whole"), kOneThread)), kIds), logitsOf(*orFail(openModel(run, kOneThread)), kIds)));
    }

    void whereTheTeacherIs() {
        const auto out = homeless("places");
        auto missing = openModel(out, kOneThread);
        QVERIFY(!missing && missing.error().code == ErrorCode::NotFound);
        for (const char* part : {"qwen2", "--teacher", "/nowhere/qwen2"})
            QVERIFY2(messageOf(missing).contains(part), qPrintable(messageOf(missing)));
        const auto expected = logitsOf(*orFail(openModel(m_students.run("qwen2"), kOneThread)), kIds);
        qputenv(kTeacherVariable, m_teachers.path("qwen2").c_str()); // by the environment
        auto found = openModel(out, kOneThread);
        QVERIFY2(found, qPrintable(messageOf(found)));
        QVERIFY(at::equal(logitsOf(**found, kIds), expected));
        qunsetenv(kTeacherVariable);
        fs::create_directory_symlink(m_teachers.path("qwen2"), out.parent_path() / "qwen2"); // beside it
        found = openModel(out, kOneThread);
        QVERIFY2(found && at::equal(logitsOf(**found, kIds), expected), qPrintable(messageOf(found)));
        fs::rename(out.parent_path() / "qwen2", out.parent_path() / "elsewhere"); // recorded, relative
        Json config = readJsonFile(out / kAdapterFile);
        config["teacher"]["source"] = "../elsewhere";
        writeFileAtomically(out / kAdapterFile, config.dump());
        found = openModel(out, kOneThread);
        QVERIFY2(found && at::equal(logitsOf(**found, kIds), expected), qPrintable(messageOf(found)));
    }

    void anotherTeacher() {
        const auto out = homeless("another");
        qputenv(kTeacherVariable, m_teachers.path("llama").c_str());
        const auto refused = openModel(out, kOneThread);
        QVERIFY(!refused && refused.error().code == ErrorCode::Malformed);
        const auto right = orFail(readModelInfo(m_teachers.path("qwen2"))).hash, wrong = orFail(readModelInfo(m_teachers.path("llama"))).hash;
        QVERIFY2(messageOf(refused).contains(QString::fromStdString(right)) && messageOf(refused).contains(QString::fromStdString(wrong)), qPrintable(messageOf(refused)));
        // one bit of the right one
        fs::copy(m_teachers.path("qwen2"), at("another") / "qwen2");
        auto bytes = readTextFile(at("another") / "qwen2" / "model.safetensors");
        bytes.back() = static_cast<char>(bytes.back() ^ 1);
        writeFileAtomically(at("another") / "qwen2" / "model.safetensors", bytes);
        qunsetenv(kTeacherVariable);
        const auto changed = openModel(out, kOneThread);
        QVERIFY(!changed && changed.error().code == ErrorCode::Malformed && messageOf(changed).contains(QString::fromStdString(right)));
    }

    void aBitThatSamplesMiss() { // of the teacher: seen where its weights are read
        const auto big = at("big") / "qwen2";
        fs::create_directories(at("big"));
        fs::copy(m_teachers.path("qwen2"), big);
        auto tensors = loadTensors(big / "model.safetensors", at::kCPU);
        tensors.emplace_back("model.layers.0.self_attn.rotary_emb.inv_freq", at::zeros({1 << 21})); // 8 MiB that no model needs
        saveTensors(big / "model.safetensors", tensors);
        auto recipe = m_teachers.recipe("qwen2", "layers:0,2");
        recipe.teacherSource = big.string();
        ConvertOptions options;
        options.baselines = false;
        orFail(convert(recipe, at("big run"), options, {}));
        const auto out = at("big") / "adapter";
        QVERIFY(exportModel(at("big run"), out, adapter(), kOneThread) && openModel(out, kOneThread));
        auto bytes = readTextFile(big / "model.safetensors");
        const auto before = hashFileSampled(big / "model.safetensors");
        for (const std::size_t place : {bytes.size() / 2 - (1 << 20), bytes.size() - (1 << 20) - 4096}) {
            auto changed = bytes;
            changed[place] = static_cast<char>(changed[place] ^ 1);
            writeFileAtomically(big / "model.safetensors", changed);
            QCOMPARE(hashFileSampled(big / "model.safetensors"), before);
            QVERIFY(readModelInfo(out)); // reads no weights
            const auto refused = openModel(out, kOneThread);
            QVERIFY2(!refused && refused.error().code == ErrorCode::Malformed && messageOf(refused).contains("all its bytes"), qPrintable(messageOf(refused)));
            const auto late = exportModel(at("big run"), at("late"), {}, kOneThread); // the run knows it, too
            QVERIFY2(!late && late.error().code == ErrorCode::Malformed && messageOf(late).contains("all its bytes"), qPrintable(messageOf(late)));
        }
        writeFileAtomically(big / "model.safetensors", bytes);
        QVERIFY(openModel(out, kOneThread));
        // an adapter made from a whole export knows the teacher as well
        QVERIFY(exportModel(at("big run"), at("big whole"), {}, kOneThread) && exportModel(at("big whole"), at("big") / "second", adapter(), kOneThread));
        const Json first = readJsonFile(out / kAdapterFile)["teacher"], second = readJsonFile(at("big") / "second" / kAdapterFile)["teacher"];
        QVERIFY(first["contents"] == second["contents"] && first["hash"] == second["hash"]);
    }

    void withoutAnEnd() { // adapters, and a run, that name each other as teachers
        for (const char* name : {"ring a", "ring b"})
            QVERIFY(exportModel(m_students.run("qwen2"), at(name), adapter(), kOneThread));
        const auto refer = [&](const std::string& from, const fs::path& to) {
            Json config = readJsonFile(at(from) / kAdapterFile);
            config["teacher"]["name"] = to.filename().string(), config["teacher"]["source"] = to.string();
            writeFileAtomically(at(from) / kAdapterFile, config.dump());
        };
        refer("ring a", at("ring b"));
        refer("ring b", at("ring a"));
        fs::copy(m_students.run("qwen2"), at("ring run"), fs::copy_options::recursive);
        Json recipe = readJsonFile(at("ring run") / "recipe.json");
        recipe["teacher"]["source"] = at("ring c").string();
        writeFileAtomically(at("ring run") / "recipe.json", recipe.dump());
        fs::copy(at("ring a"), at("ring c"));
        refer("ring c", at("ring run"));
        for (const char* name : {"ring a", "ring b", "ring c", "ring run"}) {
            const auto refused = openModel(at(name), kOneThread);
            QVERIFY2(!refused && refused.error().code == ErrorCode::Malformed && messageOf(refused).contains("without an end"), qPrintable(messageOf(refused)));
        }
    }

    void theSearchGoesOn() { // past a place that exists and holds no model
        const auto out = homeless("search");
        fs::create_directories(at("search") / "qwen2");
        Json config = readJsonFile(out / kAdapterFile);
        config["teacher"]["source"] = m_teachers.path("qwen2").string();
        writeFileAtomically(out / kAdapterFile, config.dump());
        QVERIFY(openModel(out, kOneThread));
        config["teacher"]["source"] = m_teachers.path("llama").string();
        writeFileAtomically(out / kAdapterFile, config.dump());
        const auto refused = openModel(out, kOneThread);
        for (const auto& part : {(out / "qwen2").string(), (at("search") / "qwen2").string() + " (", m_teachers.path("llama").string(), std::string("config.json")})
            QVERIFY2(!refused && messageOf(refused).contains(QString::fromStdString(part)), qPrintable(messageOf(refused)));
    }

    void malformed_data() {
        QTest::addColumn<QString>("key");
        QTest::addColumn<QString>("value");
        QTest::newRow("a later release") << "linnet_adapter" << "2";
        QTest::newRow("no teacher") << "teacher" << "null";
        QTest::newRow("no hash") << "teacher" << R"({"name": "qwen2", "source": ""})";
        QTest::newRow("mixer") << "mixer" << "7";
        QTest::newRow("unknown mixer") << "mixer" << R"("mamba")";
        QTest::newRow("other layers") << "layers" << R"({"1": "gated_delta_net"})";
        QTest::newRow("no numbers") << "layers" << R"({"one": "gated_delta_net"})";
        QTest::newRow("a list") << "layers" << "[1, 3]";
        QTest::newRow("no contents") << "teacher" << R"({"name": "qwen2", "hash": "0", "source": ""})";
        QTest::newRow("other contents") << "contents" << "";
        QTest::newRow("other kinds") << "layers" << R"({"1": "gated_delta_net", "3": "sliding_window"})";
        QTest::newRow("leading zeros") << "layers" << R"({"01": "gated_delta_net", "3": "gated_delta_net"})";
        QTest::newRow("another recipe") << "recipe" << R"({"mixer": "gla"})";
        QTest::newRow("eps below 0") << "head_norm_eps" << R"({"1": -1})";
        QTest::newRow("eps of a kept layer") << "head_norm_eps" << R"({"0": 1e-5})";
        QTest::newRow("eps") << "head_norm_eps" << R"({"1": "small"})";
    }
    void malformed() {
        QFETCH(QString, key);
        QFETCH(QString, value);
        const auto out = at("malformed");
        fs::remove_all(out);
        QVERIFY(exportModel(m_students.run("qwen2"), out, adapter(), kOneThread));
        Json config = readJsonFile(out / kAdapterFile);
        if (key == "contents")
            config["teacher"][key.toStdString()] = "0000000000000000";
        else
            config[key.toStdString()] = Json::parse(value.toStdString());
        writeFileAtomically(out / kAdapterFile, config.dump());
        const auto opened = openModel(out, kOneThread);
        QVERIFY(!opened);
        QVERIFY2(messageOf(opened).contains(key) || messageOf(opened).contains("hash") || messageOf(opened).contains("contents") || messageOf(opened).contains("mamba"), qPrintable(messageOf(opened)));
    }
    void weightsMissing() {
        const auto out = at("no weights");
        QVERIFY(exportModel(m_students.run("qwen2"), out, adapter(), kOneThread));
        fs::remove(out / "adapter.safetensors");
        const auto opened = openModel(out, kOneThread);
        QVERIFY(!opened && messageOf(opened).contains("adapter.safetensors"));
    }

    void nothingConverted() {
        const auto refused = exportModel(m_teachers.path("qwen2"), at("nothing"), adapter(), kOneThread);
        QVERIFY(!refused && refused.error().code == ErrorCode::Unsupported && messageOf(refused).contains("no layer"));
        QVERIFY(TinyStudents::nothingLike(at("nothing")));
    }

    void adaptersOfOthers() { // PEFT's file of that name is none of ours
        const auto folder = at("peft");
        fs::create_directories(folder);
        writeFileAtomically(folder / kAdapterFile, R"({"peft_type": "LORA", "base_model_name_or_path": "x"})");
        QVERIFY(!isAdapter(folder));
        const auto opened = openModel(folder, kOneThread);
        QVERIFY(!opened);
    }
};

QTEST_APPLESS_MAIN(TestExportAdapter)
#include "tst_export_adapter.moc"
