#include "tests/gui/photographer.h"

#include "app/models/session.h"
#include "app/models/theme_choice.h"
#include "app/window_habits.h"

#include <QAction>
#include <QCoreApplication>
#include <QDialog>
#include <QDir>
#include <QDockWidget>
#include <QElapsedTimer>
#include <QImage>
#include <QLabel>
#include <QMenu>
#include <QMenuBar>
#include <QMessageBox>
#include <QRegularExpression>
#include <QTabWidget>
#include <cstdio>

namespace linnet::tests {
namespace {

constexpr int kLimit = 120; // seconds for anything that is read or measured for a view
const QRegularExpression kUnfinished(QStringLiteral("(reading|measuring|being measured)[^.]*\\.\\.\\."));

bool isSeen(const QWidget* widget) { // not one behind another's tab
    return widget->isVisible() && !widget->visibleRegion().isEmpty();
}

} // namespace

Photographer::Photographer(const QString& out, const QSize& size) : m_out(out), m_size(size) {
    QDir().mkpath(out);
}

void Photographer::makeWindow() {
    m_window = std::make_unique<app::MainWindow>();
    m_window->resize(m_size);
    m_window->show();
    settle(300);
}

void Photographer::settle(int ms) {
    QElapsedTimer clock;
    clock.start();
    for (int round = 0; clock.elapsed() < ms || round < 20; ++round) // a nested layout takes several, however slow the machine is
        QCoreApplication::processEvents(QEventLoop::AllEvents, 10);
}

bool Photographer::waitFor(const QString& what, int seconds, const std::function<bool()>& done) {
    QElapsedTimer clock;
    clock.start();
    while (!done() && clock.elapsed() < seconds * 1000)
        settle(50);
    if (done())
        return true;
    std::fprintf(stderr, "not finished after %d s: %s\n", seconds, qPrintable(what));
    return !(m_failed = true);
}

bool Photographer::waitIdle(int seconds) {
    settle(100);
    const bool idle = waitFor(QStringLiteral("the job ") + session().jobTitle(), seconds, [this] { return session().jobState() == app::JobState::Idle; });
    settle(100);
    for (auto* box : m_window->findChildren<QMessageBox*>()) {
        std::fprintf(stderr, "the window says: %s\n", qPrintable(box->text()));
        m_failed = true;
        box->close();
    }
    return idle;
}

void Photographer::waitFinished() {
    using Views = app::HeadViewModel::State;
    const auto unfinished = [this]() -> QString {
        if (const auto state = session().headViews()->state(); state == Views::Waiting || state == Views::Measuring)
            return QStringLiteral("the head on its text");
        for (const auto* label : m_window->findChildren<QLabel*>())
            if (isSeen(label) && label->text().contains(kUnfinished))
                return label->text();
        return {};
    };
    waitFor(unfinished(), kLimit, [&] { return unfinished().isEmpty(); });
}

void Photographer::save(QWidget* widget, const QString& name) {
    settle(250);
    const auto path = QStringLiteral("%1/%2.png").arg(m_out, name);
    if (!widget->grab().toImage().convertToFormat(QImage::Format_RGB888).save(path, "PNG", 0)) // the smallest file
        std::fprintf(stderr, "can't write %s\n", qPrintable(path)), m_failed = true;
}

void Photographer::shoot(QWidget* widget, const QString& name) {
    waitFinished();
    auto* theme = m_window->habits()->theme();
    save(widget, QStringLiteral("light-") + name);
    theme->choose(app::ThemeChoice::Dark);
    save(widget, QStringLiteral("dark-") + name);
    theme->choose(app::ThemeChoice::Light);
}

void Photographer::pages(const QString& prefix) {
    auto* tabs = m_window->findChild<QTabWidget*>(QStringLiteral("pages"));
    for (int i = 0; i < tabs->count(); ++i) {
        tabs->setCurrentIndex(i);
        shoot(m_window.get(), prefix + tabs->tabText(i).toLower().remove(QLatin1Char('&')).replace(QLatin1Char(' '), QLatin1Char('-')));
    }
    tabs->setCurrentIndex(0);
}

void Photographer::page(const char* page, const QString& name) {
    auto* tabs = m_window->findChild<QTabWidget*>(QStringLiteral("pages"));
    tabs->setCurrentWidget(m_window->findChild<QWidget*>(QString::fromLatin1(page)));
    shoot(m_window.get(), name);
}

void Photographer::docks(const QString& prefix) {
    for (auto* dock : m_window->findChildren<QDockWidget*>()) {
        const bool hidden = dock->isHidden();
        if (!hidden && isSeen(dock))
            continue;
        dock->show();
        dock->raise();
        settle(300);
        shoot(m_window.get(), prefix + QStringLiteral("dock-") + dock->objectName());
        dock->setHidden(hidden);
    }
    m_window->findChild<QAction*>(QStringLiteral("resetLayout"))->trigger(); // the probe made itself room
    settle(300);
}

void Photographer::menus() {
    for (auto* title : m_window->menuBar()->actions()) {
        title->menu()->ensurePolished();
        title->menu()->adjustSize();
        shoot(title->menu(), QStringLiteral("menu-") + title->text().toLower().remove(QLatin1Char('&')));
    }
}

void Photographer::dialog(const char* action, const std::function<bool(QDialog&)>& ready) {
    m_window->findChild<QAction*>(QString::fromLatin1(action))->trigger();
    settle(300);
    bool any = false;
    for (auto* dialog : m_window->findChildren<QDialog*>()) {
        if (!dialog->isVisible())
            continue;
        any = true;
        const auto name = QStringLiteral("dialog-") + QString::fromLatin1(action);
        if (ready)
            waitFor(name, kLimit, [&] { return ready(*dialog); });
        shoot(dialog, name);
        dialog->close();
    }
    if (!any)
        std::fprintf(stderr, "no dialog came of %s\n", action), m_failed = true;
    settle(100);
}

} // namespace linnet::tests
