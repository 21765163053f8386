#include "app/panels/curves_panel.h"

#include "app/models/session.h"
#include "widgets/color_maps.h"
#include "widgets/curve_plot.h"

#include <QCheckBox>
#include <QComboBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QSignalBlocker>
#include <QSlider>
#include <QVBoxLayout>
#include <algorithm>
#include <map>

namespace linnet::app {
namespace {

const char* const kStages[] = {"align", "drift", "distill"}; // those with metrics

double quantityOf(const core::MetricRow& row, int quantity) {
    switch (quantity) {
    case 1: return row.heldOutLoss.value_or(std::nan(""));
    case 2: return row.relativeLoss.value_or(std::nan(""));
    case 3: return row.lr;
    case 4: return row.gradNorm;
    default: return row.loss;
    }
}

double positionOf(const core::MetricRow& row, int axis) {
    return axis == 1 ? static_cast<double>(row.tokens) : axis == 2 ? row.time : static_cast<double>(row.step);
}

} // namespace

CurvesPanel::CurvesPanel(Session* session, QWidget* parent) : QWidget(parent), m_session(session) {
    setObjectName(QStringLiteral("curvesPanel"));
    m_plot = new widgets::CurvePlot;
    m_stage = new QComboBox;
    m_stage->setObjectName(QStringLiteral("stageCombo"));
    for (const auto& [name, hint] : {std::pair{tr("alignment"), tr("each layer by itself, on the teacher's inputs")},
                                     {tr("drift"), tr("the loss of each layer on the student's own inputs, before and after")},
                                     {tr("distillation"), tr("all converted layers together, KL to the teacher")}}) {
        m_stage->addItem(name);
        m_stage->setItemData(m_stage->count() - 1, hint, Qt::ToolTipRole);
    }
    m_quantity = new QComboBox;
    m_quantity->addItems({tr("loss"), tr("held-out loss"), tr("relative loss (held out)"), tr("learning rate"), tr("gradient norm")});
    m_axis = new QComboBox;
    m_axis->addItems({tr("step"), tr("tokens"), tr("seconds")});
    m_log = new QCheckBox(tr("log axis"));
    m_log->setChecked(true);
    m_smoothing = new QSlider(Qt::Horizontal);
    m_smoothing->setRange(0, 99);
    m_smoothing->setValue(60);
    m_smoothing->setMaximumWidth(180);
    m_smoothing->setAccessibleName(tr("smoothing"));
    auto* value = new QLabel;
    value->setMinimumWidth(fontMetrics().horizontalAdvance(QStringLiteral("0.00")));
    auto* row = new QHBoxLayout;
    for (auto* widget : {static_cast<QWidget*>(m_stage), static_cast<QWidget*>(m_quantity), static_cast<QWidget*>(new QLabel(tr("over"))), static_cast<QWidget*>(m_axis), static_cast<QWidget*>(m_log),
                         static_cast<QWidget*>(new QLabel(tr("smoothing"))), static_cast<QWidget*>(m_smoothing), static_cast<QWidget*>(value)})
        row->addWidget(widget);
    row->addStretch(1);
    auto* layout = new QVBoxLayout(this);
    layout->addLayout(row);
    layout->addWidget(m_plot, 1);
    const auto smooth = [this, value](int percent) {
        m_plot->setSmoothing(percent / 100.0);
        value->setText(QString::number(percent / 100.0, 'f', 2));
    };
    connect(m_smoothing, &QSlider::valueChanged, this, smooth);
    connect(m_log, &QCheckBox::toggled, m_plot, &widgets::CurvePlot::setLogY);
    connect(m_stage, &QComboBox::currentIndexChanged, this, &CurvesPanel::rebuild);
    connect(session, &Session::stageStarted, this, &CurvesPanel::showStage);
    connect(m_quantity, &QComboBox::currentIndexChanged, this, &CurvesPanel::rebuild);
    connect(m_axis, &QComboBox::currentIndexChanged, this, &CurvesPanel::rebuild);
    connect(session, &Session::metricsAppended, this, &CurvesPanel::append);
    connect(session, &Session::runsChanged, this, [this] {
        if (const auto run = m_session->currentRun(); run && run->folder != m_run)
            rebuild();
    });
    smooth(m_smoothing->value());
    m_plot->setLogY(true);
    rebuild();
}

QString CurvesPanel::stage() const {
    return QString::fromLatin1(kStages[m_stage->currentIndex()]);
}

void CurvesPanel::showStage(const QString& stage) {
    for (int i = 0; i < m_stage->count(); ++i)
        if (stage == QLatin1String(kStages[i]))
            m_stage->setCurrentIndex(i);
}

void CurvesPanel::rebuild() {
    const auto run = m_session->currentRun();
    if (run && run->folder != m_run && !run->metrics.empty()) { // another run's: the last stage that it has
        const QSignalBlocker quiet(m_stage);
        showStage(QString::fromStdString(run->metrics.back().stage));
    }
    m_run = run ? run->folder : QString();
    const bool drift = stage() == QLatin1String("drift");
    for (auto* combo : {m_quantity, m_axis})
        combo->setEnabled(!drift);
    m_plot->clear();
    m_plot->setSmoothing(drift ? 0 : m_smoothing->value() / 100.0); // layers are no steps of a way
    m_smoothing->setEnabled(!drift);
    m_plot->setWholeX(drift);
    m_plot->setAxisLabels(drift ? tr("layer") : m_axis->currentText(), drift ? tr("loss on the student's inputs") : m_quantity->currentText());
    m_plot->setEmptyText(drift                                   ? tr("No drift correction in this run: Method > drift turns it on.")
                         : stage() == QLatin1String("distill") ? tr("No distillation in this run: Method > Distillation > steps turns it on.")
                                                                 : tr("Start a run: the alignment loss of each converted layer appears here."));
    if (run && !run->metrics.empty())
        append(run->metrics);
    m_plot->resetView();
}

// What a layer's correction began with and what it ended with, over the layers.
void CurvesPanel::appendDrift(const std::vector<core::MetricRow>& rows) {
    std::map<std::int64_t, std::pair<double, double>> layers;
    for (const auto& row : rows)
        if (row.stage == "drift") {
            auto& [before, after] = layers.try_emplace(row.layer, row.loss, row.heldOutLoss.value_or(row.loss)).first->second;
            if (row.step == 0)
                before = row.loss;
            after = row.heldOutLoss.value_or(after);
        }
    for (const auto& [id, name, color] : {std::tuple{QStringLiteral("before"), tr("before"), 1}, {QStringLiteral("after"), tr("after"), 0}}) {
        if (layers.empty())
            return;
        if (!m_plot->hasCurve(id))
            m_plot->addCurve(id, name, widgets::runColor(color), color ? Qt::DashLine : Qt::SolidLine);
        m_plot->clearPoints(id);
        for (const auto& [layer, loss] : layers)
            m_plot->append(id, static_cast<double>(layer), id == QLatin1String("after") ? loss.second : loss.first);
    }
}

void CurvesPanel::append(const std::vector<core::MetricRow>& rows) {
    const auto run = m_session->currentRun();
    if (!run)
        return;
    if (run->folder != m_run) { // another run's: draw it whole, these rows among it
        rebuild();
        return;
    }
    if (stage() == QLatin1String("drift")) {
        if (std::any_of(rows.begin(), rows.end(), [](const core::MetricRow& row) { return row.stage == "drift"; }))
            appendDrift(run->metrics); // few rows: a layer's later ones replace what is shown of it
        return;
    }
    const auto shown = stage().toStdString();
    std::map<std::int64_t, std::pair<std::vector<double>, std::vector<double>>> points;
    for (const auto& row : rows) {
        const double y = quantityOf(row, m_quantity->currentIndex());
        if (row.stage != shown || std::isnan(y))
            continue; // another stage's, or measured every few steps only
        points[row.layer].first.push_back(positionOf(row, m_axis->currentIndex()));
        points[row.layer].second.push_back(y);
    }
    for (const auto& [layer, xy] : points) {
        const auto id = QString::number(layer);
        if (!m_plot->hasCurve(id)) {
            const auto index = static_cast<int>(std::max<std::int64_t>(layer, 0));
            m_plot->addCurve(id, layer < 0 ? tr("all converted layers") : tr("layer %1").arg(layer), widgets::runColor(index), index / 8 % 2 ? Qt::DashLine : Qt::SolidLine);
        }
        m_plot->append(id, xy.first, xy.second);
    }
}

} // namespace linnet::app
