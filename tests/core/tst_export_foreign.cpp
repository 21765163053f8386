// What stands beside the weights: generation settings and tokenizers of teachers as people have them, through every format; and folders of others that
// would be computed otherwise here than by the class that they are for.
#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/io/checkpoint_folder.h"
#include "tests/support/export_fixtures.h"

#include <QTest>

namespace fs = std::filesystem;
using namespace linnet::core;
using namespace linnet::tests;

namespace {

const std::vector<std::vector<TokenId>> kPrompts{{5, 17, 200, 31, 8, 99, 140, 3, 61, 254}, {77, 4, 120}};
constexpr const char* kText = "Un cafe\xcc\x81 in 1842; they don't \xe1\xbb\xa5 12345\n\n  two"; // Qwen's class would compose and cut that otherwise

void change(const fs::path& file, const std::function<void(Json&)>& edit) {
    Json json = readJsonFile(file);
    edit(json);
    writeFileAtomically(file, json.dump());
}

} // namespace

class TestExportForeign : public QObject {
    Q_OBJECT

    TinyTeachers m_teachers;
    TinyStudents m_students{m_teachers};
    fs::path at(const std::string& name) const { return m_students.at(name); }

    // A run whose teacher is a copy that may be edited.
    fs::path copied(const QString& kind, const std::string& name) {
        const auto teacher = at("teacher " + name), run = at("copy " + name);
        fs::copy(m_teachers.path(kind), teacher, fs::copy_options::recursive);
        fs::copy(m_students.run(kind), run, fs::copy_options::recursive);
        change(run / "recipe.json", [&](Json& recipe) { recipe["teacher"]["source"] = teacher.string(); });
        return run;
    }
    Json transformersSays(const fs::path& folder) {
        const auto request = folder.string() + ".request", out = folder.string() + ".out";
        writeFileAtomically(request, Json{{"ids", kPrompts}, {"text", kText}, {"greedy", false}}.dump());
        if (const QString said = runOracle("export_oracle.py", {folder.c_str(), request.c_str(), out.c_str()}); !said.isEmpty())
            return Json{{"error", said.toStdString()}};
        return readJsonFile(out + ".json");
    }

private Q_SLOTS:
    void initTestCase() {
        at::set_num_threads(1);
        LINNET_MAKE_TEACHERS(m_teachers);
    }

    void teachersSettings_data() {
        QTest::addColumn<QString>("format");
        QTest::addColumn<QString>("kind");
        for (const auto& [format, kind] : {std::pair("hf", "llama"), std::pair("qwen3.5", "llama"), std::pair("qwen3.5", "qwen3"), std::pair("fla", "qwen2")})
            QTest::addRow("%s %s", format, kind) << format << kind;
    }
    void teachersSettings() {
        QFETCH(QString, format);
        QFETCH(QString, kind);
        const auto name = std::string(QTest::currentDataTag());
        const auto run = copied(kind, name), teacher = at("teacher " + name), out = at("out " + name);
        const Json settings{{"bos_token_id", 0}, {"eos_token_id", {1, 7, 9, 11}}, {"pad_token_id", 5}, {"do_sample", true}, {"temperature", 0.6}, {"top_p", 0.95}, {"top_k", 20},
                            {"repetition_penalty", 1.1}};
        Json stored = settings;
        stored["transformers_version"] = "4.1.0";
        writeFileAtomically(teacher / "generation_config.json", stored.dump());
        change(teacher / "tokenizer_config.json", [](Json& config) { config.erase("tokenizer_class"); });
        ExportOptions options;
        options.format = format.toStdString(), options.lift = true;
        const auto report = exportModel(run, out, options, kOneThread);
        QVERIFY2(report, qPrintable(messageOf(report)));
        Json written = readJsonFile(out / "generation_config.json");
        if (format == "fla") {
            QCOMPARE(written["use_cache"].dump(), std::string("false"));
            written.erase("use_cache");
        }
        QVERIFY2(written == settings, written.dump().c_str());
        QCOMPARE(readJsonFile(out / "config.json")["pad_token_id"].dump(), std::string("5"));
        QCOMPARE(readJsonFile(out / "tokenizer_config.json")["tokenizer_class"].get<std::string>(), std::string("PreTrainedTokenizerFast"));
        if (format == "fla")
            return; // its class is another test's, tst_export_fla
        const Json answers = transformersSays(out);
        QVERIFY2(!answers.contains("error"), answers.dump().c_str());
        QVERIFY2(answers["eos"] == settings["eos_token_id"], answers["eos"].dump().c_str());
        QCOMPARE(answers["text_ids"].get<std::vector<TokenId>>(), openTokenizer(teacher)->encode(kText, true));
    }

