// The whole job by mouse and keyboard on the real teacher: what a person does, found by object names.
#include "app/main_window.h"
#include "app/models/settings.h"
#include "app/models/target_table_model.h"
#include "widgets/head_heat_map.h"

#include <QAction>
#include <QCheckBox>
#include <QComboBox>
#include <QDialog>
#include <QElapsedTimer>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QPushButton>
#include <QSignalSpy>
#include <QSpinBox>
#include <QTableView>
#include <QTabWidget>
#include <QTableWidget>
#include <QTemporaryDir>
#include <QTest>
#include <QToolBar>
#include <QToolButton>
#include <QWizard>
#include <algorithm>

using namespace linnet;
using app::HeadId;
using app::JobState;
using Targets = app::TargetTableModel;

namespace {

QTemporaryDir& place() { // made before the application: settings, autosave, cache and runs lie here
    static QTemporaryDir dir;
    return dir;
}

class Heartbeat : public QObject { // how long the window's thread was away at most
public:
    Heartbeat() {
        m_timer.setTimerType(Qt::PreciseTimer);
        connect(&m_timer, &QTimer::timeout, this, [this] { m_longest = std::max(m_longest, m_clock.restart()); });
        m_clock.start();
        m_timer.start(5);
    }
    qint64 longest() { return std::exchange(m_longest, 0); } // ms since the last call

private:
    QTimer m_timer;
    QElapsedTimer m_clock;
    qint64 m_longest = 0;
};

constexpr int kLong = 180'000, kShort = 10'000; // ms; a loaded machine
constexpr qint64 kLongestGap = 250;             // ms; 50 on an idle machine

} // namespace

class TestAppWholeJob : public QObject {
    Q_OBJECT

    std::unique_ptr<app::MainWindow> m_window;
    std::unique_ptr<Heartbeat> m_heart;

    app::Session& session() { return *m_window->session(); }
    template <typename T = QWidget>
    T* find(const char* name) {
        auto* found = m_window->findChild<T*>(QString::fromLatin1(name));
        if (!found)
            qFatal("the window has no %s", name);
        return found;
    }
    void click(const char* name) { QTest::mouseClick(find(name), Qt::LeftButton); }
    void clickTool(const QString& start) { // a button of the tool bar by its first word
        for (auto* button : find<QToolBar>("mainToolBar")->findChildren<QToolButton*>())
            if (button->text().startsWith(start))
                return QTest::mouseClick(button, Qt::LeftButton);
        qFatal("the tool bar has no %s", qPrintable(start));
    }
    void type(const char* name, const QString& text) {
        auto* field = find(name);
        QTest::keyClick(field, Qt::Key_A, Qt::ControlModifier);
        QTest::keyClicks(field, text);
        QTest::keyClick(field, Qt::Key_Return);
    }
    bool idle() { return session().jobState() == JobState::Idle; }
    QListWidgetItem* runItem(const QString& state) {
        auto* list = find<QListWidget>("runList");
        for (int i = 0; i < list->count(); ++i)
            if (list->item(i)->text().contains(QLatin1Char(' ') + state))
                return list->item(i);
        return nullptr;
    }
    void noBox() { // an error box says what went wrong
        for (auto* box : m_window->findChildren<QDialog*>(QStringLiteral("errorBox")))
            QFAIL(qPrintable(box->findChild<QLabel*>(QStringLiteral("qt_msgbox_label"))->text()));
    }
    void checkHeart(const char* during) {
        const auto gap = m_heart->longest();
        qInfo("window's longest absence during %s: %lld ms", during, gap);
        QVERIFY2(gap < kLongestGap, during);
    }

public:
    static void initMain() {
        for (const char* variable : {"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"})
            qputenv(variable, (place().path() + QLatin1Char('/') + QString::fromLatin1(variable)).toLocal8Bit());
        QCoreApplication::setOrganizationName(QStringLiteral("Linnet"));
        QCoreApplication::setApplicationName(QStringLiteral("tst_app_whole_job"));
    }

private Q_SLOTS:
    void initTestCase() {
        if (qEnvironmentVariableIsEmpty("LINNET_TEACHER") || qEnvironmentVariableIsEmpty("LINNET_TEXT"))
            QSKIP("LINNET_TEACHER and LINNET_TEXT name no teacher and text");
        app::Settings().setValue(QStringLiteral("runs/folder"), place().filePath(QStringLiteral("runs")));
        m_window = std::make_unique<app::MainWindow>();
        for (const auto& used : {session().runsFolder(), app::Settings::fileName(), session().recipe()->autosaveFile()})
            QVERIFY2(used.startsWith(place().path()), qPrintable(used)); // nothing of the person's own is touched
        m_window->show();
        QVERIFY(QTest::qWaitForWindowExposed(m_window.get()));
        m_heart = std::make_unique<Heartbeat>();
    }
    void cleanupTestCase() {
        m_heart.reset();
        m_window.reset();
    }

