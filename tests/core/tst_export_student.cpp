// What is exported is what was converted and measured: a student file that lost layers, was exchanged or holds what is no number is seen.
#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/base/file_hash.h"
#include "core/export/format.h"
#include "tests/support/export_fixtures.h"

#include <QTest>

namespace fs = std::filesystem;
using namespace linnet::core;
using namespace linnet::tests;

namespace {

ExportOptions as(const std::string& format) {
    ExportOptions options;
    options.format = format;
    return options;
}

void rewrite(const fs::path& file, const std::function<bool(const std::string&, at::Tensor&)>& keep) {
    NamedTensors tensors;
    for (auto [name, tensor] : loadTensors(file, at::kCPU))
        if (keep(name, tensor))
            tensors.emplace_back(name, tensor);
    saveTensors(file, tensors);
}

} // namespace

class TestExportStudent : public QObject {
    Q_OBJECT

    TinyTeachers m_teachers;
    TinyStudents m_students{m_teachers};
    fs::path at(const std::string& name) const { return m_students.at(name); }
    fs::path copyOf(const std::string& name) const {
        const auto copy = at("run " + name);
        fs::copy(const_cast<TestExportStudent*>(this)->m_students.run("qwen3"), copy, fs::copy_options::recursive);
        return copy;
    }
    static fs::path studentOf(const fs::path& run) { return run / "checkpoints" / "student.safetensors"; }
    static void edit(const fs::path& file, const std::function<void(Json&)>& change) {
        Json json = readJsonFile(file);
        change(json);
        writeFileAtomically(file, json.dump());
    }

private Q_SLOTS:
    void initTestCase() {
        at::set_num_threads(1);
        LINNET_MAKE_TEACHERS(m_teachers);
    }

    void lostLayer() {
        const auto run = copyOf("lost");
        rewrite(studentOf(run), [](const std::string& name, at::Tensor&) { return !name.starts_with("model.layers.3."); });
        for (const auto& result : {guarded([&] { orFail(exportModel(run, at("lost"), as("hf"), kOneThread)); }), guarded([&] { orFail(readModelInfo(run)); })}) {
            QVERIFY(!result && result.error().code == ErrorCode::Malformed);
            for (const char* part : {"student.safetensors", "report.json", "3 missing"})
                QVERIFY2(messageOf(result).contains(part), qPrintable(messageOf(result)));
        }
    }

    void lostTensor() { // the message says where
        const auto run = copyOf("tensor");
        rewrite(studentOf(run), [](const std::string& name, at::Tensor&) { return name != "model.layers.3.linear_attn.A_log"; });
        const auto result = openModel(run, kOneThread);
        QVERIFY(!result && result.error().code == ErrorCode::Malformed && messageOf(result).startsWith(QString::fromStdString(run.string())) && messageOf(result).contains("A_log"));
        QCOMPARE(result.error().context.at("file"), run.string());
    }

    void lostTensorOfAnExport_data() {
        QTest::addColumn<QString>("format");
        QTest::addColumn<QString>("tensor");
        QTest::newRow("hf, kept layer") << "hf" << "model.layers.0.input_layernorm.weight";
        QTest::newRow("hf, converted layer") << "hf" << "model.layers.1.linear_attn.dt_bias";
        QTest::newRow("qwen3.5") << "qwen3.5" << "model.layers.0.mlp.up_proj.weight";
    }
    void lostTensorOfAnExport() {
        QFETCH(QString, format);
        QFETCH(QString, tensor);
        const auto out = at("lost tensor");
        fs::remove_all(out);
        QVERIFY(exportModel(m_students.run("qwen3"), out, as(format.toStdString()), kOneThread));
        rewrite(out / "model.safetensors", [&](const std::string& name, at::Tensor&) { return name != tensor.toStdString(); });
        const auto result = openModel(out, kOneThread);
        QVERIFY(!result && result.error().code == ErrorCode::Malformed);
        QVERIFY2(messageOf(result).startsWith(QString::fromStdString(out.string())) && messageOf(result).contains(tensor), qPrintable(messageOf(result)));
    }

