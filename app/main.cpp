#include "app/main_window.h"
#include "widgets/theme.h"

#include <QApplication>
#include <QCommandLineParser>
#include <QSettings>
#include <QTimer>

int main(int argc, char** argv) {
    QApplication application(argc, argv);
    QApplication::setOrganizationName(QStringLiteral("Linnet"));
    QApplication::setApplicationName(QStringLiteral("linnet"));
    QApplication::setApplicationDisplayName(QString());
    QApplication::setApplicationVersion(QStringLiteral(LINNET_VERSION));
    QApplication::setDesktopFileName(QStringLiteral("io.github.linnet.Linnet"));
    QCommandLineParser arguments;
    arguments.setApplicationDescription(QStringLiteral("Turn pretrained Transformers into hybrid linear-attention models."));
    arguments.addHelpOption();
    arguments.addVersionOption();
    arguments.addOption({QStringLiteral("no-open"), QStringLiteral("Start without a teacher.")});
    arguments.addPositionalArgument(QStringLiteral("MODEL"), QStringLiteral("A Hugging Face folder, .gguf file or run folder (default: the installed teacher)."));
    arguments.process(application);

    const bool dark = QSettings().value(QStringLiteral("window/dark"), false).toBool();
    linnet::widgets::applyTheme(application, dark ? linnet::widgets::Theme::Dark : linnet::widgets::Theme::Light);
    linnet::app::MainWindow window;
    window.show();
    if (!arguments.isSet(QStringLiteral("no-open"))) { // the window first, then the teacher
        const auto path = arguments.positionalArguments().value(0, QStringLiteral("default"));
        QTimer::singleShot(0, &window, [&window, path] { window.session()->openTeacher(path); });
    }
    return QApplication::exec();
}
