#include "app/models/settings_file.h"

#include "app/models/settings.h"

#include <QCoreApplication>
#include <QFile>
#include <QSettings>
#include <algorithm>

namespace linnet::app {
namespace {

QString tr(const char* text) {
    return QCoreApplication::translate("SettingsFile", text);
}

bool isText(const QString& path) { // Qt writes what is no printable text as escapes
    QFile file(path);
    if (!file.open(QIODevice::ReadOnly))
        return true; // there is none
    const auto content = file.readAll();
    const auto text = QString::fromUtf8(content);
    return !text.contains(QChar::ReplacementCharacter) && std::none_of(text.begin(), text.end(), [](QChar c) { return c.unicode() < 32 && c != u'\n' && c != u'\r' && c != u'\t'; });
}

} // namespace

QString mendSettings() {
    QString path;
    QSettings::Status status;
    {
        QSettings settings;
        settings.sync();
        path = settings.fileName();
        status = settings.status();
    }
    if (status == QSettings::AccessError)
        return tr("The settings in %1 can't be read or written: this window works, but remembers nothing.").arg(path);
    if (status == QSettings::NoError && isText(path))
        return {};
    const auto aside = path + QStringLiteral(".broken");
    QFile::remove(aside);
    const bool moved = QFile::rename(path, aside);
    QSettings().clear(); // Qt remembers what it could read
    Settings::sync();
    return tr("The settings file was damaged: Linnet starts with its defaults. %1").arg(moved ? tr("The old file is kept as %1.").arg(aside) : QString());
}

void resetSettings() {
    Settings settings;
    for (const auto& key : settings.keys())
        if (!key.startsWith(QLatin1String("recent/")) && key != QLatin1String("runs/folder"))
            settings.remove(key);
}

} // namespace linnet::app
