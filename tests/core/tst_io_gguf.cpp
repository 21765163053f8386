// GGUF against gguf-py and transformers: every block format, the row order, names, the real teacher.
#include "core/base/files.h"
#include "core/base/json.h"
#include "core/base/result.h"
#include "core/io/gguf_dequant.h"
#include "core/io/model_files.h"
#include "tests/support/file_builders.h"
#include "tests/support/oracle_process.h"

#include <QCryptographicHash>
#include <QElapsedTimer>
#include <QTemporaryDir>
#include <QTest>

#include <cmath>

using namespace linnet::core;
using namespace linnet::tests;
namespace fs = std::filesystem;

namespace {

std::string sha(const std::vector<float>& values) {
    const QByteArrayView bytes(reinterpret_cast<const char*>(values.data()),
                               static_cast<qsizetype>(values.size() * sizeof(float)));
    return QCryptographicHash::hash(bytes, QCryptographicHash::Sha256).toHex().toStdString();
}

std::vector<float> readFloats(const WeightSource& source, const std::string& name) {
    std::int64_t elements = 1;
    for (const auto size : source.find(name)->shape)
        elements *= size;
    std::vector<float> values(static_cast<std::size_t>(elements));
    source.read(name, DType::F32, values.data());
    return values;
}

} // namespace

#define NEED_ORACLE()                                                                                                          \
    if (oraclePython().isEmpty())                                                                                              \
    QSKIP("LINNET_ORACLE_PYTHON is not set")
#define RUN_ORACLE(...)                                                                                                        \
    do {                                                                                                                       \
        const QString said = runOracle("io_oracle.py", {__VA_ARGS__});                                                         \
        QVERIFY2(said.isEmpty(), qPrintable(said));                                                                            \
    } while (false)

class TestIoGguf : public QObject {
    Q_OBJECT

private:
    QTemporaryDir m_folder;

    QString path(const char* name) const { return m_folder.filePath(name); }
    fs::path file(const char* name) const { return path(name).toStdString(); }

    // Every tensor that transformers give equals ours bit for bit, and so does the configuration.
    void compareWithTransformers(const fs::path& gguf, const Json& expected) {
        const auto source = openGguf(gguf);
        const auto config = readGgufConfig(gguf);
        checkTeacherTensors(config, *source);
        QVERIFY(expected["tensors"].size() > 20);
        for (const auto& [name, hash] : expected["tensors"].items()) {
            if (name == "lm_head.weight" && config.tiedEmbeddings)
                continue;
            QVERIFY2(source->find(name), name.c_str());
            QVERIFY2(sha(readFloats(*source, name)) == hash.get<std::string>(), name.c_str());
        }
        const auto& numbers = expected["config"];
        QCOMPARE(config.layers, numbers["num_hidden_layers"].get<std::int64_t>());
        QCOMPARE(config.hiddenSize, numbers["hidden_size"].get<std::int64_t>());
        QCOMPARE(config.heads, numbers["num_attention_heads"].get<std::int64_t>());
        QCOMPARE(config.kvHeads, numbers["num_key_value_heads"].get<std::int64_t>());
        QCOMPARE(config.intermediateSize, numbers["intermediate_size"].get<std::int64_t>());
        QCOMPARE(config.vocabSize, numbers["vocab_size"].get<std::int64_t>());
        QCOMPARE(config.maxPositions, numbers["max_position_embeddings"].get<std::int64_t>());
        QCOMPARE(static_cast<float>(config.rmsNormEps), numbers["rms_norm_eps"].get<float>());
        QCOMPARE(config.rmsNormEps, 1e-5); // what the float32 stands for
        QCOMPARE(config.rope.theta, expected["theta"].get<double>());
    }

private slots:
    void everyType() {
        NEED_ORACLE();
        RUN_ORACLE("quantised", path("q.gguf"), path("q.json"));
        const GgufFile gguf(file("q.gguf"));
        const auto expected = readJsonFile(file("q.json"));
        QCOMPARE(gguf.tensors().size(), expected.size());
        QVERIFY(expected.size() >= 18);
        for (const auto& tensor : gguf.tensors()) {
            std::vector<float> values(6 * 512);
            QCOMPARE(tensor.rows(), 6);
            readGgufTensor(gguf, tensor, DType::F32, values.data());
            QVERIFY2(sha(values) == expected[tensor.name].get<std::string>(), tensor.name.c_str());
        }
    }

