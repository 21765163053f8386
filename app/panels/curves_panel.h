#pragma once

#include "app/panels/curve_drawing.h"

#include <QElapsedTimer>
#include <QTimer>
#include <QWidget>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>

class QCheckBox;
class QComboBox;
class QHBoxLayout;
class QLabel;
class QLineEdit;
class QMenu;
class QSlider;
class QSplitter;
class QTableWidget;
class QToolButton;

namespace linnet::app {

class Session;

// The metrics of the ticked runs, the chosen one and the baseline: a plot for each stage, stacked, with one cursor over equal axes
// and a table of what lies under it.
class CurvesPanel : public QWidget {
    Q_OBJECT
public:
    explicit CurvesPanel(Session* session, QWidget* parent = nullptr);

protected:
    void showEvent(QShowEvent* event) override;

private:
    enum Stage { Calibration, Align, Drift, Distill, Stages };
    static bool overLayers(int stage) { return stage == Calibration || stage == Drift; }

    QHBoxLayout* makeWhat();
    QHBoxLayout* makeHow();
    QWidget* makePlots();
    void fillRunMenu();
    void showStage(const QString& stage); // as a run names it
    void collect();                       // the runs to draw
    void askFits(DrawnRun& run);
    void askSaves(DrawnRun& run);
    void rebuild(bool keepViews);
    void redrawPinned(); // of stages with many layers those drawn by themselves
    // Work in slices: a long run is read and drawn between other events. Each piece returns whether it is done.
    void work();
    bool addSome(DrawnRun& run);
    void queueDrawing(DrawnRun& run, const CurveOptions& with);
    void drawRun(const DrawnRun& run, std::int64_t fromStep);
    void drawMarks();
    void markKept(const StageCurves& curves, const std::vector<core::AlignedLayer>& layers);
    void showPlots();
    void applyLooks();
    void metricsCame(const QString& folder, const std::vector<core::MetricRow>& rows);
    void drawNew();
    void moveCursor(int stage, double x);
    void moveX(int stage, double from, double to); // plots whose x means the same go along
    void resetX(int stage);
    void fillValues();
    CurveOptions options() const;
    bool hasData(int stage) const;

    Session* m_session;
    widgets::CurvePlot* m_plots[Stages] = {};
    QComboBox *m_stage, *m_quantity, *m_axis;
    QCheckBox *m_log, *m_clip, *m_showValues;
    QSlider* m_smoothing;
    QLabel* m_weight;
    QLineEdit* m_pinned;
    QToolButton* m_runButton;
    QMenu* m_runMenu;
    QTableWidget* m_values;
    QString m_drawn; // runs, looks and baseline as drawn
    std::map<QString, std::unique_ptr<DrawnRun>> m_runs;
    std::map<QString, std::int64_t> m_new; // first step with something new, of each run
    std::optional<double> m_cursors[2];    // over steps, over layers
    std::set<std::int64_t> m_pinnedLayers;                 // as drawn
    std::deque<std::function<bool()>> m_work;
    QElapsedTimer m_clock;
    QTimer m_newTimer, m_valuesTimer, m_workTimer;
};

} // namespace linnet::app
