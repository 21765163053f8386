#pragma once

#include <QWidget>

class QLabel;
class QPushButton;
class QStackedLayout;
class QTableView;

namespace linnet::app {

class Session;
class TargetTableModel;

// The targets of the selected heads: measured, automatic, user; every edit can be undone.
class TargetsPanel : public QWidget {
    Q_OBJECT
public:
    explicit TargetsPanel(Session* session, QWidget* parent = nullptr);

protected:
    void changeEvent(QEvent* event) override; // a text carries a colour of the theme

private:
    void refresh();
    void showProbe();
    void scale();
    void copy();
    void paste();
    QList<int> rows() const; // selected in the table; none selected: all
    Session* m_session;
    TargetTableModel* m_model;
    QTableView* m_table;
    QLabel *m_caption, *m_message, *m_probe;
    QStackedLayout* m_stack;
    QPushButton *m_reset, *m_scale, *m_copy, *m_paste;
};

} // namespace linnet::app
