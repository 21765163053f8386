// What breaks around the window: settings, autosave, files that are gone, a full disk, a lost GPU. Each ends in a message and a
// window that still takes edits.
#include "app/panels/notice_bar.h"
#include "app/models/settings.h"
#include "app/models/settings_file.h"
#include "tests/app/fake_teacher.h"
#include "tests/support/gui_watchdog.h"
#include "tests/support/oracle_process.h"
#include "tests/support/window_test.h"

#include <QAbstractButton>
#include <QListWidget>
#include <QDir>
#include <QFile>
#include <QSettings>
#include <QSignalSpy>
#include <QTabWidget>
#include <csignal>
#include <sys/mount.h>
#include <sys/resource.h>

using namespace linnet;
using namespace linnet::tests;

namespace {

constexpr int kLong = 120'000;

// A folder whose disk can be filled: a small tmpfs where one may be mounted, else a limit on the size of what this process writes.
class SmallDisk {
public:
    explicit SmallDisk(const QString& folder) : m_folder(folder) {
        QDir().mkpath(folder);
        m_mounted = ::mount("linnet-test", folder.toLocal8Bit(), "tmpfs", 0, "size=256k") == 0;
    }
    ~SmallDisk() {
        free();
        if (m_mounted)
            ::umount2(m_folder.toLocal8Bit(), MNT_DETACH);
    }
    bool mounted() const { return m_mounted; }
    void fill() {
        if (m_mounted) {
            QFile filler(m_folder + QStringLiteral("/filler"));
            if (filler.open(QIODevice::WriteOnly | QIODevice::Unbuffered))
                while (filler.write(QByteArray(4096, 'x')) > 0) {}
            return;
        }
        ::signal(SIGXFSZ, SIG_IGN);
        limit(0);
    }
    void free() {
        if (m_mounted) {
            QFile::remove(m_folder + QStringLiteral("/filler"));
            ::mount("linnet-test", m_folder.toLocal8Bit(), "tmpfs", MS_REMOUNT, "size=64m");
        } else {
            limit(RLIM_INFINITY);
        }
    }

private:
    static void limit(rlim_t bytes) {
        rlimit now{};
        ::getrlimit(RLIMIT_FSIZE, &now);
        now.rlim_cur = std::min(bytes, now.rlim_max);
        ::setrlimit(RLIMIT_FSIZE, &now);
    }
    QString m_folder;
    bool m_mounted = false;
};

} // namespace

class TestAppFailures : public WindowTest {
    Q_OBJECT

    QTemporaryDir m_teachers;
    QString m_why; // no tiny teacher: why

    QString settingsFile() { return app::Settings::fileName(); }
    static void write(const QString& path, const QByteArray& content) {
        QDir().mkpath(QFileInfo(path).path());
        QFile file(path);
        QVERIFY(file.open(QIODevice::WriteOnly) && file.write(content) == content.size());
    }
    core::Recipe tinyRecipe(int steps) {
        auto recipe = session().recipe()->recipe();
        recipe.dataText = {m_teachers.filePath(QStringLiteral("text.txt")).toStdString()};
        recipe.seqLen = 32, recipe.calibrationTokens = 768, recipe.selectionTokens = 192, recipe.evaluationTokens = 192;
        recipe.keep = core::parseKeepRule("layers:0,3");
        recipe.align.steps = steps, recipe.align.batch = 4;
        recipe.device = "cpu";
        return recipe;
    }
    QString openTiny() { // an empty text where it is open
        if (!m_why.isEmpty())
            return m_why;
        session().openTeacher(m_teachers.filePath(QStringLiteral("llama")));
        return QTest::qWaitFor([this] { return idle() && session().teacher(); }, kLong) ? QString() : QStringLiteral("the tiny teacher did not open");
    }
#define OPEN_TINY()                              \
    do {                                         \
        if (!m_why.isEmpty())                    \
            QSKIP(qPrintable(m_why));            \
        QCOMPARE(openTiny(), QString());         \
        QVERIFY(boxes().isEmpty());              \
    } while (false)

private Q_SLOTS:
    void initTestCase() {
        m_why = oraclePython().isEmpty() ? QStringLiteral("LINNET_ORACLE_PYTHON is not set: no transformers to make a teacher with")
                                         : runOracle(QStringLiteral("convert_oracle.py"), {QStringLiteral("models"), m_teachers.path()});
    }
    void init() {
        app::Settings().clear();
        app::Settings().setValue(QStringLiteral("runs/folder"), place().filePath(QStringLiteral("runs")));
        makeWindow();
    }
    void cleanup() {
        m_window.reset();
        qputenv("XDG_DATA_HOME", place().filePath(QStringLiteral("XDG_DATA_HOME")).toLocal8Bit());
    }

