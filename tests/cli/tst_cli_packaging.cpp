// What a package brings besides the programs: launcher, metainfo, MIME types, man pages and completions, each by the tool that reads it.
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QProcess>
#include <QRegularExpression>
#include <QStandardPaths>
#include <QTemporaryDir>
#include <QTest>

namespace {

struct Said {
    int code = -1;
    QString out, err;
    bool clean() const { return code == 0 && err.isEmpty(); }
    QByteArray text() const { return QStringLiteral("code %1\n%2\n%3").arg(code).arg(out.right(2000), err.right(2000)).toLocal8Bit(); }
};

Said run(const QString& program, const QStringList& arguments, const QByteArray& input = {}) {
    QProcess process;
    process.start(program, arguments);
    process.write(input);
    process.closeWriteChannel();
    if (!process.waitForFinished(60000))
        return {-1, {}, process.errorString()};
    return {process.exitStatus() == QProcess::NormalExit ? process.exitCode() : -1, QString::fromUtf8(process.readAllStandardOutput()), QString::fromUtf8(process.readAllStandardError())};
}

QString cli() {
    return qEnvironmentVariable("LINNET_CLI");
}

QString resource(const QString& name) {
    return qEnvironmentVariable("LINNET_SOURCE") + QStringLiteral("/resources/") + name;
}

QString content(const QString& path) {
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? QString::fromUtf8(file.readAll()) : QString();
}

QStringList commandsOf(const QString& help) { // the indented names under "Subcommands:"
    QStringList names;
    const auto list = help.section(QStringLiteral("Subcommands:"), 1);
    auto found = QRegularExpression(QStringLiteral("^  ([a-z]+) "), QRegularExpression::MultilineOption).globalMatch(list);
    while (found.hasNext())
        names << found.next().captured(1);
    return names;
}

} // namespace

#define NEEDS(tool)                                                                   \
    const auto program = QStandardPaths::findExecutable(QStringLiteral(tool));        \
    if (program.isEmpty())                                                            \
    QSKIP(tool " is not installed")

class TestCliPackaging : public QObject {
    Q_OBJECT

    QTemporaryDir m_place;

    QString script(const QString& shell) {
        const auto said = run(cli(), {QStringLiteral("completion"), shell});
        const auto path = m_place.filePath(shell == QLatin1String("zsh") ? QStringLiteral("_linnet-cli") : QStringLiteral("linnet-cli.") + shell);
        QFile file(path);
        return said.clean() && file.open(QIODevice::WriteOnly) && file.write(said.out.toUtf8()) > 500 ? path : QString();
    }

private Q_SLOTS:
    void desktopFile() {
        NEEDS("desktop-file-validate");
        const auto said = run(program, {QStringLiteral("--no-hints"), resource(QStringLiteral("io.github.linnet.Linnet.desktop"))});
        QVERIFY2(said.clean() && said.out.isEmpty(), said.text());
    }

    void metainfo() {
        NEEDS("appstreamcli");
        const auto said = run(program, {QStringLiteral("validate"), QStringLiteral("--no-net"), resource(QStringLiteral("io.github.linnet.Linnet.metainfo.xml"))});
        QVERIFY2(said.code == 0, said.text());
    }

    void mimeTypes() {
        NEEDS("update-mime-database");
        QVERIFY(QDir(m_place.path()).mkpath(QStringLiteral("mime/packages")));
        QVERIFY(QFile::copy(resource(QStringLiteral("io.github.linnet.Linnet.mime.xml")), m_place.filePath(QStringLiteral("mime/packages/linnet.xml"))));
        const auto said = run(program, {m_place.filePath(QStringLiteral("mime"))});
        QVERIFY2(said.code == 0 && !said.err.contains(QStringLiteral("rror")), said.text()); // it also notes that the place is no usual one
        const auto globs = content(m_place.filePath(QStringLiteral("mime/globs2")));
        QVERIFY(globs.contains(QStringLiteral("80:application/x-linnet-recipe+json:*.linnet.json")));
        QVERIFY(globs.contains(QStringLiteral(":application/x-gguf:*.gguf")));
        const auto desktop = content(resource(QStringLiteral("io.github.linnet.Linnet.desktop")));
        QVERIFY(desktop.contains(QStringLiteral("MimeType=application/x-linnet-recipe+json;application/x-gguf;")));
    }

