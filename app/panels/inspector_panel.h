#pragma once

#include <QWidget>

class QLabel;
class QStackedLayout;

namespace linnet::widgets {
class DistanceHistogram;
}

namespace linnet::app {

class Session;

// What was measured of the primary head: numbers with their spread, and the distribution of attention over distance.
class InspectorPanel : public QWidget {
    Q_OBJECT
public:
    explicit InspectorPanel(Session* session, QWidget* parent = nullptr);

private:
    void refresh();
    void showDecay();
    Session* m_session;
    QStackedLayout* m_stack;
    QLabel *m_identity, *m_group, *m_numbers, *m_sample, *m_decay;
    widgets::DistanceHistogram* m_histogram;
};

} // namespace linnet::app
