// config.json in the old spelling and the new, with the defaults of transformers' classes.
#include "core/base/result.h"
#include "core/io/model_files.h"
#include "core/io/safetensors_writer.h"
#include "tests/support/file_builders.h"

#include <QTemporaryDir>
#include <QTest>

using namespace linnet::core;
using namespace linnet::tests;
namespace fs = std::filesystem;

namespace {

ModelConfig read(const Json& changes, const std::string& generation = {}) {
    QTemporaryDir folder;
    const fs::path root = folder.path().toStdString();
    auto config = tinyConfig();
    for (const auto& [key, value] : changes.items())
        config[key] = value;
    writeBytes(root / "config.json", config.dump());
    if (!generation.empty())
        writeBytes(root / "generation_config.json", generation);
    return readHfConfig(root / "config.json");
}

// The tiny model as a folder; lm_head.weight is stored though the embeddings are tied.
void writeModel(const fs::path& root, float head, const Json& changes, const std::string& vocabulary) {
    auto config = tinyConfig();
    config.update(changes);
    writeBytes(root / "config.json", config.dump());
    writeBytes(
        root / "tokenizer.json",
        R"({"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,)"
        R"("trim_offsets":true,"use_regex":true},"post_processor":null,"decoder":{"type":"ByteLevel","add_prefix_space":true,)"
        R"("trim_offsets":true,"use_regex":true},"model":{"type":"BPE","vocab":)" +
            vocabulary + R"(,"merges":[]}})");
    const std::string prefix = "model.layers.0.";
    std::vector<TensorToWrite> tensors{
        {"model.embed_tokens.weight", "F32", {6, 8}},
        {"lm_head.weight", "F32", {6, 8}},
        {"model.norm.weight", "F32", {8}},
        {prefix + "input_layernorm.weight", "F32", {8}},
        {prefix + "post_attention_layernorm.weight", "F32", {8}},
        {prefix + "self_attn.q_proj.weight", "F32", {8, 8}},
        {prefix + "self_attn.k_proj.weight", "F32", {4, 8}},
        {prefix + "self_attn.v_proj.weight", "F32", {4, 8}},
        {prefix + "self_attn.o_proj.weight", "F32", {8, 8}},
        {prefix + "mlp.gate_proj.weight", "F32", {16, 8}},
        {prefix + "mlp.up_proj.weight", "F32", {16, 8}},
        {prefix + "mlp.down_proj.weight", "F32", {8, 16}},
    };
    SafetensorsWriter writer(root / "model.safetensors", tensors);
    for (const auto& tensor : tensors) {
        std::size_t count = 1;
        for (const auto size : tensor.shape)
            count *= static_cast<std::size_t>(size);
        const std::vector<float> values(count, tensor.name == "lm_head.weight" ? head : 0.f);
        writer.write(tensor.name, values.data(), count * sizeof(float));
    }
    writer.finish();
}

} // namespace

