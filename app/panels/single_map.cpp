#include "app/panels/single_map.h"

#include "app/models/session.h"
#include "app/panels/map_controls.h"
#include "app/panels/map_link.h"
#include "widgets/head_heat_map.h"
#include "widgets/metric_histogram.h"
#include "widgets/plurals.h"

#include <QSplitter>
#include <QVBoxLayout>
#include <algorithm>

namespace linnet::app {

SingleMap::SingleMap(Session* session, MapControls* controls, QWidget* parent) : QWidget(parent), m_session(session), m_controls(controls) {
    m_map = new widgets::HeadHeatMap;
    m_map->setObjectName(QStringLiteral("singleMap"));
    m_map->setMinimumSize(240, 160);
    m_map->setMarginsShown(true);
    m_link = new MapLink(m_map, session, MapLink::Layers::With);
    m_histogram = new widgets::MetricHistogram;
    m_histogram->setObjectName(QStringLiteral("metricHistogram"));
    auto* split = new QSplitter(Qt::Vertical);
    split->addWidget(m_map);
    split->addWidget(m_histogram);
    split->setStretchFactor(0, 1);
    split->setStretchFactor(1, 0);
    split->setSizes({400, 110});
    split->setChildrenCollapsible(false);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->addWidget(split);
    connect(m_histogram, &widgets::MetricHistogram::rangeDragged, controls, &MapControls::setRange);
    connect(m_histogram, &widgets::MetricHistogram::rangeReset, controls, &MapControls::resetRange);
    connect(m_histogram, &widgets::MetricHistogram::brushed, this, &SingleMap::brush);
    connect(session->selection(), &SelectionModel::changed, this, &SingleMap::showSelection);
}

void SingleMap::showValues() {
    const auto metric = m_controls->metric();
    const auto source = m_controls->source();
    const auto text = metricText(metric, source);
    const auto scale = m_controls->scale(metric, source);
    const auto map = source == Source::Difference ? widgets::ColorMap::BlueOrange : m_controls->colorMap();
    const auto missing = metricMissing(*m_session, metric, source);
    const auto& teacher = m_session->teacher();
    m_map->setEmptyText(missing);
    m_histogram->setEmptyText(missing);
    auto values = metricValues(*m_session, metric, source);
    m_map->setColorMap(map);
    m_map->setScaleMode(m_controls->mode(metric, source));
    const auto run = m_session->currentRun();
    const bool ofRun = run && source != Source::Teacher && missing.isEmpty() && (isOfStudent(metric) || metric == Metric::OutputAfter);
    const auto title = ofRun ? tr("%1, run %2").arg(text.title, run->name) : text.title;
    m_map->setData({teacher ? static_cast<int>(teacher->config.layers) : 0, teacher ? static_cast<int>(teacher->config.heads) : 0, values, title, text.unit, scale});
    m_histogram->setColorMap(map);
    if (const bool other = values.size() != m_values.size() || !std::equal(values.begin(), values.end(), m_values.begin(), [](double a, double b) { return a == b || (a != a && b != b); });
        other || m_histogram->title() != text.title || m_histogram->scale() != scale) {
        m_values = std::move(values);
        m_histogram->setData({m_values, text.title, text.unit, scale, source == Source::Difference});
    }
    std::optional<MapControls::Range> range;
    if (const auto& shown = m_map->colorRange(); !shown.isEmpty()) {
        m_controls->freeze(metric, source, {shown.minimum(), shown.maximum()});
        if (m_controls->mode(metric, source).kind != widgets::ScaleMode::PerLayer)
            range = MapControls::Range{shown.minimum(), shown.maximum()};
    }
    m_controls->setShown(range);
    m_histogram->setRange(range);
    m_link->refresh();
    showSelection();
}

void SingleMap::showSelection() {
    const auto& teacher = m_session->teacher();
    const auto heads = teacher ? static_cast<std::size_t>(teacher->config.heads) : 0;
    std::vector<bool> flags(m_values.size(), false);
    for (const auto& id : m_session->selection()->selected())
        if (const auto at = static_cast<std::size_t>(id.layer) * heads + static_cast<std::size_t>(id.head); static_cast<std::size_t>(id.head) < heads && at < flags.size())
            flags[at] = true;
    m_histogram->setSelected(flags);
}

void SingleMap::brush(double low, double high, Qt::KeyboardModifiers modifiers) {
    const auto& teacher = m_session->teacher();
    if (!teacher)
        return;
    const int heads = static_cast<int>(teacher->config.heads);
    QSet<HeadId> inside;
    for (std::size_t i = 0; i < m_values.size(); ++i)
        if (m_values[i] >= low && m_values[i] <= high)
            inside.insert({static_cast<int>(i) / heads, static_cast<int>(i) % heads});
    auto* selection = m_session->selection();
    if (modifiers & Qt::ControlModifier)
        selection->add(inside, selection->primary());
    else
        selection->select(inside, selection->primary());
    Q_EMIT m_session->notice(tr("%n head(s) from %1 to %2 selected", nullptr, static_cast<int>(inside.size())).arg(widgets::tickLabel(low), widgets::tickLabel(high)));
}

} // namespace linnet::app
