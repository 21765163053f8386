#include "app/panels/inspector_identity.h"

#include "app/models/layer_choice.h"
#include "app/models/run_results.h"
#include "app/models/session.h"

#include <QLabel>
#include <QVBoxLayout>
#include <algorithm>

namespace linnet::app {
namespace {

QString kindText(Session& session, int layer) {
    if (session.recipe()->convertedBefore(layer))
        return InspectorIdentity::tr("linear in this model already");
    if (const auto run = session.currentRun(); run && run->report && isRunOf(*run, *session.teacher()) && std::ranges::find(run->report->convertedLayers, layer) != run->report->convertedLayers.end())
        return InspectorIdentity::tr("converted in run %1").arg(run->name);
    const auto converted = convertedLayers(session);
    if (!converted)
        return InspectorIdentity::tr("softmax; whether it stays is measured when the run starts");
    return std::binary_search(converted->begin(), converted->end(), layer) ? InspectorIdentity::tr("will be converted") : InspectorIdentity::tr("stays softmax");
}

} // namespace

InspectorIdentity::InspectorIdentity(Session* session) : InspectorSection(session, QStringLiteral("identity"), tr("Head"), true) {
    m_identity = sectionLabel(QStringLiteral("headIdentity"));
    m_group = sectionLabel(QStringLiteral("headGroup"));
    m_mates = sectionLabel(QStringLiteral("headMates"));
    m_mates->setTextInteractionFlags(Qt::TextBrowserInteraction);
    m_mates->setAccessibleName(tr("Heads that share the same keys and values"));
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(2);
    for (auto* each : {m_identity, m_group, m_mates})
        layout->addWidget(each);
    connect(m_mates, &QLabel::linkActivated, this, [session](const QString& link) {
        const HeadId mate{session->selection()->primary().layer, link.toInt()};
        session->selection()->select({mate}, mate);
    });
    follow(session->recipe(), &RecipeModel::layersChanged);
    follow(session, &Session::rankingChanged);
    follow(session, &Session::runsChanged);
}

void InspectorIdentity::fill(HeadId id) {
    const auto& config = session().teacher()->config;
    const auto group = static_cast<int>(std::max<std::int64_t>(1, config.kvHeads > 0 ? config.groupSize() : 1));
    const int first = id.head / group * group;
    m_identity->setText(tr("<b>Layer %1, head %2</b>").arg(id.layer).arg(id.head));
    const QString shared = group > 1 ? tr("key/value head %1, shared by query heads %2 to %3").arg(id.head / group).arg(first).arg(first + group - 1)
                                     : tr("key/value head %1 of its own").arg(id.head);
    m_group->setText(shared + QStringLiteral("; ") + kindText(session(), id.layer));
    QStringList mates;
    for (int head = first; head < first + group; ++head)
        mates << (head == id.head ? QStringLiteral("<b>H%1</b>").arg(head) : QStringLiteral("<a href=\"%1\">H%1</a>").arg(head));
    m_mates->setVisible(group > 1);
    m_mates->setText(tr("group: %1").arg(mates.join(QStringLiteral("&nbsp; "))));
}

} // namespace linnet::app
