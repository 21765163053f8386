// What linnet-cli says when nobody can hear it.
#include <QFile>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>

class TestCliOutput : public QObject {
    Q_OBJECT

    static int shell(const QString& line, QByteArray* said = nullptr) {
        QProcess process;
        auto environment = QProcessEnvironment::systemEnvironment();
        environment.insert("OMP_NUM_THREADS", "1");
        process.setProcessEnvironment(environment);
        process.start("/bin/bash", {"-c", line, qEnvironmentVariable("LINNET_CLI")}); // $0
        if (!process.waitForFinished(120000))
            return -1;
        if (said)
            *said = process.readAllStandardError();
        return process.exitStatus() == QProcess::NormalExit ? process.exitCode() : -2;
    }

private Q_SLOTS:
    void fullOutput_data() {
        QTest::addColumn<QString>("line");
        for (const char* line : {"--version", "--help", "completion bash"})
            QTest::newRow(line) << line;
    }
    void fullOutput() {
        QFETCH(QString, line);
        QByteArray said;
        QCOMPARE(shell("\"$0\" " + line + " >/dev/full", &said), 1);
        QVERIFY2(said.contains("standard output"), said.constData());
        QCOMPARE(shell("\"$0\" " + line + " >&-", &said), 1); // closed
        QCOMPARE(shell("\"$0\" " + line + " >/dev/null"), 0);
    }
    void errorsAreHeardAnyhow() {
        QByteArray said;
        QCOMPARE(shell("\"$0\" info /nowhere --json >/dev/full", &said), 1);
        QVERIFY2(said.contains("/nowhere"), said.constData());
    }
};

QTEST_APPLESS_MAIN(TestCliOutput)
#include "tst_cli_output.moc"
