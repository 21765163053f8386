#include "app/panels/heads_page.h"

#include "app/models/layer_choice.h"
#include "app/models/session.h"
#include "widgets/head_heat_map.h"
#include "widgets/theme.h"

#include <QComboBox>
#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QMenu>
#include <QPushButton>
#include <QSpinBox>
#include <QVBoxLayout>
#include <algorithm>
#include <limits>
#include <numeric>

namespace linnet::app {
namespace {

enum Mode { Global, PerLayer, Fixed, Quantile };

widgets::HeadId toWidget(HeadId id) {
    return {id.layer, id.head};
}

} // namespace

HeadsPage::HeadsPage(Session* session, QWidget* parent) : QWidget(parent), m_session(session) {
    setObjectName(QStringLiteral("headsPage"));
    m_summary = new QLabel;
    m_summary->setObjectName(QStringLiteral("layerSummary"));
    m_summary->setWordWrap(true);
    m_warning = new QLabel;
    m_warning->setObjectName(QStringLiteral("layerWarning"));
    m_warning->setWordWrap(true);
    auto* tools = new QHBoxLayout;
    auto* maps = new QHBoxLayout;
    makeTools(tools);
    makeMaps(maps);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(6, 6, 6, 6);
    layout->addLayout(tools);
    layout->addLayout(maps, 1);
    layout->addWidget(m_summary);
    layout->addWidget(m_warning);

    connect(session, &Session::teacherChanged, this, [this] {
        if (const auto& teacher = m_session->teacher()) {
            m_keep->setMaximum(static_cast<int>(teacher->config.layers));
            m_keep->setValue(static_cast<int>((teacher->config.layers * 22 + 15) / 30)); // the share that a recipe starts with
        }
        showProfile();
        showJob();
    });
    connect(session, &Session::profileChanged, this, &HeadsPage::showProfile);
    connect(session, &Session::rankingChanged, this, &HeadsPage::showLayers);
    connect(session, &Session::jobChanged, this, &HeadsPage::showJob);
    connect(session->recipe(), &RecipeModel::layersChanged, this, &HeadsPage::showLayers);
    connect(session->recipe(), &RecipeModel::targetsChanged, this, &HeadsPage::showLayers); // locks
    connect(session->selection(), &SelectionModel::changed, this, &HeadsPage::showSelection);
    connect(session->selection(), &SelectionModel::hoverChanged, this, &HeadsPage::showHover);
    showProfile();
    showJob();
}

void HeadsPage::makeTools(QHBoxLayout* row) {
    m_profile = new QPushButton(tr("Profile"));
    m_profile->setObjectName(QStringLiteral("profileButton"));
    m_profile->setToolTip(tr("Measure distance, concentration and output scale of every head on the calibration text"));
    connect(m_profile, &QPushButton::clicked, m_session, &Session::profileTeacher);
    m_scaleMode = new QComboBox;
    m_scaleMode->setObjectName(QStringLiteral("scaleModeCombo"));
    m_scaleMode->addItems({tr("global"), tr("per layer"), tr("fixed"), tr("quantile")});
    m_scaleMode->setToolTip(tr("Colour range: of all heads, of each layer, fixed as it is now, or 2 % to 98 %"));
    m_concentration = new QComboBox;
    m_concentration->setObjectName(QStringLiteral("concentrationCombo"));
    m_concentration->addItems({tr("within layer"), tr("absolute")});
    m_concentration->setToolTip(tr("Concentration relative to the heads of the same layer, or 1 - entropy / its largest value"));
    for (auto* combo : {m_scaleMode, m_concentration})
        combo->setMinimumWidth(70); // gives way on a small screen
    m_keep = new QSpinBox;
    m_keep->setObjectName(QStringLiteral("keepSpin"));
    m_keep->setRange(0, 1000);
    m_keep->setValue(22);
    m_keep->setPrefix(tr("N = "));
    m_keep->setToolTip(tr("How many layers the choices keep as softmax attention"));
    m_presets = new QPushButton(tr("Layers"));
    m_presets->setObjectName(QStringLiteral("presetsButton"));
    auto* menu = new QMenu(m_presets);
    makePresets(menu);
    m_presets->setMenu(menu);
    row->addWidget(m_profile);
    row->addStretch(1);
    row->addWidget(new QLabel(tr("colours")));
    row->addWidget(m_scaleMode);
    row->addWidget(new QLabel(tr("concentration")));
    row->addWidget(m_concentration);
    row->addStretch(1);
    row->addWidget(m_keep);
    row->addWidget(m_presets);
    connect(m_scaleMode, &QComboBox::currentIndexChanged, this, &HeadsPage::showScaleMode);
    connect(m_concentration, &QComboBox::currentIndexChanged, this, &HeadsPage::showProfile);
}

void HeadsPage::makePresets(QMenu* menu) {
    using Kind = core::KeepRule::Kind;
    const auto add = [this, menu](const QString& name, const QString& text, std::function<void()> slot) {
        auto* action = menu->addAction(text);
        action->setObjectName(name);
        connect(action, &QAction::triggered, this, slot);
    };
    const auto rule = [this](Kind kind, const std::string& method = {}) {
        return [this, kind, method] {
            core::KeepRule keep;
            keep.kind = kind, keep.count = m_keep->value(), keep.method = method;
            m_session->recipe()->setKeepRule(keep);
        };
    };
    const auto layers = [this] { return static_cast<std::int64_t>(m_session->recipe()->layers()); };
    add(QStringLiteral("keepUniform"), tr("Keep N, evenly spaced"), rule(Kind::Uniform));
    add(QStringLiteral("keepFirst"), tr("Keep the first N"), rule(Kind::First));
    add(QStringLiteral("keepLast"), tr("Keep the last N"), rule(Kind::Last));
    add(QStringLiteral("keepBypass"), tr("Keep N, convert the cheapest by bypass ranking"), rule(Kind::Method, "bypass"));
    add(QStringLiteral("chooseLayers"), tr("Choose by measurement..."), [this] { Q_EMIT measuredChoiceRequested(); });
    menu->addSeparator();
    add(QStringLiteral("convertSecond"), tr("Convert every 2nd layer"), [this, layers] {
        std::vector<std::int64_t> odd;
        for (std::int64_t l = 1; l < layers(); l += 2)
            odd.push_back(l);
        m_session->recipe()->setConverted(odd, tr("Convert every 2nd layer"));
    });
    add(QStringLiteral("convertNone"), tr("Convert none"), [this] { m_session->recipe()->setConverted({}, tr("Convert no layer")); });
    add(QStringLiteral("convertAll"), tr("Convert all"), [this, layers] {
        std::vector<std::int64_t> all(static_cast<std::size_t>(layers()));
        std::iota(all.begin(), all.end(), 0);
        m_session->recipe()->setConverted(all, tr("Convert all layers"));
    });
}

void HeadsPage::makeMaps(QHBoxLayout* row) {
    static const char* const names[] = {"distanceMap", "concentrationMap", "scaleMap"};
    auto* selection = m_session->selection();
    for (std::size_t i = 0; i < m_maps.size(); ++i) {
        auto* map = m_maps[i] = new widgets::HeadHeatMap;
        map->setObjectName(QString::fromLatin1(names[i]));
        map->setMinimumSize(150, 200);
        row->addWidget(map, i == 0 ? 6 : 5); // the first has the gutter of the layers
        using Map = widgets::HeadHeatMap;
        connect(map, &Map::headClicked, selection, [selection](int layer, int head, Qt::KeyboardModifiers modifiers) {
            const HeadId id{layer, head};
            if (modifiers & Qt::ControlModifier)
                selection->toggle(id);
            else
                selection->select({id}, id);
        });
        connect(map, &Map::headsSelected, selection, [selection](const QList<widgets::HeadId>& heads, Qt::KeyboardModifiers modifiers) {
            QSet<HeadId> set;
            for (const auto& head : heads)
                set.insert({head.layer, head.head});
            const HeadId primary{heads.back().layer, heads.back().head};
            if (modifiers & Qt::ControlModifier)
                selection->add(set, primary);
            else
                selection->select(set, primary);
        });
        connect(map, &Map::selectionCleared, selection, &SelectionModel::clear);
        connect(map, &Map::headHovered, selection, [selection](int layer, int head) { selection->setHovered({layer, head}); });
        connect(map, &Map::hoverLeft, selection, [selection] { selection->setHovered({}); });
        connect(map, &Map::layerTickToggled, this, [this](int layer, bool ticked) { toggle({layer}, ticked); });
        connect(map, &Map::layersToggled, this, &HeadsPage::toggle);
    }
}

std::vector<double> HeadsPage::values(const std::function<double(const core::HeadProfile&)>& of) const {
    const auto& c = m_session->teacher()->config;
    std::vector<double> result(static_cast<std::size_t>(c.layers * c.heads), std::numeric_limits<double>::quiet_NaN());
    if (const auto* profile = m_session->profile())
        for (std::size_t l = 0; l < std::min(profile->layers.size(), static_cast<std::size_t>(c.layers)); ++l)
            for (std::size_t h = 0; h < std::min(profile->layers[l].size(), static_cast<std::size_t>(c.heads)); ++h)
                result[l * static_cast<std::size_t>(c.heads) + h] = of(profile->layers[l][h]);
    return result;
}

void HeadsPage::showProfile() {
    const auto& teacher = m_session->teacher();
    const bool measured = teacher && m_session->profile();
    const auto hint = teacher ? tr("Not measured yet: press Profile (about a minute on a CPU).") : tr("Open a model first: its heads appear here.");
    const auto show = [&](std::size_t map, const QString& title, const QString& unit, widgets::ColorScale scale, double (*of)(const core::HeadProfile&)) {
        m_maps[map]->setEmptyText(title + QStringLiteral("\n\n") + hint);
        if (!teacher || (!measured && map != 0)) { // before a profile the first map still has the ticks of the layers
            m_maps[map]->setData({0, 0, {}, title, unit, scale});
            return;
        }
        m_maps[map]->setData({static_cast<int>(teacher->config.layers), static_cast<int>(teacher->config.heads), values(of), title, unit, scale});
    };
    using Head = core::HeadProfile;
    show(0, tr("attention distance"), tr("tokens"), widgets::ColorScale::Log2, [](const Head& h) { return h.distance.mean; });
    if (m_concentration->currentIndex() == 0)
        show(1, tr("concentration"), {}, widgets::ColorScale::Linear, [](const Head& h) { return h.concentrationLayer; });
    else
        show(1, tr("concentration, absolute"), {}, widgets::ColorScale::Linear, [](const Head& h) { return h.concentrationAbsolute; });
    show(2, tr("output scale"), {}, widgets::ColorScale::Log10, [](const Head& h) { return h.rmsPostO; });
    showLayers();
    showSelection();
    showJob();
}

void HeadsPage::showScaleMode() {
    using widgets::ScaleMode;
    for (auto* map : m_maps) {
        ScaleMode mode;
        switch (m_scaleMode->currentIndex()) {
        case PerLayer: mode.kind = ScaleMode::PerLayer; break;
        case Quantile: mode.kind = ScaleMode::Quantile; break;
        case Fixed: { // the whole range of now stays when another profile comes
            const auto& data = map->data();
            const widgets::ColorRange range(data.values, data.layers, data.heads, data.scale, {}, false);
            if (!range.isEmpty())
                mode = ScaleMode::fixed(range.minimum(), range.maximum());
            break;
        }
        default: break;
        }
        map->setScaleMode(mode);
    }
}

void HeadsPage::toggle(const QList<int>& ticked, bool convertThem) {
    auto* recipe = m_session->recipe();
    QList<int> layers;
    for (const int layer : ticked) {
        if (recipe->pin(layer) != (convertThem ? Pin::Never : Pin::Always))
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

void HeadsPage::showLayers() {
    m_summary->clear();
    m_warning->clear();
    m_warning->hide();
    const auto& teacher = m_session->teacher();
    if (!teacher || m_session->recipe()->layers() == 0)
        return;
    const auto chosen = convertedLayers(*m_session);
    const auto count = static_cast<std::size_t>(teacher->config.layers);
    std::vector<bool> ticks(count, false);
    std::vector<widgets::HeadHeatMap::LayerInfo> infos(count);
    for (const auto layer : chosen.value_or(std::vector<std::int64_t>{}))
        if (layer >= 0 && layer < teacher->config.layers)
            ticks[static_cast<std::size_t>(layer)] = true;
    const auto& targets = m_session->recipe()->recipe().targets;
    for (std::size_t l = 0; l < count; ++l) {
        infos[l].kind = ticks[l] ? tr("GDN") : tr("soft");
        if (const auto found = targets.find(static_cast<std::int64_t>(l)); found != targets.end())
            infos[l].locked = std::any_of(found->second.begin(), found->second.end(), [](const auto& head) { return !head.second.locked.empty(); });
    }
    m_maps[0]->setLayerTicks(ticks);
    m_maps[0]->setLayerInfos(infos);
    m_summary->setText(layerSummary(*m_session));
    if ((count > 0 && ticks[0]) || (count > 1 && ticks[1])) {
        const auto which = ticks[0] && count > 1 && ticks[1] ? tr("Layers 0 and 1 are converted") : ticks[0] ? tr("Layer 0 is converted") : tr("Layer 1 is converted");
        m_warning->setText(QStringLiteral("<span style='color:%1'>⚠ %2</span>")
                               .arg(widgets::stateColors(palette()).warning.name(), tr("%1: the first two layers cost most quality by far.").arg(which)));
        m_warning->show();
    }
}

void HeadsPage::showSelection() {
    const auto* selection = m_session->selection();
    QSet<widgets::HeadId> heads;
    for (const auto& head : selection->selected())
        heads.insert(toWidget(head));
    const auto primary = selection->primary().valid() ? std::optional(toWidget(selection->primary())) : std::nullopt;
    for (auto* map : m_maps)
        map->setSelection(heads, primary);
}

void HeadsPage::showHover() {
    const auto head = m_session->selection()->hovered();
    for (auto* map : m_maps)
        map->setHover(head.layer, head.head);
}

void HeadsPage::showJob() {
    const bool teacher = m_session->teacher().has_value(), idle = m_session->jobState() == JobState::Idle;
    m_profile->setEnabled(teacher && idle);
    m_profile->setText(m_session->profile() ? tr("Profile again") : tr("Profile"));
    for (auto* widget : {static_cast<QWidget*>(m_keep), static_cast<QWidget*>(m_presets)})
        widget->setEnabled(teacher);
}

void HeadsPage::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange)
        showLayers();
}

} // namespace linnet::app
