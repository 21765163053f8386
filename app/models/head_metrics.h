// The numbers of a head that a map can show: what was measured of the teacher, what a student has of its own, and the difference.
#pragma once

#include "app/models/selection_model.h"
#include "widgets/color_range.h"

#include <QCoreApplication>
#include <vector>

namespace linnet::app {

class Session;

enum class Metric { Distance, DistanceNoSink, ConcentrationLayer, ConcentrationAbsolute, OutputBefore, OutputAfter, SinkMass, PreviousMass, AlignmentError };
inline constexpr int kMetricCount = 9;

// Teacher: the profile. Student: of attention distance, the mean reach of its decay, a / (1 - a) tokens with a = 2^(-1 / half-life)
// (gui.md calls it the decay horizon: the delta rule's erasing is left out); of the alignment error, what its run measured.
// Difference: student - teacher.
enum class Source { Teacher, Student, Difference };

struct MetricText {
    const char* key; // in settings
    QString name;    // in lists
    QString title;   // on the map, for this source
    QString unit;
    widgets::ColorScale scale; // the usual one
    QString hint;
};
MetricText metricText(Metric metric, Source source = Source::Teacher);

// [layers * heads] of the teacher that is open, row-major; not-a-number = not measured. Empty without a teacher.
std::vector<double> metricValues(Session& session, Metric metric, Source source);

// Why there is nothing to show, as one sentence; "" where at least one head has a value.
QString metricMissing(Session& session, Metric metric, Source source);

double decayHorizon(double halfLife); // tokens; infinity without decay

} // namespace linnet::app
