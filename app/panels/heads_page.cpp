#include "app/panels/heads_page.h"

#include "app/models/layer_choice.h"
#include "app/models/session.h"
#include "app/panels/map_controls.h"
#include "app/panels/map_link.h"
#include "app/panels/single_map.h"
#include "widgets/head_heat_map.h"
#include "widgets/theme.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QMenu>
#include <QPushButton>
#include <QSpinBox>
#include <QStackedLayout>
#include <QVBoxLayout>
#include <algorithm>
#include <functional>
#include <numeric>

namespace linnet::app {

HeadsPage::HeadsPage(Session* session, QWidget* parent) : QWidget(parent), m_session(session), m_student(session->studentNumbers()) {
    setObjectName(QStringLiteral("headsPage"));
    m_summary = new QLabel;
    m_summary->setObjectName(QStringLiteral("layerSummary"));
    m_summary->setWordWrap(true);
    m_summary->setAlignment(Qt::AlignLeft | Qt::AlignTop);
    m_warning = new QLabel;
    m_warning->setObjectName(QStringLiteral("layerWarning"));
    m_warning->setWordWrap(true);
    m_controls = new MapControls(session);
    auto* tools = new QHBoxLayout;
    makeTools(tools);
    m_stack = new QStackedLayout;
    m_stack->addWidget(makeOverview());
    m_stack->addWidget(m_single = new SingleMap(session, m_controls));
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(6, 6, 6, 6);
    layout->addLayout(tools);
    layout->addWidget(m_controls);
    layout->addLayout(m_stack, 1);
    auto* below = new QWidget; // a shorter text, or a warning that comes, does not move the ticks under the pointer
    below->setMinimumHeight(2 * fontMetrics().lineSpacing());
    auto* lines = new QVBoxLayout(below);
    lines->setContentsMargins(0, 0, 0, 0);
    lines->setSpacing(0);
    lines->addWidget(m_summary);
    lines->addWidget(m_warning);
    lines->addStretch(1);
    layout->addWidget(below);

    connect(session, &Session::teacherChanged, this, [this] {
        if (const auto& teacher = m_session->teacher()) {
            m_keep->setMaximum(static_cast<int>(teacher->config.layers));
            m_keep->setValue(static_cast<int>((teacher->config.layers * 22 + 15) / 30)); // the share that a recipe starts with
        }
        showMaps();
    });
    const auto student = [this] { // what it is started with has changed
        m_controls->refresh();
        if (m_controls->single())
            m_single->showValues();
    };
    connect(m_controls, &MapControls::changed, this, &HeadsPage::showMaps);
    connect(session, &Session::profileChanged, this, &HeadsPage::showMaps);
    connect(session, &Session::rankingChanged, this, &HeadsPage::showLayers);
    connect(session, &Session::jobChanged, this, &HeadsPage::showJob);
    connect(session->recipe(), &RecipeModel::layersChanged, this, &HeadsPage::showLayers);
    connect(session->recipe(), &RecipeModel::targetsChanged, this, student);
    connect(session->closedForm(), &ClosedFormModel::changed, this, student);
    connect(session->studentNumbers(), &StudentNumbersModel::changed, this, student);
    showMaps();
}

void HeadsPage::makeTools(QHBoxLayout* row) {
    m_profile = new QPushButton(tr("Profile"));
    m_profile->setObjectName(QStringLiteral("profileButton"));
    m_profile->setToolTip(tr("Measure distance, concentration and output scale of every head on the calibration text"));
    connect(m_profile, &QPushButton::clicked, m_session, &Session::profileTeacher);
    m_keep = new QSpinBox;
    m_keep->setObjectName(QStringLiteral("keepSpin"));
    m_keep->setAccessibleName(tr("Layers that stay softmax"));
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
    row->addWidget(m_controls->chooser(), 1);
    row->addWidget(m_keep);
    row->addWidget(m_presets);
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

QWidget* HeadsPage::makeOverview() {
    static const char* const names[] = {"distanceMap", "concentrationMap", "scaleMap"};
    auto* overview = new QWidget;
    auto* row = new QHBoxLayout(overview);
    row->setContentsMargins(0, 0, 0, 0);
    for (std::size_t i = 0; i < m_maps.size(); ++i) {
        m_maps[i] = new widgets::HeadHeatMap;
        m_maps[i]->setObjectName(QString::fromLatin1(names[i]));
        m_maps[i]->setMinimumSize(150, 200);
        m_links[i] = new MapLink(m_maps[i], m_session, i == 0 ? MapLink::Layers::With : MapLink::Layers::Without);
        row->addWidget(m_maps[i], i == 0 ? 6 : 5); // the first has the gutter of the layers
    }
    return overview;
}

void HeadsPage::showMaps() {
    m_controls->refresh();
    m_stack->setCurrentIndex(m_controls->single() ? 1 : 0);
    tellWants();
    if (m_controls->single()) // the others when they are looked at
        m_single->showValues();
    else
        showOverview();
    showLayers();
    showJob();
}

void HeadsPage::tellWants() { // the overview is of the teacher
    if (m_student)
        m_student->want(this, isVisible() && m_controls->single());
}

void HeadsPage::showEvent(QShowEvent* event) {
    QWidget::showEvent(event);
    tellWants();
}

void HeadsPage::hideEvent(QHideEvent* event) {
    QWidget::hideEvent(event);
    tellWants();
}

void HeadsPage::showOverview() {
    const auto& teacher = m_session->teacher();
    const std::array<Metric, 3> metrics{m_controls->overviewDistance(), m_controls->absoluteConcentration() ? Metric::ConcentrationAbsolute : Metric::ConcentrationLayer, Metric::OutputAfter};
    for (std::size_t i = 0; i < m_maps.size(); ++i) {
        auto* map = m_maps[i];
        const auto text = metricText(metrics[i]);
        map->setEmptyText(text.title + QStringLiteral("\n\n") + metricMissing(*m_session, metrics[i], Source::Teacher));
        map->setColorMap(m_controls->colorMap());
        map->setScaleMode(m_controls->mode(metrics[i], Source::Teacher));
        if (!teacher || (!m_session->profile() && i != 0)) // before a profile the first map still has the ticks of the layers
            map->setData({0, 0, {}, text.title, text.unit, text.scale});
        else
            map->setData({static_cast<int>(teacher->config.layers), static_cast<int>(teacher->config.heads), metricValues(*m_session, metrics[i], Source::Teacher), text.title,
                          text.unit, text.scale});
        if (const auto& range = map->colorRange(); !range.isEmpty())
            m_controls->freeze(metrics[i], Source::Teacher, {range.minimum(), range.maximum()});
        m_links[i]->refresh();
    }
}

void HeadsPage::showLayers() {
    m_summary->clear();
    m_warning->clear();
    const auto& teacher = m_session->teacher();
    if (!teacher || m_session->recipe()->layers() == 0)
        return;
    m_summary->setText(layerSummary(*m_session));
    if (const auto kept = keptCount(*m_session); kept && !m_keep->hasFocus()) // N is what is so now
        m_keep->setValue(static_cast<int>(*kept));
    const auto chosen = convertedLayers(*m_session).value_or(std::vector<std::int64_t>{});
    const auto converted = [&](std::int64_t layer) { return std::find(chosen.begin(), chosen.end(), layer) != chosen.end(); };
    if (!converted(0) && !converted(1))
        return;
    const auto which = converted(0) && converted(1) ? tr("Layers 0 and 1 are converted") : converted(0) ? tr("Layer 0 is converted") : tr("Layer 1 is converted");
    m_warning->setText(QStringLiteral("<span style='color:%1'>⚠ %2</span>")
                           .arg(widgets::stateColors(palette()).warning.name(), tr("%1: the first two layers cost most quality by far.").arg(which)));
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
