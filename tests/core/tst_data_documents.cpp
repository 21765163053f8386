// Text files to documents.
#include "core/base/result.h"
#include "core/data/text_data.h"

#include <QDir>
#include <QTemporaryDir>
#include <QTest>

using namespace linnet::core;

class DataDocuments : public QObject {
    Q_OBJECT
private slots:
    void read_data();
    void read();
    void refused_data();
    void refused();
    void folders();
    void severalPaths();
    void wrongPaths_data();
    void wrongPaths();

private:
    std::string write(const QString& name, const QByteArray& bytes) {
        const QString path = m_folder.filePath(name);
        QDir().mkpath(QFileInfo(path).path());
        QFile file(path);
        if (!file.open(QIODevice::WriteOnly) || file.write(bytes) != bytes.size())
            qFatal("can't write %s", qPrintable(path));
        return path.toStdString();
    }
    QTemporaryDir m_folder;
};

namespace {

QStringList documentsOf(const std::vector<std::string>& paths) {
    QStringList list;
    for (const auto& document : readDocuments(paths))
        list << QString::fromStdString(document);
    return list;
}

} // namespace

void DataDocuments::read_data() {
    QTest::addColumn<QString>("name");
    QTest::addColumn<QByteArray>("bytes");
    QTest::addColumn<QStringList>("documents");
    QTest::newRow("plain") << "a.txt" << QByteArray("one\ntwo\n") << QStringList{"one\ntwo\n"};
    QTest::newRow("line ends kept") << "a.txt" << QByteArray("one\r\ntwo\r\n") << QStringList{"one\r\ntwo\r\n"};
    QTest::newRow("byte order mark") << "a.txt" << QByteArray("\xEF\xBB\xBFone") << QStringList{"one"};
    QTest::newRow("mark inside stays") << "a.txt" << QByteArray("a\xEF\xBB\xBF") << QStringList{QString("a") + QChar(0xFEFF)};
    QTest::newRow("four bytes") << "a.txt" << QByteArray("\xF0\x9F\x98\x80")
                                << QStringList{QString::fromUtf8("\xF0\x9F\x98\x80")};
    QTest::newRow("upper case") << "A.TXT" << QByteArray("x") << QStringList{"x"};
    QTest::newRow("jsonl") << "a.jsonl" << QByteArray("{\"text\": \"one\", \"id\": 3}\n{\"text\": \"t\\nwo \\u00e9\"}")
                           << QStringList{"one", "t\nwo é"};
    QTest::newRow("jsonl CRLF, empty lines, mark")
        << "a.jsonl" << QByteArray("\xEF\xBB\xBF{\"text\": \"a\"}\r\n\r\n  \n{\"text\": \"b\"}\r\n") << QStringList{"a", "b"};
    QTest::newRow("jsonl empty text") << "a.jsonl" << QByteArray("{\"text\": \"\"}\n") << QStringList{""};
}

void DataDocuments::read() {
    QFETCH(QString, name);
    QFETCH(QByteArray, bytes);
    QFETCH(QStringList, documents);
    QCOMPARE(documentsOf({write("read/" + name, bytes)}), documents);
}

void DataDocuments::refused_data() {
    QTest::addColumn<QString>("name");
    QTest::addColumn<QByteArray>("bytes");
    QTest::addColumn<QString>("named");
    QTest::newRow("lone byte") << "u.txt" << QByteArray("abc\xFF") << "byte 3";
    QTest::newRow("cut short") << "u.txt" << QByteArray("ab\xE2\x82") << "byte 2";
    QTest::newRow("overlong") << "u.txt" << QByteArray("\xC0\xAF") << "byte 0";
    QTest::newRow("surrogate") << "u.txt" << QByteArray("a\xED\xA0\x80") << "byte 1";
    QTest::newRow("beyond Unicode") << "u.txt" << QByteArray("\xF4\x90\x80\x80") << "byte 0";
    QTest::newRow("latin-1 jsonl") << "u.jsonl" << QByteArray("{\"text\": \"\xE9\"}") << "byte 10";
    QTest::newRow("no JSON") << "l.jsonl" << QByteArray("{\"text\": \"a\"}\nhello\n") << "l.jsonl, line 2";
    QTest::newRow("list") << "l.jsonl" << QByteArray("[1]\n") << "line 1: found a JSON array";
    QTest::newRow("no key") << "l.jsonl" << QByteArray("\n\n{\"content\": \"a\"}\n") << "line 3: found no key text";
    QTest::newRow("number") << "l.jsonl" << QByteArray("{\"text\": 3}\n") << "line 1: found a number under the key text";
    QTest::newRow("null") << "l.jsonl" << QByteArray("{\"text\": null}") << "a null under the key text";
    QTest::newRow("lone surrogate") << "l.jsonl" << QByteArray("{\"text\": \"\\ud800\"}") << "line 1";
    QTest::newRow("nothing") << "l.jsonl" << QByteArray("\n") << "no document";
    QTest::newRow("other extension") << "notes.md" << QByteArray("x") << "\".md\"";
    QTest::newRow("json") << "notes.json" << QByteArray("{}") << "\".json\"";
    QTest::newRow("no extension") << "notes" << QByteArray("x") << "\"\"";
}

void DataDocuments::refused() {
    QFETCH(QString, name);
    QFETCH(QByteArray, bytes);
    QFETCH(QString, named);
    const auto path = write("refused/" + name, bytes);
    const auto result = guarded([&] { return readDocuments({path}); });
    QVERIFY(!result);
    const auto message = QString::fromStdString(result.error().message);
    QVERIFY2(message.contains(name) && message.contains(named), qPrintable(message));
}

void DataDocuments::folders() {
    write("tree/b.txt", "b");
    write("tree/a/z.txt", "az");
    write("tree/a/b.jsonl", "{\"text\": \"j1\"}\n{\"text\": \"j2\"}\n");
    write("tree/c.md", "not text");
    write("tree/.hidden.txt", "hidden");
    write("tree/.git/x.txt", "hidden too");
    QCOMPARE(documentsOf({m_folder.filePath("tree").toStdString()}), (QStringList{"j1", "j2", "az", "b"}));
}

void DataDocuments::severalPaths() {
    const auto first = write("many/2.txt", "two"), second = write("many/1.txt", "one");
    QCOMPARE(documentsOf({first, second}), (QStringList{"two", "one"})); // as given
}

void DataDocuments::wrongPaths_data() {
    QTest::addColumn<QString>("path");
    QTest::addColumn<QString>("named");
    QDir(m_folder.path()).mkpath("empty/inner");
    write("only_md/a.md", "x");
    QTest::newRow("missing") << m_folder.filePath("none.txt") << "none.txt";
    QTest::newRow("empty folder") << m_folder.filePath("empty") << "holds no .txt or .jsonl";
    QTest::newRow("folder of others") << m_folder.filePath("only_md") << "holds no .txt or .jsonl";
}

void DataDocuments::wrongPaths() {
    QFETCH(QString, path);
    QFETCH(QString, named);
    const auto result = guarded([&] { return readDocuments({path.toStdString()}); });
    QVERIFY(!result);
    QCOMPARE(result.error().code, ErrorCode::NotFound);
    const auto message = QString::fromStdString(result.error().message);
    QVERIFY2(message.contains(path) && message.contains(named), qPrintable(message));
}

QTEST_APPLESS_MAIN(DataDocuments)
#include "tst_data_documents.moc"
