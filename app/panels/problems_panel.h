#pragma once

#include <QWidget>

class QListWidget;
class QStackedLayout;

namespace linnet::app {

class Session;

// What stands in the way of a run, and what to know about the teacher.
class ProblemsPanel : public QWidget {
    Q_OBJECT
public:
    explicit ProblemsPanel(Session* session, QWidget* parent = nullptr);

private:
    void refill();
    Session* m_session;
    QListWidget* m_list;
    QStackedLayout* m_stack;
};

} // namespace linnet::app
