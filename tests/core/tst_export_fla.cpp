// A hybrid as flash-linear-attention's GatedDeltaNetForCausalLM: its own code gives the same logits and tokens; folders that it made open as ours do.
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
constexpr const char* kText = "Linear attention has no cache; 1842 états, \"quoted\"\n\tand a tab <|eos|>";

std::vector<TokenId> longPrompt() { // more than a chunk of 64, and odd
    std::vector<TokenId> ids;
    for (int i = 0; i < 77; ++i)
        ids.push_back(2 + (i * i * 7 + i) % 290);
    return ids;
}

at::Tensor logitsOf(const Model& model, const std::vector<TokenId>& ids) {
    auto values = orFail(sequenceLogits(model, ids));
    return at::tensor(values).view({static_cast<std::int64_t>(ids.size()), -1});
}

} // namespace

class TestExportFla : public QObject {
    Q_OBJECT

    TinyTeachers m_teachers;
    QTemporaryDir m_folder;

    QProcess m_oracle; // one for all, as importing FLA takes seconds

    // An empty message where it succeeded, as runOracle.
    QString ask(const QStringList& arguments) {
        if (m_oracle.state() != QProcess::Running) {
            auto environment = QProcessEnvironment::systemEnvironment();
            environment.insert("HF_HUB_OFFLINE", "1");
            environment.insert("OMP_NUM_THREADS", "2");
            m_oracle.setProcessEnvironment(environment);
            m_oracle.setStandardErrorFile(m_folder.filePath("oracle.log"));
            m_oracle.start(oraclePython(), {qEnvironmentVariable("LINNET_SOURCE") + "/tests/support/fla_oracle.py", "serve"});
        }
        Json list = Json::array();
        for (const auto& argument : arguments)
            list.push_back(argument.toStdString());
        m_oracle.write(QByteArray::fromStdString(list.dump() + "\n"));
        while (m_oracle.canReadLine() || m_oracle.waitForReadyRead(300000))
            while (m_oracle.canReadLine())
                if (const QString line = QString::fromUtf8(m_oracle.readLine()).trimmed(); line.startsWith("linnet: "))
                    return line == "linnet: done" ? QString() : line;
        return "the oracle ended: " + m_oracle.errorString();
    }

    fs::path at(const std::string& name) const { return fs::path(m_folder.path().toStdString()) / name; }
    fs::path run(const std::string& name, const Recipe& recipe) {
        const auto folder = at("run " + name);
        if (!fs::exists(folder)) {
            ConvertOptions options;
            options.baselines = false;
            orFail(convert(recipe, folder, options, {}));
        }
        return folder;
    }
    fs::path twoKept(const QString& kind) { return run(kind.toStdString(), m_teachers.recipe(kind, "layers:0,2")); }

    // The tiny Llama with an lm_head of its own and another rope_theta, everything in bfloat16.
    fs::path untiedTeacher() const {
        const auto folder = at("untied");
        if (fs::exists(folder))
            return folder;
        fs::copy(m_teachers.path("llama"), folder, fs::copy_options::recursive);
        auto tensors = tensorsOf(folder / "model.safetensors");
        tensors["lm_head.weight"] = tensors.at("model.embed_tokens.weight").flip(0);
        NamedTensors rounded;
        for (const auto& [name, tensor] : tensors)
            rounded.emplace_back(name, tensor.to(at::kBFloat16).to(at::kFloat));
        saveTensors(folder / "model.safetensors", rounded);
        Json config = readJsonFile(folder / "config.json");
        config["tie_word_embeddings"] = false;
        config["rope_parameters"]["rope_theta"] = 1e6;
        writeFileAtomically(folder / "config.json", config.dump());
        return folder;
    }

    // The tiny Qwen2 with the keys that Qwen2.5's own files have.
    fs::path qwen25Teacher() const {
        const auto folder = at("qwen2.5");
        if (fs::exists(folder))
            return folder;
        fs::copy(m_teachers.path("qwen2"), folder, fs::copy_options::recursive);
        Json config = readJsonFile(folder / "config.json");
        for (const char* newer : {"rope_parameters", "layer_types", "head_dim", "dtype"})
            config.erase(newer);
        config.update({{"rope_theta", 1000000.0}, {"sliding_window", 32768}, {"max_window_layers", 2}, {"use_sliding_window", false}, {"torch_dtype", "float32"}});
        writeFileAtomically(folder / "config.json", config.dump());
        return folder;
    }