    void openTheDefaultTeacher() {
        QTest::mouseClick(find("emptyProject")->findChild<QPushButton*>(), Qt::LeftButton);
        QCOMPARE(session().jobState(), JobState::Running);
        QTRY_VERIFY_WITH_TIMEOUT(idle(), kLong);
        noBox();
        QVERIFY(find("teacherCard")->isVisible());
        QVERIFY(find<QLabel>("teacherFacts")->text().contains(QStringLiteral("134,515,008"))); // as the model's authors count
        checkHeart("opening");
    }

    void profileIt() {
        const std::pair<const char*, const char*> fields[] = {{"seqLenSpin", "128"}, {"calibrationSpin", "2048"}, {"selectionSpin", "256"},
                                                              {"evaluationSpin", "512"}, {"stepsSpin", "3"}, {"batchSpin", "2"}};
        for (const auto& [name, value] : fields)
            type(name, QString::fromLatin1(value));
        const auto& recipe = session().recipe()->recipe();
        QCOMPARE((std::vector<std::int64_t>{recipe.seqLen, recipe.calibrationTokens, recipe.selectionTokens, recipe.evaluationTokens, recipe.align.steps, recipe.align.batch}),
                 (std::vector<std::int64_t>{128, 2048, 256, 512, 3, 2}));
        m_heart->longest(); // typing is not measured: a key and its command come in one call
        click("profileButton");
        QCOMPARE(session().jobState(), JobState::Running);
        QTRY_VERIFY_WITH_TIMEOUT(idle(), kLong);
        noBox();
        checkHeart("profiling");
        const auto* profile = session().profile();
        QVERIFY(profile);
        QCOMPARE(profile->tokens, std::int64_t(2048));
        using Head = core::HeadProfile;
        const std::pair<const char*, double (*)(const Head&)> maps[] = {{"distanceMap", [](const Head& h) { return h.distanceNoSink.mean; }}, // this teacher rests on its first tokens
                                                                        {"concentrationMap", [](const Head& h) { return h.concentrationAbsolute; }},
                                                                        {"scaleMap", [](const Head& h) { return h.rmsPostO; }}};
        const QRegularExpression number(QStringLiteral(": ([-+.0-9e]+)( tokens)?$"));
        for (const auto& [name, of] : maps) {
            auto* map = find<widgets::HeadHeatMap>(name);
            QCOMPARE(map->data().layers, 30);
            QCOMPARE(map->data().heads, 9);
            for (int l = 0; l < 30; ++l)
                for (int h = 0; h < 9; ++h) {
                    const double exact = of(profile->layers[std::size_t(l)][std::size_t(h)]);
                    QVERIFY(std::isfinite(exact));
                    QCOMPARE(map->value(l, h), exact);
                    const auto match = number.match(map->tooltipText(l, h));
                    QVERIFY2(match.hasMatch(), qPrintable(map->tooltipText(l, h)));
                    QVERIFY(std::abs(match.captured(1).toDouble() - exact) <= 1e-5 * std::abs(exact) + 1e-12);
                }
        }
    }

    void measureWhichLayers() {
        m_heart->longest();
        find<QTabWidget>("pages")->setCurrentWidget(find("layersPage"));
        auto* method = find<QComboBox>("methodCombo");
        method->setFocus();
        while (method->currentText() != QLatin1String("bypass"))
            QTest::keyClick(method, method->currentText() == QLatin1String("uniform") ? Qt::Key_Down : Qt::Key_Up);
        type("keepCountSpin", QStringLiteral("28"));
        click("measureButton");
        QCOMPARE(session().jobState(), JobState::Running);
        QCOMPARE(find<QPushButton>("measureButton")->text(), QStringLiteral("Stop"));
        QTRY_VERIFY_WITH_TIMEOUT(idle(), kLong);
        noBox();
        checkHeart("choosing layers");
        QVERIFY(session().ranking());
        QCOMPARE(session().ranking()->ranking.size(), std::size_t(30));
        QCOMPARE(session().recipe()->converted()->size(), std::size_t(2));
        QVERIFY(session().recipe()->recipe().keep.text().starts_with("layers:"));
        auto* table = find<QTableView>("layersTable");
        for (int row = 0; row < 30; ++row)
            QVERIFY(std::isfinite(table->model()->index(row, 2).data().toString().toDouble()));
        clickTool(QStringLiteral("Undo"));
        QVERIFY(!session().recipe()->converted() || session().recipe()->converted()->size() != 2);
        find<QTabWidget>("pages")->setCurrentIndex(0);
    }

