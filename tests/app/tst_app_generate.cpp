// The Generate page and its model: what is asked of the worker, what is shown of its answers, where the texts part, and that a stop
// is heard at once. A tiny teacher and its run speak for real.
#include "app/models/session.h"
#include "app/models/settings.h"
#include "app/panels/generate_page.h"
#include "app/panels/generate_text.h"
#include "tests/app/shots.h"
#include "tests/app/tiny_run.h"
#include "widgets/token_view.h"

#include <QCheckBox>
#include <QClipboard>
#include <QComboBox>
#include <QElapsedTimer>
#include <QGuiApplication>
#include <QLabel>
#include <QMenu>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QScrollBar>
#include <QSignalSpy>
#include <QSpinBox>
#include <QStandardPaths>
#include <QToolButton>

using namespace linnet;
using namespace linnet::tests;
using app::kStudent;
using app::kTeacher;

namespace {

core::SpokenToken spoken(std::size_t side, int id, const char* text, double p, bool end = false) {
    return {side, id, text, p, end, 0.25, 12.5};
}

struct Recorder { // in the worker's place
    std::optional<app::Job> job;
    bool free = true;
    app::GenerateModel model{[this](app::Job asked, const QString&) {
        if (free)
            job = std::move(asked);
        return free;
    }};
};

app::JobResult result(std::optional<core::Error> error = {}) {
    app::JobResult made;
    made.kind = app::JobKind::Generate;
    made.error = std::move(error);
    return made;
}

} // namespace

class TestAppGenerate : public QObject {
    Q_OBJECT

    TinyRun m_tiny;
    std::unique_ptr<app::Session> m_session;

    template <typename T> static T* find(QWidget& in, const char* name) {
        auto* found = in.findChild<T*>(QString::fromLatin1(name));
        if (!found)
            qFatal("there is no %s", name);
        return found;
    }
    void open(const QString& path) {
        m_session->openTeacher(path);
        QTRY_VERIFY_WITH_TIMEOUT(m_session->jobState() == app::JobState::Idle, 60000);
        QVERIFY(m_session->teacher());
    }
    void waitForEnd() { QTRY_VERIFY_WITH_TIMEOUT(!m_session->generation()->running(), 60000); }

private Q_SLOTS:
    void initTestCase() {
        QStandardPaths::setTestModeEnabled(true);
        QCoreApplication::setOrganizationName(QStringLiteral("Linnet"));
        QCoreApplication::setApplicationName(QStringLiteral("tst_app_generate"));
        app::Settings().clear();
        LINNET_MAKE_RUN(m_tiny);
        app::Settings().setValue("runs/folder", m_tiny.path("runs"));
    }
    void init() {
        app::Settings().remove("generate");
        m_session = std::make_unique<app::Session>();
    }
    void cleanup() { m_session.reset(); }

    // ---- the model ----------------------------------------------------------------------------------------------------------

    void whatIsAsked() {
        Recorder r;
        app::GenerateSettings settings{QStringLiteral("Hällo"), true, {.tokens = 9, .greedy = false, .temperature = 0.5, .topP = 0.9, .topK = 7, .seed = 11}, QStringLiteral("/runs/a")};
        QVERIFY(r.model.start(settings));
        QCOMPARE(r.job->generating.prompt, std::string("Hällo"));
        QCOMPARE(r.job->generating.student, std::filesystem::path("/runs/a"));
        QCOMPARE(r.job->generating.options.topK, 7);
        QCOMPARE(r.job->generating.options.seed, std::uint64_t(11));
        QVERIFY(!r.job->generating.chat); // this tokenizer has no template
        QVERIFY(r.model.running() && !r.model.start(settings));
        r.model.finish(result());
        r.model.setTeacher(true, true);
        QVERIFY(r.model.start(settings));
        QVERIFY(r.job->generating.chat);
        r.model.finish(result());
        r.free = false;
        QVERIFY(!r.model.start(settings) && !r.model.running());
        QVERIFY(!r.model.start({}));
    }

