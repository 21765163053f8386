// Where an export lands: a fresh folder of its own beside it, nothing of a killed one in it, and nothing that a person put there meanwhile lost.
#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/export/partial_folder.h"
#include "tests/support/export_fixtures.h"

#include <QTest>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>

namespace fs = std::filesystem;
using namespace linnet::core;
using namespace linnet::tests;

namespace {

ExportOptions hf() {
    ExportOptions options;
    options.format = "hf";
    return options;
}

std::vector<std::string> namesLike(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder.parent_path()))
        if (entry.path().filename().string().starts_with(folder.filename().string()))
            names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

} // namespace

class TestExportTarget : public QObject {
    Q_OBJECT

    TinyTeachers m_teachers;
    TinyStudents m_students{m_teachers};
    fs::path at(const std::string& name) const { return m_students.at(name); }

private Q_SLOTS:
    void initTestCase() {
        at::set_num_threads(1);
        LINNET_MAKE_TEACHERS(m_teachers);
    }

    void leftovers() { // of an export that was killed; none of one that lives, nor what only looks like one
        const auto out = at("killed");
        const auto child = ::fork();
        if (child == 0) {
            const PartialFolder partial(out, {});
            writeFileAtomically(partial.path() / "model.safetensors", "half");
            ::kill(::getpid(), SIGKILL);
        }
        int status = 0;
        QVERIFY(child > 0 && ::waitpid(child, &status, 0) == child && WIFSIGNALED(status));
        QCOMPARE(namesLike(out).size(), std::size_t(1));
        fs::create_directories(at("killed.part-backup")); // a person's
        fs::create_directories(at("killed.part-live01"));
        writeFileAtomically(at("killed.part-live01") / kPartialMark, "");
        const int lock = ::open((at("killed.part-live01") / kPartialMark).c_str(), O_RDWR);
        QVERIFY(::flock(lock, LOCK_EX | LOCK_NB) == 0);
        QVERIFY(exportModel(m_students.run("llama"), out, hf(), kOneThread));
        QVERIFY((namesLike(out) == std::vector<std::string>{"killed", "killed.part-backup", "killed.part-live01"}));
        QVERIFY(verifyExport(out, kOneThread) && !fs::exists(out / kPartialMark));
        ::close(lock);
        const PartialFolder next(out, {});
        QVERIFY(!fs::exists(at("killed.part-live01")) && fs::exists(at("killed.part-backup")));
        const PartialFolder other(out, {}); // lives in this process, too
        QVERIFY(fs::exists(next.path()) && next.path() != other.path());
    }

    void appears_data() {
        QTest::addColumn<QString>("what");
        for (const char* what : {"file", "folder", "link", "empty folder"})
            QTest::newRow(what) << what;
    }
    void appears() { // at --out, while the export runs
        QFETCH(QString, what);
        const auto out = at("appears " + what.toStdString());
        bool there = false;
        Control control;
        control.onProgress = [&](const Progress& progress) {
            if (progress.stage != "verify" || std::exchange(there, true))
                return;
            if (what == "file")
                writeFileAtomically(out, "mine");
            else if (what == "link")
                fs::create_symlink("nowhere", out);
            else
                fs::create_directory(out);
            if (what == "folder")
                writeFileAtomically(out / "thesis", "mine");
        };
        const auto result = exportModel(m_students.run("llama"), out, hf(), kOneThread, control);
        QVERIFY(there);
        QCOMPARE(namesLike(out).size(), std::size_t(1));
        if (what == "empty folder") {
            QVERIFY2(result, qPrintable(messageOf(result)));
            QVERIFY(verifyExport(out, kOneThread));
            return;
        }
        QVERIFY(!result && result.error().code == ErrorCode::Usage && messageOf(result).contains("appeared"));
        if (what == "link")
            QVERIFY(fs::is_symlink(out));
        else
            QCOMPARE(readTextFile(what == "file" ? out : out / "thesis"), std::string("mine"));
    }

    void twoAtOnce() {
        const auto out = at("two");
        bool second = false;
        Control control;
        control.onProgress = [&](const Progress& progress) {
            if (progress.stage == "verify" && !std::exchange(second, true))
                second = exportModel(m_students.run("llama"), out, hf(), kOneThread).has_value();
        };
        const auto first = exportModel(m_students.run("llama"), out, hf(), kOneThread, control);
        QVERIFY(second && !first && first.error().code == ErrorCode::Usage && messageOf(first).contains("appeared"));
        QVERIFY(verifyExport(out, kOneThread));
        QCOMPARE(namesLike(out).size(), std::size_t(1));
    }

    void refused_data() {
        QTest::addColumn<QString>("name");
        QTest::addColumn<QString>("why");
        QTest::newRow("empty") << "" << "--out is empty";
        QTest::newRow("file") << "a file" << "is a file";
        QTest::newRow("link to a file") << "to a file" << "is a file";
        QTest::newRow("dangling") << "dangling" << "leads nowhere";
        QTest::newRow("full") << "full/" << "is not empty";
        QTest::newRow("long") << QString(250, 'x') << "too long";
        QTest::newRow("too long for any file") << QString(300, 'x') << "too long";
    }
    void refused() {
        QFETCH(QString, name);
        QFETCH(QString, why);
        std::error_code ignored;
        writeFileAtomically(at("a file"), "mine");
        fs::create_symlink("a file", at("to a file"), ignored);
        fs::create_symlink("not there", at("dangling"), ignored);
        fs::create_directories(at("full") / "x");
        const auto result = exportModel(m_students.run("llama"), name.isEmpty() ? fs::path() : at(name.toStdString()), hf(), kOneThread);
        QVERIFY(!result);
        QVERIFY2(why.isEmpty() || (result.error().code == ErrorCode::Usage && messageOf(result).contains(why)), qPrintable(messageOf(result)));
        QVERIFY(readTextFile(at("a file")) == "mine" && fs::is_symlink(at("dangling")) && !fs::exists(at("not there")));
    }

    void throughALink() {
        fs::create_directories(at("elsewhere") / "real");
        fs::create_directory_symlink("elsewhere/real", at("link"));
        const auto report = exportModel(m_students.run("llama"), at("link/"), hf(), kOneThread);
        QVERIFY2(report, qPrintable(messageOf(report)));
        QVERIFY(fs::is_symlink(at("link")) && fs::exists(at("elsewhere") / "real" / "model.safetensors"));
        QCOMPARE(std::distance(fs::directory_iterator(at("elsewhere")), fs::directory_iterator()), 1);
        const auto mode = fs::status(at("elsewhere") / "real").permissions(), usual = fs::status(at("elsewhere")).permissions();
        QVERIFY(mode == usual);
    }
};

QTEST_APPLESS_MAIN(TestExportTarget)
#include "tst_export_target.moc"
