// The controls, plots and table that CurvesPanel is made of.
#include "app/models/session.h"
#include "app/models/settings.h"
#include "app/panels/curves_panel.h"
#include "widgets/curve_plot.h"

#include <QCheckBox>
#include <QComboBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QScrollArea>
#include <QSlider>
#include <QSplitter>
#include <QTableWidget>
#include <QToolButton>

namespace linnet::app {
namespace {

constexpr int kLeastPlot = 125; // pixels

} // namespace

QHBoxLayout* CurvesPanel::makeWhat() {
    m_stage = new QComboBox;
    m_stage->setObjectName(QStringLiteral("stageCombo"));
    m_stage->setAccessibleName(tr("stages"));
    for (const auto& [name, hint] : {std::pair{tr("all stages"), tr("those that the runs have, one below the other")},
                                     {tr("calibration"), tr("what the closed form could not reproduce, by layer: the layer and its heads")},
                                     {tr("alignment"), tr("each layer by itself, on the teacher's inputs")},
                                     {tr("drift"), tr("the loss of each layer on the student's own inputs, before and after")},
                                     {tr("distillation"), tr("all converted layers together, KL to the teacher")}}) {
        m_stage->addItem(name);
        m_stage->setItemData(m_stage->count() - 1, hint, Qt::ToolTipRole);
    }
    m_quantity = new QComboBox;
    m_quantity->setObjectName(QStringLiteral("quantityCombo"));
    m_quantity->setAccessibleName(tr("quantity"));
    m_quantity->addItems({tr("loss, trained and held out"), tr("relative loss, held out"), tr("learning rate"), tr("gradient norm"), tr("tokens per second")});
    m_axis = new QComboBox;
    m_axis->setObjectName(QStringLiteral("axisCombo"));
    m_axis->setAccessibleName(tr("horizontal axis"));
    m_axis->addItems({tr("step"), tr("tokens"), tr("seconds")});
    m_axis->setToolTip(tr("Layers may be trained one after another: at tokens and seconds a step counts when its first layer got there"));
    m_runMenu = new QMenu(this);
    m_runButton = new QToolButton;
    m_runButton->setObjectName(QStringLiteral("curveRuns"));
    m_runButton->setText(tr("Runs"));
    m_runButton->setToolTip(tr("Which runs are drawn; the chosen one and the baseline always are"));
    m_runButton->setMenu(m_runMenu);
    m_runButton->setPopupMode(QToolButton::InstantPopup);
    connect(m_runMenu, &QMenu::aboutToShow, this, &CurvesPanel::fillRunMenu);
    m_runMenu->addAction(tr("(none yet)"))->setEnabled(false); // a menu without entries would not open
    for (auto* combo : {m_stage, m_quantity, m_axis})
        connect(combo, &QComboBox::currentIndexChanged, this, [this] { rebuild(false); });
    auto* row = new QHBoxLayout;
    row->addWidget(m_stage);
    row->addWidget(m_quantity);
    row->addWidget(new QLabel(tr("over")));
    row->addWidget(m_axis);
    row->addStretch(1);
    row->addWidget(m_runButton);
    return row;
}

QHBoxLayout* CurvesPanel::makeHow() {
    m_log = new QCheckBox(tr("log"));
    m_log->setObjectName(QStringLiteral("logCheck"));
    m_log->setToolTip(tr("Logarithmic vertical axis"));
    m_log->setChecked(true);
    m_clip = new QCheckBox(tr("clip outliers"));
    m_clip->setObjectName(QStringLiteral("clipCheck"));
    m_clip->setToolTip(tr("The vertical axis spans 2 to 98 % of the values in view"));
    m_smoothing = new QSlider(Qt::Horizontal);
    m_smoothing->setObjectName(QStringLiteral("smoothingSlider"));
    m_smoothing->setRange(0, 99);
    m_smoothing->setValue(60);
    m_smoothing->setMaximumWidth(140);
    m_smoothing->setAccessibleName(tr("smoothing"));
    m_smoothing->setToolTip(tr("Weight of the moving average; the raw line stays behind it"));
    m_weight = new QLabel;
    m_weight->setMinimumWidth(fontMetrics().horizontalAdvance(QStringLiteral("0.00")));
    m_pinned = new QLineEdit;
    m_pinned->setObjectName(QStringLiteral("pinnedLayers"));
    m_pinned->setAccessibleName(tr("layers drawn by themselves"));
    m_pinned->setPlaceholderText(tr("layers"));
    m_pinned->setToolTip(tr("Layers drawn by themselves beside the percentiles, such as 3, 7; those of the selected heads are too"));
    m_pinned->setMaximumWidth(14 * fontMetrics().averageCharWidth());
    m_showValues = new QCheckBox(tr("values"));
    m_showValues->setObjectName(QStringLiteral("valuesCheck"));
    m_showValues->setToolTip(tr("A table of what lies under the cursor"));
    m_showValues->setChecked(Settings().value(QStringLiteral("curves/values"), true).toBool());
    connect(m_log, &QCheckBox::toggled, this, &CurvesPanel::applyLooks);
    connect(m_clip, &QCheckBox::toggled, this, &CurvesPanel::applyLooks);
    connect(m_smoothing, &QSlider::valueChanged, this, &CurvesPanel::applyLooks);
    connect(m_pinned, &QLineEdit::editingFinished, this, [this] { rebuild(true); });
    connect(m_showValues, &QCheckBox::toggled, this, [this](bool on) {
        Settings().setValue(QStringLiteral("curves/values"), on);
        m_values->setVisible(on);
    });
    auto* row = new QHBoxLayout;
    for (auto* widget : {static_cast<QWidget*>(m_log), static_cast<QWidget*>(m_clip), static_cast<QWidget*>(new QLabel(tr("smoothing"))), static_cast<QWidget*>(m_smoothing), static_cast<QWidget*>(m_weight),
                         static_cast<QWidget*>(new QLabel(tr("pin"))), static_cast<QWidget*>(m_pinned)})
        row->addWidget(widget);
    row->addStretch(1);
    row->addWidget(m_showValues);
    return row;
}

QWidget* CurvesPanel::makePlots() {
    auto* plots = new QSplitter(Qt::Vertical);
    plots->setChildrenCollapsible(false);
    static const char* const names[Stages] = {"calibrationPlot", "alignPlot", "driftPlot", "distillPlot"};
    const QString spoken[Stages] = {tr("Calibration: residual of the closed form"), tr("Alignment"), tr("Drift: loss on the student's inputs"), tr("Distillation")};
    const QString empty[Stages] = {tr("No closed form in this run."), tr("No alignment yet: the loss of each layer appears here while a run aligns it."),
                                   tr("No drift correction in this run: Method > drift turns it on."), tr("No distillation in this run: Method > Distillation > steps turns it on.")};
    for (int stage = 0; stage < Stages; ++stage) {
        auto* plot = m_plots[stage] = new widgets::CurvePlot;
        plot->setObjectName(QLatin1String(names[stage]));
        plot->setAccessibleName(spoken[stage]);
        plot->setTitle(spoken[stage]);
        plot->setMinimumHeight(kLeastPlot);
        plot->setEmptyText(empty[stage]);
        plot->setWholeX(overLayers(stage));
        plots->addWidget(plot);
        connect(plot, &widgets::CurvePlot::cursorMoved, this, [this, stage](double x) { moveCursor(stage, x); });
        connect(plot, &widgets::CurvePlot::xViewChangedByUser, this, [this, stage](double from, double to) { moveX(stage, from, to); });
        connect(plot, &widgets::CurvePlot::viewResetByUser, this, [this, stage] { resetX(stage); });
        connect(plot, &widgets::PlotWidget::saved, this, [this](const QString& message) { Q_EMIT m_session->notice(message); });
    }
    m_values = new QTableWidget(0, 4);
    m_values->setObjectName(QStringLiteral("cursorValues"));
    m_values->setAccessibleName(tr("Values under the cursor"));
    m_values->setHorizontalHeaderLabels({tr("under the cursor"), tr("at"), tr("value"), tr("smoothed")});
    m_values->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
    m_values->horizontalHeader()->setSectionResizeMode(0, QHeaderView::Stretch);
    m_values->verticalHeader()->hide();
    m_values->verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 6);
    m_values->setEditTriggers(QAbstractItemView::NoEditTriggers);
    m_values->setSelectionBehavior(QAbstractItemView::SelectRows);
    m_values->setIconSize({26, 12});
    m_values->setShowGrid(false);
    m_values->setTabKeyNavigation(false);
    m_values->setMinimumHeight(3 * (fontMetrics().height() + 8));
    m_values->setVisible(m_showValues->isChecked());
    auto* area = new QScrollArea; // four of them are higher than a small screen
    area->setWidgetResizable(true);
    area->setFrameShape(QFrame::NoFrame);
    area->setFocusPolicy(Qt::NoFocus);
    area->setWidget(plots);
    auto* split = new QSplitter(Qt::Vertical);
    split->setChildrenCollapsible(false);
    split->addWidget(area);
    split->addWidget(m_values);
    split->setStretchFactor(0, 4);
    split->setStretchFactor(1, 1);
    return split;
}

} // namespace linnet::app