    void whereTheyPart() {
        Recorder r;
        QVERIFY(r.model.start({QStringLiteral("p"), false, {.tokens = 3}, QStringLiteral("/runs/a")}));
        QSignalSpy spoke(&r.model, &app::GenerateModel::spoke);
        QCOMPARE(int(r.model.side(kTeacher).state), int(app::SideState::Waiting));
        r.model.take({spoken(0, 5, " a", .5), spoken(1, 5, " a", .4)});
        QCOMPARE(spoke.count(), 2);
        QVERIFY(!r.model.parting());
        QCOMPARE(app::GenerateText::parting(r.model), QStringLiteral("The same so far: 1 token"));
        r.model.take({spoken(0, 6, " b", .5), spoken(1, 7, " c", .4)});
        QCOMPARE(r.model.parting(), std::optional(1));
        r.model.take({spoken(0, 8, "\n", .5), spoken(1, 1, "", .4, true)});
        QCOMPARE(int(r.model.side(kTeacher).state), int(app::SideState::Full));
        QCOMPARE(int(r.model.side(kStudent).state), int(app::SideState::Ended));
        QCOMPARE(app::GenerateText::parting(r.model), QStringLiteral("They part at token 2: teacher “ b”, student “ c”"));
        QCOMPARE(app::GenerateText::side(r.model.side(kStudent)), QStringLiteral("3 tokens, end of text · 12.5 tokens/s · prefill 0.25 s"));
        // not judged yet: the other model's probability and KL are dashes
        QCOMPARE(app::GenerateText::token(r.model, kStudent, 1, false), QStringLiteral("Token 2 of the student: “ c”, id 7. Teacher –, student 40.0 %, KL –"));
        auto made = result();
        made.generated.emplace();
        for (const int side : {0, 1})
            for (int i = 0; i < 3; ++i)
                made.generated->scores[std::size_t(side)].push_back({.1 * (i + 1), .2, .034, {{9, " x", .75}, {6, "\n", .125}}, {{7, " c", .2}}});
        r.model.finish(made);
        QVERIFY(r.model.scored() && !r.model.canScore());
        QCOMPARE(app::GenerateText::token(r.model, kTeacher, 2, false),
                 QStringLiteral("Token 3 of the teacher: “\\n”, id 8. Teacher 30.0 %, student 20.0 %, KL 0.034 nats\nTeacher's first choices: “ x” 75.0 %, “\\n” 12.5 %\nStudent's first choices: “ c” 20.0 %"));
        QVERIFY(app::GenerateText::parting(r.model).endsWith(QStringLiteral("(KL 0.034 nats)")));
        QCOMPARE(app::GenerateText::shown(QStringLiteral("a\\\x07")), QStringLiteral("“a\\\\\\x07”"));
        QCOMPARE(app::GenerateText::shown({}), QStringLiteral("a part of a character"));
        const auto lines = app::GenerateText::table(r.model).split('\n');
        QCOMPARE(lines.size(), 8); // head, 2 x 3, and the end
        QCOMPARE(lines[3], QStringLiteral("teacher\t3\t8\t\\n\t0.30000000000000004\t0.2\t0.034"));
    }

    void aStopKeepsTheTextsAndTheyCanBeCompared() {
        Recorder r;
        QVERIFY(r.model.start({QStringLiteral("p"), false, {}, QStringLiteral("/runs/a")}));
        r.model.take({spoken(0, 5, " a", .5), spoken(1, 7, " c", .4)});
        r.model.finish(result(core::Error{core::ErrorCode::Cancelled, "stopped", {}}));
        QCOMPARE(int(r.model.side(kTeacher).state), int(app::SideState::Stopped));
        QCOMPARE(r.model.side(kTeacher).text(), QStringLiteral(" a"));
        QVERIFY(r.model.canScore());
        QVERIFY(r.model.score());
        QVERIFY(r.job->generating.scoreOnly);
        QCOMPARE(r.job->generating.given[kStudent], std::vector<core::TokenId>{7});
        QVERIFY(!r.model.canScore()); // while it is compared
        r.model.setTeacher(true, false);
        QVERIFY(r.model.side(kTeacher).tokens.empty());
    }