    void chooseLayers() {
        session().recipe()->setConverted({}, QStringLiteral("none"));
        auto* map = find<widgets::HeadHeatMap>("distanceMap");
        for (const int layer : {11, 20})
            QTest::mouseClick(map, Qt::LeftButton, {}, map->tickRect(layer).center());
        QCOMPARE(*session().recipe()->converted(), (std::vector<std::int64_t>{11, 20}));
        QVERIFY(find<QLabel>("layerSummary")->text().contains(QStringLiteral("2 of 30 layers will be converted")));
    }

    void editATarget() {
        auto* map = find<widgets::HeadHeatMap>("scaleMap");
        QTest::mouseClick(map, Qt::LeftButton, {}, map->cellCenter(11, 4));
        QCOMPARE(session().selection()->primary(), (HeadId{11, 4}));
        auto* table = find<QTableView>("targetsTable");
        QCOMPARE(table->model()->rowCount(), 4);
        const auto cell = table->model()->index(0, Targets::User);
        const auto at = table->visualRect(cell).center();
        QTest::mouseClick(table->viewport(), Qt::LeftButton, {}, at);
        QTest::mouseDClick(table->viewport(), Qt::LeftButton, {}, at);
        auto* editor = table->findChild<QLineEdit*>();
        QVERIFY(editor);
        QTest::keyClick(editor, Qt::Key_A, Qt::ControlModifier);
        QTest::keyClicks(editor, QStringLiteral("12.5"));
        QTest::keyClick(editor, Qt::Key_Return);
        const auto halfLife = [this] { return session().recipe()->target({11, 4}).halfLife; };
        QTRY_VERIFY(halfLife() == 12.5);
        QCOMPARE(cell.data().toString(), QStringLiteral("12.5"));
        clickTool(QStringLiteral("Undo"));
        QVERIFY(!halfLife());
        clickTool(QStringLiteral("Redo"));
        QVERIFY(halfLife() == 12.5);
        auto* probe = find<QLabel>("targetsProbe"); // what it costs, measured beside the window's work
        QTRY_VERIFY_WITH_TIMEOUT(probe->text().contains(QStringLiteral("L11 H4: residual 0.")), kLong);
        QVERIFY2(probe->text().contains(QStringLiteral("automatic 0.")), qPrintable(probe->text()));
        QVERIFY(idle());
        qInfo("%s", qPrintable(probe->text()));
        checkHeart("probing");
    }

    void convertWithAPause() {
        m_heart->longest();
        QSignalSpy metrics(&session(), &app::Session::metricsAppended);
        click("runButton");
        QTRY_VERIFY_WITH_TIMEOUT(!metrics.isEmpty() || idle(), kLong);
        noBox();
        QVERIFY(!idle());
        click("pauseButton");
        QCOMPARE(session().jobState(), JobState::Paused);
        QTest::qWait(1500); // to the worker's next check
        const auto frozen = session().jobTitle();
        const auto fraction = session().jobFraction();
        QTest::qWait(1000);
        QVERIFY(session().jobState() == JobState::Paused && session().jobTitle() == frozen && session().jobFraction() == fraction);
        QCOMPARE(find<QPushButton>("pauseButton")->text(), QStringLiteral("Continue"));
        click("pauseButton");
        QCOMPARE(session().jobState(), JobState::Running);
        QTRY_VERIFY_WITH_TIMEOUT(idle(), kLong);
        noBox();
        checkHeart("converting");
        const auto run = session().currentRun();
        QCOMPARE(run->state, QStringLiteral("done"));
        QCOMPARE(run->report->convertedLayers, (std::vector<std::int64_t>{11, 20}));
        QCOMPARE(std::count_if(run->metrics.begin(), run->metrics.end(), [](const auto& row) { return row.layer == 11; }), 3);
    }

