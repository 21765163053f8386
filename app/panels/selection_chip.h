#pragma once

#include <QWidget>

class QToolButton;

namespace linnet::app {

class Session;

// In the status line: what is selected, what is pinned as reference and how many targets are locked. A click on the first two lets
// go of it; a click on the last one selects the heads with locks. Nothing of it: no chip.
class SelectionChip : public QWidget {
    Q_OBJECT
public:
    explicit SelectionChip(Session* session, QWidget* parent = nullptr);

private:
    void refresh();
    void selectLocked();
    Session* m_session;
    QToolButton *m_selected, *m_pinned, *m_locked;
};

} // namespace linnet::app
