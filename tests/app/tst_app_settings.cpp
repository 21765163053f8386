// Settings: what is set is there at once, in the file soon, and never written by the thread that set it.
#include "app/models/settings.h"

#include <QFile>
#include <QSettings>
#include <QTemporaryDir>
#include <QTest>

using namespace linnet;
using app::Settings;

namespace {

qint64 writtenByThisThread() { // bytes
    QFile io(QStringLiteral("/proc/thread-self/io"));
    if (!io.open(QIODevice::ReadOnly))
        return -1;
    for (const auto& line : io.readAll().split('\n'))
        if (line.startsWith("wchar:"))
            return line.mid(6).trimmed().toLongLong();
    return -1;
}

} // namespace

class TestAppSettings : public QObject {
    Q_OBJECT

    QTemporaryDir m_place;

private Q_SLOTS:
    void initTestCase() { QSettings::setPath(QSettings::NativeFormat, QSettings::UserScope, m_place.path()); }
    void init() {
        Settings().clear();
        Settings::sync();
    }

    void readsWhatWasSet() {
        QCOMPARE(Settings().value(QStringLiteral("a/b"), 7).toInt(), 7);
        Settings().setValue(QStringLiteral("a/b"), 3);
        QCOMPARE(Settings().value(QStringLiteral("a/b")).toInt(), 3);
        Settings().setValue(QStringLiteral("a/b"), 4);
        Settings().setValue(QStringLiteral("list"), QStringList{QStringLiteral("x"), QStringLiteral("y")});
        Settings::sync();
        QCOMPARE(QSettings().value(QStringLiteral("a/b")).toInt(), 4);
        QCOMPARE(QSettings().value(QStringLiteral("list")).toStringList().size(), 2);
        QCOMPARE(Settings().value(QStringLiteral("a/b")).toInt(), 4);
    }

    void removesWhatIsBelow() {
        for (const char* key : {"a", "a/b", "a/b/c", "ab"})
            Settings().setValue(QString::fromLatin1(key), 1);
        Settings().remove(QStringLiteral("a"));
        QCOMPARE(Settings().keys(), QStringList{QStringLiteral("ab")});
        Settings::sync();
        QCOMPARE(QSettings().allKeys(), QStringList{QStringLiteral("ab")});
    }

    void keepsWhatAnotherWindowWrote() {
        Settings().setValue(QStringLiteral("ours"), 1);
        Settings::sync();
        {
            QSettings other;
            other.setValue(QStringLiteral("theirs"), 2);
        }
        Settings().setValue(QStringLiteral("ours"), 3);
        Settings::sync();
        QCOMPARE(Settings().value(QStringLiteral("theirs")).toInt(), 2);
        QCOMPARE(QSettings().value(QStringLiteral("ours")).toInt(), 3);
    }

    void theCallersThreadWritesNothing() {
        if (writtenByThisThread() < 0)
            QSKIP("this system does not count what a thread writes");
        auto before = writtenByThisThread();
        { QSettings().setValue(QStringLiteral("plain"), QString(1000, QLatin1Char('x'))); }
        QVERIFY2(writtenByThisThread() - before > 1000, "the count sees no write: this test proves nothing");
        before = writtenByThisThread();
        for (int i = 0; i < 50; ++i)
            Settings().setValue(QStringLiteral("ours/%1").arg(i), QString(1000, QLatin1Char('x')));
        QVERIFY2(writtenByThisThread() - before < 1000, qPrintable(QString::number(writtenByThisThread() - before)));
        Settings::sync();
        QCOMPARE(QSettings().allKeys().filter(QStringLiteral("ours/")).size(), 50);
    }
};

QTEST_GUILESS_MAIN(TestAppSettings)
#include "tst_app_settings.moc"