    void tinyModelAsTransformersReadIt() {
        NEED_ORACLE();
        RUN_ORACLE("tiny", path("tiny.gguf"));
        RUN_ORACLE("transformers", path("tiny.gguf"), path("tiny.json"));
        compareWithTransformers(file("tiny.gguf"), readJsonFile(file("tiny.json")));
        const auto source = openGguf(file("tiny.gguf"));
        for (const std::string name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
            const auto prefix = "model.layers.1.self_attn." + name;
            const auto weight = readFloats(*source, prefix + ".weight"), bias = readFloats(*source, prefix + ".bias");
            for (std::size_t row = 0; row < bias.size(); ++row)
                QCOMPARE(bias[row], weight[row * (weight.size() / bias.size())]);
        }
        const auto config = readGgufConfig(file("tiny.gguf"));
        QVERIFY(config.qkvBias && config.outputBias && !config.mlpBias && !config.tiedEmbeddings);
    }

    void teacherAsTransformersReadIt() {
        NEED_ORACLE();
        const auto teacher = qEnvironmentVariable("LINNET_TEACHER");
        if (teacher.isEmpty())
            QSKIP("LINNET_TEACHER is not set");
        RUN_ORACLE("transformers", teacher, path("teacher.json"));
        compareWithTransformers(teacher.toStdString(), readJsonFile(file("teacher.json")));
        const auto config = readGgufConfig(teacher.toStdString());
        QCOMPARE(config.storedDType, std::string("Q4_1"));
        QVERIFY(config.tiedEmbeddings);
        QCOMPARE(config.endTokens, std::vector<std::int64_t>{2});
        QCOMPARE(openGguf(teacher.toStdString())->nativeDType(), DType::F32);
    }

    // The file's pages are given back: reading it whole leaves no second copy of it in memory.
    void readingLeavesNoPagesBehind() {
        const auto teacher = qEnvironmentVariable("LINNET_TEACHER");
        if (teacher.isEmpty())
            QSKIP("LINNET_TEACHER is not set");
        const auto source = openGguf(teacher.toStdString());
        std::vector<float> values(49152 * 576, 1.0f);
        const auto before = residentMemoryBytes();
        QElapsedTimer timer;
        timer.start();
        for (const auto& tensor : source->tensors())
            source->read(tensor.name, DType::F32, values.data());
        qInfo("decoded in %lld ms", timer.elapsed());
        const auto grown = residentMemoryBytes() - std::min(before, residentMemoryBytes());
        QVERIFY2(grown < (16u << 20), qPrintable(QString::number(grown >> 20) + " MiB more"));
    }

    void qwenRowsStayInOrder_data() {
        QTest::addColumn<QString>("architecture");
        QTest::addColumn<QList<float>>("expected"); // column 0 of k_proj, whose stored rows are 0, 1, 2, 3
        QTest::newRow("llama") << "llama" << QList<float>{0, 2, 1, 3};
        QTest::newRow("qwen2") << "qwen2" << QList<float>{0, 1, 2, 3};
        QTest::newRow("qwen3") << "qwen3" << QList<float>{0, 1, 2, 3};
    }

    void qwenRowsStayInOrder() {
        QFETCH(QString, architecture);
        QFETCH(QList<float>, expected);
        auto builder = tinyGgufKeys({}, architecture.toStdString());
        std::string rows;
        for (const float row : {0.f, 1.f, 2.f, 3.f})
            rows += raw(row) + zeros(7);
        builder.tensor("blk.0.attn_k.weight", {8, 4}, 0, rows);
        addTinyTensors(builder, "blk.0.attn_k.weight");
        writeBytes(file("rows.gguf"), builder.bytes());
        const auto source = openGguf(file("rows.gguf"));
        const std::string name = "model.layers.0.self_attn.k_proj.weight";
        const auto values = readFloats(*source, name);
        std::vector<std::uint16_t> halves(values.size());
        source->read(name, DType::BF16, halves.data());
        for (int row = 0; row < 4; ++row) {
            QCOMPARE(values[static_cast<std::size_t>(row) * 8], expected[row]);
            QCOMPARE(std::uint32_t{halves[static_cast<std::size_t>(row) * 8]} << 16,
                     std::bit_cast<std::uint32_t>(expected[row]));
        }
        QCOMPARE(source->nativeDType(), DType::F32);
    }

