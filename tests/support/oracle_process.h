// Runs a Python script of tests/support with the oracle's interpreter and reads the JSON that it leaves.
#pragma once

#include "core/base/json.h"

#include <QFileInfo>
#include <QProcess>
#include <QTest>

namespace linnet::tests {

inline QString oraclePython() {
    return qEnvironmentVariable("LINNET_ORACLE_PYTHON");
}

// An empty message where the script succeeded; else what it said.
inline QString runOracle(const QString& script, const QStringList& arguments) {
    QProcess process;
    auto environment = QProcessEnvironment::systemEnvironment();
    environment.insert("HF_HUB_OFFLINE", "1");
    environment.insert("OMP_NUM_THREADS", "2");
    process.setProcessEnvironment(environment);
    process.setProcessChannelMode(QProcess::MergedChannels);
    process.start(oraclePython(), QStringList{qEnvironmentVariable("LINNET_SOURCE") + "/tests/support/" + script} + arguments);
    if (!process.waitForFinished(300000))
        return "the oracle did not finish: " + process.errorString();
    return process.exitStatus() == QProcess::NormalExit && process.exitCode() == 0 ? QString()
                                                                                   : QString(process.readAll()).right(2000);
}

inline bool closeTo(double found, double expected, double relative, double absolute = 0) {
    return std::abs(found - expected) <= absolute + relative * std::abs(expected);
}

} // namespace linnet::tests

// Compares with a relative and an absolute tolerance; the message names both numbers.
#define LINNET_CLOSE(found, expected, relative, absolute, what)                                                                \
    QVERIFY2(                                                                                                                  \
        linnet::tests::closeTo(found, expected, relative, absolute),                                                           \
        qPrintable(                                                                                                            \
            QString("%1: found %2, expected %3").arg(what).arg(double(found), 0, 'g', 10).arg(double(expected), 0, 'g', 10)))
