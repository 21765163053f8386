#include "app/panels/target_preview.h"

#include "app/models/head_metrics.h"
#include "app/models/session.h"
#include "app/models/target_table_model.h"
#include "widgets/distance_histogram.h"

#include <QLabel>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

namespace linnet::app {
namespace {

const core::HeadProfile* profileOf(Session& session, HeadId id) {
    const auto* profile = session.profile();
    if (!profile || !id.valid() || id.layer >= static_cast<int>(profile->layers.size()))
        return nullptr;
    const auto& heads = profile->layers[static_cast<std::size_t>(id.layer)];
    return id.head < static_cast<int>(heads.size()) ? &heads[static_cast<std::size_t>(id.head)] : nullptr;
}

QString number(double value) {
    return QString::number(value, 'g', 3);
}

// Share of the measured attention that lies within the horizon: whole bins, the last one by its part.
double massWithin(const std::vector<double>& edges, const std::vector<double>& mass, double distance) {
    double sum = 0;
    for (std::size_t i = 0; i + 1 < edges.size() && i < mass.size(); ++i)
        sum += mass[i] * std::clamp((distance - edges[i]) / (edges[i + 1] - edges[i]), 0.0, 1.0);
    return sum;
}

} // namespace

TargetPreview::TargetPreview(Session* session, QWidget* parent) : QWidget(parent), m_session(session) {
    setObjectName(QStringLiteral("targetPreview"));
    m_histogram = new widgets::DistanceHistogram;
    m_histogram->setObjectName(QStringLiteral("targetPreviewHistogram"));
    m_histogram->setEmptyText(tr("Profile the teacher to see targets on what was measured."));
    m_histogram->setMinimumHeight(110);
    m_words = new QLabel;
    m_words->setObjectName(QStringLiteral("targetPreviewText"));
    m_words->setWordWrap(true);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(2);
    layout->addWidget(m_histogram, 1);
    layout->addWidget(m_words);
    connect(session, &Session::profileChanged, this, &TargetPreview::refresh);
    connect(session->recipe(), &RecipeModel::targetsChanged, this, &TargetPreview::refresh);
    connect(session->closedForm(), &ClosedFormModel::changed, this, &TargetPreview::refresh);
    connect(session->probes(), &TargetProbeModel::changed, this, &TargetPreview::refresh);
    refresh();
}

void TargetPreview::show(HeadId head, TargetField field, std::optional<double> typed) {
    m_head = head;
    m_field = field;
    m_typed = typed;
    refresh();
}

void TargetPreview::setRoomy(bool roomy) {
    m_histogram->setVisible(roomy);
}

void TargetPreview::refresh() {
    const auto* head = profileOf(*m_session, m_head);
    if (!head) {
        m_histogram->clear();
        m_words->clear();
        m_words->hide();
        return;
    }
    m_histogram->setData({m_session->profile()->edges, head->histogram, head->p10, head->p50, head->p90, {}});
    const bool typesHalfLife = m_field == TargetField::HalfLife && m_typed;
    const auto halfLife = typesHalfLife ? m_typed : currentTarget(*m_session, m_head, TargetField::HalfLife);
    const bool decays = halfLife && std::isfinite(*halfLife) && *halfLife > 0;
    m_histogram->setDecayHalfLife(decays ? halfLife : std::nullopt);
    const bool own = typesHalfLife || m_session->recipe()->target(m_head).halfLife;
    m_histogram->setTarget(decays ? halfLife : std::nullopt, !own); // as the inspector has it: the number that is in the table
    m_words->setText(words());
    m_words->setVisible(!m_words->text().isEmpty());
}

QString TargetPreview::words() const {
    const auto* head = profileOf(*m_session, m_head);
    const auto value = m_typed ? m_typed : currentTarget(*m_session, m_head, m_field);
    const auto who = tr("L%1 H%2").arg(m_head.layer).arg(m_head.head);
    if (!value || !head)
        return {};
    switch (m_field) {
    case TargetField::HalfLife:
        if (std::isinf(*value))
            return tr("%1: no decay, every token keeps its weight; measured distance %2").arg(who, number(head->distance.mean));
        return *value > 0 ? tr("%1: decay horizon %2 tokens, measured distance %3; %4 % of its attention lies within the horizon")
                                .arg(who, number(decayHorizon(*value)), number(head->distance.mean))
                                .arg(std::lround(100 * massWithin(m_session->profile()->edges, head->histogram, decayHorizon(*value))))
                          : QString();
    case TargetField::Beta: return tr("%1: a new token overwrites %2 % of what its key holds; measured concentration %3").arg(who).arg(std::lround(100 * *value)).arg(number(head->concentrationLayer));
    case TargetField::ValueScale: return tr("%1: output RMS %2 becomes %3").arg(who, number(head->rmsPostO), number(head->rmsPostO * *value));
    case TargetField::OutputGate: break;
    }
    return tr("%1: the output gate starts at %2").arg(who, number(*value));
}

} // namespace linnet::app