    // FLA's logits within 1e-3 of ours (a tenth of it in fact), all its ways to generate give our tokens, and it misses or ignores no tensor.
    void flaSays(const fs::path& folder, const Model& model, bool ownKernels = false, bool large = false) {
        const std::vector<std::vector<TokenId>> prompts{kPrompts[0], kPrompts[1], longPrompt()};
        const auto request = folder.string() + ".request", out = folder.string() + ".out";
        GenerateOptions greedy;
        greedy.tokens = ownKernels || large ? 6 : 20;
        writeFileAtomically(request, Json{{"ids", prompts}, {"text", kText}, {"tokens", greedy.tokens}}.dump());
        const QStringList arguments{folder.c_str(), request.c_str(), out.c_str()};
        const QString said = ownKernels ? runOracle("fla_oracle.py", arguments + QStringList{"own"}) : ask(arguments);
        QVERIFY2(said.isEmpty(), qPrintable(said));
        const auto logits = tensorsOf(out + ".safetensors");
        const Json answers = readJsonFile(out + ".json");
        QCOMPARE(QString::fromStdString(answers["class"]), QString("GatedDeltaNetForCausalLM"));
        QVERIFY2(answers["loading"].empty(), answers["loading"].dump().c_str());
        QCOMPARE(answers["text_ids"].get<std::vector<TokenId>>(), modelTokenizer(model).encode(kText, true));
        const bool ours = !readJsonFile(folder / "generation_config.json").value("use_cache", true); // else transformers' own loop gets its cache wrong
        double worst = 0;
        for (std::size_t i = 0; i < prompts.size(); ++i) {
            worst = std::max(worst, relativeError(logits.at("logits_" + std::to_string(i)), logitsOf(model, prompts[i])));
            const auto made = orFail(generate(model, prompts[i], greedy)).ids;
            for (const char* way : {"cached", "uncached", "batch", "generate"})
                if (answers.contains(way) && (ours || way != std::string("generate")))
                    QVERIFY2(answers[way][i].get<std::vector<TokenId>>() == made, qPrintable(QString("%1: %2, ours %3").arg(way, QString::fromStdString(answers[way][i].dump()), QString::fromStdString(Json(made).dump()))));
        }
        qInfo("logits differ by %.2g of the largest at most", worst);
        QVERIFY2(worst < 1e-4, qPrintable(QString::number(worst)));
    }

private Q_SLOTS:
    void initTestCase() {
        at::set_num_threads(1);
        LINNET_MAKE_TEACHERS(m_teachers);
        QProcess python;
        python.start(oraclePython(), {"-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('fla') is None)"});
        if (!python.waitForFinished() || python.exitCode() != 0)
            QSKIP("the oracle's environment has no flash-linear-attention (./linnet test installs it)");
    }
    void cleanupTestCase() {
        m_oracle.closeWriteChannel();
        m_oracle.waitForFinished();
    }

    void flaAgrees_data() {
        QTest::addColumn<QString>("kind");
        QTest::addColumn<QString>("keep"); // "": the teacher itself, every layer softmax
        QTest::addColumn<QString>("preset");
        QTest::addColumn<QString>("dtype");
        QTest::addColumn<bool>("ownKernels");
        QTest::newRow("llama, two kept") << "llama" << "layers:0,2" << "naive" << "f32" << false;
        QTest::newRow("qwen2, biases") << "qwen2" << "layers:0,2" << "naive" << "f32" << false;
        QTest::newRow("qwen2, trained taps, FLA's kernels") << "qwen2" << "layers:3" << "linnet" << "f32" << true;
        QTest::newRow("untied, another theta, bf16") << "untied" << "layers:1" << "naive" << "bf16" << false;
        QTest::newRow("qwen2.5's configuration") << "qwen2.5" << "layers:0,3" << "naive" << "f32" << false;
        QTest::newRow("qwen3, none kept") << "qwen3" << "first:0" << "naive" << "f32" << false;
        QTest::newRow("qwen2, windows without sinks") << "qwen2" << "layers:0,2" << "sliding-window" << "f32" << false;
        QTest::newRow("qwen2, all kept") << "qwen2" << "" << "" << "f32" << false;
    }
    void flaAgrees() {
        QFETCH(QString, kind);
        QFETCH(QString, keep);
        QFETCH(QString, preset);
        QFETCH(QString, dtype);
        QFETCH(bool, ownKernels);
        const std::string name = QTest::currentDataTag();
        const auto teacher = kind == "untied" ? untiedTeacher() : kind == "qwen2.5" ? qwen25Teacher() : m_teachers.path(kind);
        fs::path student = teacher;
        if (!keep.isEmpty()) {
            Recipe recipe = m_teachers.recipe("llama", keep.toStdString(), preset.toStdString());
            recipe.teacherSource = teacher.string();
            recipe.window = 4;
            recipe.sinks = 0;
            student = run(name, recipe);
        }
        ExportOptions options;
        options.format = "fla";
        options.dtype = dtype.toStdString();
        const auto report = exportModel(student, at(name), options, kOnCpu);
        QVERIFY2(report, qPrintable(messageOf(report)));
        QCOMPARE(report->exact, dtype == "f32");
        QCOMPARE(report->fidelity, std::string("exact"));
        const auto choices = orFail(readModelInfo(student)).exports; // the table says so before
        QVERIFY(std::ranges::any_of(choices, [](const ExportChoice& c) { return c.format == "fla" && c.fidelity == Fidelity::Exact && c.in16Bits == Fidelity::Exact; }));
        const auto original = orFail(openModel(student, kOnCpu)), back = orFail(openModel(at(name), kOnCpu));
        QCOMPARE(original->config().rope.theta, kind.endsWith("5") || kind == "untied" ? 1e6 : 1e4);
        QCOMPARE(modelInfo(*back).layerKinds, modelInfo(*original).layerKinds);
        for (const auto& ids : kPrompts) {
            const auto found = logitsOf(*back, ids), expected = logitsOf(*original, ids);
            if (dtype == "f32")
                QVERIFY(at::equal(found, expected)); // the same values in the same places
            else
                LINNET_NEAR(found, expected, 5e-2);
        }
        flaSays(at(name), *back, ownKernels);
        const auto verified = verifyExport(at(name), kOnCpu);
        QVERIFY2(verified && verified->format == "fla", qPrintable(messageOf(verified)));
    }

