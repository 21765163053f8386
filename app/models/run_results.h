// Two runs beside each other: their results with difference and noise, as far as both were measured.
#pragma once

#include "app/models/run_entry.h"

#include <limits>

namespace linnet::core {
struct ModelInfo;
}

namespace linnet::app {

bool isRunOf(const RunEntry& run, const core::ModelInfo& teacher); // as far as its recipe tells: one that can't be read counts as of it

struct Measured { // not-a-number: not measured, or a noise that is not known
    double value = std::numeric_limits<double>::quiet_NaN(), error = std::numeric_limits<double>::quiet_NaN(); // one standard error
    std::int64_t n = 0; // windows or documents
};
// Of right - left. Both stand on the same text, so their errors go together and the true noise is smaller: this is its bound for
// independent samples, sqrt(a^2 + b^2).
Measured difference(const Measured& left, const Measured& right);

// Quantities of a model of a run ("teacher", "naive", "zero_gate", "student"); n = 0 and not-a-number where it was not measured.
enum class Quantity { Perplexity, Ratio, Loss, Kl, Agreement };
Measured measured(const std::map<std::string, core::Evaluation>& evaluation, const std::string& model, Quantity quantity);

// "" where numbers of both compare; else what differs: "windows of 512 and 1024 tokens".
QString incomparable(const RunEntry& left, const RunEntry& right);

struct ResultRow {
    QString name, unit;
    Measured left, right;
    int decimals = 4;
    bool lowerIsBetter = true;
};
std::vector<ResultRow> compareResults(const RunEntry& left, const RunEntry& right); // student's quantities, last losses, time

QString withNoise(const Measured& value, int decimals);           // "3.1416 ± 0.0021", a dash where it was not measured
QString signedWithNoise(const Measured& difference, int decimals); // "+0.0100 ± 0.0021"

} // namespace linnet::app
