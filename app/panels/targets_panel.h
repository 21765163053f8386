#pragma once

#include <QWidget>

class QHBoxLayout;
class QLabel;
class QMenu;
class QPushButton;
class QStackedLayout;
class QTableView;

namespace linnet::app {

class Session;
class TargetPreview;
class TargetTableModel;
enum class Spread;

// The targets of the selected heads: measured, automatic, user; every edit can be undone. The row that is looked at makes its head
// the primary one and is previewed.
class TargetsPanel : public QWidget {
    Q_OBJECT
public:
    explicit TargetsPanel(Session* session, QWidget* parent = nullptr);

Q_SIGNALS:
    void comparisonRequested(); // of the recipe with a run's

protected:
    void resizeEvent(QResizeEvent* event) override;
    void changeEvent(QEvent* event) override; // a text carries a colour of the theme

private:
    void refresh();
    void showProbe();
    void makeTable();
    void makeButtons(QHBoxLayout* row);
    void fillSpread(QMenu* menu);
    void askValue();
    void askValueOf(const QList<int>& chosen, const QString& field); // rows of one field
    void showCaption();
    void scale();
    void lock();
    void spread(Spread how);
    void copy();
    void paste();
    void lookAt(); // the current row
    void say(const QString& text);
    QList<int> rows() const; // selected in the table; none selected: all
    Session* m_session;
    TargetTableModel* m_model;
    QTableView* m_table;
    QLabel *m_caption, *m_message, *m_probe;
    QStackedLayout* m_stack;
    TargetPreview* m_preview;
};

} // namespace linnet::app