    void exchanged() { // same layers and shapes, other numbers: the run's measurements are not theirs
        const auto run = copyOf("exchanged");
        QCOMPARE(readJsonFile(run / "state.json")["student_hash"].get<std::string>(), hashWholeFile(studentOf(run)));
        QVERIFY(exportModel(run, at("own"), as("hf"), kOneThread));
        QVERIFY(fs::exists(at("own") / "report.json") && readTextFile(at("own") / "README.md").find("## Measured") != std::string::npos);
        rewrite(studentOf(run), [](const std::string& name, at::Tensor& tensor) {
            if (name.ends_with("o_proj.weight"))
                tensor = tensor * 1.5;
            return true;
        });
        for (const char* format : {"hf", "gguf", "adapter"}) {
            const auto out = at(std::string("exchanged ") + format);
            const auto report = exportModel(run, out, as(format), kOneThread);
            QVERIFY2(report, qPrintable(messageOf(report)));
            const auto card = readTextFile(out / "README.md");
            QVERIFY(card.find("## Measured") == std::string::npos && card.find("measured on other weights") != std::string::npos);
            QVERIFY(!fs::exists(out / "report.json") && verifyExport(out, kOneThread));
        }
    }

    void notFinite_data() {
        QTest::addColumn<QString>("tensor");
        QTest::addColumn<double>("value");
        QTest::newRow("no decay left") << "model.layers.1.linear_attn.A_log" << std::numeric_limits<double>::infinity();
        QTest::newRow("NaN") << "model.layers.3.linear_attn.q_proj.weight" << std::nan("");
    }
    void notFinite() { // one verdict for all formats
        QFETCH(QString, tensor);
        QFETCH(double, value);
        const auto run = copyOf("not finite " + std::string(QTest::currentDataTag()));
        rewrite(studentOf(run), [&](const std::string& name, at::Tensor& values) {
            if (name == tensor.toStdString())
                values.view(-1)[0] = value;
            return true;
        });
        for (const char* format : {"hf", "qwen3.5", "gguf", "adapter", "bundle"})
            for (const bool verify : {true, false}) {
                auto options = as(format);
                options.verify = verify;
                const auto result = exportModel(run, at("not finite"), options, kOneThread);
                QVERIFY2(!result && result.error().code == ErrorCode::Malformed && messageOf(result).contains(tensor), qPrintable(format + messageOf(result)));
                QVERIFY(TinyStudents::nothingLike(at("not finite")));
            }
    }

    void recipe_data() {
        QTest::addColumn<QString>("key");
        QTest::addColumn<QString>("value");
        QTest::newRow("hash a number") << "hash" << "7";
        QTest::newRow("hash null") << "hash" << "null";
        QTest::newRow("unknown mixer") << "mixer" << R"("gated_delta_nett")";
    }
    void recipe() {
        QFETCH(QString, key);
        QFETCH(QString, value);
        const auto run = copyOf("recipe " + std::string(QTest::currentDataTag()));
        edit(run / "recipe.json", [&](Json& json) { (key == "hash" ? json["teacher"] : json)[key.toStdString()] = Json::parse(value.toStdString()); });
        const auto result = openModel(run, kOneThread);
        QVERIFY2(!result && result.error().code == ErrorCode::Malformed && messageOf(result).contains("recipe.json") && messageOf(result).contains(key), qPrintable(messageOf(result)));
    }

    void exportedKeys_data() {
        QTest::addColumn<QString>("key");
        QTest::addColumn<QString>("value");
        QTest::newRow("eps a text") << "head_norm_eps" << R"({"1": "1e-5"})";
        QTest::newRow("eps below 0") << "head_norm_eps" << R"({"1": -1e-5})";
        QTest::newRow("eps of a kept layer") << "head_norm_eps" << R"({"0": 1e-5})";
        QTest::newRow("eps a list") << "head_norm_eps" << "[1e-5]";
        QTest::newRow("unknown mixer") << "mixer" << R"("mamba")";
    }
    void exportedKeys() {
        QFETCH(QString, key);
        QFETCH(QString, value);
        const auto out = at("keys");
        fs::remove_all(out);
        QVERIFY(exportModel(m_students.run("qwen3"), out, as("hf"), kOneThread));
        edit(out / "config.json", [&](Json& json) { json["linnet"][key.toStdString()] = Json::parse(value.toStdString()); });
        const auto result = openModel(out, kOneThread);
        QVERIFY2(!result && result.error().code == ErrorCode::Malformed && messageOf(result).contains("config.json") && messageOf(result).contains(key), qPrintable(messageOf(result)));
    }
};

QTEST_APPLESS_MAIN(TestExportStudent)
#include "tst_export_student.moc"
