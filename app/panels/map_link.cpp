#include "app/panels/map_link.h"

#include "app/models/layer_choice.h"
#include "app/models/session.h"
#include "widgets/head_heat_map.h"
#include "widgets/plurals.h"

#include <algorithm>

namespace linnet::app {
namespace {

std::optional<widgets::HeadId> toWidget(HeadId id) {
    return id.valid() ? std::optional(widgets::HeadId{id.layer, id.head}) : std::nullopt;
}

} // namespace

MapLink::MapLink(widgets::HeadHeatMap* map, Session* session, Layers layers) : QObject(map), m_map(map), m_session(session), m_layers(layers) {
    connectMap();
    auto* selection = session->selection();
    connect(selection, &SelectionModel::changed, this, &MapLink::showSelection);
    connect(selection, &SelectionModel::hoverChanged, this, [this, selection] { m_map->setHover(selection->hovered().layer, selection->hovered().head); });
    connect(selection, &SelectionModel::pinnedChanged, this, [this, selection] { m_map->setPinned(toWidget(selection->pinned())); });
    connect(session->recipe(), &RecipeModel::targetsChanged, this, &MapLink::showMarks);
    if (layers == Layers::Without)
        return;
    connect(session, &Session::rankingChanged, this, &MapLink::showLayers);
    connect(session->recipe(), &RecipeModel::layersChanged, this, &MapLink::showLayers);
    connect(session->recipe(), &RecipeModel::targetsChanged, this, &MapLink::showLayers); // locks
}

void MapLink::connectMap() {
    using Map = widgets::HeadHeatMap;
    auto* selection = m_session->selection();
    connect(m_map, &Map::headClicked, selection, [selection](int layer, int head, Qt::KeyboardModifiers modifiers) {
        const HeadId id{layer, head};
        if (modifiers & Qt::ControlModifier)
            selection->toggle(id);
        else
            selection->select({id}, id);
    });
    connect(m_map, &Map::headsSelected, selection, [selection](const QList<widgets::HeadId>& heads, Qt::KeyboardModifiers modifiers) {
        QSet<HeadId> set;
        for (const auto& head : heads)
            set.insert({head.layer, head.head});
        const HeadId primary{heads.back().layer, heads.back().head};
        if (modifiers & Qt::ControlModifier)
            selection->add(set, primary);
        else
            selection->select(set, primary);
    });
    connect(m_map, &Map::selectionCleared, selection, &SelectionModel::clear);
    connect(m_map, &Map::headHovered, selection, [selection](int layer, int head) { selection->setHovered({layer, head}); });
    connect(m_map, &Map::hoverLeft, selection, [selection] { selection->setHovered({}); });
    connect(m_map, &Map::pinRequested, selection, [selection](int layer, int head) {
        selection->setPinned(selection->pinned() == HeadId{layer, head} ? HeadId{} : HeadId{layer, head});
    });
    connect(m_map, &Map::layerTickToggled, this, [this](int layer, bool ticked) { toggle({layer}, ticked); });
    connect(m_map, &Map::layersToggled, this, &MapLink::toggle);
}

void MapLink::refresh() {
    const auto& teacher = m_session->teacher();
    m_map->setGroupSize(teacher && teacher->config.kvHeads > 0 ? static_cast<int>(teacher->config.groupSize()) : 1);
    showLayers();
    showSelection();
    showMarks();
    m_map->setPinned(toWidget(m_session->selection()->pinned()));
}

void MapLink::showSelection() {
    const auto* selection = m_session->selection();
    QSet<widgets::HeadId> heads;
    for (const auto& head : selection->selected())
        heads.insert({head.layer, head.head});
    m_map->setSelection(heads, toWidget(selection->primary()));
}

void MapLink::showMarks() {
    QSet<widgets::HeadId> heads;
    for (const auto& [layer, byHead] : m_session->recipe()->recipe().targets)
        for (const auto& [head, target] : byHead)
            if (target.halfLife || target.beta || target.valueScale || target.outputGate)
                heads.insert({static_cast<int>(layer), static_cast<int>(head)});
    m_map->setMarked(heads, tr("has targets set by hand"));
}

void MapLink::showLayers() {
    const auto& teacher = m_session->teacher();
    if (m_layers == Layers::Without || !teacher || m_session->recipe()->layers() == 0)
        return;
    const auto count = static_cast<std::size_t>(teacher->config.layers);
    std::vector<bool> ticks(count, false);
    std::vector<widgets::HeadHeatMap::LayerInfo> infos(count);
    for (const auto layer : convertedLayers(*m_session).value_or(std::vector<std::int64_t>{}))
        if (layer >= 0 && layer < teacher->config.layers)
            ticks[static_cast<std::size_t>(layer)] = true;
    const auto& targets = m_session->recipe()->recipe().targets;
    for (std::size_t l = 0; l < count; ++l) {
        const bool before = m_session->recipe()->convertedBefore(static_cast<int>(l)); // whatever the recipe says; a click is answered in words
        ticks[l] = ticks[l] || before;
        infos[l].fixed = before;
        infos[l].kind = before ? tr("lin") : ticks[l] ? tr("GDN") : tr("soft");
        if (const auto found = targets.find(static_cast<std::int64_t>(l)); found != targets.end())
            infos[l].locked = std::any_of(found->second.begin(), found->second.end(), [](const auto& head) { return !head.second.locked.empty(); });
    }
    if (const auto* ranking = m_session->ranking()) {
        const auto measured = static_cast<double>(ranking->ranking.size());
        for (std::size_t i = 0; i < ranking->ranking.size(); ++i)
            if (const auto& each = ranking->ranking[i]; each.layer >= 0 && each.layer < teacher->config.layers) {
                auto& info = infos[static_cast<std::size_t>(each.layer)];
                if (m_session->rankingPartial()) { // no place among layers that are not measured
                    info.note = tr("cost %1 %2 (%3)").arg(QString::number(each.score, 'g', 3), QString::fromStdString(ranking->unit), QString::fromStdString(ranking->method));
                    continue;
                }
                info.rank = measured > 1 ? static_cast<double>(i) / (measured - 1) : 1;
                info.note = tr("cost %1 %2 (%3): %4 of %5, 1 is converted first").arg(QString::number(each.score, 'g', 3), QString::fromStdString(ranking->unit), QString::fromStdString(ranking->method)).arg(i + 1).arg(ranking->ranking.size());
            }
    }
    m_map->setLayerTicks(ticks);
    m_map->setLayerInfos(infos);
}

void MapLink::toggle(const QList<int>& ticked, bool convertThem) {
    auto* recipe = m_session->recipe();
    QList<int> layers;
    for (const int layer : ticked) {
        if (recipe->convertedBefore(layer))
            Q_EMIT m_session->notice(tr("Layer %1 is converted in this model already").arg(layer));
        else if (recipe->pin(layer) != (convertThem ? Pin::Never : Pin::Always))
            layers << layer;
        else // a tick would change nothing
            Q_EMIT m_session->notice(tr("Layer %1 is pinned on the Layers page: %2").arg(layer).arg(convertThem ? tr("never convert") : tr("always convert")));
    }
    if (layers.isEmpty())
        return;
    const auto shown = convertedLayers(*m_session);
    if (recipe->converted() || !shown) {
        recipe->setLayersConverted(layers, convertThem);
        return;
    }
    auto wanted = *shown; // what the measured ranking chose becomes a choice by hand
    for (const int layer : layers) {
        wanted.erase(std::remove(wanted.begin(), wanted.end(), layer), wanted.end());
        if (convertThem)
            wanted.push_back(layer);
    }
    recipe->setConverted(wanted, convertThem ? tr("Convert %n layer(s)", nullptr, static_cast<int>(layers.size())) : tr("Keep %n layer(s)", nullptr, static_cast<int>(layers.size())));
}

} // namespace linnet::app
