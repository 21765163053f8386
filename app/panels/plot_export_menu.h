// File > Export plot: of the plot that has the keyboard, or had it last; else of one that is in view.
#pragma once

#include <QMenu>
#include <QPointer>

namespace linnet::widgets {
class ExportWidget;
}

namespace linnet::app {

class Session;

class PlotExportMenu : public QMenu {
    Q_OBJECT
public:
    PlotExportMenu(Session* session, QWidget* window);
    widgets::ExportWidget* plot() const; // what it would export; nullptr: none is in view

private:
    void refill();
    void listen(widgets::ExportWidget* plot); // its answers to the status line
    void answer(const QString& message, bool succeeded);
    Session* m_session;
    QWidget* m_window;
    QPointer<widgets::ExportWidget> m_last;
};

} // namespace linnet::app
