// Holds the window, waits until what it shows is finished, and takes its picture in light and dark. What does not get finished in time is
// said and makes the program fail: a picture of "measuring..." shows nothing.
#pragma once

#include "app/main_window.h"

#include <QSize>
#include <QString>
#include <functional>
#include <memory>

namespace linnet::tests {

class Photographer {
public:
    Photographer(const QString& out, const QSize& size);
    void makeWindow();
    app::MainWindow& window() { return *m_window; }
    app::Session& session() { return *m_window->session(); }
    bool failed() const { return m_failed; }

    static void settle(int ms); // timers, layouts, drawings that come late
    bool waitFor(const QString& what, int seconds, const std::function<bool()>& done);
    bool waitIdle(int seconds); // no job runs; error boxes are repeated on stderr and closed
    void waitFinished();        // nothing in view is still being read or measured

    void shoot(QWidget* widget, const QString& name); // light-NAME.png and dark-NAME.png
    void pages(const QString& prefix);
    void docks(const QString& prefix); // those that stand behind another, or are hidden at first
    void page(const char* page, const QString& name); // one, by the name of its widget
    void menus();
    void dialog(const char* action, const std::function<bool(QDialog&)>& ready = {}); // opened by an action of the menus

private:
    void save(QWidget* widget, const QString& name);
    QString m_out;
    QSize m_size;
    bool m_failed = false;
    std::unique_ptr<app::MainWindow> m_window;
};

} // namespace linnet::tests
