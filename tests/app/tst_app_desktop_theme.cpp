// "As the desktop has it": a settings portal on a bus of its own says dark, then light, and the window follows at once.
#include "app/models/theme_choice.h"
#include "widgets/theme.h"

#include <QApplication>
#include <QDBusConnection>
#include <QDBusVariant>
#include <QProcess>
#include <QStandardPaths>
#include <QTemporaryDir>
#include <QTest>

using namespace linnet;

class FakePortal : public QObject {
    Q_OBJECT
    Q_CLASSINFO("D-Bus Interface", "org.freedesktop.portal.Settings")
public:
    uint scheme = 1;
public Q_SLOTS:
    Q_SCRIPTABLE QDBusVariant Read(const QString& group, const QString& key) {
        const bool asked = group == QLatin1String("org.freedesktop.appearance") && key == QLatin1String("color-scheme");
        return QDBusVariant(QVariant::fromValue(QDBusVariant(asked ? scheme : 0U)));
    }
Q_SIGNALS:
    Q_SCRIPTABLE void SettingChanged(const QString& group, const QString& key, const QDBusVariant& value);
};

class TestAppDesktopTheme : public QObject {
    Q_OBJECT

    QTemporaryDir m_place;
    QProcess m_bus;
    FakePortal m_portal;

    static bool dark() { return widgets::isDark(QGuiApplication::palette()); }

private Q_SLOTS:
    void initTestCase() {
        qputenv("XDG_CONFIG_HOME", m_place.path().toLocal8Bit());
        QCoreApplication::setOrganizationName(QStringLiteral("Linnet"));
        QCoreApplication::setApplicationName(QStringLiteral("linnet"));
        const auto daemon = QStandardPaths::findExecutable(QStringLiteral("dbus-daemon"));
        if (daemon.isEmpty())
            QSKIP("dbus-daemon is not installed");
        m_bus.start(daemon, {QStringLiteral("--session"), QStringLiteral("--nofork"), QStringLiteral("--print-address")});
        QVERIFY(m_bus.waitForReadyRead(10000));
        const auto address = m_bus.readLine().trimmed();
        qputenv("DBUS_SESSION_BUS_ADDRESS", address);
        auto own = QDBusConnection::connectToBus(QString::fromLocal8Bit(address), QStringLiteral("portal"));
        QVERIFY(own.isConnected());
        QVERIFY(own.registerObject(QStringLiteral("/org/freedesktop/portal/desktop"), &m_portal, QDBusConnection::ExportScriptableContents));
        QVERIFY(own.registerService(QStringLiteral("org.freedesktop.portal.Desktop")));
    }
    void cleanupTestCase() {
        m_bus.kill();
        m_bus.waitForFinished();
    }

    void theWindowFollows() {
        app::ThemeKeeper keeper;
        QVERIFY(!dark()); // nothing heard yet, and nothing waited for
        QTRY_VERIFY(dark());
        const auto say = [&](uint scheme) {
            m_portal.scheme = scheme;
            Q_EMIT m_portal.SettingChanged(QStringLiteral("org.freedesktop.appearance"), QStringLiteral("color-scheme"), QDBusVariant(scheme));
        };
        say(2);
        QTRY_VERIFY(!dark());
        say(1);
        QTRY_VERIFY(dark());
        Q_EMIT m_portal.SettingChanged(QStringLiteral("org.gnome.desktop.interface"), QStringLiteral("color-scheme"), QDBusVariant(2U)); // not the portal's own
        keeper.choose(app::ThemeChoice::Light);
        QVERIFY(!dark());
        say(1);
        QTest::qWait(200);
        QVERIFY(!dark()); // a choice stands
        keeper.choose(app::ThemeChoice::System);
        QVERIFY(dark());
    }
};

QTEST_MAIN(TestAppDesktopTheme)
#include "tst_app_desktop_theme.moc"