    void icons() {
        const auto drawing = content(resource(QStringLiteral("io.github.linnet.Linnet.svg")));
        QVERIFY(drawing.contains(QStringLiteral("<svg")));
        QFile icon(resource(QStringLiteral("io.github.linnet.Linnet.png")));
        QVERIFY(icon.open(QIODevice::ReadOnly));
        const auto head = icon.read(24);
        QCOMPARE(head.mid(1, 3), QByteArray("PNG"));
        QCOMPARE(head.mid(16), QByteArray::fromHex("0000010000000100")); // 256 x 256
    }

    void manPages_data() {
        QTest::addColumn<QString>("page");
        QTest::newRow("linnet") << "man/linnet.1";
        QTest::newRow("linnet-cli") << "man/linnet-cli.1";
    }
    void manPages() {
        NEEDS("groff");
        QFETCH(QString, page);
        const auto said = run(program, {QStringLiteral("-man"), QStringLiteral("-Tutf8"), QStringLiteral("-ww"), QStringLiteral("-P-cbou"), resource(page)});
        QVERIFY2(said.clean(), said.text());
        QVERIFY(said.out.contains(QStringLiteral("DESCRIPTION")));
    }

    void theManPageNamesEveryCommandAndCommonOption() {
        const auto page = content(resource(QStringLiteral("man/linnet-cli.1"))).remove(QLatin1Char('\\'));
        const auto help = run(cli(), {QStringLiteral("--help")});
        const auto commands = commandsOf(help.out);
        QVERIFY2(commands.size() >= 15, help.text());
        const auto listed = page.section(QStringLiteral(".SH COMMANDS"), 1).section(QStringLiteral(".SH OPTIONS"), 0, 0);
        for (const auto& command : commands)
            QVERIFY2(QRegularExpression(QStringLiteral("\\b%1\\b").arg(command)).match(listed).hasMatch(), qPrintable(command));
        const auto one = run(cli(), {QStringLiteral("info"), QStringLiteral("--help")});
        auto options = QRegularExpression(QStringLiteral("--[a-z][a-z-]+")).globalMatch(one.out);
        while (options.hasNext()) {
            const auto option = options.next().captured();
            QVERIFY2(page.section(QStringLiteral(".SH OPTIONS"), 1).contains(option), qPrintable(option));
        }
        for (const auto& code : {QStringLiteral("130 cancelled"), QStringLiteral("2 usage")})
            QVERIFY(page.contains(code));
    }

    void theManPageOfTheWindowNamesItsOptions() {
        const auto window = QFileInfo(cli()).absolutePath() + QStringLiteral("/linnet");
        if (!QFile::exists(window))
            QSKIP("built without the window");
        const auto help = run(window, {QStringLiteral("--help")});
        QVERIFY2(help.code == 0, help.text());
        const auto page = content(resource(QStringLiteral("man/linnet.1"))).remove(QLatin1Char('\\'));
        auto options = QRegularExpression(QStringLiteral("(?<![a-z-])--?[a-z][a-z-]*")).globalMatch(help.out.section(QStringLiteral("Options:"), 1));
        int seen = 0;
        for (; options.hasNext(); ++seen) {
            const auto option = options.next().captured();
            QVERIFY2(page.contains(option), qPrintable(option));
        }
        QVERIFY(seen >= 4);
        const auto version = run(window, {QStringLiteral("--version")});
        for (const auto* part : {"Linnet ", "Qt 6", "QCustomPlot 2", "Dear ImGui "})
            QVERIFY2(version.out.contains(QLatin1String(part)), version.text());
    }

    void completes_data() {
        QTest::addColumn<QString>("line");
        QTest::addColumn<QString>("offered"); // all of these
        QTest::addColumn<QString>("absent");  // none of these
        QTest::newRow("commands") << "linnet-cli re" << "resume recipe" << "info";
        QTest::newRow("subcommands") << "linnet-cli recipe " << "new check show diff" << "resume";
        QTest::newRow("options") << "linnet-cli convert --dt" << "--dtype" << "--device";
        QTest::newRow("options of a subcommand") << "linnet-cli recipe new --ke" << "--keep" << "--run";
        QTest::newRow("values") << "linnet-cli info --dtype " << "f32 bf16 f16" << "info";
    }
    void completes() {
        NEEDS("bash");
        QFETCH(QString, line);
        QFETCH(QString, offered);
        QFETCH(QString, absent);
        const auto path = script(QStringLiteral("bash"));
        QVERIFY(!path.isEmpty());
        const auto words = line.split(QLatin1Char(' '));
        const auto said = run(program, {QStringLiteral("--norc"), QStringLiteral("-c"),
                                        QStringLiteral("cd '%1'; . '%2'; COMP_WORDS=(%3); COMP_CWORD=%4; _linnet_cli; printf '%s\\n' \"${COMPREPLY[@]}\"")
                                            .arg(m_place.path(), path, QStringList(words).replaceInStrings(QRegularExpression(QStringLiteral("^$")), QStringLiteral("''")).join(QLatin1Char(' ')))
                                            .arg(words.size() - 1)});
        QVERIFY2(said.clean(), said.text());
        const auto replies = said.out.split(QLatin1Char('\n'));
        for (const auto& word : offered.split(QLatin1Char(' ')))
            QVERIFY2(replies.contains(word), said.text());
        QVERIFY2(!replies.contains(absent), said.text());
    }

