#include "app/models/theme_choice.h"

#include "app/models/settings.h"
#include "widgets/theme.h"

#include <QApplication>
#include <QDBusConnection>
#include <QDBusPendingCallWatcher>
#include <QDBusVariant>
#include <QFileInfo>
#include <QStandardPaths>
#include <QStyleHints>

namespace linnet::app {
namespace {

constexpr auto kKey = "window/theme";
const QString kPortal = QStringLiteral("org.freedesktop.portal.Desktop"), kPortalPath = QStringLiteral("/org/freedesktop/portal/desktop"),
              kSettings = QStringLiteral("org.freedesktop.portal.Settings"), kGroup = QStringLiteral("org.freedesktop.appearance"),
              kScheme = QStringLiteral("color-scheme");

bool startedDark() { // the platform's own palette, before ours replaced it
    static const bool dark = widgets::isDark(QGuiApplication::palette());
    return dark;
}

bool busExists() { // libdbus would start a daemon of its own
    return qEnvironmentVariableIsSet("DBUS_SESSION_BUS_ADDRESS") || QFileInfo::exists(QStandardPaths::writableLocation(QStandardPaths::RuntimeLocation) + QStringLiteral("/bus"));
}

} // namespace

std::optional<bool> darkOfPortal(QVariant value) {
    while (value.canConvert<QDBusVariant>())
        value = value.value<QDBusVariant>().variant();
    bool number = false;
    const auto scheme = value.toUInt(&number);
    return !number || scheme < 1 || scheme > 2 ? std::nullopt : std::optional(scheme == 1);
}

ThemeKeeper::ThemeKeeper(QObject* parent) : QObject(parent) {
    startedDark();
#if QT_VERSION >= QT_VERSION_CHECK(6, 5, 0)
    connect(QGuiApplication::styleHints(), &QStyleHints::colorSchemeChanged, this, &ThemeKeeper::apply);
#endif
    askDesktop();
    reload();
}

void ThemeKeeper::askDesktop() {
    if (!busExists())
        return;
    auto bus = QDBusConnection::sessionBus();
    if (!bus.isConnected())
        return;
    auto call = QDBusMessage::createMethodCall(kPortal, kPortalPath, kSettings, QStringLiteral("Read"));
    call << kGroup << kScheme;
    const auto asked = bus.asyncCall(call); // the window does not wait
    bus.connect(kPortal, kPortalPath, kSettings, QStringLiteral("SettingChanged"), this, SLOT(portalChanged(QDBusMessage)));
    auto* answer = new QDBusPendingCallWatcher(asked, this);
    connect(answer, &QDBusPendingCallWatcher::finished, this, [this, answer] {
        if (!answer->isError())
            heard(darkOfPortal(answer->reply().arguments().value(0)));
        answer->deleteLater();
    });
}

void ThemeKeeper::portalChanged(const QDBusMessage& said) {
    const auto arguments = said.arguments();
    if (arguments.value(0).toString() == kGroup && arguments.value(1).toString() == kScheme)
        heard(darkOfPortal(arguments.value(2)));
}

void ThemeKeeper::heard(std::optional<bool> dark) {
    m_portalDark = dark;
    if (m_choice == ThemeChoice::System)
        apply();
}

bool ThemeKeeper::systemIsDark() const {
    if (m_portalDark)
        return *m_portalDark;
#if QT_VERSION >= QT_VERSION_CHECK(6, 5, 0)
    if (const auto scheme = QGuiApplication::styleHints()->colorScheme(); scheme != Qt::ColorScheme::Unknown)
        return scheme == Qt::ColorScheme::Dark;
#endif
    return startedDark();
}

void ThemeKeeper::reload() {
    const auto stored = Settings().value(QLatin1String(kKey)).toString();
    m_choice = stored == QLatin1String("dark") ? ThemeChoice::Dark : stored == QLatin1String("light") ? ThemeChoice::Light : ThemeChoice::System;
    apply();
}

void ThemeKeeper::choose(ThemeChoice choice) {
    m_choice = choice;
    Settings().setValue(QLatin1String(kKey), choice == ThemeChoice::Dark ? QStringLiteral("dark") : choice == ThemeChoice::Light ? QStringLiteral("light") : QStringLiteral("system"));
    apply();
}

void ThemeKeeper::apply() {
    const bool dark = m_choice == ThemeChoice::Dark || (m_choice == ThemeChoice::System && systemIsDark());
    if (!qApp->property("linnetThemed").toBool() || dark != widgets::isDark(QGuiApplication::palette())) {
        widgets::applyTheme(*qApp, dark ? widgets::Theme::Dark : widgets::Theme::Light);
        qApp->setProperty("linnetThemed", true);
    }
    Q_EMIT changed();
}

} // namespace linnet::app
