// Every page and dialog of the window as a picture, in light and dark: for the README and for looking at them one by one.
//   linnet_screenshots OUT MODEL TEXT WIDTHxHEIGHT WORK [ICON.png]
// WORK keeps settings, cache and one short real run; a second call opens that run. QT_SCALE_FACTOR scales.
#include "app/main_window.h"
#include "app/models/theme_choice.h"
#include "app/window_habits.h"

#include <QAction>
#include <QApplication>
#include <QDialog>
#include <QDir>
#include <QDockWidget>
#include <QElapsedTimer>
#include <QIcon>
#include <QMenu>
#include <QMenuBar>
#include <QMessageBox>
#include <QPainter>
#include <QSettings>
#include <QSvgRenderer>
#include <QTabWidget>
#include <QTimer>
#include <cstdio>

using namespace linnet;

namespace {

class Photographer {
public:
    Photographer(const QString& out, const QSize& size) : m_out(out), m_size(size) { QDir().mkpath(out); }

    void makeWindow() {
        m_window = std::make_unique<app::MainWindow>();
        m_window->resize(m_size);
        m_window->show();
        settle(300);
    }
    app::MainWindow& window() { return *m_window; }
    static void settle(int ms) { // timers, layouts, drawings that come late
        QElapsedTimer clock;
        clock.start();
        while (clock.elapsed() < ms)
            QCoreApplication::processEvents(QEventLoop::AllEvents, 10);
    }
    bool waitIdle(int seconds) {
        QElapsedTimer clock;
        clock.start();
        do
            settle(100);
        while (m_window->session()->jobState() != app::JobState::Idle && clock.elapsed() < seconds * 1000);
        for (auto* box : m_window->findChildren<QMessageBox*>()) {
            std::fprintf(stderr, "the window says: %s\n", qPrintable(box->text()));
            box->close();
        }
        return m_window->session()->jobState() == app::JobState::Idle;
    }
    void shoot(QWidget* widget, const QString& name) {
        settle(250);
        const auto path = QStringLiteral("%1/%2.png").arg(m_out, name);
        if (!widget->grab().toImage().convertToFormat(QImage::Format_RGB888).save(path, "PNG", 0)) // the smallest file
            std::fprintf(stderr, "can't write %s\n", qPrintable(path));
    }
    void pages(const QString& theme) {
        auto* tabs = m_window->findChild<QTabWidget*>(QStringLiteral("pages"));
        for (int i = 0; i < tabs->count(); ++i) {
            tabs->setCurrentIndex(i);
            auto name = tabs->tabText(i).toLower();
            shoot(m_window.get(), theme + QLatin1Char('-') + name.remove(QLatin1Char('&')).replace(QLatin1Char(' '), QLatin1Char('-')));
        }
        tabs->setCurrentIndex(0);
    }
    void docks(const QString& theme) { // those that stand behind another, or are hidden at first
        for (auto* dock : m_window->findChildren<QDockWidget*>()) {
            const bool hidden = dock->isHidden();
            if (!hidden && !dock->visibleRegion().isEmpty())
                continue;
            dock->show();
            dock->raise();
            shoot(m_window.get(), theme + QStringLiteral("-dock-") + dock->objectName());
            dock->setHidden(hidden);
        }
    }
    void dialogs(const QString& theme) {
        for (const char* name : {"helpContents", "shortcuts", "about", "export"}) {
            auto* action = m_window->findChild<QAction*>(QString::fromLatin1(name));
            if (!action || !action->isEnabled())
                continue;
            action->trigger();
            settle(700);
            for (auto* dialog : m_window->findChildren<QDialog*>())
                if (dialog->isVisible()) {
                    shoot(dialog, theme + QStringLiteral("-dialog-") + QString::fromLatin1(name));
                    dialog->close();
                }
        }
        for (auto* title : m_window->menuBar()->actions()) {
            title->menu()->ensurePolished();
            title->menu()->adjustSize();
            shoot(title->menu(), theme + QStringLiteral("-menu-") + title->text().toLower().remove(QLatin1Char('&')));
        }
    }

private:
    QString m_out;
    QSize m_size;
    std::unique_ptr<app::MainWindow> m_window;
};

bool makeRun(Photographer& camera, const QString& model, const QString& text) {
    auto& session = *camera.window().session();
    session.openTeacher(model);
    if (!camera.waitIdle(300) || !session.teacher())
        return false;
    auto recipe = session.recipe()->recipe();
    recipe.dataText = {text.toStdString()};
    recipe.seqLen = 128, recipe.calibrationTokens = 4096, recipe.selectionTokens = 512, recipe.evaluationTokens = 1024;
    recipe.align.steps = 60, recipe.align.batch = 2;
    recipe.device = "cpu";
    session.recipe()->replace(recipe, QStringLiteral("Set up"));
    session.profileTeacher();
    if (!camera.waitIdle(600) || !session.profile())
        return false;
    session.selectLayers(core::parseKeepRule("bypass:" + std::to_string(session.teacher()->config.layers - 4)));
    if (!camera.waitIdle(600))
        return false;
    session.startRun();
    return camera.waitIdle(1200) && session.currentRun() && session.currentRun()->state == QLatin1String("done");
}

int icon(const QString& path) {
    QImage image(256, 256, QImage::Format_ARGB32_Premultiplied);
    image.fill(Qt::transparent);
    QPainter painter(&image);
    QSvgRenderer(QStringLiteral(":/icons/linnet.svg")).render(&painter);
    return painter.end() && image.convertToFormat(QImage::Format_ARGB32).save(path) ? 0 : 1;
}

int work(const QStringList& arguments) {
    if (arguments.size() > 6 && icon(arguments[6]) != 0)
        return 1;
    const auto size = arguments[4].split(QLatin1Char('x'));
    Photographer camera(arguments[1], {size[0].toInt(), size.value(1).toInt()});
    const auto runs = QDir(arguments[5]).filePath(QStringLiteral("runs"));
    const auto done = QDir(runs).entryList(QDir::Dirs | QDir::NoDotAndDotDot, QDir::Name);
    QSettings().clear();
    QSettings().setValue(QStringLiteral("runs/folder"), runs);
    camera.makeWindow();
    camera.window().habits()->theme()->choose(app::ThemeChoice::Light);
    camera.pages(QStringLiteral("first-light"));
    auto& session = *camera.window().session();
    if (done.isEmpty() && !makeRun(camera, arguments[2], arguments[3]))
        return 1;
    if (!done.isEmpty()) {
        session.openTeacher(runs + QLatin1Char('/') + done.last());
        if (!camera.waitIdle(300))
            return 1;
        session.profileTeacher(); // from the cache
        if (!camera.waitIdle(600))
            return 1;
    }
    const int layer = static_cast<int>(session.teacher()->config.layers) / 2;
    const auto converted = session.recipe()->converted().value_or(std::vector<std::int64_t>{});
    const int chosen = converted.empty() ? layer : static_cast<int>(converted.front());
    session.selection()->select({{chosen, 1}, {chosen, 2}}, {chosen, 2});
    session.recipe()->setTarget({{chosen, 2}}, app::TargetField::HalfLife, 24.0);
    camera.settle(6000); // its probe
    for (const auto& [theme, name] : {std::pair(app::ThemeChoice::Light, QStringLiteral("light")), std::pair(app::ThemeChoice::Dark, QStringLiteral("dark"))}) {
        camera.window().habits()->theme()->choose(theme);
        camera.window().findChild<QAction*>(QStringLiteral("resetLayout"))->trigger(); // the probe made itself room
        Photographer::settle(1500);
        camera.pages(name);
        camera.docks(name);
        camera.dialogs(name);
    }
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    QApplication application(argc, argv);
    const auto arguments = QApplication::arguments();
    if (arguments.size() < 6) {
        std::fprintf(stderr, "linnet_screenshots OUT MODEL TEXT WIDTHxHEIGHT WORK [ICON.png]\n");
        return 2;
    }
    const QDir place(arguments[5]);
    for (const char* variable : {"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"})
        qputenv(variable, place.filePath(QString::fromLatin1(variable)).toLocal8Bit());
    QApplication::setOrganizationName(QStringLiteral("Linnet"));
    QApplication::setApplicationName(QStringLiteral("linnet"));
    QTimer::singleShot(0, &application, [&] { QApplication::exit(work(arguments)); }); // inside exec(): open windows follow a theme
    return QApplication::exec();
}