    // ---- settings ----
    void aBrokenSettingsFile_data() {
        QTest::addColumn<QByteArray>("content");
        QByteArray noise;
        for (int i = 0; i < 5000; ++i)
            noise += static_cast<char>(i * 7919 % 251 + 1);
        QTest::newRow("noise") << noise;
        QTest::newRow("no ini") << QByteArray("{\"window\": {\"theme\": \"dark\"}}\n[[[\nthis is no setting\n");
        QTest::newRow("torn by a crash") << QByteArray("[window]\ntheme=dark\n\0\0\0\0\0\0\0\0", 28);
    }
    void aBrokenSettingsFile() {
        QFETCH(QByteArray, content);
        m_window.reset();
        const auto path = settingsFile();
        app::Settings::sync();
        QFile::remove(path + QStringLiteral(".broken"));
        write(path, content);
        const auto said = app::mendSettings();
        QVERIFY2(said.contains(QStringLiteral("damaged")) && said.contains(QStringLiteral(".broken")), qPrintable(said));
        QFile kept(path + QStringLiteral(".broken"));
        QVERIFY(kept.open(QIODevice::ReadOnly));
        QCOMPARE(kept.readAll(), content); // nothing is thrown away
        makeWindow();
        session().adopt(fakeTeacher(), fakeProfile());
        m_window->habits()->tell(said);
        saidAndWorking(QStringLiteral("damaged"));
        app::Settings().setValue(QStringLiteral("a"), 1);
        app::Settings::sync();
        QVERIFY(QSettings().status() == QSettings::NoError && app::mendSettings().isEmpty());
    }

    void settingsOfWrongTypes() { // readable, but not what is meant
        m_window.reset();
        app::Settings settings;
        for (const char* key : {"window/geometry", "window/state", "window/layout", "window/theme", "session/page", "session/model", "session/selection", "session/run", "session/reopen",
                                "recent/models", "recent/runs", "recent/recipes", "shortcuts/profile", "shortcuts/undo", "hints/headsPage", "run/method"})
            for (const auto& value : {QVariant(QByteArray("\x00\xff\x13garbage", 10)), QVariant(-7), QVariant(QVariantMap{{QStringLiteral("x"), 1}}), QVariant(QStringLiteral("ω: nonsense"))}) {
                settings.setValue(QString::fromLatin1(key), value);
                app::Settings::sync();
                makeWindow();
                session().adopt(fakeTeacher(), fakeProfile());
                const auto said = boxes();
                QVERIFY2(said.isEmpty(), qPrintable(said.join(QLatin1Char('\n'))));
                QVERIFY(m_window->isVisible() && m_window->width() >= 400 && find<QTabWidget>("pages")->isVisible());
                settings.remove(QString::fromLatin1(key));
            }
    }

    void settingsThatCantBeWritten() { // a folder in the file's place
        m_window.reset();
        const auto path = settingsFile();
        app::Settings::sync();
        QFile::remove(path);
        QVERIFY(QDir().mkpath(path));
        const auto said = app::mendSettings();
        QVERIFY2(!said.isEmpty(), "a folder in place of the settings went unnoticed");
        makeWindow();
        session().adopt(fakeTeacher(), fakeProfile());
        m_window->habits()->tell(said);
        saidAndWorking(QStringLiteral("settings"));
        m_window.reset();
        QDir(path).removeRecursively();
        QDir(path + QStringLiteral(".broken")).removeRecursively();
    }

