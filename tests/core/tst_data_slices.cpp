// samples.safetensors: our own round trip, and both directions against the safetensors package.
#include "core/base/result.h"
#include "core/data/text_data.h"

#include <QFile>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>

using namespace linnet::core;

namespace {

TokenWindows windows(std::int64_t sequences, std::int64_t seqLen, TokenId first) {
    TokenWindows result{{}, sequences, seqLen};
    for (std::int64_t i = 0; i < sequences * seqLen; ++i)
        result.ids.push_back(static_cast<TokenId>((first + i * 7919) % 151'936));
    return result;
}

// What the script prints under the Python that has the package.
QByteArray python(const QString& script, const QString& file) {
    QProcess process;
    process.start(qEnvironmentVariable("LINNET_ORACLE_PYTHON"), {"-c", script, file});
    if (!process.waitForFinished(120'000) || process.exitCode() != 0)
        qWarning("%s", process.readAllStandardError().constData());
    return process.readAllStandardOutput().trimmed();
}

} // namespace

class DataSlices : public QObject {
    Q_OBJECT
private slots:
    void roundTrip_data();
    void roundTrip();
    void packageReadsOurs();
    void weReadThePackages_data();
    void weReadThePackages();
};

void DataSlices::roundTrip_data() {
    QTest::addColumn<int>("calibration");
    QTest::addColumn<int>("selection");
    QTest::addColumn<int>("evaluation");
    QTest::newRow("all") << 12 << 3 << 5;
    QTest::newRow("no selection") << 12 << 0 << 5;
    QTest::newRow("calibration only") << 1 << 0 << 0;
}

void DataSlices::roundTrip() {
    QFETCH(int, calibration);
    QFETCH(int, selection);
    QFETCH(int, evaluation);
    QTemporaryDir folder;
    const auto file = folder.filePath("samples.safetensors").toStdString();
    const Slices slices = {windows(calibration, 16, 0), windows(selection, 16, 5), windows(evaluation, 16, 151'935), windows(1, 16, 77)};
    saveSlices(file, slices);
    const Slices read = loadSlices(file);
    QCOMPARE(read.calibration.hash(), slices.calibration.hash());
    QCOMPARE(read.selection.hash(), slices.selection.hash());
    QCOMPARE(read.evaluation.hash(), slices.evaluation.hash());
    QCOMPARE(read.training.hash(), slices.training.hash());
}

void DataSlices::packageReadsOurs() {
    if (qEnvironmentVariableIsEmpty("LINNET_ORACLE_PYTHON"))
        QSKIP("LINNET_ORACLE_PYTHON is not set: no safetensors package to compare with");
    QTemporaryDir folder;
    const auto file = folder.filePath("samples.safetensors");
    saveSlices(file.toStdString(), {windows(2, 3, 100'000), {}, windows(1, 3, 1), {}});
    const char* script = "import sys\nfrom safetensors.numpy import load_file\n"
                         "for k, v in sorted(load_file(sys.argv[1]).items()): print(k, v.dtype, v.tolist())";
    QCOMPARE(python(script, file), QByteArray("calibration int32 [[100000, 107919, 115838], [123757, 131676, 139595]]\n"
                                              "evaluation int32 [[1, 7920, 15839]]"));
}

void DataSlices::weReadThePackages_data() {
    QTest::addColumn<QString>("tensors");
    QTest::addColumn<QString>("error");
    QTest::newRow("good") << "calibration=[[1, 2], [3, 151935]]"
                          << "";
    QTest::newRow("negative") << "calibration=[[1, -2]]"
                              << "token id -2";
    QTest::newRow("no matrix") << "selection=[1, 2]"
                               << "selection";
    QTest::newRow("two lengths") << "calibration=[[1, 2]], evaluation=[[1, 2, 3]]"
                                 << "evaluation: found seq_len 3, expected 2";
    QTest::newRow("none of ours") << "other=[[1, 2]]"
                                  << "none of the tensors";
}

void DataSlices::weReadThePackages() {
    QFETCH(QString, tensors);
    QFETCH(QString, error);
    if (qEnvironmentVariableIsEmpty("LINNET_ORACLE_PYTHON"))
        QSKIP("LINNET_ORACLE_PYTHON is not set: no safetensors package to compare with");
    QTemporaryDir folder;
    const auto file = folder.filePath("samples.safetensors");
    python("import sys, numpy\nfrom safetensors.numpy import save_file\n"
           "save_file({k: numpy.array(v, dtype=numpy.int32) for k, v in dict(" +
               tensors + ").items()}, sys.argv[1])",
           file);
    QVERIFY(QFile::exists(file));
    const auto result = guarded([&] { return loadSlices(file.toStdString()); });
    if (error.isEmpty()) {
        QVERIFY2(result, result ? "" : result.error().message.c_str());
        QCOMPARE(result->calibration.ids, (std::vector<TokenId>{1, 2, 3, 151'935}));
        QCOMPARE(result->calibration.sequences, 2);
        QCOMPARE(result->evaluation.sequences, 0);
    } else {
        QVERIFY(!result);
        QVERIFY2(result.error().message.find(error.toStdString()) != std::string::npos, result.error().message.c_str());
    }
}

QTEST_APPLESS_MAIN(DataSlices)
#include "tst_data_slices.moc"
