// What all exports have in common: shards, provenance, hashes, the card, the same bytes each time, and that nothing is left of one that did not end.
#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/base/file_hash.h"
#include "core/export/hf_folder.h"
#include "core/export/parity.h"
#include "core/export/provenance.h"
#include "tests/support/export_fixtures.h"

#include <QTest>

#include <csignal>
#include <sys/resource.h>
#include <sys/wait.h>

namespace fs = std::filesystem;
using namespace linnet::core;
using namespace linnet::tests;

namespace {

const std::vector<std::vector<TokenId>> kPrompts{{5, 17, 200, 31, 8, 99, 140, 3, 61, 254}, {77, 4, 120}};

ExportOptions options(const std::string& format, const std::string& dtype = "f32", std::uint64_t shardBytes = 5'000'000'000) {
    ExportOptions o;
    o.format = format, o.dtype = dtype, o.shardBytes = shardBytes, o.lift = true;
    return o;
}

std::map<std::string, std::string> bytesOf(const fs::path& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
        if (entry.is_regular_file())
            files[fs::relative(entry.path(), folder).string()] = readTextFile(entry.path());
    return files;
}

std::vector<std::string> shardsOf(const fs::path& folder) {
    std::vector<std::string> shards;
    for (const auto& [name, bytes] : bytesOf(folder))
        if (name.starts_with("model-"))
            shards.push_back(name);
    return shards;
}

// No file of this process grows beyond that; a write that wants to fails with EFBIG, as on a full disk with ENOSPC.
class SmallFiles {
public:
    explicit SmallFiles(rlim_t bytes) {
        ::getrlimit(RLIMIT_FSIZE, &m_before);
        const rlimit small{bytes, m_before.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &small);
        m_handler = std::signal(SIGXFSZ, SIG_IGN);
    }
    ~SmallFiles() {
        ::setrlimit(RLIMIT_FSIZE, &m_before);
        std::signal(SIGXFSZ, m_handler);
    }

private:
    rlimit m_before{};
    void (*m_handler)(int) = nullptr;
};

} // namespace

class TestExportCommon : public QObject {
    Q_OBJECT

    TinyTeachers m_teachers;
    TinyStudents m_students{m_teachers};
    fs::path at(const std::string& name) const { return m_students.at(name); }

    // Every format that can say a hybrid of some tiny teacher, with that teacher.
    static void formatRows() {
        QTest::addColumn<QString>("format");
        QTest::addColumn<QString>("dtype");
        QTest::addColumn<QString>("kind");
        for (const auto& [format, kind] : {std::pair("hf", "llama"), std::pair("qwen3.5", "qwen3"), std::pair("gguf", "qwen3"), std::pair("adapter", "qwen2"), std::pair("bundle", "llama"),
                                           std::pair("fla", "qwen2")})
            for (const char* dtype : {"f32", "bf16", "q8_0"})
                if (std::string(dtype) != "q8_0" || std::string(format) == "gguf")
                    QTest::addRow("%s %s", format, dtype) << format << dtype << kind;
        QTest::newRow("qwen3.5 lifted") << "qwen3.5" << "f32" << "llama";
    }
    bool knows(const QString& format) { // formats land one by one
        const auto known = guarded([&] { formatOf(format.toStdString()); });
        return known.has_value();
    }

private Q_SLOTS:
    void initTestCase() {
        at::set_num_threads(1);
        LINNET_MAKE_TEACHERS(m_teachers);
    }

    // ---- shards ---------------------------------------------------------------------------------------------------------------

