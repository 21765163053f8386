// From a run's metric rows to what Curves draws: one stage's layers, and their percentiles where there are many.
#pragma once

#include "core/convert/convert.h"

#include <map>
#include <vector>

namespace linnet::app {

enum class CurveAxis { Step, Tokens, Time };
enum class CurveQuantity { Loss, HeldOut, RelativeLoss, LearningRate, GradientNorm, TokensPerSecond };

struct CurvePoints {
    std::vector<double> x, y;
};
struct PercentilePoints {
    std::vector<double> x, p10, p50, p90;
};

// Between the two nearest values, linearly by rank; not-a-number for none. Sorts.
double percentile(std::vector<double>& values, double share);

class StageCurves {
public:
    explicit StageCurves(std::string stage) : m_stage(std::move(stage)) {}
    const std::string& stage() const { return m_stage; }
    void clear();
    // Rows of other stages are left out; a row of a step that is there starts its layer over from there. Returns the first step that
    // has something new, -1: nothing.
    std::int64_t add(const std::vector<core::MetricRow>& rows);
    bool empty() const { return m_layers.empty(); }
    std::vector<std::int64_t> layers() const; // -1: all converted ones together
    bool has(CurveQuantity quantity) const;

    CurvePoints layer(std::int64_t layer, CurveQuantity quantity, CurveAxis axis, std::int64_t fromStep = 0) const; // measured ones only
    // Over the layers that were measured at a step, of steps >= fromStep. Layers may be trained one after another; then a step lies
    // at the tokens and the time at which the first of them got there.
    PercentilePoints percentiles(CurveQuantity quantity, CurveAxis axis, std::int64_t fromStep = 0) const;

    std::optional<double> positionOfStep(std::int64_t step, CurveAxis axis) const; // where its first layer got to it, or past it

private:
    struct Row {
        std::int64_t step = 0;
        double tokens = 0, time = 0, loss = 0, heldOut = 0, relative = 0, lr = 0, gradNorm = 0, speed = 0;
    };
    static double valueOf(const Row& row, CurveQuantity quantity);
    static double positionOf(const Row& row, CurveAxis axis);
    std::string m_stage;
    std::map<std::int64_t, std::vector<Row>> m_layers; // by step
};

} // namespace linnet::app
