#include "app/guarded.h"
#include "app/main_window.h"
#include "app/models/settings_file.h"
#include "app/panels/about_dialog.h"
#include "app/window_habits.h"

#include <QCommandLineParser>
#include <QIcon>
#include <QTimer>
#include <cstdio>

namespace {

void printVersions() {
    for (const auto& [name, value] : linnet::app::versions())
        std::printf("%s %s\n", qPrintable(name), qPrintable(value));
}

} // namespace

int main(int argc, char** argv) {
    QGuiApplication::setHighDpiScaleFactorRoundingPolicy(Qt::HighDpiScaleFactorRoundingPolicy::PassThrough); // 125 % is 125 %
    linnet::app::GuardedApplication application(argc, argv);
    QApplication::setOrganizationName(QStringLiteral("Linnet"));
    QApplication::setApplicationName(QStringLiteral("linnet"));
    QApplication::setApplicationDisplayName(QString());
    QApplication::setApplicationVersion(QStringLiteral(LINNET_VERSION));
    QApplication::setDesktopFileName(QStringLiteral("io.github.linnet.Linnet"));
    QApplication::setWindowIcon(QIcon(QStringLiteral(":/icons/linnet.svg")));
    QCommandLineParser arguments;
    arguments.setApplicationDescription(QStringLiteral("Turn pretrained Transformers into hybrid linear-attention models."));
    arguments.addHelpOption();
    arguments.addOption({{QStringLiteral("v"), QStringLiteral("version")}, QStringLiteral("Displays the versions of this program and of what it is made of.")});
    arguments.addOption({QStringLiteral("no-open"), QStringLiteral("Start without a teacher.")});
    arguments.addPositionalArgument(QStringLiteral("PATH"), QStringLiteral("A Hugging Face folder, .gguf file, recipe or run folder, or \"default\" (without one: the model of last time)."));
    arguments.process(application);
    if (arguments.isSet(QStringLiteral("version"))) {
        printVersions();
        return 0;
    }
    const auto mended = linnet::app::mendSettings();
    linnet::app::MainWindow window;
    window.show();
    QTimer::singleShot(0, &window, [&] { // the window first, then the teacher
        if (!mended.isEmpty())
            window.habits()->tell(mended);
        window.habits()->start(arguments.positionalArguments().value(0), !arguments.isSet(QStringLiteral("no-open")));
    });
    return QApplication::exec();
}
