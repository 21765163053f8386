// For tests that drive the whole window: a place of their own for settings, autosave, cache and runs, and ways to find what a
// person would.
#pragma once

#include "app/main_window.h"
#include "app/models/settings.h"
#include "app/window_habits.h"

#include <QAction>
#include <QDialog>
#include <QLabel>
#include <QMessageBox>
#include <QStandardPaths>
#include <QTemporaryDir>
#include <QTest>

namespace linnet::tests {

class WindowTest : public QObject {
public:
    static QTemporaryDir& place() {
        static QTemporaryDir dir;
        return dir;
    }
    static void prepare() { // before the application
        for (const char* variable : {"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"})
            qputenv(variable, (place().path() + QLatin1Char('/') + QString::fromLatin1(variable)).toLocal8Bit());
        qputenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent"); // no desktop of the person's
        QCoreApplication::setOrganizationName(QStringLiteral("Linnet"));
        QCoreApplication::setApplicationName(QStringLiteral("linnet"));
    }

protected:
    std::unique_ptr<app::MainWindow> m_window;

    app::Session& session() { return *m_window->session(); }
    bool idle() { return session().jobState() == app::JobState::Idle; }
    void makeWindow() {
        m_window.reset();
        m_window = std::make_unique<app::MainWindow>();
        QVERIFY2(app::Settings::fileName().startsWith(place().path()) && session().recipe()->autosaveFile().startsWith(place().path()), qPrintable(app::Settings::fileName()));
        m_window->show();
        QVERIFY(QTest::qWaitForWindowExposed(m_window.get()));
    }
    template <typename T = QWidget>
    T* find(const char* name) {
        auto* found = m_window->findChild<T*>(QString::fromLatin1(name));
        if (!found)
            qFatal("the window has no %s", name);
        return found;
    }
    QAction* action(const char* name) { return find<QAction>(name); }
    QStringList boxes() { // what error boxes say; closes them
        QStringList texts;
        for (auto* box : m_window->findChildren<QMessageBox*>()) {
            if (!box->isVisible())
                continue;
            texts << box->windowTitle() + QStringLiteral(": ") + box->text();
            box->close();
        }
        QCoreApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);
        return texts;
    }
    // One box that says this, and a window that still takes an edit and undoes it.
    void saidAndWorking(const QString& part) {
        const auto said = boxes();
        QVERIFY2(said.size() == 1 && said.front().contains(part, Qt::CaseInsensitive), qPrintable(QStringLiteral("\"%1\" is not in [%2]").arg(part, said.join(QStringLiteral("] [")))));
        QVERIFY(m_window->isVisible() && m_window->isEnabled());
        auto* recipe = session().recipe();
        const auto before = recipe->recipe();
        auto changed = before;
        changed.seed += 1;
        recipe->replace(changed, QStringLiteral("an edit"));
        QVERIFY(action("undo")->isEnabled());
        action("undo")->trigger();
        QVERIFY(recipe->recipe() == before);
    }
};

} // namespace linnet::tests
