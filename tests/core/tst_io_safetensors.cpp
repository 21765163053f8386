// Safetensors against the safetensors package and torch: both directions, 16-bit floats, FP8 blocks, shards.
#include "core/base/json.h"
#include "core/base/result.h"
#include "core/io/model_files.h"
#include "core/io/safetensors_writer.h"
#include "tests/support/file_builders.h"
#include "tests/support/oracle_process.h"

#include <QCryptographicHash>
#include <QTemporaryDir>
#include <QTest>

using namespace linnet::core;
using namespace linnet::tests;
namespace fs = std::filesystem;

namespace {

std::string sha(const std::string& bytes) {
    return QCryptographicHash::hash(QByteArrayView(bytes.data(), static_cast<qsizetype>(bytes.size())),
                                    QCryptographicHash::Sha256)
        .toHex()
        .toStdString();
}

std::string readAs(const WeightSource& source, const std::string& name, DType dtype) {
    std::size_t bytes = dtypeBytes(dtype);
    for (const auto size : source.find(name)->shape)
        bytes *= static_cast<std::size_t>(size);
    std::string out(bytes, '\0');
    source.read(name, dtype, out.data());
    return out;
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

class TestIoSafetensors : public QObject {
    Q_OBJECT

private slots:
    // Each stored type read as each type equals torch's conversion: all 16-bit values and the ties of float32.
    void conversionsAreTorchs() {
        NEED_ORACLE();
        QTemporaryDir folder;
        RUN_ORACLE("floats", folder.path());
        const fs::path root = folder.path().toStdString();
        const auto source = openSafetensorsFile(root / "floats.safetensors");
        const auto expected = readJsonFile(root / "expected.json");
        QCOMPARE(expected.size(), 3u);
        for (const auto& [stored, hashes] : expected.items())
            for (const auto dtype : {DType::F32, DType::F16, DType::BF16})
                QVERIFY2(sha(readAs(*source, stored, dtype)) == hashes[dtypeName(dtype)].get<std::string>(),
                         (stored + " as " + dtypeName(dtype)).c_str());
    }

    void fp8Blocks() {
        NEED_ORACLE();
        QTemporaryDir folder;
        RUN_ORACLE("fp8", folder.path());
        const fs::path root = folder.path().toStdString();
        const auto source = openSafetensorsFolder(root);
        const auto expected = readJsonFile(root / "expected.json");
        QCOMPARE(source->tensors().size(), expected.size()); // the scales are not listed
        for (const auto& [name, hashes] : expected.items())
            for (const auto dtype : {DType::F32, DType::BF16})
                QVERIFY2(sha(readAs(*source, name, dtype)) == hashes[dtypeName(dtype)].get<std::string>(), name.c_str());
        QCOMPARE(source->find("a.weight")->storedType, std::string("F8_E4M3"));
        QCOMPARE(source->nativeDType(), DType::F32);
    }

    void writtenFileIsReadByThePackage() {
        NEED_ORACLE();
        QTemporaryDir folder;
        const fs::path file = folder.filePath("ours.safetensors").toStdString();
        const std::vector<std::pair<TensorToWrite, std::string>> tensors{
            {{"odd", "BF16", {3}}, "abcdef"}, {{"weights é", "F32", {2, 3}}, std::string(24, 'w')},
            {{"none", "F16", {0, 4}}, ""},    {{"scalar", "I64", {}}, raw<std::int64_t>(-5)},
            {{"half", "F16", {1}}, "hh"},     {{"ids", "I32", {2}}, raw<std::int32_t>(1) + raw<std::int32_t>(-2)},
        };
        std::vector<TensorToWrite> header;
        for (const auto& tensor : tensors)
            header.push_back(tensor.first);
        SafetensorsWriter writer(file, header, {{"format", "pt"}, {"note", "\"quoted\""}});
        QVERIFY(!fs::exists(file));
        for (const auto& [tensor, bytes] : tensors)
            writer.write(tensor.name, bytes.data(), bytes.size());
        writer.finish();

        RUN_ORACLE("read", QString::fromStdString(file.string()), folder.filePath("read.json"));
        const auto read = readJsonFile(folder.filePath("read.json").toStdString());
        QCOMPARE(read["metadata"]["note"].get<std::string>(), std::string("\"quoted\""));
        QCOMPARE(read["tensors"].size(), tensors.size());
        const std::map<std::string, std::string> kTorch{{"BF16", "torch.bfloat16"},
                                                        {"F32", "torch.float32"},
                                                        {"F16", "torch.float16"},
                                                        {"I64", "torch.int64"},
                                                        {"I32", "torch.int32"}};
        for (const auto& [tensor, bytes] : tensors) {
            const auto& found = read["tensors"][tensor.name];
            QCOMPARE(found["sha"].get<std::string>(), sha(bytes));
            QCOMPARE(found["dtype"].get<std::string>(), kTorch.at(tensor.dtype));
            QCOMPARE(found["shape"].get<std::vector<std::int64_t>>(), tensor.shape);
        }
        // our own reader agrees, and an integer comes back as the float of its value
        const auto source = openSafetensorsFile(file);
        QCOMPARE(readAs(*source, "ids", DType::F32), raw(1.f) + raw(-2.f));
        QCOMPARE(readAs(*source, "odd", DType::BF16), std::string("abcdef"));
        std::uint64_t length = 0;
        std::ifstream(file, std::ios::binary).read(reinterpret_cast<char*>(&length), sizeof length);
        QCOMPARE(length % 8, 0u);
    }

    void unfinishedFileIsRemoved() {
        QTemporaryDir folder;
        const fs::path file = folder.filePath("x.safetensors").toStdString();
        {
            SafetensorsWriter writer(file, {{"a", "F32", {1}}, {"b", "F32", {1}}});
            writer.write("a", "1234", 4);
            const auto error = guarded([&] { writer.finish(); });
            QVERIFY(!error);
            QVERIFY2(error.error().message.find("\"b\"") != std::string::npos, error.error().message.c_str());
            QVERIFY(!guarded([&] { writer.write("a", "1234", 4); }));  // not its turn
            QVERIFY(!guarded([&] { writer.write("b", "12345", 5); })); // not its size
        }
        QVERIFY(fs::is_empty(file.parent_path()));
        QVERIFY(!guarded([&] { SafetensorsWriter(file, {{"a", "F32", {1}}, {"a", "F32", {1}}}); }));
        QVERIFY(!guarded([&] { SafetensorsWriter(file, {{"a", "F64", {1}}}); }));
    }

    void shards() {
        QTemporaryDir folder;
        const fs::path root = folder.path().toStdString();
        writeBytes(root / "p1.safetensors",
                   safetensorsBytes(R"({"b":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}}   )", "abcdef"));
        writeBytes(root / "p2.safetensors", // an odd header: unaligned data is legal
                   safetensorsBytes(R"({"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}} )", raw(1.5f) + raw(-2.f)));
        writeBytes(root / "model.safetensors.index.json",
                   R"({"metadata":{"total_size":14.0},"weight_map":{"a":"p2.safetensors","b":"p1.safetensors"}})");
        const auto source = openSafetensorsFolder(root);
        QCOMPARE(source->tensors().size(), 2u);
        QCOMPARE(readAs(*source, "a", DType::F32), raw(1.5f) + raw(-2.f));
        QCOMPARE(readAs(*source, "a", DType::BF16), raw<std::uint16_t>(0x3fc0) + raw<std::uint16_t>(0xc000));
        QCOMPARE(readAs(*source, "b", DType::BF16), std::string("abcdef"));
        QVERIFY(!source->find("c"));
        const auto hash = source->hash();
        writeBytes(root / "p1.safetensors",
                   safetensorsBytes(R"({"b":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}}   )", "abcdeX"));
        QVERIFY(openSafetensorsFolder(root)->hash() != hash);
    }
};

QTEST_APPLESS_MAIN(TestIoSafetensors)
#include "tst_io_safetensors.moc"