    void configuration() {
        auto builder = tinyGgufKeys("attention.head_count_kv", "llama");
        builder.f32("llama.rope.freq_base", 500000)
            .text("llama.rope.scaling.type", "linear")
            .f32("llama.rope.scaling.factor", 4);
        builder.u32("tokenizer.ggml.bos_token_id", 1)
            .u32("tokenizer.ggml.eos_token_id", 2)
            .u32("tokenizer.ggml.eot_token_id", 5);
        builder.tensor("rope_freqs.weight", {2}, 0, raw(1.f) + raw(8.f)).tensor("output.weight", {8, 6}, 0, zeros(48));
        addTinyTensors(builder);
        writeBytes(file("config.gguf"), builder.bytes());
        const auto config = readGgufConfig(file("config.gguf"));
        QCOMPARE(config.kvHeads, 2); // as many as heads where the key is absent
        QCOMPARE(config.headDim, 4);
        QCOMPARE(config.rope.type, std::string("linear"));
        QCOMPARE(config.rope.theta, 500000.0);
        QCOMPARE(config.rope.factor, 4.0);
        QCOMPARE(config.rope.frequencyDivisors, (std::vector<double>{1, 8}));
        QCOMPARE(*config.bosToken, 1);
        QCOMPARE(config.endTokens, (std::vector<std::int64_t>{2, 5}));
        QVERIFY(!config.tiedEmbeddings && !config.qkNorm && !config.qkvBias);
        QVERIFY(!openGguf(file("config.gguf"))->find("rope_freqs.weight"));
    }

    void metadataValues() {
        GgufBuilder builder;
        builder.key("i8", 1, raw<std::int8_t>(-3))
            .key("u64", 10, raw<std::uint64_t>(~0ull))
            .key("yes", 7, raw<std::uint8_t>(1));
        builder.key("f64", 12, raw(0.1)).f32("f32", 0.1f).texts("names", {"a", "", "é"});
        builder.key("ids", 9, raw<std::uint32_t>(5) + raw<std::uint64_t>(2) + raw<std::int32_t>(-1) + raw<std::int32_t>(7));
        builder.key("scores", 9, raw<std::uint32_t>(6) + raw<std::uint64_t>(1) + raw(0.5f)).u32("general.alignment", 64);
        builder.alignment = 64;
        builder.tensor("scalar", {}, 0, raw(2.5f)).tensor("empty", {0}, 0, "").tensor("t", {1}, 0, raw(3.5f));
        builder.version = 2;
        writeBytes(file("values.gguf"), builder.bytes());
        const GgufFile gguf(file("values.gguf"));
        QCOMPARE(gguf.version(), 2u);
        QCOMPARE(gguf.require<std::int64_t>("i8"), -3);
        QCOMPARE(gguf.require<std::uint64_t>("u64"), ~0ull);
        QCOMPARE(gguf.require<bool>("yes"), true);
        QCOMPARE(gguf.require<double>("f64"), 0.1);
        QCOMPARE(gguf.require<double>("f32"), static_cast<double>(0.1f));
        QCOMPARE(gguf.require<std::vector<std::string>>("names"), (std::vector<std::string>{"a", "", "é"}));
        QCOMPARE(gguf.require<std::vector<std::int64_t>>("ids"), (std::vector<std::int64_t>{-1, 7}));
        QCOMPARE(gguf.require<std::vector<double>>("scores"), std::vector<double>{0.5});
        float value = 0;
        readGgufTensor(gguf, *gguf.findTensor("scalar"), DType::F32, &value);
        QCOMPARE(value, 2.5f);
        readGgufTensor(gguf, *gguf.findTensor("empty"), DType::F32, &value);
        readGgufTensor(gguf, *gguf.findTensor("t"), DType::F32, &value);
        QCOMPARE(value, 3.5f);
    }
};

QTEST_APPLESS_MAIN(TestIoGguf)
#include "tst_io_gguf.moc"