    void shards_data() {
        QTest::addColumn<QString>("format");
        QTest::addColumn<QString>("kind");
        QTest::addColumn<QString>("cls");
        QTest::newRow("hf") << "hf" << "llama" << "LinnetForCausalLM";
        QTest::newRow("qwen3.5") << "qwen3.5" << "qwen3" << "Qwen3_5ForCausalLM";
    }
    void shards() {
        QFETCH(QString, format);
        QFETCH(QString, kind);
        QFETCH(QString, cls);
        constexpr std::uint64_t kMost = 60'000;
        const auto run = m_students.run(kind), out = at("sharded " + format.toStdString());
        const auto report = exportModel(run, out, options(format.toStdString(), "f32", kMost), kOneThread);
        QVERIFY2(report, qPrintable(messageOf(report)));
        const auto shards = shardsOf(out);
        QVERIFY(shards.size() > 3 && !fs::exists(out / "model.safetensors"));
        const Json index = readJsonFile(out / "model.safetensors.index.json");
        std::uint64_t total = 0;
        std::size_t tensors = 0;
        for (std::size_t i = 0; i < shards.size(); ++i) {
            QCOMPARE(QString::fromStdString(shards[i]), QString::asprintf("model-%05zu-of-%05zu.safetensors", i + 1, shards.size()));
            QVERIFY(std::ranges::find(report->files, shards[i]) != report->files.end() && report->hashes.contains(shards[i]));
            const auto source = openSafetensorsFile(out / shards[i]);
            std::uint64_t bytes = 0;
            for (const auto& info : source->tensors()) {
                bytes += info.storedBytes;
                QCOMPARE(index["weight_map"][info.name].get<std::string>(), shards[i]);
            }
            QVERIFY(bytes <= kMost || source->tensors().size() == 1);
            total += bytes, tensors += source->tensors().size();
        }
        QCOMPARE(index["metadata"]["total_size"].get<std::uint64_t>(), total);
        QCOMPARE(index["weight_map"].size(), tensors);

        const auto original = orFail(openModel(run, kOneThread)), back = orFail(openModel(out, kOneThread));
        QVERIFY(exportModel(run, at("whole " + format.toStdString()), options(format.toStdString()), kOneThread));
        const auto whole = orFail(openModel(at("whole " + format.toStdString()), kOneThread));
        QVERIFY(at::equal(logitsOf(*back, kPrompts[0]), logitsOf(*whole, kPrompts[0])));
        const auto request = at("request"), answer = at("answer");
        writeFileAtomically(request, Json{{"ids", kPrompts}, {"text", "a state"}}.dump());
        const QString said = runOracle("export_oracle.py", {out.c_str(), request.c_str(), answer.c_str()});
        QVERIFY2(said.isEmpty(), qPrintable(said));
        QCOMPARE(QString::fromStdString(readJsonFile(answer.string() + ".json")["class"]), cls);
        const auto logits = tensorsOf(answer.string() + ".safetensors");
        for (std::size_t i = 0; i < kPrompts.size(); ++i)
            LINNET_NEAR(logits.at("logits_" + std::to_string(i)), logitsOf(*original, kPrompts[i]), 1e-4);
        QVERIFY(verifyExport(out, kOneThread));
    }

    void tensorsLargerThanAShard() { // each has its own
        const auto out = at("one each");
        QVERIFY(exportModel(m_students.run("llama"), out, options("hf", "bf16", 1), kOneThread));
        for (const auto& shard : shardsOf(out))
            QCOMPARE(openSafetensorsFile(out / shard)->tensors().size(), std::size_t(1));
        QVERIFY(openModel(out, kOneThread));
    }

    // ---- verify ---------------------------------------------------------------------------------------------------------------

