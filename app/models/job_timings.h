// What ran, on what and how fast: from what core has measured and reported, for the timings page of the probe dock. What nobody measured is
// absent, never 0.
#pragma once

#include <QString>
#include <QStringList>
#include <optional>
#include <vector>

namespace linnet::app {

class Session;

struct TimingRow {
    QString what;                          // "alignment", "teacher, token by token"
    std::optional<double> milliseconds;    // in all
    std::optional<double> perStep;         // milliseconds
    std::optional<double> tokensPerSecond;
    std::optional<double> gigabytesPerSecond; // read at least: see note
    QString note;
};

struct TimingTable {
    QString title;      // "Run 20261130-linnet (done)"
    QStringList facts;  // "peak memory 1.2 GB"
    std::vector<TimingRow> rows;
    QString empty;      // said where there are no rows
};

// The current run with its stages and evaluations; the last generation. Cheap: reads what the session holds.
std::vector<TimingTable> jobTimings(Session& session);
// "device: cpu, 2 threads", "cuda: ...", ...: asks LibTorch and the driver, which may take a second. `device` as ModelInfo describes the opened
// teacher's, "" = none: the one that it would take.
QStringList deviceFacts(const QString& device);

} // namespace linnet::app