    void zshReadsItsScript() {
        NEEDS("zsh");
        const auto path = script(QStringLiteral("zsh"));
        const auto said = run(program, {QStringLiteral("-n"), path});
        QVERIFY2(said.clean(), said.text());
        // the words that the completion would offer after "recipe", with zsh's own functions replaced by ones that print
        const auto offered = run(program, {QStringLiteral("-f"), QStringLiteral("-c"),
                                           QStringLiteral("_describe() { print -l -- ${(P)2} }; _files() { : }; words=(linnet-cli recipe ''); CURRENT=3; PREFIX=''; source '%1'").arg(path)});
        QVERIFY2(offered.clean(), offered.text());
        for (const auto* word : {"new:", "check:", "show:", "diff:"})
            QVERIFY2(offered.out.contains(QLatin1String(word)), offered.text());
        QVERIFY2(!offered.out.contains(QStringLiteral("resume:")), offered.text());
    }

    void fishCompletes() {
        NEEDS("fish");
        const auto path = script(QStringLiteral("fish"));
        const auto offers = [&](const QString& line) { return run(program, {QStringLiteral("--no-config"), QStringLiteral("-c"), QStringLiteral("source '%1'; complete -C '%2'").arg(path, line)}); };
        const auto commands = offers(QStringLiteral("linnet-cli recipe "));
        for (const auto* word : {"new\t", "check\t", "show\t", "diff\t"})
            QVERIFY2(commands.out.contains(QLatin1String(word)), commands.text());
        QVERIFY2(!commands.out.contains(QStringLiteral("resume\t")), commands.text());
        const auto options = offers(QStringLiteral("linnet-cli recipe new --ke"));
        QVERIFY2(options.out.contains(QStringLiteral("--keep")), options.text());
        const auto values = offers(QStringLiteral("linnet-cli info --dtype "));
        QVERIFY2(values.out.contains(QStringLiteral("bf16")), values.text());
    }

    void everythingIsInstalled() {
        NEEDS("cmake");
        const auto build = QFileInfo(cli()).dir().filePath(QStringLiteral(".."));
        const auto prefix = m_place.filePath(QStringLiteral("usr"));
        if (!QFile::exists(build + QStringLiteral("/bin/linnet")) || !QFile::exists(build + QStringLiteral("/resources/completion/linnet-cli")))
            QSKIP("not everything that is installed was built");
        const auto said = run(program, {QStringLiteral("--install"), build, QStringLiteral("--prefix"), prefix});
        QVERIFY2(said.code == 0, said.text());
        const QString share = prefix + QStringLiteral("/share/"), id = QStringLiteral("io.github.linnet.Linnet");
        for (const auto& file : {prefix + QStringLiteral("/bin/linnet"), prefix + QStringLiteral("/bin/linnet-cli"), share + QStringLiteral("applications/") + id + QStringLiteral(".desktop"),
                                 share + QStringLiteral("metainfo/") + id + QStringLiteral(".metainfo.xml"), share + QStringLiteral("mime/packages/") + id + QStringLiteral(".xml"),
                                 share + QStringLiteral("icons/hicolor/scalable/apps/") + id + QStringLiteral(".svg"), share + QStringLiteral("icons/hicolor/256x256/apps/") + id + QStringLiteral(".png"),
                                 share + QStringLiteral("man/man1/linnet.1"), share + QStringLiteral("man/man1/linnet-cli.1"), share + QStringLiteral("bash-completion/completions/linnet-cli"),
                                 share + QStringLiteral("zsh/site-functions/_linnet-cli"), share + QStringLiteral("fish/vendor_completions.d/linnet-cli.fish")})
            QVERIFY2(QFile::exists(file), qPrintable(file));
    }

    void anUnknownShellIsRefused() { QCOMPARE(run(cli(), {QStringLiteral("completion"), QStringLiteral("tcsh")}).code, 2); }
};

QTEST_GUILESS_MAIN(TestCliPackaging)
#include "tst_cli_packaging.moc"