    void historyIsKept() {
        {
            Recorder r;
            for (const char* prompt : {"one", "two", "one"}) {
                QVERIFY(r.model.start({QString::fromLatin1(prompt), false, {.tokens = 5, .greedy = false, .temperature = .7, .seed = 18446744073709551615ULL}, {}}));
                r.model.finish(result());
            }
        }
        Recorder again;
        QCOMPARE(again.model.history().size(), 2);
        QCOMPARE(again.model.history()[0].prompt, QStringLiteral("one"));
        QCOMPARE(again.model.history()[0].options.temperature, 0.7);
        QCOMPARE(again.model.history()[0].options.seed, 18446744073709551615ULL);
        again.model.clearHistory();
        QVERIFY(Recorder().model.history().isEmpty());
        QVERIFY(app::historyFromJson("no json").isEmpty() && app::historyFromJson("[{\"prompt\":3},7]").isEmpty());
    }

    // ---- the page, with models that speak ---------------------------------------------------------------------------------------

    void bothSpeakAndPart() {
        app::GeneratePage page(m_session.get());
        page.resize(900, 600);
        page.show();
        QVERIFY(!find<QPushButton>(page, "generateButton")->isEnabled());
        open(m_tiny.teacher());
        page.setStudent(m_tiny.run());
        QVERIFY(!find<QCheckBox>(page, "chatCheck")->isEnabled());
        auto* prompt = find<QPlainTextEdit>(page, "promptEdit");
        prompt->setPlainText(QStringLiteral("the model reads"));
        find<QSpinBox>(page, "tokensSpin")->setValue(24);
        const auto& model = *m_session->generation();
        QTest::keyClick(prompt, Qt::Key_Return, Qt::ControlModifier);
        QVERIFY(model.running());
        QCOMPARE(find<QPushButton>(page, "generateButton")->text(), QStringLiteral("&Stop"));
        waitForEnd();
        core::RunOptions cpu;
        cpu.device = "cpu";
        const QString paths[] = {m_tiny.teacher(), m_tiny.run()};
        for (const std::size_t side : {kTeacher, kStudent}) {
            const auto alone = core::orFail(core::openModel(paths[side].toStdString(), cpu));
            core::GenerateOptions options;
            options.tokens = 24;
            const auto expected = core::orFail(core::generate(*alone, core::modelTokenizer(*alone).encode("the model reads", true), options));
            std::vector<core::TokenId> ids;
            for (const auto& token : model.side(side).tokens) {
                ids.push_back(token.id);
                QVERIFY(token.score && token.score->kl >= 0);
            }
            QCOMPARE(ids, expected.ids);
            const auto* view = find<widgets::TokenView>(page, side == kTeacher ? "teacherView" : "studentView");
            QCOMPARE(view->tokenCount(), int(expected.ids.size()));
            auto text = QStringLiteral("the model reads") + QString::fromStdString(expected.text);
            if (expected.endOfText)
                text += QStringLiteral(" ⏹");
            QCOMPARE(view->toPlainText(), text);
        }
        QVERIFY(model.parting()); // a student of four steps does not say what its teacher says
        QVERIFY(find<QLabel>(page, "partingLabel")->text().startsWith(QStringLiteral("They part at token %1:").arg(*model.parting() + 1)));
        for (const char* name : {"teacherView", "studentView"}) { // both mark that token and no other
            const auto marks = find<widgets::TokenView>(page, name)->extraSelections();
            QCOMPARE(marks.size(), 1);
            const auto& said = model.side(QLatin1String(name) == QLatin1String("teacherView") ? kTeacher : kStudent).tokens;
            auto at = std::size_t(*model.parting());
            while (said[at].text.isEmpty()) // a part of a character: it shows where the character is whole
                ++at;
            QString marked = marks[0].cursor.selectedText();
            QCOMPARE(marked.replace(QChar::ParagraphSeparator, QLatin1Char('\n')), said[at].text);
        }
        QVERIFY(find<QLabel>(page, "teacherTitle")->text().contains(QStringLiteral("tokens/s")));
        shoot(page, QStringLiteral("generate-tiny"));
        QVERIFY(!find<QPushButton>(page, "judgeButton")->isVisible());
        QCOMPARE(model.history()[0].prompt, QStringLiteral("the model reads"));
    }

