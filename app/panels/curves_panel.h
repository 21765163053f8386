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

// The metrics of the current run: one curve a layer.
class CurvesPanel : public QWidget {
    Q_OBJECT
public:
    explicit CurvesPanel(Session* session, QWidget* parent = nullptr);

private:
    void append(const std::vector<core::MetricRow>& rows);
    void rebuild();
    Session* m_session;
    widgets::CurvePlot* m_plot;
    QComboBox *m_quantity, *m_axis;
    QCheckBox* m_log;
    QSlider* m_smoothing;
    QString m_run; // folder whose curves are shown
};

} // namespace linnet::app
