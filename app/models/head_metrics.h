// The numbers of a head that a map can show: what was measured of the teacher, what a student has of its own, and the difference.
#pragma once

#include "app/models/selection_model.h"
#include "widgets/color_range.h"

#include <QCoreApplication>
#include <vector>

namespace linnet::app {

class Session;

enum class Metric { Distance, DistanceNoSink, ConcentrationLayer, ConcentrationAbsolute, OutputBefore, OutputAfter, SinkMass, PreviousMass, AlignmentError, AlignedError, Beta, OutputGate, ValueScale };
inline constexpr int kMetricCount = 13;

// Teacher: the profile. Student: of attention distance, the mean reach of its decay, a / (1 - a) tokens with a = 2^(-1 / half-life)
// (gui.md calls it the decay horizon: the delta rule's erasing is left out); of the alignment error, what the closed form of its run left;
// of output scale, the error after the run and the gates, what is measured of the run's student (StudentNumbersModel).
// Difference: student - teacher; of the output scale both on the run's own windows.
enum class Source { Teacher, Student, Difference };

struct MetricText {
    const char* key; // in settings
    QString name;    // in lists
    QString title;   // on the map, for this source
    QString unit;
    widgets::ColorScale scale; // the usual one
    QString hint;
};
bool isOfStudent(Metric metric); // a teacher has none of it
MetricText metricText(Metric metric, Source source = Source::Teacher);

// [layers * heads] of the teacher that is open, row-major; not-a-number = not measured. Empty without a teacher.
std::vector<double> metricValues(Session& session, Metric metric, Source source);

// Why there is nothing to show, as one sentence; "" where at least one head has a value.
QString metricMissing(Session& session, Metric metric, Source source);

double decayHorizon(double halfLife); // tokens; infinity without decay

} // namespace linnet::app