    // ---- autosave ----
    void aBrokenAutosave() {
        OPEN_TINY();
        const auto hash = session().teacher()->hash;
        const auto file = session().recipe()->autosaveFile(hash);
        makeWindow();
        write(file, "{\"version\": 1, \"teacher\": {\"sour");
        QCOMPARE(openTiny(), QString());
        saidAndWorking(QStringLiteral("can't be used"));
        QVERIFY(QFile::exists(file + QStringLiteral(".broken")));
        QVERIFY(session().teacher() && session().recipe()->recipe().teacherHash == hash);
        m_window.reset();
        QFile::remove(file);
    }

    // ---- what is gone ----
    void aVanishedModel() {
        session().openTeacher(place().filePath(QStringLiteral("no such model")));
        QTRY_VERIFY_WITH_TIMEOUT(idle(), kLong);
        saidAndWorking(QStringLiteral("no such model"));
        app::Settings().setValue(QStringLiteral("session/model"), place().filePath(QStringLiteral("a model of last time.gguf")));
        m_window->habits()->start({}, true);
        QVERIFY(boxes().isEmpty() && m_window->habits()->notices()->text(QStringLiteral("lastModel")).contains(QStringLiteral("a model of last time.gguf")));
        QVERIFY(idle());
    }

    void aVanishedRun() {
        session().adopt(fakeTeacher(), fakeProfile());
        session().resumeRun(place().filePath(QStringLiteral("runs/gone")));
        QTRY_VERIFY_WITH_TIMEOUT(idle(), kLong);
        saidAndWorking(QStringLiteral("gone"));
        QVERIFY(!QFile::exists(place().filePath(QStringLiteral("runs/gone"))));
        m_window->habits()->open(place().filePath(QStringLiteral("runs/gone")));
        saidAndWorking(QStringLiteral("isn't there"));
    }

    void aVanishedRunsFolder() { // it is made anew; where it can't be, the message says so
        OPEN_TINY();
        session().recipe()->replace(tinyRecipe(2), QStringLiteral("tiny"));
        const auto blocked = place().filePath(QStringLiteral("a file"));
        write(blocked, "x");
        app::Settings().setValue(QStringLiteral("runs/folder"), QString(blocked + QStringLiteral("/runs")));
        session().startRun();
        QTRY_VERIFY_WITH_TIMEOUT(idle(), kLong);
        saidAndWorking(QStringLiteral("a file"));
        app::Settings().setValue(QStringLiteral("runs/folder"), place().filePath(QStringLiteral("new/runs")));
        session().startRun();
        QTRY_VERIFY_WITH_TIMEOUT(idle(), kLong);
        QVERIFY(boxes().isEmpty());
        QCOMPARE(session().currentRun()->state, QStringLiteral("done"));
    }

    void theProfileOfLastTimeIsShown() { // from the cache, without a new measurement
        OPEN_TINY();
        session().recipe()->replace(tinyRecipe(2), QStringLiteral("tiny"));
        session().profileTeacher();
        QTRY_VERIFY_WITH_TIMEOUT(idle() && session().profile(), kLong);
        const auto measured = session().profile()->layers[1][0].distance.mean;
        makeWindow(); // its edits are written
        OPEN_TINY();
        QTRY_VERIFY_WITH_TIMEOUT(session().profile(), kLong);
        QCOMPARE(session().profile()->layers[1][0].distance.mean, measured);
        QVERIFY(boxes().isEmpty());
        auto other = session().recipe()->recipe(); // another text has no profile, and nothing is said of it
        other.seqLen = 16;
        session().recipe()->replace(other, QStringLiteral("shorter windows"));
        makeWindow();
        OPEN_TINY();
        QTest::qWait(500);
        QVERIFY(!session().profile() && boxes().isEmpty());
    }

    void aVanishedText() {
        OPEN_TINY();
        auto recipe = tinyRecipe(2);
        recipe.dataText = {place().filePath(QStringLiteral("burnt.txt")).toStdString()};
        session().recipe()->replace(recipe, QStringLiteral("a text"));
        const auto runs = session().runs().size();
        session().startRun();
        QVERIFY(idle() && session().runs().size() == runs); // not even a run of it is made
        saidAndWorking(QStringLiteral("burnt.txt"));
        session().profileTeacher();
        QTRY_VERIFY_WITH_TIMEOUT(idle(), kLong);
        saidAndWorking(QStringLiteral("burnt.txt"));
    }

