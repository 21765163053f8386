// kill -9 while a person edits: what is on the disk is whole, and no older than two seconds.
#include "app/models/recipe_model.h"

#include <QCoreApplication>
#include <QDateTime>
#include <QDir>
#include <QFile>
#include <QProcess>
#include <QRandomGenerator>
#include <QSignalSpy>
#include <QStandardPaths>
#include <QTemporaryDir>
#include <QTest>
#include <QTimer>
#include <csignal>
#include <cstdio>

using namespace linnet;

namespace {

constexpr const char* kHash = "00c0ffee";
constexpr int kEditMs = 40, kPromiseMs = 2000;

// The child: an edit every 40 ms, said on stdout with its time once it is made.
int editForever(int argc, char** argv) {
    QCoreApplication application(argc, argv);
    QCoreApplication::setOrganizationName(QStringLiteral("Linnet"));
    QCoreApplication::setApplicationName(QStringLiteral("linnet"));
    app::RecipeModel model;
    model.setTeacher(kHash);
    model.setShape(30, 9);
    auto recipe = core::defaultRecipe("cpu");
    recipe.teacherHash = kHash;
    recipe.seed = 0;
    model.load(recipe);
    QTimer timer;
    QObject::connect(&timer, &QTimer::timeout, &model, [&] {
        auto next = model.recipe();
        next.seed += 1;
        for (int head = 0; head < 9; ++head) // not a small file
            next.targets[static_cast<std::int64_t>(next.seed) % 30][head].halfLife = 1.0 + double(next.seed);
        model.replace(next, QStringLiteral("edit"));
        std::printf("%lld %lld\n", static_cast<long long>(next.seed), static_cast<long long>(QDateTime::currentMSecsSinceEpoch()));
        std::fflush(stdout);
    });
    timer.start(kEditMs);
    return QCoreApplication::exec();
}

} // namespace

class TestAppKill : public QObject {
    Q_OBJECT

    QTemporaryDir m_place;

private Q_SLOTS:
    void editsSurviveAKill_data() {
        QTest::addColumn<int>("afterMs");
        for (int i = 0; i < 6; ++i)
            QTest::addRow("%d", i) << 2100 + 600 * i + int(QRandomGenerator::global()->bounded(600));
    }
    void editsSurviveAKill() {
        QFETCH(int, afterMs);
        qputenv("XDG_DATA_HOME", m_place.filePath(QString::fromLatin1(QTest::currentDataTag())).toLocal8Bit());
        QProcess child;
        child.start(QCoreApplication::applicationFilePath(), {QStringLiteral("--edit-forever")});
        QVERIFY(child.waitForReadyRead(20000)); // the first edit
        QTest::qWait(afterMs);
        QVERIFY(child.state() == QProcess::Running);
        const auto killed = QDateTime::currentMSecsSinceEpoch();
        QCOMPARE(::kill(static_cast<pid_t>(child.processId()), SIGKILL), 0);
        QVERIFY(child.waitForFinished());
        QCOMPARE(child.exitStatus(), QProcess::CrashExit);
        qint64 promised = 0, last = 0; // edits that must be there; edits that were made
        for (const auto& line : child.readAllStandardOutput().split('\n')) {
            const auto parts = line.split(' ');
            if (parts.size() != 2)
                continue;
            last = parts[0].toLongLong();
            if (parts[1].toLongLong() <= killed - kPromiseMs)
                promised = last;
        }
        QVERIFY(last > 20);
        const auto saved = app::RecipeModel().takeAutosave(kHash);
        QVERIFY2(saved.has_value(), saved ? "" : saved.error().message.c_str());
        const qint64 found = *saved ? static_cast<qint64>((*saved)->seed) : -1;
        qInfo("killed after %d ms: %lld edits made, %lld promised, %lld saved", afterMs, last, promised, found);
        QVERIFY2(found >= promised && found <= last, qPrintable(QStringLiteral("%1 of %2, promised %3").arg(found).arg(last).arg(promised)));
        app::RecipeModel next;
        next.setTeacher(kHash);
        QCOMPARE(next.window(), 1); // the killed window's lock is free
        if (found > 0)
            QVERIFY((*saved)->targets.at(found % 30).at(8).halfLife == 1.0 + double(found)); // whole, not a mixture
    }

    void aNormalEndLosesNothing() {
        qputenv("XDG_DATA_HOME", m_place.filePath(QStringLiteral("normal")).toLocal8Bit());
        {
            app::RecipeModel model;
            auto recipe = core::defaultRecipe("cpu");
            recipe.teacherHash = kHash;
            model.load(recipe);
            recipe.seed = 99;
            model.replace(recipe, QStringLiteral("edit"));
        } // at once, long before the timer
        const auto saved = app::RecipeModel().takeAutosave(kHash);
        QVERIFY(saved && *saved);
        QVERIFY((*saved)->seed == 99);
    }

    void anotherTeachersEditsStay() {
        qputenv("XDG_DATA_HOME", m_place.filePath(QStringLiteral("two")).toLocal8Bit());
        app::RecipeModel model;
        QSignalSpy saved(&model, &app::RecipeModel::autosaved);
        auto recipe = core::defaultRecipe("cpu");
        recipe.teacherHash = kHash;
        model.load(recipe);
        recipe.seed = 7;
        model.replace(recipe, QStringLiteral("edit"));
        auto other = core::defaultRecipe("cpu");
        other.teacherHash = "beef";
        model.load(other); // a teacher is opened within the two seconds
        QTRY_VERIFY_WITH_TIMEOUT(saved.count() >= 2, 5000);
        const auto first = app::RecipeModel().takeAutosave(kHash), second = app::RecipeModel().takeAutosave("beef");
        QVERIFY(first && *first && second && *second);
        QVERIFY((*first)->seed == 7);
    }
};

int main(int argc, char** argv) {
    if (argc > 1 && QByteArray(argv[1]) == "--edit-forever")
        return editForever(argc, argv);
    QCoreApplication application(argc, argv);
    QCoreApplication::setOrganizationName(QStringLiteral("Linnet"));
    QCoreApplication::setApplicationName(QStringLiteral("linnet"));
    TestAppKill test;
    return QTest::qExec(&test, argc, argv);
}

#include "tst_app_kill.moc"
