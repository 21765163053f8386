// "Copy as command": the lines run in a shell as they were copied, and do what the window would have done.
#include "app/models/command_lines.h"
#include "app/models/session.h"
#include "app/models/settings.h"
#include "app/panels/command_menu.h"
#include "tests/app/tiny_run.h"

#include <QClipboard>
#include <QGuiApplication>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QSignalSpy>
#include <QStandardPaths>

using namespace linnet;
using namespace linnet::tests;
using app::Command;
using app::Commands;

class TestAppCommands : public QObject {
    Q_OBJECT

    TinyRun m_tiny;
    std::unique_ptr<app::Session> m_session;

    struct Said {
        int code = -1;
        QByteArray out, errors;
        QJsonObject json() const { return QJsonDocument::fromJson(out).object(); }
    };
    // As a person pastes it; linnet-cli is the one that was built.
    Said shell(const QString& text) {
        QProcess process;
        auto environment = QProcessEnvironment::systemEnvironment();
        const QFileInfo cli(qEnvironmentVariable("LINNET_CLI"));
        environment.insert("PATH", cli.path() + QLatin1Char(':') + environment.value("PATH"));
        environment.insert("XDG_CACHE_HOME", m_tiny.path("cache"));
        process.setProcessEnvironment(environment);
        process.setWorkingDirectory(QDir::rootPath()); // no line depends on where it runs
        process.start("/bin/sh", {"-c", text});
        Said said;
        if (!process.waitForFinished(300000))
            return said;
        said.code = process.exitCode();
        said.out = process.readAllStandardOutput();
        said.errors = process.readAllStandardError();
        return said;
    }
    void open() {
        m_session->openTeacher(m_tiny.teacher());
        QTRY_VERIFY_WITH_TIMEOUT(m_session->jobState() == app::JobState::Idle, 60000);
        QVERIFY(m_session->teacher());
        m_session->recipe()->load(m_tiny.recipe());
    }
    static void written(const Command& command) { QVERIFY(Commands::prepare(command)); }

private Q_SLOTS:
    void initTestCase() {
        QStandardPaths::setTestModeEnabled(true);
        QCoreApplication::setOrganizationName(QStringLiteral("Linnet"));
        QCoreApplication::setApplicationName(QStringLiteral("tst_app_commands"));
        app::Settings().clear();
        LINNET_MAKE_RUN(m_tiny);
        app::Settings().setValue("runs/folder", m_tiny.path("my runs")); // a space: lines must quote
    }
    void init() {
        m_session = std::make_unique<app::Session>();
        open();
    }
    void cleanup() { m_session.reset(); }

    void quoting_data() {
        QTest::addColumn<QString>("word");
        QTest::addColumn<QString>("expected");
        QTest::newRow("plain") << "/a/b-c_1.2" << "/a/b-c_1.2";
        QTest::newRow("empty") << "" << "''";
        QTest::newRow("space") << "a b" << "'a b'";
        QTest::newRow("quote") << "it's" << "'it'\\''s'";
        QTest::newRow("dollar") << "$HOME `x`" << "'$HOME `x`'";
        QTest::newRow("tilde") << "~/a" << "'~/a'";
        QTest::newRow("newline") << "a\nb" << "'a\nb'";
        QTest::newRow("letters") << QStringLiteral("ä") << QStringLiteral("'ä'");
    }
    void quoting() {
        QFETCH(QString, word);
        QFETCH(QString, expected);
        QCOMPARE(Commands::quoted(word), expected);
        QCOMPARE(QString::fromUtf8(shell("printf %s " + Commands::quoted(word)).out), word); // as a shell reads it
    }