    void theTextThatWorkedIsTheNextModelsToo() {
        OPEN_TINY();
        const auto enough = place().filePath(QStringLiteral("enough.txt")); // for the default recipe too
        write(enough, QByteArray("the quick brown fox jumps over the lazy dog and runs\n").repeated(4000));
        auto recipe = tinyRecipe(2);
        recipe.dataText = {enough.toStdString()};
        session().recipe()->replace(recipe, QStringLiteral("tiny"));
        session().profileTeacher();
        QTRY_VERIFY_WITH_TIMEOUT(idle() && session().profile(), kLong);
        const auto finished = session().logLines().filter(QStringLiteral("finished in")); // also of the opening
        QVERIFY2(finished.size() == 2 && finished.last().endsWith(QStringLiteral("Profiling")), qPrintable(finished.join(QLatin1Char('\n'))));
        const auto text = session().recipe()->recipe().dataText;
        m_window.reset();
        QDir(QStandardPaths::writableLocation(QStandardPaths::AppDataLocation)).removeRecursively(); // as a model that was never opened
        makeWindow();
        OPEN_TINY();
        QVERIFY(session().recipe()->recipe().dataText == text);
        QVERIFY(!session().runProblem());
        m_window.reset();
        QDir(QStandardPaths::writableLocation(QStandardPaths::AppDataLocation)).removeRecursively();
        app::Settings().setValue(QStringLiteral("text/last"), QStringLiteral("/gone/since.txt"));
        makeWindow();
        OPEN_TINY();
        QVERIFY(session().recipe()->recipe().dataText == std::vector<std::string>{"default"});
    }