class TestIoConfig : public QObject {
    Q_OBJECT

private slots:
    void rope_data() {
        QTest::addColumn<QString>("changes");
        QTest::addColumn<QString>("type");
        QTest::addColumn<double>("theta");
        QTest::addColumn<double>("factor");
        QTest::newRow("nothing") << "{}"
                                 << "default" << 10000.0 << 1.0;
        QTest::newRow("old theta") << R"({"rope_theta": 1000000})"
                                   << "default" << 1e6 << 1.0;
        QTest::newRow("old null scaling") << R"({"rope_theta": 1e6, "rope_scaling": null})"
                                          << "default" << 1e6 << 1.0;
        QTest::newRow("old linear") << R"({"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2}})"
                                    << "linear" << 5e5 << 2.0;
        QTest::newRow("old llama3")
            << R"({"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
                   "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})"
            << "llama3" << 5e5 << 32.0;
        QTest::newRow("new default") << R"({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}})"
                                     << "default" << 1e6 << 1.0;
        QTest::newRow("new llama3")
            << R"({"rope_parameters": {"rope_theta": 5e5, "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
                   "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})"
            << "llama3" << 5e5 << 32.0;
        QTest::newRow("new linear") << R"({"rope_parameters": {"rope_theta": 1e4, "rope_type": "linear", "factor": 8}})"
                                    << "linear" << 1e4 << 8.0;
    }

    void rope() {
        QFETCH(QString, changes);
        QFETCH(QString, type);
        QFETCH(double, theta);
        QFETCH(double, factor);
        const auto rope = read(parseJson(changes.toStdString(), "row")).rope;
        QCOMPARE(QString::fromStdString(rope.type), type);
        QCOMPARE(rope.theta, theta);
        QCOMPARE(rope.factor, factor);
        if (type == "llama3") {
            QCOMPARE(rope.lowFrequencyFactor, 1.0);
            QCOMPARE(rope.highFrequencyFactor, 4.0);
            QCOMPARE(rope.originalMaxPositions, 8192.0);
        }
    }

    void families_data() {
        QTest::addColumn<QString>("changes");
        QTest::addColumn<bool>("qkNorm");
        QTest::addColumn<bool>("qkvBias");
        QTest::addColumn<bool>("outputBias");
        QTest::addColumn<bool>("mlpBias");
        const char* qwen2 = R"("model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "use_sliding_window": false)";
        const char* qwen3 = R"("model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"])";
        QTest::newRow("llama") << "{}" << false << false << false << false;
        QTest::newRow("llama, attention_bias") << R"({"attention_bias": true})" << false << true << true << false;
        QTest::newRow("llama, mlp_bias") << R"({"mlp_bias": true})" << false << false << false << true;
        QTest::newRow("qwen2") << QString("{%1}").arg(qwen2) << false << true << false << false;
        QTest::newRow("qwen3") << QString("{%1}").arg(qwen3) << true << false << false << false;
        QTest::newRow("qwen3, attention_bias")
            << QString(R"({%1, "attention_bias": true})").arg(qwen3) << true << true << true << false;
    }

    void families() {
        QFETCH(QString, changes);
        const auto config = read(parseJson(changes.toStdString(), "row"));
        QTEST(config.qkNorm, "qkNorm");
        QTEST(config.qkvBias, "qkvBias");
        QTEST(config.outputBias, "outputBias");
        QTEST(config.mlpBias, "mlpBias");
    }

    void sizesAndDefaults() {
        auto config = read({{"num_key_value_heads", nullptr}, {"dtype", "bfloat16"}, {"torch_dtype", nullptr}});
        QCOMPARE(config.kvHeads, 2);
        QCOMPARE(config.headDim, 4);
        QCOMPARE(config.layers, 1);
        QCOMPARE(config.vocabSize, 6);
        QCOMPARE(config.intermediateSize, 16);
        QCOMPARE(config.maxPositions, 64);
        QCOMPARE(config.rmsNormEps, 1e-5);
        QCOMPARE(config.storedDType, std::string("bfloat16"));
        QVERIFY(config.tiedEmbeddings);
        config = read({{"head_dim", 16}, {"tie_word_embeddings", nullptr}});
        QCOMPARE(config.headDim, 16); // not hidden_size / heads
        QCOMPARE(config.storedDType, std::string("float32"));
        QVERIFY(!config.tiedEmbeddings);
        config = read({{"quantization_config", {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}}}});
        QCOMPARE(config.storedDType, std::string("float8_e4m3"));
    }

    void spareHead_data() {
        QTest::addColumn<float>("head");
        QTest::addColumn<int>("warnings");
        QTest::newRow("equal to the embeddings") << 0.f << 0;
        QTest::newRow("differs") << 1.f << 1;
    }

    void spareHead() {
        QFETCH(float, head);
        QTemporaryDir folder;
        writeModel(folder.path().toStdString(), head, Json::object(), R"({"a":0,"b":1})");
        const auto files = guarded([&] { return openModelFiles(folder.path().toStdString()); });
        QVERIFY2(files, files ? "" : files.error().message.c_str());
        QTEST(static_cast<int>(files->warnings.size()), "warnings");
        QCOMPARE(files->tokenizer->vocabSize(), 2);
    }

    void wholeFolderIsChecked_data() {
        QTest::addColumn<QString>("changes");
        QTest::addColumn<QString>("vocabulary");
        QTest::addColumn<QString>("mentions");
        const QString two = R"({"a":0,"b":1})";
        QTest::newRow("wider") << R"({"intermediate_size": 32})" << two << "model.layers.0.mlp.gate_proj.weight";
        QTest::newRow("deeper") << R"({"num_hidden_layers": 2})" << two << "model.layers.1.self_attn.q_proj.weight";
        QTest::newRow("biases") << R"({"attention_bias": true})" << two << "model.layers.0.self_attn.q_proj.bias";
        QTest::newRow("vocabulary") << R"({"vocab_size": 5})" << two << "[5, 8]";
        QTest::newRow("more tokens than rows") << "{}"
                                               << R"({"a":0,"b":1,"c":2,"d":3,"e":4,"f":5,"g":6})"
                                               << "7 tokens";
    }

    void wholeFolderIsChecked() {
        QFETCH(QString, changes);
        QFETCH(QString, vocabulary);
        QFETCH(QString, mentions);
        QTemporaryDir folder;
        writeModel(folder.path().toStdString(), 0, parseJson(changes.toStdString(), "row"), vocabulary.toStdString());
        const auto files = guarded([&] { return openModelFiles(folder.path().toStdString()); });
        QVERIFY(!files);
        const auto message = QString::fromStdString(files.error().message);
        QVERIFY2(message.contains(mentions) && message.contains(folder.path()), qPrintable(message));
        QCOMPARE(static_cast<int>(files.error().code), static_cast<int>(ErrorCode::Malformed));
    }

    void endTokens() {
        QCOMPARE(read({{"eos_token_id", 3}}).endTokens, std::vector<std::int64_t>{3});
        QCOMPARE(read({{"eos_token_id", {3, 5}}}).endTokens, (std::vector<std::int64_t>{3, 5}));
        QCOMPARE(read({{"eos_token_id", 3}}, R"({"eos_token_id": [4, 3]})").endTokens, (std::vector<std::int64_t>{3, 4}));
        QVERIFY(read({{"eos_token_id", nullptr}}).endTokens.empty());
        QVERIFY(!read({{"bos_token_id", nullptr}}).bosToken);
        QCOMPARE(*read({{"bos_token_id", 1}}).bosToken, 1);
    }
};

QTEST_APPLESS_MAIN(TestIoConfig)
#include "tst_io_config.moc"