    void configurationAndFiles() {
        const auto folder = at("written");
        const auto report = exportModel(twoKept("qwen2"), folder, {"fla", "bf16", false}, kOnCpu);
        QVERIFY2(report, qPrintable(messageOf(report)));
        const Json config = readJsonFile(folder / "config.json");
        const auto expected = Json::parse(R"({"layers": [0, 2], "num_heads": 6, "num_kv_heads": 2, "qkv_bias": true, "window_size": null, "rope_theta": 10000.0})");
        QCOMPARE(config["attn"].dump(), expected.dump()); // one dictionary: what older releases read too
        const auto keys = Json::parse(R"({"model_type": "gated_deltanet", "head_dim": 8, "num_heads": 6, "expand_v": 1.0, "use_gate": true, "conv_size": 4,
                "use_short_conv": true, "allow_neg_eigval": false, "norm_eps": 1e-5, "tie_word_embeddings": false, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": null})");
        for (const auto& [key, value] : keys.items())
            QVERIFY2(config.contains(key) && config[key] == value, (key + ": " + config.value(key, Json()).dump()).c_str());
        const auto source = openSafetensorsFile(folder / "model.safetensors");
        QCOMPARE(source->find("model.layers.1.attn.A_log")->storedType, std::string("F32"));
        QCOMPARE(source->find("model.layers.1.attn.q_proj.weight")->storedType, std::string("BF16"));
        QVERIFY(source->find("lm_head.weight") && source->find("model.layers.0.attn.k_proj.bias") && !source->find("model.layers.0.attn.o_proj.bias"));
        QVERIFY(!readJsonFile(folder / "generation_config.json")["use_cache"].get<bool>());
        const auto card = QString::fromStdString(readTextFile(folder / "README.md"));
        QVERIFY(card.contains("import fla") && card.contains("flash-attn") && card.contains("5.24"));
        QVERIFY(!fs::exists(folder / "modeling_linnet.py"));
    }

    void refusals() {
        const auto refused = [&](const fs::path& student, const std::string& name) {
            const auto result = exportModel(student, at(name), {"fla", "f32", true}, kOnCpu);
            return !result && result.error().code == ErrorCode::Unsupported && !fs::exists(at(name)) ? messageOf(result) : QString("not refused");
        };
        QVERIFY(refused(twoKept("qwen3"), "no").contains("QK-norm"));
        QVERIFY(refused(run("window", m_teachers.recipe("llama", "layers:0,2", "sliding-window")), "no").contains("sliding window with sinks"));
        QVERIFY2(runOracle("tiny_teachers.py", {m_folder.path(), "llama", "llama3", "biased"}).isEmpty(), "tiny_teachers.py");
        for (const auto& [kind, said] : {std::pair("llama", "heads of 16"), std::pair("llama3", "llama3"), std::pair("biased", "o_proj")})
            QVERIFY2(refused(at(kind), "no").contains(said), qPrintable(refused(at(kind), "no")));
    }

