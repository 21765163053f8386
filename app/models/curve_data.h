// From a run's metric rows to what Curves draws: one stage's layers, and their percentiles where there are many.
#pragma once

#include "core/convert/convert.h"

#include <limits>
#include <map>
#include <span>
#include <vector>

namespace linnet::app {

inline constexpr std::int64_t kAllSteps = std::numeric_limits<std::int64_t>::max();

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
    std::int64_t add(std::span<const core::MetricRow> rows);
    std::int64_t add(const std::vector<core::MetricRow>& rows) { return add(std::span(rows)); }
    bool empty() const { return m_layers.empty(); }
    std::vector<std::int64_t> layers() const; // -1: all converted ones together
    bool has(CurveQuantity quantity) const;

    std::int64_t steps() const { return std::ssize(m_earliest[0]); } // one more than the last that has a row

    CurvePoints layer(std::int64_t layer, CurveQuantity quantity, CurveAxis axis, std::int64_t fromStep = 0, std::int64_t toStep = kAllSteps) const; // measured ones only
    // Over the layers that were measured at a step, of steps in [fromStep, toStep). Layers may be trained one after another; then a step
    // lies at the tokens and the time at which the first of them got there.
    PercentilePoints percentiles(CurveQuantity quantity, CurveAxis axis, std::int64_t fromStep = 0, std::int64_t toStep = kAllSteps) const;

    std::optional<double> positionOfStep(std::int64_t step, CurveAxis axis) const; // where its first layer got to it, or past it
    // Of the last row of a layer (-1: of any) before `steps` steps were done, all of them where -1.
    std::optional<double> positionAfter(std::int64_t steps, std::int64_t layer, CurveAxis axis) const;

private:
    struct Row {
        std::int64_t step = 0;
        double tokens = 0, time = 0, loss = 0, heldOut = 0, relative = 0, lr = 0, gradNorm = 0, speed = 0;
    };
    static double valueOf(const Row& row, CurveQuantity quantity);
    static double positionOf(const Row& row, CurveAxis axis);
    std::string m_stage;
    void place(const Row& row);
    const std::vector<double>& places(CurveAxis axis) const;
    std::map<std::int64_t, std::vector<Row>> m_layers; // by step
    std::vector<double> m_earliest[2];                 // over tokens and time: where the first layer got to each step, infinity: none has a row
    mutable std::vector<double> m_places[2];           // that, never going back: a layer that ended early must not turn time around
};

} // namespace linnet::app