    void foldersOfOthers_data() {
        QTest::addColumn<QString>("key");
        QTest::addColumn<QString>("value"); // "": taken out
        QTest::newRow("no rotary part: a quarter") << "partial_rotary_factor" << "";
        QTest::newRow("no output gate") << "attn_output_gate" << "false";
        QTest::newRow("bias of the convolution") << "model.layers.1.linear_attn.conv1d.bias" << "";
    }
    void foldersOfOthers() {
        QFETCH(QString, key);
        QFETCH(QString, value);
        const auto out = at(std::string("other ") + QTest::currentDataTag());
        QVERIFY(exportModel(m_students.run("qwen3"), out, {"qwen3.5", "f32", false}, kOneThread));
        if (key.startsWith("model.")) {
            NamedTensors tensors = loadTensors(out / "model.safetensors", at::kCPU);
            tensors.emplace_back(key.toStdString(), at::zeros({8}));
            saveTensors(out / "model.safetensors", tensors);
        } else {
            change(out / "config.json", [&](Json& config) {
                if (value.isEmpty())
                    config.erase(key.toStdString()), config["rope_parameters"].erase(key.toStdString());
                else
                    config[key.toStdString()] = Json::parse(value.toStdString());
            });
        }
        const auto opened = openModel(out, kOneThread);
        QVERIFY(!opened && opened.error().code == ErrorCode::Unsupported);
        QVERIFY2(messageOf(opened).contains(key) && messageOf(opened).contains(QString::fromStdString(out.filename().string())), qPrintable(messageOf(opened)));
    }

    void headsThatAreNotTied_data() {
        QTest::addColumn<QString>("format");
        QTest::addColumn<QString>("kind");
        for (const auto& [format, kind] : {std::pair("", "qwen2"), std::pair("hf", "qwen2"), std::pair("qwen3.5", "qwen3"), std::pair("fla", "qwen2"), std::pair("bundle", "qwen2")})
            QTest::addRow("%s", *format ? format : "teacher") << format << kind;
    }
    void headsThatAreNotTied() { // config.json ties what the weights hold twice, and differently
        QFETCH(QString, format);
        QFETCH(QString, kind);
        const auto out = at("tied " + format.toStdString());
        if (format.isEmpty())
            fs::copy(m_teachers.path(kind), out, fs::copy_options::recursive);
        else
            QVERIFY(exportModel(m_students.run(kind), out, {format.toStdString(), "f32", false}, kOneThread));
        const auto weights = fs::exists(out / "config.json") ? out : newestCheckpoint(out);
        change(weights / "config.json", [](Json& config) { config["tie_word_embeddings"] = true; });
        NamedTensors tensors = loadTensors(weights / "model.safetensors", at::kCPU);
        at::Tensor embedding;
        for (const auto& [name, tensor] : tensors)
            if (name == "model.embed_tokens.weight" || name == "model.embeddings.weight")
                embedding = tensor;
        QVERIFY(embedding.defined());
        std::erase_if(tensors, [](const auto& entry) { return entry.first == "lm_head.weight"; });
        tensors.emplace_back("lm_head.weight", embedding.clone());
        saveTensors(weights / "model.safetensors", tensors);
        const auto warned = [&] {
            const auto warnings = orFail(openModel(out, kOneThread))->files().warnings;
            return std::ranges::any_of(warnings, [](const std::string& text) { return text.find("lm_head.weight") != text.npos; });
        };
        QVERIFY(!warned());
        tensors.back().second[3][1] += 1;
        saveTensors(weights / "model.safetensors", tensors);
        QVERIFY(warned());
    }

    void biasesBesideNorms() { // of Qwen3 with attention_bias: the table and the writer agree, with and without a softmax layer
        for (const auto& [kept, possible] : {std::pair("layers:0,2", false), std::pair("first:0", true)}) {
            const auto teacher = at(std::string("biased ") + kept);
            fs::copy(m_teachers.path("qwen3"), teacher, fs::copy_options::recursive);
            change(teacher / "config.json", [](Json& config) { config["attention_bias"] = true; });
            NamedTensors tensors = loadTensors(teacher / "model.safetensors", at::kCPU);
            for (std::size_t i = 0, all = tensors.size(); i < all; ++i)
                if (const auto [name, tensor] = tensors[i]; name.ends_with("_proj.weight") && name.find(".self_attn.") != name.npos)
                    tensors.emplace_back(name.substr(0, name.size() - 6) + "bias", at::full({tensor.size(0)}, 0.125));
            saveTensors(teacher / "model.safetensors", tensors);
            auto recipe = m_teachers.recipe("qwen3", kept);
            recipe.teacherSource = teacher.string();
            ConvertOptions options;
            options.baselines = false;
            const auto run = at(std::string("biased run ") + kept);
            orFail(convert(recipe, run, options, {}));
            const auto info = orFail(readModelInfo(run));
            const auto choice = std::ranges::find_if(info.exports, [](const ExportChoice& c) { return c.format == "bundle"; });
            const auto report = exportModel(run, at(std::string("biased bundle ") + kept), {"bundle", "f32", true}, kOneThread);
            QVERIFY2(choice->available() == possible && report.has_value() == possible, qPrintable(QString::fromStdString(choice->reason) + messageOf(report)));
        }
    }
};

QTEST_APPLESS_MAIN(TestExportForeign)
#include "tst_export_foreign.moc"