    void convertMakesTheSameRecipe() {
        m_session->recipe()->setTarget({{1, 2}}, app::TargetField::HalfLife, 12.5);
        const auto& recipe = m_session->recipe()->recipe();
        const auto command = Commands::convert(*m_session);
        QVERIFY2(!command.text.isEmpty(), qPrintable(command.why));
        written(command);
        const auto checked = shell(Commands::line({"recipe", "check", command.file, "--json"}));
        QCOMPARE(checked.code, 0);
        QCOMPARE(checked.json()["hash"].toString().toStdString(), core::recipeHash(recipe));
        const auto said = shell(command.text + " --json --quiet");
        QVERIFY2(said.code == 0, said.errors + said.out);
        const auto run = said.json()["run"].toString();
        QVERIFY2(run.startsWith(m_tiny.path("my runs")), qPrintable(run));
        // the window's own run of this recipe freezes the same one
        const auto here = m_tiny.path("here");
        QVERIFY(core::convert(recipe, here.toStdString(), TinyRun::noBaselines(), {}));
        const auto a = core::orFail(core::readRecipe((run + "/recipe.json").toStdString())), b = core::orFail(core::readRecipe((here + "/recipe.json").toStdString()));
        QCOMPARE(core::recipeHash(a), core::recipeHash(b));
        QCOMPARE(a.targets.at(1).at(2).halfLife, std::optional(12.5));
        const auto resumed = shell(Commands::resume(run).text + " --json --quiet"); // a finished run answers with its report
        QCOMPARE(resumed.code, 0);
        QCOMPARE(resumed.json()["converted_layers"], said.json()["converted_layers"]);
    }

    void relativePathsMeanTheSameFiles() {
        auto recipe = m_tiny.recipe();
        recipe.folder = m_tiny.path("").toStdString();
        recipe.teacherSource = "llama";
        recipe.dataText = {"text.txt"};
        m_session->recipe()->load(recipe);
        const auto command = Commands::convert(*m_session);
        written(command);
        const auto read = core::orFail(core::readRecipe(command.file.toStdString()));
        QCOMPARE(QDir::cleanPath(QString::fromStdString(read.teacherSource)), QDir::cleanPath(m_tiny.teacher()));
        QCOMPARE(QDir::cleanPath(QString::fromStdString(read.dataText.at(0))), QDir::cleanPath(m_tiny.path("text.txt")));
        const auto checked = shell(Commands::line({"recipe", "check", command.file}));
        QVERIFY2(checked.code == 0, checked.errors);
    }

    void selectTakesTheRule() {
        QVERIFY(Commands::select(*m_session, core::parseKeepRule("layers:0")).text.isEmpty()); // nothing to measure
        const auto command = Commands::select(*m_session, core::parseKeepRule("bypass:2"));
        written(command);
        const auto said = shell(command.text + " --json --quiet");
        QVERIFY2(said.code == 0, said.errors + said.out);
        QCOMPARE(said.json()["method"].toString(), QStringLiteral("bypass"));
        auto recipe = m_tiny.recipe("bypass:2");
        const auto expected = core::orFail(core::selectLayers(recipe, {}, {}));
        const auto kept = said.json()["kept_layers"].toVariant().toList();
        QCOMPARE(kept.size(), qsizetype(2));
        for (int i = 0; i < 2; ++i)
            QCOMPARE(kept[i].toLongLong(), qlonglong(expected.kept[std::size_t(i)]));
    }

    void profileMeasuresTheSameText() {
        const auto said = shell(Commands::profile(*m_session).text + " --json --quiet");
        QVERIFY2(said.code == 0, said.errors + said.out);
        m_session->profileTeacher();
        QTRY_VERIFY_WITH_TIMEOUT(m_session->profile(), 60000);
        QTRY_VERIFY(m_session->jobState() == app::JobState::Idle);
        const auto sample = said.json()["sample"].toObject();
        QCOMPARE(sample["tokens"].toInteger(), qint64(m_session->profile()->tokens));
        QCOMPARE(sample["seq_len"].toInteger(), qint64(m_session->profile()->seqLen));
        const auto head = said.json()["layers"].toArray()[1].toObject()["heads"].toArray()[2].toObject();
        QCOMPARE(head["distance"].toObject()["mean"].toDouble(), m_session->profile()->layers[1][2].distance.mean);
    }

