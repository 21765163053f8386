#include "app/panels/inspector_panel.h"

#include "app/models/layer_choice.h"
#include "app/models/session.h"
#include "app/models/target_table_model.h"
#include "app/panels/closed_form_view.h"
#include "widgets/distance_histogram.h"
#include "widgets/empty_state.h"

#include <QLabel>
#include <QLocale>
#include <QStackedLayout>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

namespace linnet::app {
namespace {

QString number(double value) {
    return std::isfinite(value) ? QString::number(value, 'g', 4) : QStringLiteral("–");
}

QString withError(double value, double error) {
    return std::isfinite(error) && std::isfinite(value) ? number(value) + QStringLiteral(" ± ") + QString::number(error, 'g', 2) : number(value);
}

QString numbersTable(const core::HeadProfile& head) {
    QString rows;
    const auto row = [&](const QString& name, const QString& value) {
        rows += QStringLiteral("<tr><td>%1&nbsp;&nbsp;</td><td align=right>%2</td></tr>").arg(name, value);
    };
    row(InspectorPanel::tr("distance, tokens"), withError(head.distance.mean, head.distance.se));
    row(InspectorPanel::tr("p10 / median / p90"), number(head.p10) + QStringLiteral(" / ") + number(head.p50) + QStringLiteral(" / ") + number(head.p90));
    row(InspectorPanel::tr("without first tokens"), withError(head.distanceNoSink.mean, head.distanceNoSink.se));
    row(InspectorPanel::tr("its median"), number(head.medianNoSink));
    row(InspectorPanel::tr("entropy, nats"), withError(head.entropy.mean, head.entropy.se));
    row(InspectorPanel::tr("concentration, layer"), number(head.concentrationLayer));
    row(InspectorPanel::tr("concentration, absolute"), number(head.concentrationAbsolute));
    row(InspectorPanel::tr("on the first 4 tokens"), withError(head.sinkMass, head.sinkSe));
    row(InspectorPanel::tr("on the token before"), withError(head.previousMass, head.previousSe));
    row(InspectorPanel::tr("on itself"), withError(head.selfMass, head.selfSe));
    row(InspectorPanel::tr("output RMS before o_proj"), withError(head.rmsPreO, head.rmsPreOSe));
    row(InspectorPanel::tr("output RMS after o_proj"), withError(head.rmsPostO, head.rmsPostOSe));
    return QStringLiteral("<table cellspacing=1>") + rows + QStringLiteral("</table>");
}

QLabel* wrapped(const QString& name) {
    auto* label = new QLabel;
    label->setObjectName(name);
    label->setWordWrap(true);
    label->setTextInteractionFlags(Qt::TextSelectableByMouse);
    return label;
}

} // namespace

InspectorPanel::InspectorPanel(Session* session, QWidget* parent) : QWidget(parent), m_session(session) {
    setObjectName(QStringLiteral("inspectorPanel"));
    m_identity = wrapped(QStringLiteral("headIdentity"));
    m_group = wrapped(QStringLiteral("headGroup"));
    m_numbers = wrapped(QStringLiteral("headNumbers"));
    m_sample = wrapped(QStringLiteral("headSample"));
    m_decay = wrapped(QStringLiteral("headDecay"));
    m_histogram = new widgets::DistanceHistogram;
    m_histogram->setObjectName(QStringLiteral("distanceHistogram"));
    m_histogram->setEmptyText(tr("Profile the teacher to see how far this head looks."));
    m_histogram->setMinimumHeight(170);
    auto* caution = wrapped(QStringLiteral("headCaution"));
    caution->setText(tr("Attention weights describe where a head looks; they do not explain what the model does."));
    caution->setEnabled(false);
    auto* content = new QWidget;
    auto* layout = new QVBoxLayout(content);
    layout->setContentsMargins(6, 6, 6, 6);
    layout->setSpacing(4);
    for (auto* each : {m_identity, m_group, m_numbers, m_sample})
        layout->addWidget(each);
    layout->addWidget(m_histogram, 1);
    layout->addWidget(m_decay);
    layout->addWidget(new ClosedFormView(session));
    layout->addWidget(caution);
    m_stack = new QStackedLayout(this);
    m_stack->addWidget(new widgets::EmptyState(QStringLiteral("◉"), tr("No head selected"), tr("Click a cell of a heat map to look at one head.")));
    m_stack->addWidget(content);
    connect(session->selection(), &SelectionModel::changed, this, &InspectorPanel::refresh);
    connect(session, &Session::profileChanged, this, &InspectorPanel::refresh);
    connect(session, &Session::teacherChanged, this, &InspectorPanel::refresh);
    connect(session->recipe(), &RecipeModel::targetsChanged, this, &InspectorPanel::showDecay);
    connect(session->probes(), &TargetProbeModel::changed, this, &InspectorPanel::showDecay);
    connect(session->closedForm(), &ClosedFormModel::changed, this, &InspectorPanel::showDecay);
    connect(session->recipe(), &RecipeModel::layersChanged, this, &InspectorPanel::refresh);
    connect(session, &Session::rankingChanged, this, &InspectorPanel::refresh);
    refresh();
}

void InspectorPanel::refresh() {
    const auto id = m_session->selection()->primary();
    const auto& teacher = m_session->teacher();
    m_stack->setCurrentIndex(id.valid() && teacher ? 1 : 0);
    if (!id.valid() || !teacher)
        return;
    m_identity->setText(tr("<b>Layer %1, head %2</b>").arg(id.layer).arg(id.head));
    const auto group = std::max<std::int64_t>(1, teacher->config.kvHeads > 0 ? teacher->config.groupSize() : 1);
    const auto first = id.head / group * group;
    QString text = group > 1 ? tr("key/value head %1, shared by query heads %2 to %3").arg(id.head / group).arg(first).arg(first + group - 1)
                             : tr("key/value head %1 of its own").arg(id.head);
    if (const auto converted = convertedLayers(*m_session))
        text += std::binary_search(converted->begin(), converted->end(), id.layer) ? tr("; will be converted") : tr("; stays softmax");
    m_group->setText(text);

    const auto* profile = m_session->profile();
    const bool known = profile && id.layer < static_cast<int>(profile->layers.size()) &&
                       id.head < static_cast<int>(profile->layers[static_cast<std::size_t>(id.layer)].size());
    m_numbers->setVisible(known);
    m_sample->setVisible(known);
    if (!known) {
        m_histogram->clear();
        m_decay->clear();
        return;
    }
    const auto& head = profile->layers[static_cast<std::size_t>(id.layer)][static_cast<std::size_t>(id.head)];
    const QLocale locale(QLocale::English);
    m_numbers->setText(numbersTable(head));
    m_sample->setText(tr("n = %1 sequences of %2 tokens (%3); ± is one standard error over sequences")
                          .arg(locale.toString(static_cast<qlonglong>(profile->sequences)), locale.toString(static_cast<qlonglong>(profile->seqLen)),
                               locale.toString(static_cast<qlonglong>(profile->tokens))));
    m_histogram->setData({profile->edges, head.histogram, head.p10, head.p50, head.p90, tr("attention by distance")});
    showDecay();
}

void InspectorPanel::showDecay() {
    const auto id = m_session->selection()->primary();
    const auto halfLife = id.valid() ? currentTarget(*m_session, id, TargetField::HalfLife) : std::nullopt;
    const bool decays = halfLife && std::isfinite(*halfLife) && *halfLife > 0;
    m_histogram->setDecayHalfLife(decays ? halfLife : std::nullopt);
    m_decay->setText(!halfLife ? QString() : decays ? tr("line: decay of the target half-life, %1 tokens").arg(number(*halfLife)) : tr("target: no decay"));
}

} // namespace linnet::app
