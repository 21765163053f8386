// Chat templates against transformers' apply_chat_template, and what is refused.
#include "core/base/files.h"
#include "core/base/json.h"
#include "core/base/result.h"
#include "core/io/chat_template.h"

#include <QtTest>

using namespace linnet::core;

class ChatTemplateTest : public QObject {
    Q_OBJECT

private slots:
    void transformersText();
    void errors_data();
    void errors();
    void bounded_data();
    void bounded();
};

void ChatTemplateTest::transformersText() {
    const QString python = qEnvironmentVariable("LINNET_ORACLE_PYTHON");
    if (python.isEmpty())
        QSKIP("LINNET_ORACLE_PYTHON is not set: no transformers to compare with");
    const QTemporaryDir folder;
    const QString file = folder.filePath("cases.json");
    QStringList arguments{qEnvironmentVariable("LINNET_SOURCE") + "/tests/support/make_chat_cases.py", file};
    if (const QString teacher = qEnvironmentVariable("LINNET_TEACHER"); !teacher.isEmpty())
        arguments << teacher;
    QProcess process;
    process.setProcessChannelMode(QProcess::ForwardedErrorChannel);
    process.start(python, arguments);
    QVERIFY(process.waitForFinished(300000));
    QCOMPARE(process.exitCode(), 0);

    const Json cases = readJsonFile(file.toStdString());
    QVERIFY(cases.size() > 500);
    int failed = 0, errors = 0;
    for (const Json& item : cases) {
        ChatInput input{{}, item["prompt"].get<bool>(), {{"bos_token", "<s>"}, {"eos_token", "</s>"}}};
        for (const Json& message : item["messages"])
            input.messages.push_back({message["role"].get<std::string>(), message["content"].get<std::string>()});
        const auto source = item["template"].get<std::string>();
        const auto text = guarded([&] { return renderChatTemplate(source, input, "model"); });
        errors += item.contains("error");
        if (item.contains("text") ? text && *text == item["text"].get<std::string>() : !text)
            continue;
        if (++failed > 5)
            continue;
        qWarning().noquote() << QString::fromStdString(item.dump(1).substr(0, 2000))
                             << "\nfound:" << QString::fromStdString(text ? *text : text.error().message);
    }
    QCOMPARE(failed, 0);
    QVERIFY(errors > 50 && errors < static_cast<int>(cases.size()) / 2); // templates that must fail are among them
}

void ChatTemplateTest::errors_data() {
    QTest::addColumn<QString>("source");
    QTest::addColumn<int>("code");
    QTest::addColumn<QString>("names");
    const int unsupported = static_cast<int>(ErrorCode::Unsupported), malformed = static_cast<int>(ErrorCode::Malformed);
    QTest::newRow("raise") << "a\n{{ raise_exception('no tools') }}" << static_cast<int>(ErrorCode::Usage)
                           << "line 2: the template refuses the messages: no tools";
    QTest::newRow("filter") << "{{ 'a' | wordwrap }}" << unsupported << "the filter \"wordwrap\"";
    QTest::newRow("test") << "{{ 'a' is upper }}" << unsupported << "the test \"upper\"";
    QTest::newRow("method") << "{{ 'a'.zfill(3) }}" << unsupported << "the method str.zfill";
    QTest::newRow("append") << "{{ messages.append(1) }}" << unsupported << "the method list.append";
    QTest::newRow("function") << "\n\n{{ lipsum(3) }}" << unsupported << "line 3: the function \"lipsum\"";
    QTest::newRow("tag") << "{% include 'x' %}" << unsupported << "{% include %}";
    QTest::newRow("raw") << "{% raw %}{{ x }}{% endraw %}" << unsupported << "{% raw %}";
    QTest::newRow("power") << "{{ 2 ** 3 }}" << unsupported << "**";
    QTest::newRow("recursive") << "{% for x in [] recursive %}{% endfor %}" << unsupported << "recursive";
    QTest::newRow("format") << "{{ '%s' % 1 }}" << unsupported << "formatting";
    QTest::newRow("star") << "{{ range(*[1]) }}" << unsupported << "argument list";
    QTest::newRow("undefined") << "\n{{ tools_x.y }}" << malformed << "line 2: \"tools_x\" is undefined";
    QTest::newRow("dict is fixed") << "{% set messages.x = 1 %}" << malformed << "is no namespace";
    QTest::newRow("unclosed") << "a\nb {{ x" << malformed << "line 2: a tag is not closed";
    QTest::newRow("bracket") << "{{ [1) }}" << malformed << "unexpected ')'";
    QTest::newRow("no end") << "{% if 1 %}" << malformed << "before {% endif %}";
    QTest::newRow("break outside") << "{% break %}" << malformed << "outside of a loop";
}

void ChatTemplateTest::errors() {
    QFETCH(QString, source);
    QFETCH(int, code);
    QFETCH(QString, names);
    const auto text = guarded([&] {
        return renderChatTemplate(source.toStdString(), {{{"user", "x"}}, false, {}}, "file.gguf");
    });
    QVERIFY(!text);
    QCOMPARE(static_cast<int>(text.error().code), code);
    QVERIFY2(text.error().message.starts_with("file.gguf: chat template, line "), text.error().message.c_str());
    QVERIFY2(QString::fromStdString(text.error().message).contains(names), text.error().message.c_str());
}

// Templates come with the models: none may hang or fell the program.
void ChatTemplateTest::bounded_data() {
    QTest::addColumn<QString>("source");
    QTest::newRow("endless work") << "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
    QTest::newRow("long lists") << "{% for a in range(99999) %}{{ range(99999) | length }}{% endfor %}";
    QTest::newRow("growing text")
        << "{% set n = namespace(x='ab') %}{% for a in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}";
    QTest::newRow("repeated text") << "{{ 'abc' * 999999999999 }}";
    QTest::newRow("endless macro") << "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}";
    QTest::newRow("nested lists")
        << "{% set n = namespace(x=[]) %}{% for a in range(9999) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x }}";
    QTest::newRow("itself") << "{% set n = namespace(x=1) %}{% set n.x = n %}{{ n }}";
    QTest::newRow("parentheses") << "{{ " + QString("(").repeated(100000) + " }}";
    QTest::newRow("signs") << "{{ " + QString("-").repeated(100000) + "1 }}";
    QTest::newRow("nots") << "{{ " + QString("not ").repeated(100000) + "1 }}";
    QTest::newRow("sum") << "{{ 1" + QString(" + 1").repeated(100000) + " }}";
    QTest::newRow("filters") << "{{ 1" + QString(" | string").repeated(100000) + " }}";
    QTest::newRow("ifs") << QString("{% if 1 %}").repeated(100000);
    QTest::newRow("big numbers") << "{{ 999999999999999999 * 999999999999999999 }}";
}

void ChatTemplateTest::bounded() {
    QFETCH(QString, source);
    const auto text = guarded([&] { return renderChatTemplate(source.toStdString(), {{{"user", "x"}}, false, {}}, "m"); });
    QVERIFY(!text);
    QCOMPARE(static_cast<int>(text.error().code), static_cast<int>(ErrorCode::Malformed));
}

QTEST_APPLESS_MAIN(ChatTemplateTest)
#include "tst_io_chat_template.moc"