    // ---- quitting ----
    void quittingAsksOnceWhileARunGoesOn() {
        OPEN_TINY();
        session().recipe()->replace(tinyRecipe(200'000), QStringLiteral("tiny"));
        session().startRun();
        QTRY_VERIFY_WITH_TIMEOUT(session().currentRun() && !session().currentRun()->metrics.empty(), kLong);
        const auto run = session().currentRun();
        m_window->close();
        QVERIFY(m_window->isVisible());
        action("quit")->trigger(); // again: the same question
        const auto asked = m_window->findChildren<QMessageBox*>(QStringLiteral("quitBox"));
        QCOMPARE(asked.size(), 1);
        asked.front()->reject();
        QTest::qWait(100);
        QVERIFY(m_window->isVisible() && session().jobState() == app::JobState::Running);
        action("quit")->trigger();
        auto* stop = m_window->findChild<QAbstractButton*>(QStringLiteral("quitStop"));
        QVERIFY(stop);
        stop->click();
        QTRY_VERIFY_WITH_TIMEOUT(!m_window->isVisible(), kLong);
        QVERIFY(idle());
        QCOMPARE(run->state, QStringLiteral("stopped")); // and saved
        makeWindow();
        m_window->close(); // nothing is running: no question
        QVERIFY(!m_window->isVisible());
    }

    // ---- a full disk ----
    void aFullDiskUnderTheAutosave() {
        SmallDisk disk(place().filePath(QStringLiteral("small")));
        qputenv("XDG_DATA_HOME", place().filePath(QStringLiteral("small")).toLocal8Bit());
        session().adopt(fakeTeacher(), fakeProfile());
        auto recipe = core::defaultRecipe("cpu");
        recipe.teacherHash = "full";
        QSignalSpy saved(session().recipe(), &app::RecipeModel::autosaved), failed(session().recipe(), &app::RecipeModel::autosaveFailed);
        session().recipe()->load(recipe);
        QTRY_VERIFY_WITH_TIMEOUT(!saved.isEmpty(), 4000);
        disk.fill();
        recipe.seed = 77;
        session().recipe()->replace(recipe, QStringLiteral("an edit"));
        QTRY_VERIFY_WITH_TIMEOUT(!failed.isEmpty(), 4000);
        if (disk.mounted())
            QCOMPARE(int(failed.front().front().value<core::Error>().code), int(core::ErrorCode::Disk));
        QVERIFY(boxes().isEmpty()); // said above the pages and under Problems, not in the way of the hand
        QVERIFY(m_window->habits()->notices()->text(QStringLiteral("autosave")).contains(QStringLiteral("autosaved")));
        QCOMPARE(find<QListWidget>("problemsList")->findItems(QStringLiteral("Not autosaved"), Qt::MatchStartsWith).size(), 1);
        const auto old = session().recipe()->takeAutosave("full");
        QVERIFY(old && *old && (*old)->seed != 77); // the state before, whole
        QTRY_VERIFY_WITH_TIMEOUT(failed.size() >= 2, 12000); // it goes on trying, and does not nag
        QVERIFY(boxes().isEmpty());
        disk.free();
        saved.clear();
        QTRY_VERIFY_WITH_TIMEOUT(!saved.isEmpty(), 12000);
        const auto now = session().recipe()->takeAutosave("full");
        QVERIFY(now && *now && (*now)->seed == 77);
        QCOMPARE(m_window->habits()->notices()->text(QStringLiteral("autosave")), QString());
        m_window.reset();
    }

    void aFullDiskUnderARun() {
        OPEN_TINY();
        SmallDisk disk(place().filePath(QStringLiteral("full runs")));
        if (!disk.mounted())
            QSKIP("a small file system can't be mounted here; the autosave's test has the limit on file sizes");
        app::Settings().setValue(QStringLiteral("runs/folder"), place().filePath(QStringLiteral("full runs")));
        session().recipe()->replace(tinyRecipe(12), QStringLiteral("tiny"));
        session().startRun();
        QTRY_VERIFY_WITH_TIMEOUT(idle(), kLong);
        const auto run = session().currentRun();
        QCOMPARE(run->state, QStringLiteral("failed"));
        saidAndWorking(QStringLiteral("space"));
        disk.free();
        session().resumeRun(run->folder);
        QTRY_VERIFY_WITH_TIMEOUT(idle(), kLong);
        QVERIFY2(boxes().isEmpty(), "resuming after space was made");
        QCOMPARE(session().currentRun()->state, QStringLiteral("done"));
        m_window.reset();
    }

    // ---- a lost GPU ----
    void aLostGpu() {
        OPEN_TINY();
        auto* recipe = session().recipe();
        recipe->setTarget({{1, 2}}, app::TargetField::HalfLife, 9.5);
        const auto edited = recipe->recipe();
        session().failNextJob({core::ErrorCode::Internal, "CUDA error: an illegal memory access was encountered", {}});
        session().profileTeacher();
        QTRY_VERIFY_WITH_TIMEOUT(idle() && session().teacher(), kLong);
        saidAndWorking(QStringLiteral("GPU doesn't answer"));
        QCOMPARE(QString::fromStdString(session().teacher()->device).left(3), QStringLiteral("cpu")); // opened again
        QVERIFY(recipe->recipe() == edited);
        recipe->replace(tinyRecipe(2), QStringLiteral("tiny"));
        session().profileTeacher(); // and it computes
        QTRY_VERIFY_WITH_TIMEOUT(idle(), kLong);
        QVERIFY(boxes().isEmpty() && session().profile());
    }

    void otherFailuresKeepTheTeacher() { // out of memory is no lost GPU
        OPEN_TINY();
        session().failNextJob({core::ErrorCode::Memory, "CUDA out of memory: tried to allocate 3 GiB", {}});
        session().profileTeacher();
        QTRY_VERIFY_WITH_TIMEOUT(idle(), kLong);
        saidAndWorking(QStringLiteral("out of memory"));
        QVERIFY(session().teacher());
        session().recipe()->replace(tinyRecipe(2), QStringLiteral("tiny"));
        session().profileTeacher();
        QTRY_VERIFY_WITH_TIMEOUT(idle(), kLong);
        QVERIFY(boxes().isEmpty() && session().profile());
    }

    void noneOfItFroze() { LINNET_NOT_FROZEN("the failures"); }
};

Q_DECLARE_METATYPE(linnet::core::Error)
LINNET_WATCHED_MAIN(TestAppFailures)
#include "tst_app_failures.moc"
