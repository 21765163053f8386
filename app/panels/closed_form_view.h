#pragma once

#include <QWidget>

class QLabel;
class QTableWidget;

namespace linnet::app {

class Session;

// What the closed form of the current run found for the primary head: its choice, and all that it tried.
class ClosedFormView : public QWidget {
    Q_OBJECT
public:
    explicit ClosedFormView(Session* session, QWidget* parent = nullptr);

private:
    void refresh();
    Session* m_session;
    QLabel *m_title, *m_chosen;
    QTableWidget* m_tried;
};

} // namespace linnet::app