    void verifyEveryFormat_data() { formatRows(); }
    void verifyEveryFormat() {
        QFETCH(QString, format);
        QFETCH(QString, dtype);
        QFETCH(QString, kind);
        if (!knows(format))
            QSKIP("not in this build yet");
        const auto run = m_students.run(kind), out = at("verify " + std::string(QTest::currentDataTag()));
        const auto written = exportModel(run, out, options(format.toStdString(), dtype.toStdString()), kOneThread);
        QVERIFY2(written, qPrintable(messageOf(written)));
        const auto found = verifyExport(out, kOneThread);
        QVERIFY2(found, qPrintable(messageOf(found)));
        QCOMPARE(QString::fromStdString(found->format), format);
        QCOMPARE(QString::fromStdString(found->dtype), dtype);
        QCOMPARE(found->exact, written->exact);
        QCOMPARE(found->fidelity, written->fidelity);
        QCOMPARE(found->notes, written->notes);
        QVERIFY(found->hashes == written->hashes);
        QCOMPARE(found->bytes, written->bytes);
        QCOMPARE(found->parity.meanKl, written->parity.meanKl);
        auto files = written->files, listed = found->files;
        std::sort(files.begin(), files.end());
        files.erase(std::unique(files.begin(), files.end()), files.end());
        QCOMPARE(Json(files).dump().c_str(), Json(listed).dump().c_str());
        for (const auto& [name, bytes] : bytesOf(out))
            QVERIFY2(found->hashes.contains(name) || name == "README.md" || name == kHashFile, name.c_str());
        // one bit, anywhere: the last byte of the largest file
        fs::path largest;
        for (const auto& [name, hash] : found->hashes)
            if (largest.empty() || fs::file_size(out / name) > fs::file_size(largest))
                largest = out / name;
        auto bytes = readTextFile(largest);
        bytes.back() = static_cast<char>(bytes.back() ^ 1);
        writeFileAtomically(largest, bytes);
        const auto damaged = verifyExport(out, kOneThread);
        QVERIFY(!damaged && messageOf(damaged).contains(QString::fromStdString(largest.filename().string())));
    }