    void evaluateComparesWithTheTeacher() {
        const auto command = Commands::evaluate(*m_session, m_tiny.run());
        QVERIFY2(command.note.isEmpty(), qPrintable(command.note));
        const auto said = shell(command.text + " --json --quiet");
        QVERIFY2(said.code == 0, said.errors + said.out);
        const auto student = core::orFail(core::readReport(m_tiny.run().toStdString())).evaluation.at("student"); // what the window shows
        QCOMPARE(said.json()["seq_len"].toInteger(), qint64(32));
        QCOMPARE(said.json()["tokens"].toInteger(), qint64(student.tokens));
        QVERIFY(said.json()["loss"].toDouble() == student.loss && said.json()["loss_se"].toDouble() == student.lossSe); // to the last bit
        QVERIFY(said.json()["kl_to_teacher"].toDouble() == *student.klToTeacher && *student.klToTeacher > 0);
        QVERIFY(said.json()["top1_agreement"].toDouble() == *student.top1Agreement);
        const auto samples = m_tiny.run() + QStringLiteral("/samples.safetensors"), away = samples + QStringLiteral(".away");
        QVERIFY(QFile::rename(samples, away)); // without them: other tokens, and it says so
        QVERIFY(Commands::evaluate(*m_session, m_tiny.run()).note.contains(QStringLiteral("samples.safetensors")));
        QVERIFY(QFile::rename(away, samples));
    }

    void generateSaysTheSame() {
        app::GenerateSettings settings{QStringLiteral("-it's \"a\" $test\nof two lines"), false, {.tokens = 12, .greedy = false, .temperature = 0.7, .topP = 0.9, .topK = 20, .seed = 7}, m_tiny.run()};
        for (const bool greedy : {false, true}) {
            settings.options.greedy = greedy;
            const auto command = Commands::generate(*m_session, settings);
            QVERIFY(m_session->generation()->start(settings));
            QTRY_VERIFY_WITH_TIMEOUT(!m_session->generation()->running(), 60000);
            const auto said = shell(command.text + " --quiet"); // the student's line is the last
            QVERIFY2(said.code == 0, said.errors);
            const auto &teacher = m_session->generation()->side(app::kTeacher), &student = m_session->generation()->side(app::kStudent);
            const auto expected = [&](const app::Side& side) { return side.text() + '\n'; };
            const auto out = QString::fromUtf8(said.out);
            QVERIFY2(out.startsWith(expected(teacher)) && out.endsWith(expected(student)), qPrintable(out + " / " + expected(teacher) + " / " + expected(student)));
        }
    }

    void exportWritesTheFolder() {
        const auto out = m_tiny.path("out dir");
        core::ExportOptions options;
        options.dtype = "bf16";
        const auto said = shell(Commands::exporting(m_tiny.run(), out, options).text + " --json --quiet");
        QVERIFY2(said.code == 0, said.errors + said.out);
        QCOMPARE(said.json()["exact"].toBool(true), false);
        QVERIFY(said.json()["parity"].toObject()["greedy_tokens"].toInteger() > 0);
        QVERIFY(QFile::exists(out + QStringLiteral("/config.json")));
    }

    void theMenuCopiesAndSaysSo() {
        app::CommandMenu menu(m_session.get());
        QSignalSpy notice(m_session.get(), &app::Session::notice);
        Q_EMIT menu.aboutToShow();
        const auto action = [&](const char* name) { return menu.findChild<QAction*>(QString::fromLatin1(name)); };
        QVERIFY(action("copyProfile")->isEnabled() && action("copyConvert")->isEnabled());
        QVERIFY(!action("copySelect")->isEnabled() && !action("copySelect")->toolTip().isEmpty()); // layers:0,2 measures nothing
        QVERIFY(!action("copyGenerate")->isEnabled());                                           // no prompt yet
        action("copyConvert")->trigger();
        const auto text = QGuiApplication::clipboard()->text();
        QVERIFY2(text.startsWith(QStringLiteral("linnet-cli convert '")), qPrintable(text));
        QCOMPARE(notice.count(), 1);
        QVERIFY(QFile::exists(text.section('\'', 1, 1))); // the recipe that it names
    }

    void withoutATeacherThereIsNothingToCopy() {
        app::Session empty;
        app::CommandMenu menu(&empty);
        Q_EMIT menu.aboutToShow();
        for (const auto* action : menu.actions())
            QVERIFY2(action->isSeparator() || !action->isEnabled(), qPrintable(action->text()));
        QSignalSpy failed(&empty, &app::Session::failed);
        app::CommandMenu::copy(&empty, Commands::convert(empty));
        QCOMPARE(failed.count(), 1);
    }
};

QTEST_MAIN(TestAppCommands)
#include "tst_app_commands.moc"
