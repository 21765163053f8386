#include "app/models/head_metrics.h"

#include "app/models/session.h"
#include "app/models/target_table_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace linnet::app {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

struct Text { // static: Metric is its index
    const char *key, *name, *unit, *hint;
    widgets::ColorScale scale;
    double (*of)(const core::HeadProfile&); // null: nothing of the teacher
};

const Text& textOf(Metric metric) {
    using Head = core::HeadProfile;
    using widgets::ColorScale;
    static const Text texts[kMetricCount] = {
        {"distance", QT_TRANSLATE_NOOP("Metric", "attention distance"), QT_TRANSLATE_NOOP("Metric", "tokens"),
         QT_TRANSLATE_NOOP("Metric", "mean distance between a token and what it looks at"), ColorScale::Log2, [](const Head& h) { return h.distance.mean; }},
        {"distance_no_sink", QT_TRANSLATE_NOOP("Metric", "attention distance without sink"), QT_TRANSLATE_NOOP("Metric", "tokens"),
         QT_TRANSLATE_NOOP("Metric", "the same without the first four tokens, on which many heads rest"), ColorScale::Log2, [](const Head& h) { return h.distanceNoSink.mean; }},
        {"concentration", QT_TRANSLATE_NOOP("Metric", "concentration within layer"), "", QT_TRANSLATE_NOOP("Metric", "how narrow the attention is: 0 the layer's widest head, 1 its narrowest"),
         ColorScale::Linear, [](const Head& h) { return h.concentrationLayer; }},
        {"concentration_absolute", QT_TRANSLATE_NOOP("Metric", "concentration"), "", QT_TRANSLATE_NOOP("Metric", "1 - entropy / its largest value: 1 all attention on one token, 0 evenly spread"), ColorScale::Linear,
         [](const Head& h) { return h.concentrationAbsolute; }},
        {"output_before", QT_TRANSLATE_NOOP("Metric", "output scale before o_proj"), "", QT_TRANSLATE_NOOP("Metric", "RMS of what the head gathers"), ColorScale::Log10,
         [](const Head& h) { return h.rmsPreO; }},
        {"output_after", QT_TRANSLATE_NOOP("Metric", "output scale"), "", QT_TRANSLATE_NOOP("Metric", "RMS of what the head adds to the stream, after o_proj"), ColorScale::Log10,
         [](const Head& h) { return h.rmsPostO; }},
        {"sink_mass", QT_TRANSLATE_NOOP("Metric", "sink mass"), "", QT_TRANSLATE_NOOP("Metric", "share of attention on the first four tokens"), ColorScale::Linear,
         [](const Head& h) { return h.sinkMass; }},
        {"previous_mass", QT_TRANSLATE_NOOP("Metric", "previous-token mass"), "", QT_TRANSLATE_NOOP("Metric", "share of attention on the token before"), ColorScale::Linear,
         [](const Head& h) { return h.previousMass; }},
        {"alignment_error", QT_TRANSLATE_NOOP("Metric", "alignment error"), "",
         QT_TRANSLATE_NOOP("Metric", "what the closed form leaves of the head's output: squared error / square, 0 all is there, 1 nothing. Of the readout before its output gate, on the windows that options are scored on"), ColorScale::Log10, nullptr},
        {"aligned_error", QT_TRANSLATE_NOOP("Metric", "alignment error after the run"), "",
         QT_TRANSLATE_NOOP("Metric", "the same of the run's student, with its output gate and on all the run's windows: so it differs from the error before, also where nothing was trained"), ColorScale::Log10,
         nullptr},
        {"beta", QT_TRANSLATE_NOOP("Metric", "write gate (beta)"), "", QT_TRANSLATE_NOOP("Metric", "mean share of what a key holds that a token overwrites, of the run's student"),
         ColorScale::Linear, nullptr},
        {"output_gate", QT_TRANSLATE_NOOP("Metric", "output gate"), "", QT_TRANSLATE_NOOP("Metric", "RMS of the head's output gate, of the run's student"), ColorScale::Log10, nullptr},
        {"value_scale", QT_TRANSLATE_NOOP("Metric", "value scale"), "", QT_TRANSLATE_NOOP("Metric", "norm of the head's columns of o_proj / of the teacher's, of the run's student"),
         ColorScale::Log10, nullptr},
    };
    return texts[static_cast<std::size_t>(metric)];
}

struct Words {
    Q_DECLARE_TR_FUNCTIONS(Metric)
};

QString translated(const char* text) {
    return Words::tr(text);
}

bool isDistance(Metric metric) {
    return metric == Metric::Distance || metric == Metric::DistanceNoSink;
}

double ofTeacher(Session& session, Metric metric, HeadId id) {
    const auto* profile = session.profile();
    const auto of = textOf(metric).of;
    if (!of || !profile || id.layer >= static_cast<int>(profile->layers.size()))
        return kUnknown;
    const auto& heads = profile->layers[static_cast<std::size_t>(id.layer)];
    return id.head < static_cast<int>(heads.size()) ? of(heads[static_cast<std::size_t>(id.head)]) : kUnknown;
}