    void verifyNoticesShards() {
        const auto whole = at("shards to damage");
        QVERIFY(exportModel(m_students.run("llama"), whole, options("hf", "f32", 60'000), kOneThread));
        const auto shards = shardsOf(whole);
        const auto refused = [&](const std::string& what, const std::string& named, const std::function<void(const fs::path&)>& damage) {
            const auto folder = at("damaged " + what);
            fs::copy(whole, folder);
            damage(folder);
            const auto verdict = verifyExport(folder, kOneThread);
            QVERIFY2(!verdict, what.c_str());
            QVERIFY2(messageOf(verdict).contains(QString::fromStdString(named)), qPrintable(messageOf(verdict)));
        };
        refused("missing", shards[1], [&](const fs::path& folder) { fs::remove(folder / shards[1]); });
        refused("swapped", shards[0], [&](const fs::path& folder) {
            fs::rename(folder / shards[0], folder / "x");
            fs::rename(folder / shards[1], folder / shards[0]);
            fs::rename(folder / "x", folder / shards[1]);
        });
        refused("cut", shards.back(), [&](const fs::path& folder) { fs::resize_file(folder / shards.back(), fs::file_size(folder / shards.back()) - 1); });
        refused("index", "index.json", [&](const fs::path& folder) { writeFileAtomically(folder / "model.safetensors.index.json", "{}"); });
        refused("added", "model.safetensors", [&](const fs::path& folder) { fs::copy_file(folder / shards[0], folder / "model.safetensors"); }); // readers would take it
        refused("no hashes", kHashFile, [&](const fs::path& folder) { fs::remove(folder / kHashFile); });
        refused("empty hashes", kHashFile, [&](const fs::path& folder) { writeFileAtomically(folder / kHashFile, "{}"); });
        refused("provenance", kExportFile, [&](const fs::path& folder) { writeFileAtomically(folder / kExportFile, "{}"); });
    }

    void aPersonsFilesAreTheirs() {
        const auto out = at("edited");
        QVERIFY(exportModel(m_students.run("llama"), out, options("hf"), kOneThread));
        writeFileAtomically(out / "README.md", "mine");
        writeFileAtomically(out / "notes.txt", "mine");
        fs::create_directories(out / ".git");
        writeFileAtomically(out / ".git" / "x.json", "{}");
        const auto verdict = verifyExport(out, kOneThread);
        QVERIFY2(verdict, qPrintable(messageOf(verdict)));
    }

    void nothingThatIsReadMayChange_data() {
        QTest::addColumn<QString>("file");
        for (const char* file : {"report.json", "recipe.json", "merges.txt", "vocab.txt", "tokenizer.model", "consolidated.00.pth", "pytorch_model.bin", "additional_chat_templates/x.jinja"})
            QTest::newRow(file) << file;
    }
    void nothingThatIsReadMayChange() { // nor be added
        QFETCH(QString, file);
        const auto out = at("changed");
        fs::remove_all(out);
        QVERIFY(exportModel(m_students.run("llama"), out, options("hf"), kOneThread));
        fs::create_directories((out / file.toStdString()).parent_path());
        writeFileAtomically(out / file.toStdString(), "{}");
        const auto verdict = verifyExport(out, kOneThread);
        QVERIFY2(!verdict && verdict.error().code == ErrorCode::Malformed && messageOf(verdict).contains(file), qPrintable(messageOf(verdict)));
    }

    void foldersBeforeExportJson() {
        const auto out = at("older");
        QVERIFY(exportModel(m_students.run("llama"), out, options("hf", "bf16"), kOneThread));
        fs::remove(out / kExportFile);
        Json hashes = readJsonFile(out / kHashFile);
        for (const char* later : {kExportFile, "recipe.json", "report.json"})
            hashes.erase(later);
        writeFileAtomically(out / kHashFile, hashes.dump());
        const auto verdict = verifyExport(out, kOneThread);
        QVERIFY2(verdict, qPrintable(messageOf(verdict)));
        QVERIFY(verdict->format == "hf" && verdict->dtype == "bf16" && !verdict->exact);
    }

    // ---- provenance -----------------------------------------------------------------------------------------------------------

    void provenance() {
        const auto run = m_students.run("qwen3");
        writeFileAtomically(m_teachers.path("qwen3") / "README.md", "---\nlanguage: en\nlicense: \"apache-2.0\"  # theirs\n---\n# T\nlicense: mit\n");
        const auto out = at("origin");
        QVERIFY(exportModel(run, out, options("hf"), kOneThread));
        const auto p = readProvenance(out);
        QVERIFY(p.teacher.name == "qwen3" && p.teacher.license == "apache-2.0" && p.format == "hf" && p.dtype == "f32" && p.exact);
        QCOMPARE(p.teacher.contents, hashWholeFile(m_teachers.path("qwen3") / "model.safetensors"));
        QCOMPARE(p.teacher.hash, orFail(readModelInfo(m_teachers.path("qwen3"))).hash);
        QCOMPARE(p.recipeHash, recipeHash(orFail(readRecipe(run / "recipe.json"))));
        QCOMPARE(p.layers, (std::vector<std::string>{"softmax", "gated_delta_net", "softmax", "gated_delta_net"}));
        QVERIFY(readTextFile(out / kExportFile).find(m_teachers.path("qwen3").parent_path().string()) == std::string::npos);
        // another student of that teacher is another; the same one in another dtype or format is the same
        QVERIFY(exportModel(m_students.run("qwen3", "layers:0,2", "linnet"), at("origin other"), options("hf"), kOneThread));
        QVERIFY(exportModel(run, at("origin rounded"), options("qwen3.5", "bf16"), kOneThread));
        const auto other = readProvenance(at("origin other")), rounded = readProvenance(at("origin rounded"));
        QVERIFY(other.studentHash != p.studentHash && rounded.studentHash == p.studentHash && other.teacher == p.teacher);
        // an export of an export keeps the first one's teacher
        QVERIFY(exportModel(out, at("origin again"), options("hf"), kOneThread));
        QVERIFY(readProvenance(at("origin again")).teacher == p.teacher);
        fs::remove(m_teachers.path("qwen3") / "README.md");
    }

    void licences_data() {
        QTest::addColumn<QString>("readme");
        QTest::addColumn<QString>("found");
        QTest::newRow("plain") << "---\nlicense: mit\n---\n" << "mit";
        QTest::newRow("quoted, CRLF") << "---\r\nlicense: 'llama3.2'\r\n---\r\n" << "llama3.2";
        QTest::newRow("named") << "---\nlicense: other\nlicense_name: qwen-research\n---\n" << "qwen-research";
        QTest::newRow("no key") << "---\ntags: [a]\n---\nlicense: mit\n" << "";
        QTest::newRow("no front matter") << "license: mit\n" << "";
        QTest::newRow("empty") << "" << "";
    }
    void licences() {
        QFETCH(QString, readme);
        QFETCH(QString, found);
        const auto folder = at("licence");
        fs::create_directories(folder);
        writeFileAtomically(folder / "README.md", readme.toStdString());
        QCOMPARE(QString::fromStdString(teacherOrigin(folder, "").license), found);
    }

    void theRealTeachersLicence() { // out of GGUF metadata
        const auto teacher = qEnvironmentVariable("LINNET_TEACHER");
        if (teacher.isEmpty())
            QSKIP("LINNET_TEACHER is not set");
        const auto origin = teacherOrigin(teacher.toStdString(), "h");
        QCOMPARE(origin.license, std::string("apache-2.0"));
        QCOMPARE(origin.name, fs::path(teacher.toStdString()).filename().string());
    }

    // ---- the card -------------------------------------------------------------------------------------------------------------

    void card_data() {
        QTest::addColumn<QString>("format");
        QTest::addColumn<QString>("licence");
        QTest::addColumn<QString>("field");
        QTest::newRow("known") << "hf" << "apache-2.0" << "apache-2.0";
        QTest::newRow("own name") << "hf" << "tongyi \"research\" licence" << "other";
        QTest::newRow("none") << "adapter" << "" << "unknown";
        QTest::newRow("gguf") << "gguf" << "mit" << "mit";
    }
    void card() {
        QFETCH(QString, format);
        QFETCH(QString, licence);
        QFETCH(QString, field);
        if (!knows(format))
            QSKIP("not in this build yet");
        const auto teacher = m_teachers.path("qwen3"), out = at("card " + std::string(QTest::currentDataTag()));
        Json config = readJsonFile(teacher / "config.json");
        config["_name_or_path"] = "some-lab/Tiny_3.0";
        writeFileAtomically(teacher / "config.json", config.dump());
        const auto run = m_students.run("qwen3");
        if (!licence.isEmpty())
            writeFileAtomically(teacher / "README.md", "---\nlicense: " + licence.toStdString() + "\n---\n");
        const auto report = exportModel(run, out, options(format.toStdString()), kOneThread);
        fs::remove(teacher / "README.md");
        QVERIFY2(report, qPrintable(messageOf(report)));
        const auto read = at("card.json");
        const QString said = runOracle("card_oracle.py", {(out / "README.md").c_str(), read.c_str()});
        QVERIFY2(said.isEmpty(), qPrintable(said));
        const Json card = readJsonFile(read);
        QCOMPARE(QString::fromStdString(card["data"]["license"]), field);
        QCOMPARE(card["data"].value("base_model", std::string()), std::string("some-lab/Tiny_3.0"));
        QCOMPARE(card["data"]["pipeline_tag"].get<std::string>(), std::string("text-generation"));
        const auto text = QString::fromStdString(readTextFile(out / "README.md"));
        const auto student = orFail(readReport(run)).evaluation.at("student");
        QVERIFY2(text.contains(QString::asprintf("| student | %.3f ± ", student.perplexity)), qPrintable(text));
        QVERIFY(text.contains(QString::asprintf("%.4f ± ", *student.klToTeacher)) && text.contains(QStringLiteral("n = %1 predictions").arg(student.tokens)));
        QVERIFY(text.contains(QStringLiteral("cold windows of %1 tokens").arg(student.seqLen)));
        QVERIFY(text.contains(QString::asprintf("logits differ by %.3g at most", report->parity.maxAbsLogit)));
        QVERIFY(text.contains(QStringLiteral("%1 of %2 greedy tokens").arg(report->parity.greedySame).arg(report->parity.greedyTokens)));
        QVERIFY(text.contains(licence.isEmpty() ? QStringLiteral("ask the teacher's owner") : licence));
        QVERIFY(text.contains(QStringLiteral("hash ") + QString::fromStdString(readProvenance(out).recipeHash)));
        QVERIFY(!card["blocks"].empty());
        for (const auto& note : report->notes)
            QVERIFY(text.contains(QString::fromStdString(note)));
    }

    // ---- the same bytes -------------------------------------------------------------------------------------------------------

    void sameBytes_data() { formatRows(); }
    void sameBytes() { // file by file, on the same machine with the same number of threads: parity.safetensors holds logits
        QFETCH(QString, format);
        QFETCH(QString, dtype);
        QFETCH(QString, kind);
        if (!knows(format))
            QSKIP("not in this build yet");
        const auto run = m_students.run(kind);
        std::map<std::string, std::string> files[2];
        for (auto& each : files) {
            const auto out = at("same bytes");
            fs::remove_all(out);
            const auto report = exportModel(run, out, options(format.toStdString(), dtype.toStdString(), 100'000), kOneThread);
            QVERIFY2(report, qPrintable(messageOf(report)));
            each = bytesOf(out);
            QTest::qSleep(1100); // a time of day in a file would show
        }
        QCOMPARE(files[0].size(), files[1].size());
        for (const auto& [name, bytes] : files[0])
            QVERIFY2(files[1].at(name) == bytes, name.c_str());
    }

    // ---- space ----------------------------------------------------------------------------------------------------------------

    void spaceIsEnough_data() { formatRows(); }
    void spaceIsEnough() {
        QFETCH(QString, format);
        QFETCH(QString, dtype);
        QFETCH(QString, kind);
        if (!knows(format))
            QSKIP("not in this build yet");
        const auto run = m_students.run(kind);
        const auto chosen = options(format.toStdString(), dtype.toStdString());
        const auto report = exportModel(run, at("space " + std::string(QTest::currentDataTag())), chosen, kOneThread);
        QVERIFY2(report, qPrintable(messageOf(report)));
        auto info = orFail(readModelInfo(run));
        const auto estimate = exportBytes(info, chosen);
        QVERIFY2(estimate >= report->bytes && estimate < report->bytes + (20 << 20), qPrintable(QStringLiteral("%1 %2").arg(estimate).arg(report->bytes)));
        // without what does not grow with the model: a vocabulary and layers a thousand times as large would show a factor that is wrong
        std::uint64_t weights = 0;
        for (const auto& [name, bytes] : bytesOf(at("space " + std::string(QTest::currentDataTag()))))
            if ((name.ends_with(".safetensors") && name != kParityFile) || name.ends_with(".gguf"))
                weights += bytes.size();
        const auto fixed = (16u << 20) + 8 * static_cast<std::uint64_t>(info.config.vocabSize) * 4;
        QVERIFY2(estimate - fixed > weights / 2 && estimate - fixed < 2 * weights, qPrintable(QStringLiteral("%1 %2").arg(estimate - fixed).arg(weights)));
    }

    void fullDisk_data() { formatRows(); }
    void fullDisk() {
        QFETCH(QString, format);
        QFETCH(QString, dtype);
        QFETCH(QString, kind);
        if (!knows(format))
            QSKIP("not in this build yet");
        const auto run = m_students.run(kind), out = at("full disk " + std::string(QTest::currentDataTag()));
        const SmallFiles small(40'000);
        const auto result = exportModel(run, out, options(format.toStdString(), dtype.toStdString()), kOneThread);
        QVERIFY(!result);
        QVERIFY2(result.error().code == ErrorCode::Disk, qPrintable(messageOf(result)));
        QVERIFY2(messageOf(result).contains("model") || messageOf(result).contains(".safetensors") || messageOf(result).contains(".gguf"), qPrintable(messageOf(result)));
        QVERIFY(TinyStudents::nothingLike(out));
    }

    // ---- cancel ---------------------------------------------------------------------------------------------------------------

    void cancel_data() {
        QTest::addColumn<QString>("format");
        QTest::addColumn<QString>("kind");
        for (const auto& [format, kind] : {std::pair("hf", "llama"), std::pair("qwen3.5", "qwen3"), std::pair("gguf", "qwen3"), std::pair("adapter", "qwen2"), std::pair("bundle", "llama")})
            QTest::newRow(format) << format << kind;
    }
    void cancel() { // at the first report of each stage, in the middle and at the last
        QFETCH(QString, format);
        QFETCH(QString, kind);
        if (!knows(format))
            QSKIP("not in this build yet");
        const auto run = m_students.run(kind);
        std::map<std::string, int> reports;
        double last = 0;
        bool grew = true;
        Control counting;
        counting.onProgress = [&](const Progress& progress) {
            ++reports[progress.stage];
            if (progress.stage == "export") {
                grew = grew && progress.done >= last && progress.done <= progress.total;
                last = progress.done;
            }
        };
        const auto whole = exportModel(run, at("counted " + format.toStdString()), options(format.toStdString()), kOneThread, counting);
        QVERIFY2(whole, qPrintable(messageOf(whole)));
        QVERIFY(grew && reports["export"] > 3 && reports["verify"] >= 2);
        for (const std::string stage : {"export", "verify"})
            for (const int when : {1, reports[stage] / 2, reports[stage]}) {
                const auto out = at("cancelled");
                std::stop_source stop;
                int seen = 0;
                Control control;
                control.stop = stop.get_token();
                control.onProgress = [&](const Progress& progress) {
                    if (progress.stage == stage && ++seen == when)
                        stop.request_stop();
                };
                const auto result = exportModel(run, out, options(format.toStdString()), kOneThread, control);
                QVERIFY2(!result && result.error().code == ErrorCode::Cancelled, (stage + std::to_string(when)).c_str());
                QVERIFY(TinyStudents::nothingLike(out));
            }
    }

    void interruptedCommand() { // SIGINT in the middle of the writing
        const auto teacher = qEnvironmentVariable("LINNET_TEACHER"), program = qEnvironmentVariable("LINNET_CLI");
        if (teacher.isEmpty() || !QFileInfo::exists(program))
            QSKIP("LINNET_TEACHER or LINNET_CLI is not there");
        const auto out = at("interrupted");
        QProcess process;
        process.start(program, {"export", teacher, "--format", "hf", "--out", out.c_str(), "--device", "cpu", "--threads", "1"});
        QVERIFY(process.waitForStarted());
        process.setReadChannel(QProcess::StandardError);
        QByteArray said;
        QElapsedTimer timer;
        for (timer.start(); timer.elapsed() < 120000 && !said.contains("export ") && process.state() == QProcess::Running; said += process.readAllStandardError())
            process.waitForReadyRead(100);
        QVERIFY2(said.contains("export") && process.state() == QProcess::Running, said.constData());
        ::kill(static_cast<pid_t>(process.processId()), SIGINT);
        QVERIFY(process.waitForFinished(60000));
        QCOMPARE(process.exitCode(), 130);
        QVERIFY(TinyStudents::nothingLike(out));
    }
};

QTEST_APPLESS_MAIN(TestExportCommon)
#include "tst_export_common.moc"
