#include "app/panels/curves_panel.h"

#include "app/models/session.h"
#include "widgets/color_maps.h"
#include "widgets/curve_plot.h"

#include <QCheckBox>
#include <QComboBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QSlider>
#include <QVBoxLayout>
#include <map>

namespace linnet::app {
namespace {

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
    m_plot->setEmptyText(tr("Start a run: the alignment loss of each converted layer appears here."));
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
    for (auto* widget : {static_cast<QWidget*>(m_quantity), static_cast<QWidget*>(new QLabel(tr("over"))), static_cast<QWidget*>(m_axis), static_cast<QWidget*>(m_log),
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

void CurvesPanel::rebuild() {
    m_plot->clear();
    m_plot->setAxisLabels(m_axis->currentText(), m_quantity->currentText());
    const auto run = m_session->currentRun();
    m_run = run ? run->folder : QString();
    if (run && !run->metrics.empty())
        append(run->metrics);
    m_plot->resetView();
}

void CurvesPanel::append(const std::vector<core::MetricRow>& rows) {
    const auto run = m_session->currentRun();
    if (!run)
        return;
    if (run->folder != m_run) { // another run's: draw it whole, these rows among it
        rebuild();
        return;
    }
    std::map<std::int64_t, std::pair<std::vector<double>, std::vector<double>>> points;
    for (const auto& row : rows) {
        const double y = quantityOf(row, m_quantity->currentIndex());
        if (std::isnan(y))
            continue; // measured every few steps only
        points[row.layer].first.push_back(positionOf(row, m_axis->currentIndex()));
        points[row.layer].second.push_back(y);
    }
    for (const auto& [layer, xy] : points) {
        const auto id = QString::number(layer);
        if (!m_plot->hasCurve(id))
            m_plot->addCurve(id, tr("layer %1").arg(layer), widgets::runColor(static_cast<int>(layer)), layer / 8 % 2 ? Qt::DashLine : Qt::SolidLine);
        m_plot->append(id, xy.first, xy.second);
    }
}

} // namespace linnet::app
