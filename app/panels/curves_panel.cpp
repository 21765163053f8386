#include "app/panels/curves_panel.h"

#include "app/guarded.h"
#include "app/models/session.h"
#include "widgets/color_range.h"
#include "widgets/curve_plot.h"
#include "widgets/run_look.h"

#include <QCheckBox>
#include <QComboBox>
#include <QCoreApplication>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QPointer>
#include <QRegularExpression>
#include <QSlider>
#include <QSplitter>
#include <QTableWidget>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

namespace linnet::app {
namespace {

constexpr int kNewMs = 100, kValuesMs = 40; // redrawn at most so often
constexpr int kSavesMs = 5000;               // checkpoints of a run that goes on are looked for so often
constexpr CurveQuantity kQuantities[] = {CurveQuantity::Loss, CurveQuantity::RelativeLoss, CurveQuantity::LearningRate, CurveQuantity::GradientNorm, CurveQuantity::TokensPerSecond};

} // namespace

CurvesPanel::CurvesPanel(Session* session, QWidget* parent) : QWidget(parent), m_session(session) {
    setObjectName(QStringLiteral("curvesPanel"));
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(6, 4, 6, 4);
    layout->addLayout(makeWhat());
    layout->addLayout(makeHow());
    layout->addWidget(makePlots(), 1);
    m_newTimer.setSingleShot(true);
    m_newTimer.setInterval(kNewMs);
    connect(&m_newTimer, &QTimer::timeout, this, &CurvesPanel::drawNew);
    m_workTimer.setSingleShot(true);
    m_workTimer.setInterval(0);
    connect(&m_workTimer, &QTimer::timeout, this, &CurvesPanel::work);
    m_clock.start();
    m_valuesTimer.setSingleShot(true);
    m_valuesTimer.setInterval(kValuesMs);
    connect(&m_valuesTimer, &QTimer::timeout, this, &CurvesPanel::fillValues);
    auto* library = session->library();
    connect(library, &RunLibrary::changed, this, &CurvesPanel::collect);
    connect(library, &RunLibrary::metricsAppended, this, &CurvesPanel::metricsCame);
    connect(library, &RunLibrary::metricsReplaced, this, [this](const QString& folder) {
        if (m_runs.contains(folder)) {
            m_work.clear(); // it may speak of that run
            m_runs.erase(folder);
            m_drawn.clear();
        }
        collect();
    });
    connect(session, &Session::stageStarted, this, &CurvesPanel::showStage);
    connect(session->closedForm(), &ClosedFormModel::changed, this, [this] {
        if (const auto run = m_session->currentRun(); run && m_runs.contains(run->folder)) {
            m_runs[run->folder]->fits = m_session->closedForm()->layers();
            drawCalibration(*m_plots[Calibration], *m_runs[run->folder]);
            showPlots();
        }
    });
    connect(session->selection(), &SelectionModel::changed, this, &CurvesPanel::redrawPinned); // its layers are drawn by themselves
    applyLooks();
    collect();
    rebuild(false); // also without a run
}

void CurvesPanel::fillRunMenu() {
    m_runMenu->clear();
    auto* library = m_session->library();
    for (const auto& run : library->runs().mid(0, 40)) {
        if (!run->hasBegun())
            continue;
        auto* action = m_runMenu->addAction(QIcon(widgets::lookSwatch(widgets::runLook(run->look), {26, 12}, devicePixelRatioF())), run->name);
        action->setCheckable(true);
        action->setChecked(library->drawn().contains(run));
        action->setEnabled(run != m_session->currentRun() && run->folder != library->baseline());
        connect(action, &QAction::toggled, this, [library, folder = run->folder](bool on) { library->setShown(folder, on); });
    }
    if (m_runMenu->isEmpty())
        m_runMenu->addAction(tr("(none yet)"))->setEnabled(false);
}

CurveOptions CurvesPanel::options() const {
    CurveOptions options;
    options.quantity = kQuantities[m_quantity->currentIndex()];
    options.axis = static_cast<CurveAxis>(m_axis->currentIndex());
    for (const auto& part : m_pinned->text().split(QRegularExpression(QStringLiteral("[^0-9]+")), Qt::SkipEmptyParts))
        options.pinned.insert(part.toInt());
    for (const auto& head : m_session->selection()->selected())
        options.pinned.insert(head.layer);
    return options;
}

void CurvesPanel::applyLooks() {
    const double weight = m_smoothing->value() / 100.0;
    m_weight->setText(QString::number(weight, 'f', 2));
    for (int stage = 0; stage < Stages; ++stage) {
        m_plots[stage]->setLogY(m_log->isChecked());
        m_plots[stage]->setClipOutliers(m_clip->isChecked());
        m_plots[stage]->setSmoothing(overLayers(stage) ? 0 : weight); // layers are no steps of a way
    }
    m_valuesTimer.start();
}

void CurvesPanel::showStage(const QString& stage) {
    if (m_stage->currentIndex() == 0)
        return; // all are seen
    static const char* const names[Stages] = {"starts", "align", "drift", "distill"};
    for (int i = 0; i < Stages; ++i)
        if (stage == QLatin1String(names[i]))
            m_stage->setCurrentIndex(i + 1);
}

// ---- runs --------------------------------------------------------------------------------------------------------------------

void CurvesPanel::collect() {
    auto* library = m_session->library();
    auto drawn = library->drawn();
    if (const auto current = m_session->currentRun(); current && !drawn.contains(current) && current->hasBegun())
        drawn.append(current);
    QString key = QString::number(static_cast<int>(widgets::runColors()));
    for (const auto& run : drawn)
        key += QStringLiteral("%1|%2|%3|%4;").arg(run->folder, run->name).arg(run->look).arg(run->folder == library->baseline());
    if (key == m_drawn)
        return drawMarks();
    m_drawn = key;
    std::map<QString, std::unique_ptr<DrawnRun>> runs;
    for (const auto& run : drawn) {
        auto& made = runs[run->folder];
        if (const auto before = m_runs.find(run->folder); before != m_runs.end() && before->second->entry == run) {
            made = std::move(before->second);
        } else {
            made = std::make_unique<DrawnRun>();
            made->entry = run;
            made->known = run->metrics.size();
        }
        made->baseline = run->folder == library->baseline();
        askFits(*made);
        askSaves(*made);
    }
    m_work.clear();
    m_runs = std::move(runs);
    m_new.clear();
    rebuild(true);
}

void CurvesPanel::askFits(DrawnRun& run) { // of the current run the session knows them; those of others are read once
    if (m_session->currentRun() == run.entry && !m_session->closedForm()->layers().empty())
        run.fits = m_session->closedForm()->layers();
    if (!run.fits.empty() || std::exchange(run.fitsAsked, true))
        return;
    inBackground([panel = QPointer(this), folder = run.entry->folder] {
        auto fits = std::make_shared<LayerFits>(readClosedForm(folder.toStdString()));
        QMetaObject::invokeMethod(QCoreApplication::instance(), [panel, folder, fits] {
            if (!panel || fits->empty() || !panel->m_runs.contains(folder))
                return;
            panel->m_runs[folder]->fits = std::move(*fits);
            drawCalibration(*panel->m_plots[Calibration], *panel->m_runs[folder]);
            panel->showPlots();
        });
    });
}

void CurvesPanel::askSaves(DrawnRun& run) {
    const bool goesOn = run.entry->isOurs() || run.entry->state == QLatin1String("elsewhere");
    if (goesOn ? run.savesAsked >= 0 && m_clock.elapsed() - run.savesAsked < kSavesMs : std::exchange(run.savesWhole, true))
        return;
    run.savesAsked = m_clock.elapsed();
    run.savesWhole = !goesOn;
    inBackground([panel = QPointer(this), folder = run.entry->folder] {
        auto saves = std::make_shared<std::vector<core::SavePoint>>(core::readSavePoints(folder.toStdString()));
        QMetaObject::invokeMethod(QCoreApplication::instance(), [panel, folder, saves] {
            if (!panel || !panel->m_runs.contains(folder) || panel->m_runs[folder]->saves.size() == saves->size())
                return;
            panel->m_runs[folder]->saves = std::move(*saves);
            panel->drawMarks();
        });
    });
}

void CurvesPanel::metricsCame(const QString& folder, const std::vector<core::MetricRow>& rows) {
    const auto run = m_runs.find(folder);
    if (run == m_runs.end())
        return;
    auto& drawn = *run->second;
    const auto before = std::exchange(drawn.known, drawn.entry->metrics.size());
    if (drawn.added < before) { // being read: they stand at the end of what is left
        if (drawn.known != before + rows.size()) { // a resumed run went back
            drawn.added = 0;
            for (auto* stage : drawn.stages())
                stage->clear();
            rebuild(true);
        }
        return;
    }
    drawn.added = drawn.known;
    std::int64_t first = -1;
    for (auto* stage : drawn.stages())
        if (const auto from = stage->add(rows); from >= 0)
            first = first < 0 ? from : std::min(first, from);
    if (first < 0)
        return;
    const auto known = m_new.try_emplace(folder, first).first;
    known->second = std::min(known->second, first);
    if (!m_newTimer.isActive())
        m_newTimer.start();
}

void CurvesPanel::showEvent(QShowEvent* event) {
    QWidget::showEvent(event);
    m_newTimer.start();
}

void CurvesPanel::drawNew() {
    if (!isVisible())
        return; // when it is shown
    if (!m_work.empty())
        return m_newTimer.start(); // after what came before
    for (const auto& [folder, from] : m_new)
        if (const auto run = m_runs.find(folder); run != m_runs.end())
            drawRun(*run->second, run->second->align.layers().size() == kFewLayers + 1 ? 0 : from); // here lines become percentiles
    m_new.clear();
    drawMarks();
    showPlots();
    m_valuesTimer.start();
}

bool CurvesPanel::hasData(int stage) const {
    return std::any_of(m_runs.begin(), m_runs.end(), [stage](const auto& each) {
        const auto& run = *each.second;
        return stage == Calibration ? !run.fits.empty() : !(stage == Align ? run.align : stage == Drift ? run.drift : run.distill).empty();
    });
}

void CurvesPanel::showPlots() {
    const int chosen = m_stage->currentIndex() - 1;
    bool any = false;
    for (int stage = 0; stage < Stages; ++stage) {
        const bool shown = chosen == stage || (chosen < 0 && hasData(stage));
        m_plots[stage]->setVisible(shown);
        any |= shown;
    }
    if (!any)
        m_plots[Align]->show(); // it says what to do
    const bool steps = m_plots[Align]->isVisibleTo(this) || m_plots[Distill]->isVisibleTo(this);
    for (auto* control : {static_cast<QWidget*>(m_quantity), static_cast<QWidget*>(m_axis), static_cast<QWidget*>(m_smoothing), static_cast<QWidget*>(m_pinned)})
        control->setEnabled(steps);
}

// ---- cursor ------------------------------------------------------------------------------------------------------------------

void CurvesPanel::moveCursor(int from, double x) {
    m_cursors[overLayers(from)] = x;
    for (int stage = 0; stage < Stages; ++stage)
        if (stage != from && overLayers(stage) == overLayers(from))
            m_plots[stage]->setCursor(x);
    if (!m_valuesTimer.isActive())
        m_valuesTimer.start();
}

void CurvesPanel::moveX(int from, double low, double high) {
    for (int stage = 0; stage < Stages; ++stage) // where nothing of a plot lies there it stays as it is
        if (stage != from && overLayers(stage) == overLayers(from) && m_plots[stage]->reachesInto(low, high))
            m_plots[stage]->setXView(low, high);
}

void CurvesPanel::resetX(int from) {
    for (int stage = 0; stage < Stages; ++stage)
        if (stage != from && overLayers(stage) == overLayers(from))
            m_plots[stage]->resetView();
}

void CurvesPanel::fillValues() {
    QList<widgets::CurveValue> values;
    for (int stage = 0; stage < Stages; ++stage)
        if (const auto at = m_cursors[overLayers(stage)]; at && m_plots[stage]->isVisibleTo(this))
            for (auto& value : m_plots[stage]->valuesAt(*at))
                if (!value.name.isEmpty())
                    values.append(std::move(value));
    std::stable_partition(values.begin(), values.end(), [](const auto& value) { return value.look.legend; }); // edges of bands last
    const bool none = values.isEmpty();
    m_values->setRowCount(none ? 1 : static_cast<int>(values.size()));
    m_values->clearSpans();
    if (none) {
        m_values->setSpan(0, 0, 1, 4);
        auto* item = new QTableWidgetItem(tr("Point at a curve, or press the arrow keys in a plot."));
        item->setFlags(Qt::ItemIsEnabled); // to be read, not to be chosen
        m_values->setItem(0, 0, item);
        return;
    }
    for (int row = 0; row < m_values->rowCount(); ++row) {
        const auto& value = values[row];
        const QString cells[] = {value.name, widgets::readout(value.x), widgets::readout(value.y), value.look.smooth ? widgets::readout(value.smoothed) : QStringLiteral("–")};
        for (int column = 0; column < 4; ++column) {
            auto* item = m_values->item(row, column);
            if (!item)
                m_values->setItem(row, column, item = new QTableWidgetItem);
            item->setFlags(Qt::ItemIsEnabled | Qt::ItemIsSelectable);
            item->setText(cells[column]);
            item->setTextAlignment((column == 0 ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
        }
        m_values->item(row, 0)->setIcon(widgets::lookIcon({value.look.color, value.look.style, value.look.marker}, {26, 12}, devicePixelRatioF(), palette().color(QPalette::Base)));
        m_values->item(row, 0)->setToolTip(value.name);
    }
}

} // namespace linnet::app
