#include "app/models/target_actions.h"

#include "app/models/layer_choice.h"
#include "app/models/session.h"
#include "core/profile/similar_heads.h"

#include <QCoreApplication>
#include <algorithm>

namespace linnet::app {
namespace {

struct Words {
    Q_DECLARE_TR_FUNCTIONS(TargetActions)
};

QString spreadText(HeadId from, Spread spread) {
    switch (spread) {
    case Spread::Group: return Words::tr("the heads of its group");
    case Spread::Layer: return Words::tr("layer %1").arg(from.layer);
    case Spread::Model: return Words::tr("all heads");
    case Spread::Similar: break;
    }
    return Words::tr("similar heads");
}

} // namespace

QList<HeadId> spreadHeads(Session& session, HeadId from, Spread spread) {
    QList<HeadId> heads;
    const auto& teacher = session.teacher();
    if (!teacher || !from.valid())
        return heads;
    if (spread == Spread::Similar) {
        if (const auto* profile = session.profile())
            for (const auto& similar : core::similarHeads(*profile, from.layer, from.head, kSimilarHeads))
                heads << HeadId{static_cast<int>(similar.layer), static_cast<int>(similar.head)};
        return heads;
    }
    const auto& config = teacher->config;
    const int group = config.kvHeads > 0 ? std::max(1, static_cast<int>(config.groupSize())) : 1;
    for (HeadId id{0, 0}; id.layer < config.layers; ++id.layer)
        for (id.head = 0; id.head < config.heads; ++id.head)
            if (id != from && (spread == Spread::Model || (id.layer == from.layer && (spread == Spread::Layer || id.head / group == from.head / group))))
                heads << id;
    return heads;
}

SpreadResult spreadTargets(Session& session, HeadId from, const QList<TargetField>& fields, Spread spread) {
    SpreadResult result;
    const auto source = session.recipe()->target(from);
    const auto isSet = [&](TargetField field) { return targetValue(source, field).has_value(); };
    if (!from.valid() || std::none_of(fields.begin(), fields.end(), isSet)) {
        result.refused = Words::tr("L%1 H%2 has no value of its own in these rows: type one first.").arg(from.layer).arg(from.head);
        return result;
    }
    const auto heads = spreadHeads(session, from, spread);
    if (heads.isEmpty()) {
        result.refused = spread == Spread::Similar ? Words::tr("Which heads are similar is known after a profile.") : Words::tr("There is no other head to apply it to.");
        return result;
    }
    QList<TargetEdit> edits;
    const auto converted = convertedLayers(session);
    for (const auto& head : heads) {
        const auto target = session.recipe()->target(head);
        const auto before = edits.size();
        for (const auto field : fields)
            if (target.locked.contains(targetKey(field)))
                result.locked += isSet(field) ? 1 : 0;
            else if (const auto value = targetValue(source, field))
                edits << TargetEdit{head, field, value};
        result.heads += edits.size() > before ? 1 : 0;
        result.idle += edits.size() > before && converted && !std::binary_search(converted->begin(), converted->end(), head.layer) ? 1 : 0;
    }
    if (!edits.isEmpty())
        session.recipe()->editTargets(edits, Words::tr("Apply the targets of layer %1, head %2 to %3").arg(from.layer).arg(from.head).arg(spreadText(from, spread)));
    return result;
}

} // namespace linnet::app
