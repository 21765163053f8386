#include "app/panels/map_controls.h"

#include "app/models/session.h"
#include "app/models/settings.h"

#include <QClipboard>
#include <QComboBox>
#include <QDoubleValidator>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QLocale>
#include <QMenu>
#include <QPushButton>
#include <QRegularExpression>
#include <QSignalBlocker>
#include <QStandardItemModel>
#include <cmath>

namespace linnet::app {
namespace {

constexpr double kStrongSinks = 0.3; // mean share of attention on the first tokens from which on they are what a distance shows
enum Mode { Global, PerLayer, Fixed, Quantile };
enum Axis { Usual, Linear, Log };
constexpr widgets::ColorMap kMaps[] = {widgets::ColorMap::Viridis, widgets::ColorMap::Cividis, widgets::ColorMap::Grey};

QString viewKey(Metric metric, Source source) {
    static const char* const sources[] = {"teacher", "student", "difference"};
    return QString::fromLatin1(metricText(metric).key) + QLatin1Char('.') + QString::fromLatin1(sources[static_cast<int>(source)]);
}

std::optional<MapControls::Range> parsed(const QString& text) {
    const auto parts = text.split(QRegularExpression(QStringLiteral("\\s+")), Qt::SkipEmptyParts);
    bool low = false, high = false;
    if (parts.size() != 2)
        return {};
    const MapControls::Range range{QLocale::c().toDouble(parts[0], &low), QLocale::c().toDouble(parts[1], &high)};
    return low && high && std::isfinite(range.first) && std::isfinite(range.second) && range.first < range.second ? std::optional(range) : std::nullopt;
}

QString number(double value) {
    return QLocale::c().toString(value, 'g', 6);
}

} // namespace

MapControls::MapControls(Session* session, QWidget* parent) : QWidget(parent), m_session(session) {
    setObjectName(QStringLiteral("mapControls"));
    auto* row = new QHBoxLayout(this);
    row->setContentsMargins(0, 0, 0, 0);
    row->setSpacing(4);
    makeChooser();
    makeColors(row);
    restore();
    for (auto* each : {m_view, m_metric, m_source, m_mode, m_axis, m_map, m_concentration, m_distance})
        connect(each, &QComboBox::currentIndexChanged, this, [this] {
            refresh();
            store();
            Q_EMIT changed();
        });
    refresh();
}

QComboBox* MapControls::combo(const QString& name, const QStringList& items, const QString& hint) {
    auto* made = new QComboBox;
    made->setObjectName(name);
    made->addItems(items);
    made->setToolTip(hint);
    made->setAccessibleName(hint);
    made->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    made->setMinimumContentsLength(5); // gives way on a small screen
    return made;
}

void MapControls::makeChooser() {
    m_view = combo(QStringLiteral("viewCombo"), {tr("overview"), tr("one map")}, tr("Three maps side by side, or one large one"));
    QStringList names;
    for (int i = 0; i < kMetricCount; ++i)
        names << metricText(static_cast<Metric>(i)).name;
    m_metric = combo(QStringLiteral("metricCombo"), names, tr("What the map shows"));
    for (int i = 0; i < kMetricCount; ++i)
        m_metric->setItemData(i, metricText(static_cast<Metric>(i)).hint, Qt::ToolTipRole);
    m_source = combo(QStringLiteral("sourceCombo"), {tr("teacher"), tr("student"), tr("difference")}, tr("Whose numbers"));
    m_metric->setMinimumContentsLength(9);
    m_chooser = new QWidget;
    auto* row = new QHBoxLayout(m_chooser);
    row->setContentsMargins(0, 0, 0, 0);
    row->setSpacing(4);
    for (auto* each : {m_view, m_metric, m_source})
        row->addWidget(each, each == m_metric ? 1 : 0);
    m_metric->setMaximumWidth(fontMetrics().averageCharWidth() * 40);
    row->addStretch(0); // the overview has no metric to take the room
}

void MapControls::makeColors(QHBoxLayout* row) {
    m_mode = combo(QStringLiteral("scaleModeCombo"), {tr("global"), tr("per layer"), tr("fixed"), tr("quantile")},
                   tr("Colour range: of all heads, of each layer, fixed, or from 2 % to 98 %"));
    m_axis = combo(QStringLiteral("axisCombo"), {tr("auto"), tr("linear"), tr("log")}, tr("Colour scale: as usual for the metric, linear or logarithmic"));
    QStringList maps;
    for (const auto map : kMaps)
        maps << widgets::colorMapName(map);
    m_map = combo(QStringLiteral("colorMapCombo"), maps, tr("Colours, dark to light; differences are blue to orange"));
    const auto field = [this](const QString& name, const QString& hint) {
        auto* made = new QLineEdit;
        made->setObjectName(name);
        made->setToolTip(hint);
        made->setAccessibleName(hint);
        auto* validator = new QDoubleValidator(made);
        validator->setLocale(QLocale::c());
        made->setValidator(validator);
        made->setFixedWidth(fontMetrics().horizontalAdvance(QStringLiteral("0.0000000")) + 14);
        connect(made, &QLineEdit::editingFinished, this, &MapControls::typed);
        return made;
    };
    m_low = field(QStringLiteral("rangeLow"), tr("Low end of the colours; typing fixes the range"));
    m_high = field(QStringLiteral("rangeHigh"), tr("High end of the colours; typing fixes the range"));
    m_dash = new QLabel(QStringLiteral("–"));
    m_rangeMenu = new QPushButton;
    m_rangeMenu->setObjectName(QStringLiteral("rangeMenu"));
    m_rangeMenu->setText(tr("Range"));
    m_rangeMenu->setToolTip(tr("Take the colour range from one view to another"));
    auto* menu = new QMenu(m_rangeMenu);
    menu->addAction(tr("Copy range"), this, &MapControls::copyRange)->setObjectName(QStringLiteral("copyRange"));
    menu->addAction(tr("Paste range"), this, &MapControls::pasteRange)->setObjectName(QStringLiteral("pasteRange"));
    menu->addAction(tr("Whole range"), this, &MapControls::resetRange)->setObjectName(QStringLiteral("resetRange"));
    m_rangeMenu->setMenu(menu);
    m_distance = combo(QStringLiteral("distanceCombo"), {tr("distance"), tr("all tokens"), tr("without sink")},
                       tr("Attention distance over all tokens, or without the first four, on which many heads rest.\n\"distance\" chooses: without them where they take most of the attention; the map's title says which"));
    m_concentration = combo(QStringLiteral("concentrationCombo"), {tr("concentration in layer"), tr("concentration")},
                            tr("Concentration is 1 - entropy / its largest value, 1 is all on one token; in layer it runs from 0, the layer's widest head, to 1, its narrowest"));
    row->addWidget(m_coloursLabel = new QLabel(tr("colours")));
    for (auto* each : {static_cast<QWidget*>(m_mode), static_cast<QWidget*>(m_axis), static_cast<QWidget*>(m_map)})
        row->addWidget(each, 1);
    for (auto* each : {static_cast<QWidget*>(m_low), static_cast<QWidget*>(m_dash), static_cast<QWidget*>(m_high), static_cast<QWidget*>(m_rangeMenu)})
        row->addWidget(each);
    row->addWidget(m_distance, 1);
    row->addWidget(m_concentration, 1);
}

// ---- settings -----------------------------------------------------------------------------------------------------------------

void MapControls::restore() {
    const Settings settings;
    const auto set = [&](QComboBox* box) {
        const int usual = box == m_concentration ? 1 : 0; // absolute: 1 means the same in every layer
        const int index = settings.value(QStringLiteral("heads/") + box->objectName(), usual).toInt();
        box->setCurrentIndex(index >= 0 && index < box->count() ? index : usual);
    };
    for (auto* each : {m_view, m_metric, m_source, m_mode, m_axis, m_map, m_concentration, m_distance})
        set(each);
    for (int m = 0; m < kMetricCount; ++m)
        for (const auto source : {Source::Teacher, Source::Student, Source::Difference}) {
            const auto key = viewKey(static_cast<Metric>(m), source);
            if (const auto range = parsed(settings.value(QStringLiteral("heads/range/") + key).toString()))
                m_ranges[key] = *range;
        }
}

void MapControls::store() const {
    Settings settings;
    for (auto* each : {m_view, m_metric, m_source, m_mode, m_axis, m_map, m_concentration, m_distance})
        settings.setValue(QStringLiteral("heads/") + each->objectName(), each->currentIndex());
}

// ---- what is chosen -----------------------------------------------------------------------------------------------------------

bool MapControls::single() const { return m_view->currentIndex() == 1; }
bool MapControls::absoluteConcentration() const { return m_concentration->currentIndex() == 1; }

Metric MapControls::overviewDistance() const {
    if (m_distance->currentIndex() > 0)
        return m_distance->currentIndex() == 1 ? Metric::Distance : Metric::DistanceNoSink;
    double mass = 0, heads = 0;
    for (const auto value : metricValues(*m_session, Metric::SinkMass, Source::Teacher))
        if (std::isfinite(value))
            mass += value, ++heads;
    return mass > heads * kStrongSinks ? Metric::DistanceNoSink : Metric::Distance;
}

Metric MapControls::metric() const { return static_cast<Metric>(m_metric->currentIndex()); }
Source MapControls::source() const { return static_cast<Source>(m_source->currentIndex()); }
widgets::ColorMap MapControls::colorMap() const { return kMaps[m_map->currentIndex()]; }

widgets::ScaleMode MapControls::mode(Metric metric, Source source) const {
    widgets::ScaleMode mode;
    switch (m_mode->currentIndex()) {
    case PerLayer: mode.kind = widgets::ScaleMode::PerLayer; break;
    case Quantile: mode.kind = widgets::ScaleMode::Quantile; break;
    case Fixed:
        if (const auto found = m_ranges.find(viewKey(metric, source)); found != m_ranges.end())
            mode = widgets::ScaleMode::fixed(found->second.first, found->second.second);
        break;
    default: break;
    }
    return mode;
}

widgets::ColorScale MapControls::scale(Metric metric, Source source) const {
    const auto usual = metricText(metric, source).scale;
    if (!single() || m_axis->currentIndex() == Usual || source == Source::Difference)
        return usual;
    if (m_axis->currentIndex() == Linear)
        return widgets::ColorScale::Linear;
    return usual == widgets::ColorScale::Linear ? widgets::ColorScale::Log10 : usual;
}

void MapControls::freeze(Metric metric, Source source, Range range) {
    if (m_mode->currentIndex() == Fixed)
        m_ranges.try_emplace(viewKey(metric, source), range);
}

void MapControls::setShown(std::optional<Range> range) {
    m_shown = range;
    const QSignalBlocker low(m_low), high(m_high);
    m_low->setText(range ? number(range->first) : QString());
    m_high->setText(range ? number(range->second) : QString());
    for (auto* each : {m_low, m_high}) {
        each->setEnabled(range.has_value());
        each->setCursorPosition(0);
        each->setModified(false);
    }
}

void MapControls::setRange(double low, double high) {
    if (!(low < high))
        return;
    const auto key = viewKey(metric(), source());
    m_ranges[key] = {low, high};
    Settings().setValue(QStringLiteral("heads/range/") + key, number(low) + QLatin1Char(' ') + number(high));
    if (m_mode->currentIndex() != Fixed)
        m_mode->setCurrentIndex(Fixed);
    else
        Q_EMIT changed();
}

void MapControls::resetRange() {
    const auto key = viewKey(metric(), source());
    m_ranges.erase(key);
    Settings().remove(QStringLiteral("heads/range/") + key);
    m_mode->setCurrentIndex(Global);
}

void MapControls::typed() {
    if (!m_low->isModified() && !m_high->isModified())
        return;
    if (const auto range = parsed(m_low->text() + QLatin1Char(' ') + m_high->text())) {
        setRange(range->first, range->second);
    } else {
        Q_EMIT m_session->notice(tr("The range was not taken: the low end must be a number below the high end."));
        setShown(m_shown);
    }
}

void MapControls::copyRange() const {
    if (m_shown)
        QGuiApplication::clipboard()->setText(number(m_shown->first) + QLatin1Char(' ') + number(m_shown->second));
}

void MapControls::pasteRange() {
    if (const auto range = parsed(QGuiApplication::clipboard()->text()))
        setRange(range->first, range->second);
    else
        Q_EMIT m_session->notice(tr("The clipboard holds no range: copy one from another view first."));
}

// ---- what there is to choose ----------------------------------------------------------------------------------------------------

void MapControls::refresh() {
    const bool one = single();
    for (auto* each : {static_cast<QWidget*>(m_metric), static_cast<QWidget*>(m_source), static_cast<QWidget*>(m_axis), static_cast<QWidget*>(m_low),
                       static_cast<QWidget*>(m_dash), static_cast<QWidget*>(m_high), static_cast<QWidget*>(m_rangeMenu)})
        each->setVisible(one);
    m_concentration->setVisible(!one);
    m_distance->setVisible(!one);
    m_coloursLabel->setVisible(!one); // one map has a row full of tools: the docks beside it need the room
    m_metric->setToolTip(metricText(metric()).hint);
    const bool onlyStudent = isOfStudent(metric());
    QStringList reasons{tr("Whose numbers")};
    for (const auto each : {Source::Teacher, Source::Student, Source::Difference}) {
        const int index = static_cast<int>(each);
        const auto missing = metricMissing(*m_session, metric(), each);
        const bool basis = each == (onlyStudent ? Source::Student : Source::Teacher); // what the map says itself where it is empty
        auto* item = qobject_cast<QStandardItemModel*>(m_source->model())->item(index);
        item->setEnabled(basis || missing.isEmpty());
        item->setToolTip(missing);
        if (!item->isEnabled())
            reasons << tr("%1: %2").arg(m_source->itemText(index), missing);
    }
    m_source->setToolTip(reasons.join(QLatin1Char('\n')));
    if (auto* model = qobject_cast<QStandardItemModel*>(m_source->model()); !model->item(m_source->currentIndex())->isEnabled()) {
        const QSignalBlocker quiet(m_source);
        m_source->setCurrentIndex(static_cast<int>(onlyStudent ? Source::Student : Source::Teacher));
    }
    const bool difference = one && source() == Source::Difference;
    m_axis->setEnabled(!difference); // symmetric about 0
    m_map->setEnabled(!difference);
}

} // namespace linnet::app