    void foldersOfOthers_data() { // of FLA and flame
        QTest::addColumn<QString>("changes");
        QTest::newRow("a dictionary, biases") << R"({"attn": {"layers": [1, 3], "num_heads": 6, "num_kv_heads": 3, "qkv_bias": true, "rope_theta": 500000.0}})";
        QTest::newRow("a list with windows") << R"({"attn": [{"layers": [0], "num_heads": 6}, {"layers": [1], "num_heads": 6, "window_size": 4}, {"layers": [3], "num_heads": 6, "window_size": 1}]})";
        QTest::newRow("no softmax layer, head_dim of its own") << R"({"head_dim": 12, "num_heads": 3})";
        QTest::newRow("no short convolution") << R"({"use_short_conv": false, "attn": {"layers": [2], "num_heads": 6, "num_kv_heads": 1}})";
        QTest::newRow("tied, MLP by ratio") << R"({"tie_word_embeddings": true, "intermediate_size": null, "hidden_ratio": 2, "num_v_heads": 6})";
    }
    void foldersOfOthers() {
        QFETCH(QString, changes);
        const auto folder = at("made");
        fs::remove_all(folder);
        Json config = Json::parse(R"({"vocab_size": 300, "hidden_size": 48, "head_dim": 8, "num_heads": 6, "expand_v": 1.0, "num_hidden_layers": 4, "intermediate_size": 72,
                                      "norm_eps": 1e-5, "bos_token_id": 0, "eos_token_id": 1})");
        config.update(Json::parse(changes.toStdString()));
        writeFileAtomically(at("made.json"), config.dump());
        const QString said = ask({"make", folder.c_str(), at("made.json").c_str()});
        QVERIFY2(said.isEmpty(), qPrintable(said));
        const auto opened = openModel(folder, kOnCpu);
        QVERIFY2(opened, qPrintable(messageOf(opened)));
        flaSays(folder, **opened);
        const auto info = readModelInfo(folder);
        QVERIFY2(info, qPrintable(messageOf(info)));
        QCOMPARE(info->layerKinds, modelInfo(**opened).layerKinds);
        for (const char* format : {"fla", "hf"}) { // and on from there
            fs::remove_all(at("again"));
            const auto again = exportModel(folder, at("again"), {format, "f32", true}, kOnCpu);
            QVERIFY2(again && again->exact && again->parity.maxAbsLogit == 0, qPrintable(messageOf(again)));
        }
    }

    void optionsOfOthers_data() {
        QTest::addColumn<QString>("change");
        QTest::addColumn<QString>("key");
        QTest::newRow("negative eigenvalues") << R"({"allow_neg_eigval": true})" << "allow_neg_eigval";
        QTest::newRow("wide values") << R"({"expand_v": 2.0})" << "expand_v";
        QTest::newRow("value heads") << R"({"num_v_heads": 12})" << "num_v_heads";
        QTest::newRow("no gate") << R"({"use_gate": false})" << "use_gate";
        QTest::newRow("sigmoid gate") << R"({"output_gate_activation": "sigmoid"})" << "output_gate_activation";
        QTest::newRow("taps") << R"({"conv_size": 3})" << "conv_size";
        QTest::newRow("activation") << R"({"hidden_act": "powlu"})" << "hidden_act";
        QTest::newRow("attention residuals") << R"({"attnres_block_size": 2})" << "attnres_block_size";
        QTest::newRow("heads of linear layers") << R"({"num_heads": 3})" << "num_heads";
        QTest::newRow("head_dim of linear layers") << R"({"head_dim": 16})" << "head_dim";
        QTest::newRow("softmax layers that differ") << R"({"attn": [{"layers": [0], "num_heads": 6}, {"layers": [2], "num_heads": 6, "num_kv_heads": 2}]})" << "attn";
        QTest::newRow("a layer twice") << R"({"attn": [{"layers": [0], "num_heads": 6}, {"layers": [0], "num_heads": 6}]})" << "attn.layers";
        QTest::newRow("a layer too many") << R"({"attn": {"layers": [4], "num_heads": 6}})" << "attn.layers";
        QTest::newRow("heads that don't divide") << R"({"attn": {"layers": [0], "num_heads": 5}})" << "attn.num_heads";
        QTest::newRow("no heads") << R"({"attn": {"layers": [0]}})" << "attn.num_heads";
        QTest::newRow("a window of none") << R"({"attn": {"layers": [0], "num_heads": 6, "window_size": 0}})" << "attn.window_size";
        QTest::newRow("attn is a number") << R"({"attn": 3})" << "attn";
        QTest::newRow("norm_eps is a text") << R"({"norm_eps": "small"})" << "norm_eps";
        QTest::newRow("no layers") << R"({"num_hidden_layers": 0})" << "num_hidden_layers";
    }
    void optionsOfOthers() {
        QFETCH(QString, change);
        QFETCH(QString, key);
        const auto folder = at("options");
        if (!fs::exists(folder))
            QVERIFY(exportModel(twoKept("llama"), folder, {"fla", "f32", false}, kOnCpu));
        const std::string before = readTextFile(folder / "config.json");
        Json config = Json::parse(before);
        config.update(Json::parse(change.toStdString()));
        writeFileAtomically(folder / "config.json", config.dump());
        const auto opened = openModel(folder, kOnCpu);
        writeFileAtomically(folder / "config.json", before);
        QVERIFY(!opened);
        QVERIFY2(messageOf(opened).contains("\"" + key + "\"") && messageOf(opened).contains("config.json"), qPrintable(messageOf(opened)));
    }
    void tensorsOfOthers() { // one too many, one too few
        const auto folder = at("tensors");
        QVERIFY(exportModel(twoKept("llama"), folder, {"fla", "f32", false}, kOnCpu));
        const auto whole = loadTensors(folder / "model.safetensors", at::kCPU);
        NamedTensors more = whole, fewer;
        more.emplace_back("model.layers.0.attn.q_norm.weight", at::ones({8}));
        for (const auto& [name, tensor] : whole)
            if (name != "model.layers.3.attn.b_proj.weight")
                fewer.emplace_back(name, tensor);
        for (const auto& [tensors, said] : {std::pair(more, "model.layers.0.attn.q_norm.weight"), std::pair(fewer, "model.layers.3.attn.b_proj.weight")}) {
            saveTensors(folder / "model.safetensors", tensors);
            const auto opened = openModel(folder, kOnCpu);
            QVERIFY2(!opened && messageOf(opened).contains(said), qPrintable(messageOf(opened)));
        }
    }

    // The self-contained folder's own code with FLA's kernels: what they get, and what comes of it.
    void fastPathOfHfFolder() {
        QVERIFY(exportModel(twoKept("qwen2"), at("hf"), {"hf", "f32", false}, kOnCpu));
        const auto request = at("hf.request"), out = at("hf.json");
        writeFileAtomically(request, Json{{"ids", {kPrompts[0], kPrompts[1], {9, 12, 13, 14, 15}}}}.dump());
        const QString said = runOracle("fast_path_oracle.py", {at("hf").c_str(), request.c_str(), out.c_str()});
        QVERIFY2(said.isEmpty(), qPrintable(said));
        const Json answers = readJsonFile(out);
        QVERIFY2(answers["error"].get<double>() < 1e-5, answers["error"].dump().c_str());
        QCOMPARE(answers["fast_tokens"].dump(), answers["tokens"].dump());
        QVERIFY2(answers["calls_when_off"].empty(), answers["calls_when_off"].dump().c_str());
        std::map<std::string, int> calls; // [name, B, T, H, D, with a state]
        for (const auto& call : answers["calls"])
            ++calls[call.dump()];
        const std::map<std::string, int> expected{{R"(["chunk",3,10,6,8,false])", 2 * 2}, {R"(["step",3,1,6,8,true])", 2 * 7}}; // 2 layers; logits and prefill; 8 tokens
        QCOMPARE(Json(calls).dump(), Json(expected).dump());
    }

    void realTeacher() { // half of SmolLM2-135M's layers converted
        const auto teacher = qEnvironmentVariable("LINNET_TEACHER");
        if (!QFileInfo::exists(teacher))
            QSKIP("LINNET_TEACHER is not there");
        Recipe recipe = m_teachers.recipe("llama", "last:15");
        recipe.teacherSource = teacher.toStdString();
        recipe.align.steps = 1;
        at::set_num_threads(2);
        const auto student = run("real", recipe);
        const auto report = exportModel(student, at("real"), {"fla", "f32", true}, kOnCpu);
        QVERIFY2(report, qPrintable(messageOf(report)));
        QVERIFY(report->exact && report->parity.meanKl < 1e-9 && report->parity.greedySame == report->parity.greedyTokens);
        flaSays(at("real"), *orFail(openModel(student, kOnCpu)), false, true);
        at::set_num_threads(1);
    }
};

QTEST_APPLESS_MAIN(TestExportFla)
#include "tst_export_fla.moc"