    void hoverAndCaretTellOfAToken() {
        app::GeneratePage page(m_session.get());
        page.resize(900, 600);
        page.show();
        open(m_tiny.teacher());
        page.setStudent(m_tiny.run());
        find<QPushButton>(page, "generateButton")->click();
        waitForEnd();
        auto* view = find<widgets::TokenView>(page, "teacherView");
        const auto rect = view->tokenRect(0);
        QVERIFY(rect.width() > 2);
        QTest::mouseMove(view->viewport(), rect.center());
        const auto* details = find<QLabel>(page, "tokenDetails");
        QTRY_VERIFY2(details->text().startsWith(QStringLiteral("Token 1 of the teacher: ")), qPrintable(details->text()));
        QVERIFY(details->text().contains(QStringLiteral("KL")) && details->text().contains(QStringLiteral("Student's first choices")));
        auto* student = find<widgets::TokenView>(page, "studentView");
        student->setFocus();
        QTest::keyClick(student, Qt::Key_Home, Qt::ControlModifier);
        for (int i = 0; i < 200 && !details->text().startsWith(QStringLiteral("Token 2 of the student")); ++i)
            QTest::keyClick(student, Qt::Key_Right);
        QVERIFY2(details->text().startsWith(QStringLiteral("Token 2 of the student")), qPrintable(details->text()));
        find<QComboBox>(page, "shadeCombo")->setCurrentIndex(3); // the student's doubt: its greedy words are never certain here
        QTextCursor cursor(student->document());
        cursor.setPosition(QStringLiteral("The invention of the printing press").size() + 1);
        QVERIFY(cursor.charFormat().background().style() == Qt::SolidPattern);
        QGuiApplication::clipboard()->clear();
        auto* copy = find<QToolButton>(page, "copyButton")->menu();
        Q_EMIT copy->aboutToShow();
        copy->actions()[0]->trigger();
        QCOMPARE(QGuiApplication::clipboard()->text(), m_session->generation()->settings().prompt + m_session->generation()->side(kTeacher).text());
    }

    void theTextsScrollTogether() {
        app::GeneratePage page(m_session.get());
        page.resize(700, 340);
        page.show();
        open(m_tiny.teacher());
        page.setStudent(m_tiny.teacher()); // it does not end early
        find<QSpinBox>(page, "tokensSpin")->setValue(600);
        find<QPushButton>(page, "generateButton")->click();
        waitForEnd();
        auto *a = find<widgets::TokenView>(page, "teacherView")->verticalScrollBar(), *b = find<widgets::TokenView>(page, "studentView")->verticalScrollBar();
        QVERIFY2(a->maximum() > 20 && b->maximum() > 20, qPrintable(QStringLiteral("the texts are too short to scroll: %1, %2, page %3 high").arg(a->maximum()).arg(b->maximum()).arg(page.height())));
        a->setValue(0);
        QCOMPARE(b->value(), 0);
        b->setValue(15);
        QCOMPARE(a->value(), 15);
    }