// Of the run's student; null: it is no such metric.
double core::StudentHeadNumbers::*measuredMember(Metric metric) {
    switch (metric) {
    case Metric::OutputAfter: return &core::StudentHeadNumbers::rmsPostO;
    case Metric::AlignedError: return &core::StudentHeadNumbers::relativeError;
    case Metric::Beta: return &core::StudentHeadNumbers::beta;
    case Metric::OutputGate: return &core::StudentHeadNumbers::outputGate;
    case Metric::ValueScale: return &core::StudentHeadNumbers::valueScale;
    default: return nullptr;
    }
}

double ofStudent(Session& session, Metric metric, HeadId id) {
    if (const auto member = measuredMember(metric)) {
        const auto* numbers = session.studentNumbers()->head(id.layer, id.head);
        return numbers ? numbers->*member : kUnknown;
    }
    if (metric == Metric::AlignmentError) {
        const auto* fit = session.closedForm()->head(id.layer, id.head);
        return fit ? fit->chosen.residual : kUnknown;
    }
    if (!isDistance(metric))
        return kUnknown;
    const auto halfLife = currentTarget(session, id, TargetField::HalfLife);
    const double horizon = halfLife ? decayHorizon(*halfLife) : kUnknown;
    return std::isfinite(horizon) ? horizon : kUnknown;
}

double differenceOf(Session& session, Metric metric, HeadId id) {
    if (metric != Metric::OutputAfter)
        return ofStudent(session, metric, id) - ofTeacher(session, metric, id);
    const auto* numbers = session.studentNumbers()->head(id.layer, id.head);
    return numbers ? numbers->rmsPostO - numbers->teacherRmsPostO : kUnknown; // on one text
}

} // namespace

bool isOfStudent(Metric metric) {
    return !textOf(metric).of;
}

double decayHorizon(double halfLife) {
    if (std::isinf(halfLife))
        return halfLife;
    return 1 / std::expm1(std::log(2.0) / halfLife); // a / (1 - a), exact for long half-lives too
}

MetricText metricText(Metric metric, Source source) {
    const auto& text = textOf(metric);
    MetricText made{text.key, translated(text.name), translated(text.name), *text.unit ? translated(text.unit) : QString(), text.scale, translated(text.hint)};
    if (isDistance(metric) && source == Source::Student)
        made.title = Words::tr("decay horizon");
    if (isDistance(metric) && source == Source::Difference)
        made.title = Words::tr("decay horizon - %1").arg(made.name);
    if (metric == Metric::OutputAfter && source == Source::Difference)
        made.title = Words::tr("output scale, student - teacher");
    if (source == Source::Difference)
        made.scale = widgets::ColorScale::Linear;
    return made;
}

std::vector<double> metricValues(Session& session, Metric metric, Source source) {
    const auto& teacher = session.teacher();
    if (!teacher)
        return {};
    const int layers = static_cast<int>(teacher->config.layers), heads = static_cast<int>(teacher->config.heads);
    std::vector<double> values;
    values.reserve(static_cast<std::size_t>(layers) * static_cast<std::size_t>(heads));
    for (HeadId id{0, 0}; id.layer < layers; ++id.layer)
        for (id.head = 0; id.head < heads; ++id.head)
            values.push_back(source == Source::Teacher   ? ofTeacher(session, metric, id)
                             : source == Source::Student ? ofStudent(session, metric, id)
                                                         : differenceOf(session, metric, id));
    return values;
}

namespace {

QString studentMissing(const StudentNumbersModel& student) {
    if (!student.hasStudent())
        return Words::tr("No student yet: run a conversion, or open one that is done.");
    return student.state() == StudentNumbersModel::State::Known ? Words::tr("The run's student has no linear layer.") : student.stateText();
}

} // namespace

QString metricMissing(Session& session, Metric metric, Source source) {
    if (!session.teacher())
        return Words::tr("Open a model first: its heads appear here.");
    if (isOfStudent(metric) && source != Source::Student)
        return Words::tr("Only a student has this.");
    const bool measured = measuredMember(metric) != nullptr;
    if (!isDistance(metric) && !isOfStudent(metric) && !measured && source != Source::Teacher)
        return Words::tr("No run measures this of a student: a linear layer has no attention weights.");
    const bool needsProfile = source == Source::Teacher || (source == Source::Difference && !measured);
    if (needsProfile && !session.profile())
        return Words::tr("Not measured yet: press Profile (about a minute on a CPU).");
    const auto values = metricValues(session, metric, source);
    if (std::any_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); }))
        return {};
    if (source == Source::Teacher)
        return Words::tr("This profile does not have it.");
    if (measured)
        return studentMissing(*session.studentNumbers());
    return metric == Metric::AlignmentError ? Words::tr("No closed form yet: run a conversion with the start \"linnet\", or open such a run.")
                                            : Words::tr("No half-life is known yet: run a conversion, whose closed form chooses one, or set targets.");
}

} // namespace linnet::app
