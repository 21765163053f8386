#include "app/panels/inspector_distance.h"

#include "app/models/session.h"
#include "app/models/target_table_model.h"
#include "widgets/distance_histogram.h"

#include <QLabel>
#include <QVBoxLayout>
#include <cmath>

namespace linnet::app {

InspectorDistance::InspectorDistance(Session* session) : InspectorSection(session, QStringLiteral("distance"), tr("Distance"), true) {
    m_histogram = new widgets::DistanceHistogram;
    m_histogram->setObjectName(QStringLiteral("distanceHistogram"));
    m_histogram->setEmptyText(tr("Profile the teacher to see how far this head looks."));
    m_histogram->setMinimumHeight(170);
    m_decay = sectionLabel(QStringLiteral("headDecay"));
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(2);
    layout->addWidget(m_histogram);
    layout->addWidget(m_decay);
    follow(session->recipe(), &RecipeModel::targetsChanged);
    follow(session->closedForm(), &ClosedFormModel::changed);
}

void InspectorDistance::fill(HeadId id) {
    const auto* profile = session().profile();
    if (profile && id.layer < std::ssize(profile->layers) && id.head < std::ssize(profile->layers[static_cast<std::size_t>(id.layer)])) {
        const auto& head = profile->layers[static_cast<std::size_t>(id.layer)][static_cast<std::size_t>(id.head)];
        m_histogram->setData({profile->edges, head.histogram, head.p10, head.p50, head.p90, tr("attention by distance")});
    } else {
        m_histogram->setEmptyText(session().recipe()->convertedBefore(id.layer) ? tr("This layer is linear already: it has no attention to measure.") : tr("Profile the teacher to see how far this head looks."));
        m_histogram->clear();
    }
    const auto halfLife = session().recipe()->convertedBefore(id.layer) ? std::nullopt : currentTarget(session(), id, TargetField::HalfLife);
    const bool decays = halfLife && std::isfinite(*halfLife) && *halfLife > 0;
    m_histogram->setDecayHalfLife(decays ? halfLife : std::nullopt);
    const bool own = session().recipe()->target(id).halfLife.has_value();
    m_histogram->setTarget(decays ? halfLife : std::nullopt, !own);
    m_decay->setText(!halfLife ? QString()
                     : decays ? (own ? tr("Your half-life %1 tokens; dashed: the decay horizon that it gives (what the delta rule erases is left out).") : tr("Automatic half-life %1 tokens; dashed: the decay horizon that it gives (what the delta rule erases is left out).")).arg(sectionNumber(*halfLife))
                              : own ? tr("Your target: no decay.") : tr("Automatic: no decay."));
}

} // namespace linnet::app