    void promptsComeBackByKey() {
        app::GeneratePage page(m_session.get());
        open(m_tiny.teacher());
        auto* prompt = find<QPlainTextEdit>(page, "promptEdit");
        find<QSpinBox>(page, "tokensSpin")->setValue(1);
        for (const char* text : {"first", "second"}) {
            prompt->setPlainText(QString::fromLatin1(text));
            find<QPushButton>(page, "generateButton")->click();
            waitForEnd();
        }
        prompt->setPlainText(QStringLiteral("third"));
        QTest::keyClick(prompt, Qt::Key_Up, Qt::ControlModifier);
        QCOMPARE(prompt->toPlainText(), QStringLiteral("second"));
        QTest::keyClick(prompt, Qt::Key_Up, Qt::ControlModifier);
        QCOMPARE(prompt->toPlainText(), QStringLiteral("first"));
        QTest::keyClick(prompt, Qt::Key_Down, Qt::ControlModifier);
        QCOMPARE(prompt->toPlainText(), QStringLiteral("second"));
    }

    void anExportedFolderSpeaksAsItsRun() {
        const auto out = m_tiny.path("exported");
        QVERIFY(core::exportModel(m_tiny.run().toStdString(), out.toStdString(), {}, {"cpu", "", 1, false}));
        open(m_tiny.teacher());
        auto& model = *m_session->generation();
        QStringList texts;
        for (const auto& student : {m_tiny.run(), out}) {
            QVERIFY(model.start({QStringLiteral("the state"), false, {.tokens = 20}, student}));
            waitForEnd();
            QVERIFY(model.scored());
            texts << model.side(kStudent).text();
        }
        QVERIFY(!texts[0].isEmpty());
        QCOMPARE(texts[1], texts[0]);
    }

    void aStudentThatIsNoneIsSaid() {
        open(m_tiny.teacher());
        QSignalSpy failed(m_session.get(), &app::Session::failed);
        QVERIFY(m_session->generation()->start({QStringLiteral("a"), false, {}, QStringLiteral("/no/such/run")}));
        waitForEnd();
        QCOMPARE(failed.count(), 1);
        QCOMPARE(int(m_session->generation()->side(kTeacher).state), int(app::SideState::Failed));
    }

    void aStopIsHeardAtOnce() {
        const auto teacher = qEnvironmentVariable("LINNET_TEACHER");
        if (teacher.isEmpty())
            QSKIP("LINNET_TEACHER is not set: the tiny teacher is too quick to be stopped");
        app::GeneratePage page(m_session.get());
        page.show();
        open(teacher);
        QVERIFY(find<QCheckBox>(page, "chatCheck")->isEnabled()); // SmolLM2-Instruct has a template
        QCOMPARE(find<QComboBox>(page, "studentCombo")->currentText(), QStringLiteral("no run is chosen")); // that of another teacher is not this one's
        find<QSpinBox>(page, "tokensSpin")->setValue(2000);
        auto* button = find<QPushButton>(page, "generateButton");
        button->click();
        const auto& model = *m_session->generation();
        QTRY_VERIFY_WITH_TIMEOUT(model.side(kTeacher).tokens.size() > 3, 60000);
        QElapsedTimer clock;
        clock.start();
        button->click();
        QVERIFY(!button->isEnabled() && button->text() == QStringLiteral("Stopping..."));
        QVERIFY2(clock.elapsed() < 200, qPrintable(QString::number(clock.elapsed())));
        QTRY_VERIFY_WITH_TIMEOUT(!model.running(), 5000);
        QVERIFY2(clock.elapsed() < 1000, qPrintable(QString::number(clock.elapsed())));
        QCOMPARE(int(model.side(kTeacher).state), int(app::SideState::Stopped));
        QVERIFY(button->isEnabled());
    }

    void nothingIsClippedInANarrowWindow() {
        app::GeneratePage page(m_session.get());
        QVERIFY2(page.minimumSizeHint().width() <= 660, qPrintable(QString::number(page.minimumSizeHint().width())));
    }
};

QTEST_MAIN(TestAppGenerate)
#include "tst_app_generate.moc"