    void theEvaluationIsShown() {
        auto* table = find("evaluationPanel")->findChild<QTableWidget*>();
        auto* pages = find<QTabWidget>("pages"); // the run left the eye where it was, and marks the page
        for (int i = 0; i < pages->count(); ++i)
            if (pages->widget(i)->isAncestorOf(table)) {
                QVERIFY2(pages->tabText(i).contains(QStringLiteral("•")), qPrintable(pages->tabText(i)));
                pages->setCurrentIndex(i);
            }
        QVERIFY(table->isVisible());
        for (const int row : {0, 1, 2, 3})
            QVERIFY2(table->item(row, 1)->text().toDouble() > 1, qPrintable(table->item(row, 0)->text()));
        const double teacher = table->item(0, 1)->text().toDouble(), student = table->item(3, 1)->text().toDouble();
        QVERIFY2(teacher < 200 && student < 10 * teacher, qPrintable(QStringLiteral("%1 %2").arg(teacher).arg(student)));
    }

    void exportTheStudent() {
        m_heart->longest();
        click("exportButton");
        auto* dialog = find<QWizard>("exportWizard");
        const auto next = [dialog] { QTest::mouseClick(dialog->button(QWizard::NextButton), Qt::LeftButton); };
        QTRY_VERIFY(dialog->button(QWizard::NextButton)->isEnabled());
        next();
        const auto folder = place().filePath(QStringLiteral("student-hf"));
        auto* edit = dialog->findChild<QLineEdit*>(QStringLiteral("folderEdit"));
        QTest::keyClick(edit, Qt::Key_A, Qt::ControlModifier);
        QTest::keyClicks(edit, folder);
        next();
        next();
        const auto* result = dialog->findChild<QLabel*>(QStringLiteral("resultLabel"));
        QTRY_VERIFY_WITH_TIMEOUT(idle(), kLong);
        QTRY_VERIFY2(result->text().contains(QStringLiteral("top-1 agreement 1.0000")), qPrintable(result->text()));
        QVERIFY(QFile::exists(folder + QStringLiteral("/config.json")));
        checkHeart("exporting");
        dialog->close();
    }

    void stopAndResume() {
        type("stepsSpin", QStringLiteral("60"));
        m_heart->longest();
        QSignalSpy metrics(&session(), &app::Session::metricsAppended);
        click("runButton");
        metrics.clear(); // of the run shown before
        QTRY_VERIFY_WITH_TIMEOUT(!metrics.isEmpty() || idle(), kLong);
        noBox();
        QElapsedTimer clock;
        clock.start();
        click("stopButton");
        QCOMPARE(session().jobState(), JobState::Stopping);
        QCOMPARE(find<QPushButton>("stopButton")->text(), QStringLiteral("Discard...")); // a second press
        const auto acknowledged = clock.elapsed();
        QVERIFY2(acknowledged < 200, qPrintable(QString::number(acknowledged)));
        QTRY_VERIFY_WITH_TIMEOUT(idle(), kShort);
        qInfo("stop: acknowledged in %lld ms, done in %lld ms", acknowledged, clock.elapsed());
        noBox();
        const auto run = session().currentRun();
        QCOMPARE(run->state, QStringLiteral("stopped"));
        const auto before = run->metrics.size();
        QVERIFY(before < 120);

        auto* list = find<QListWidget>("runList");
        auto* item = runItem(QStringLiteral("stopped"));
        QVERIFY(item);
        list->scrollToItem(item);
        QTest::mouseClick(list->viewport(), Qt::LeftButton, {}, list->visualItemRect(item).center());
        click("resumeButton");
        QCOMPARE(session().jobState(), JobState::Running);
        QTRY_VERIFY_WITH_TIMEOUT(idle(), kLong);
        noBox();
        checkHeart("stop and resume");
        QCOMPARE(run->state, QStringLiteral("done"));
        for (const int layer : {11, 20}) // nothing lost, nothing twice
            QCOMPARE(std::count_if(run->metrics.begin(), run->metrics.end(), [layer](const auto& row) { return row.layer == layer; }), 60);
        QVERIFY(run->evaluation.contains("student"));
        QCOMPARE(list->count(), 2);
    }
};

QTEST_MAIN(TestAppWholeJob)
#include "tst_app_whole_job.moc"
