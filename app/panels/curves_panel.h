#pragma once

#include "core/convert/convert.h"

#include <QSet>
#include <QWidget>

class QCheckBox;
class QComboBox;
class QSlider;

namespace linnet::widgets {
class CurvePlot;
}

namespace linnet::app {

class Session;

// The metrics of the current run, stage by stage: alignment has one curve a layer, drift what it took off each layer, distillation one.
class CurvesPanel : public QWidget {
    Q_OBJECT
public:
    explicit CurvesPanel(Session* session, QWidget* parent = nullptr);

private:
    void append(const std::vector<core::MetricRow>& rows);
    void appendDrift(const std::vector<core::MetricRow>& rows);
    void rebuild();
    void showStage(const QString& stage); // as a run names it
    QString stage() const;
    Session* m_session;
    widgets::CurvePlot* m_plot;
    QComboBox *m_stage, *m_quantity, *m_axis;
    QCheckBox* m_log;
    QSlider* m_smoothing;
    QString m_run; // folder whose curves are shown
};

} // namespace linnet::app
