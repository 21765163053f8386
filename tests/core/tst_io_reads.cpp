// Files are read if they are files: what would block or never end is refused at once, what is beyond any such file's size before it is read.
#include "core/base/file_hash.h"
#include "core/base/files.h"
#include "core/base/json.h"
#include "core/base/regular_file.h"
#include "core/base/result.h"
#include "core/io/mapped_file.h"
#include "core/io/model_files.h"
#include "core/io/weight_files.h"

#include <QTemporaryDir>
#include <QTest>

#include <fstream>
#include <sys/stat.h>

namespace fs = std::filesystem;
using namespace linnet::core;

class TestIoReads : public QObject {
    Q_OBJECT

    QTemporaryDir m_folder;
    fs::path at(const std::string& name) const { return fs::path(m_folder.path().toStdString()) / name; }

    using Reader = void (*)(const fs::path&);
    static std::vector<std::pair<const char*, Reader>> readers() {
        return {{"text", [](const fs::path& file) { readTextFile(file); }},          {"JSON", [](const fs::path& file) { readJsonFile(file); }},
                {"sampled hash", [](const fs::path& file) { hashFileSampled(file); }}, {"whole hash", [](const fs::path& file) { hashWholeFile(file); }},
                {"mapping", [](const fs::path& file) { const MappedFile mapped(file); }}, {"weights", [](const fs::path& file) { openSafetensorsFile(file); }}};
    }

private Q_SLOTS:
    void refused_data() {
        QTest::addColumn<QString>("what");
        QTest::addColumn<QString>("why");
        QTest::newRow("endless") << "/dev/zero" << "not a regular file";
        QTest::newRow("pipe") << "pipe" << "not a regular file";
        QTest::newRow("link to a pipe") << "link" << "not a regular file";
        QTest::newRow("folder") << "folder" << "is a folder";
        QTest::newRow("missing") << "missing" << "No such file";
    }
    void refused() {
        QFETCH(QString, what);
        QFETCH(QString, why);
        ::mkfifo(at("pipe").c_str(), 0600);
        std::error_code ignored;
        fs::create_symlink("pipe", at("link"), ignored);
        fs::create_directories(at("folder"));
        const auto file = at(what.toStdString()); // an absolute name stays what it is
        for (const auto& [name, read] : readers()) {
            const auto result = guarded([&] { read(file); });
            QVERIFY2(!result, name);
            const auto message = QString::fromStdString(result.error().message);
            QVERIFY2(message.contains(why) && message.contains(QString::fromStdString(file.string())), qPrintable(message));
            QVERIFY(result.error().code == (what == "missing" ? ErrorCode::NotFound : ErrorCode::Io) && result.error().context.contains("file"));
        }
    }

    void sizes() {
        std::ofstream(at("sparse.json")) << "{}";
        fs::resize_file(at("sparse.json"), kMostJsonBytes + 1);
        auto result = guarded([&] { return readJsonFile(at("sparse.json")); });
        QVERIFY(!result && result.error().code == ErrorCode::Malformed && result.error().message.find("256 MiB") != std::string::npos);
        fs::resize_file(at("sparse.json"), kMostTextBytes + 1);
        const auto text = guarded([&] { return readTextFile(at("sparse.json")); });
        QVERIFY(!text && text.error().code == ErrorCode::Malformed);
        QVERIFY(readTextFile("/proc/self/status").find("VmRSS") != std::string::npos); // says no size
        writeFileAtomically(at("empty"), "");
        QCOMPARE(readTextFile(at("empty")), std::string());
        std::string bytes(3'000'001, 'x');
        bytes[2'999'999] = '\0';
        writeFileAtomically(at("some"), bytes);
        QVERIFY(readTextFile(at("some")) == bytes);
    }

    void contents() { // a bit that the samples do not see
        fs::create_directories(at("model"));
        const auto file = at("model") / "model.safetensors";
        std::string bytes(9'000'000, '\1');
        writeFileAtomically(file, bytes);
        const auto sampled = hashFileSampled(file), whole = weightContents(at("model"));
        QCOMPARE(whole, hashWholeFile(file));
        bytes[2'000'000] = '\0';
        writeFileAtomically(file, bytes);
        QCOMPARE(hashFileSampled(file), sampled);
        QVERIFY(weightContents(at("model")) != whole);
    }
    void contentsOfShards() { // by name, whatever the order in the index
        const auto folder = at("shards");
        fs::create_directories(folder);
        for (const char* name : {"b.safetensors", "a.safetensors", "c.safetensors"})
            writeFileAtomically(folder / name, name);
        writeFileAtomically(folder / "model.safetensors.index.json", R"({"weight_map": {"x": "b.safetensors", "y": "a.safetensors", "z": "b.safetensors"}})");
        QVERIFY((weightFiles(folder) == std::vector{folder / "a.safetensors", folder / "b.safetensors"}));
        QCOMPARE(weightContents(folder), hashBytes(hashWholeFile(folder / "a.safetensors") + hashWholeFile(folder / "b.safetensors")));
        QVERIFY((weightFiles(folder / "c.safetensors") == std::vector{folder / "c.safetensors"}));
    }
};

QTEST_APPLESS_MAIN(TestIoReads)
#include "tst_io_reads.moc"
