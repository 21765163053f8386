// The export wizard on a tiny run: what it offers, what it refuses, that nothing is overwritten or left half-written, and that what
// it says of the result is so. And every plot's way to a file.
#include "app/models/session.h"
#include "app/models/settings.h"
#include "app/panels/export_pages.h"
#include "app/panels/plot_export_menu.h"
#include "tests/app/shots.h"
#include "tests/app/tiny_run.h"
#include "widgets/curve_plot.h"
#include "widgets/distance_histogram.h"
#include "widgets/head_heat_map.h"
#include "widgets/keep_curve.h"
#include "widgets/metric_histogram.h"

#include <QAbstractButton>
#include <QCheckBox>
#include <QClipboard>
#include <QComboBox>
#include <QGuiApplication>
#include <QImage>
#include <QLabel>
#include <QLineEdit>
#include <QMainWindow>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QRegularExpression>
#include <QSignalSpy>
#include <QStandardPaths>
#include <QTableWidget>
#include <QVBoxLayout>

using namespace linnet;
using namespace linnet::tests;

class TestAppExport : public QObject {
    Q_OBJECT

    TinyRun m_tiny;
    std::unique_ptr<app::Session> m_session;
    std::unique_ptr<app::ExportWizard> m_wizard;

    template <typename T> T* find(const char* name) { return findIn<T>(*m_wizard, name); }
    template <typename T> static T* findIn(QWidget& in, const char* name) {
        auto* found = in.findChild<T*>(QString::fromLatin1(name));
        if (!found)
            qFatal("there is no %s", name);
        return found;
    }
    bool canGoOn() { return m_wizard->button(QWizard::NextButton)->isEnabled(); }
    void begin(const QString& run) {
        m_wizard = std::make_unique<app::ExportWizard>(m_session.get(), run);
        m_wizard->show();
        QSignalSpy read(m_wizard.get(), &app::ExportWizard::studentRead);
        QVERIFY(read.wait(20000));
    }
    void toLastPage(const QString& folder) {
        m_wizard->next();
        find<QLineEdit>("folderEdit")->setText(folder);
        QVERIFY2(canGoOn(), qPrintable(find<QLabel>("folderProblem")->text()));
        m_wizard->next();
        QVERIFY(canGoOn());
        m_wizard->next();
    }
    QStringList beside(const QString& folder) { // what stands under the folder's name, part files included
        const QFileInfo file(folder);
        return QDir(file.path()).entryList({file.fileName() + QStringLiteral("*")}, QDir::AllEntries | QDir::Hidden | QDir::NoDotAndDotDot);
    }

private Q_SLOTS:
    void initTestCase() {
        QStandardPaths::setTestModeEnabled(true);
        QCoreApplication::setOrganizationName(QStringLiteral("Linnet"));
        QCoreApplication::setApplicationName(QStringLiteral("tst_app_export"));
        app::Settings().clear();
        LINNET_MAKE_RUN(m_tiny);
        app::Settings().setValue("runs/folder", m_tiny.path("runs"));
    }
    void init() { m_session = std::make_unique<app::Session>(); }
    void cleanup() {
        m_wizard.reset();
        m_session.reset();
    }

    void whatItOffers() {
        begin(m_tiny.run());
        auto* formats = find<QTableWidget>("formatTable");
        const auto info = core::orFail(core::readModelInfo(m_tiny.run().toStdString()));
        QCOMPARE(formats->rowCount(), int(info.exports.size()));
        for (int row = 0; row < formats->rowCount(); ++row) {
            const auto& choice = info.exports[std::size_t(row)];
            QCOMPARE(formats->item(row, 0)->flags().testFlag(Qt::ItemIsEnabled), choice.available());
            QCOMPARE(formats->item(row, 3)->text(), QString::fromStdString(choice.reason)); // why, or why not
            QCOMPARE(formats->item(row, 1)->text(), QString::fromLatin1(core::fidelityName(choice.fidelity)));
            QCOMPARE(formats->item(row, 2)->text(), QString::fromLatin1(core::fidelityName(choice.in16Bits)));
        }
        QCOMPARE(formats->currentRow(), 0); // hf: the one that there is
        QCOMPARE(find<QLabel>("layersLabel")->text(), QStringLiteral("2 gated_delta_net, 2 softmax (0, 2)"));
        QVERIFY(info.tokenizerVocabSize > 200 && find<QLabel>("tokenizerLabel")->text().contains(QStringLiteral("%1 tokens").arg(info.tokenizerVocabSize)));
        QVERIFY(canGoOn());
        shoot(*m_wizard, QStringLiteral("export-1-what"));
    }

    void eachFormatHasItsOwnChoices() {
        begin(m_tiny.run());
        auto* formats = find<QTableWidget>("formatTable");
        auto* dtypes = find<QComboBox>("dtypeCombo");
        auto* lift = find<QCheckBox>("liftCheck");
        const auto info = core::orFail(core::readModelInfo(m_tiny.run().toStdString()));
        int lifted = 0;
        for (int row = 0; row < formats->rowCount(); ++row) {
            const auto& choice = info.exports[std::size_t(row)];
            if (!choice.available())
                continue;
            formats->selectRow(row);
            QCOMPARE(dtypes->findData(QStringLiteral("q8_0")) >= 0, choice.format == "gguf");
            QCOMPARE(dtypes->findData(QStringLiteral("f16")) >= 0, choice.fidelity != core::Fidelity::Lifted);
            QCOMPARE(lift->isVisible(), choice.fidelity == core::Fidelity::Lifted);
            if (!lift->isVisible()) {
                QVERIFY2(canGoOn() && !m_wizard->plan().options.lift, choice.format.c_str());
                continue;
            }
            ++lifted;
            QVERIFY(!canGoOn()); // its cost is to be agreed to
            QVERIFY(find<QLabel>("liftCost")->isVisible() && find<QLabel>("liftCost")->text().startsWith(QString::fromStdString(choice.reason)) && find<QLabel>("liftCost")->text().contains(QStringLiteral("Tick Lift")));
            lift->setChecked(true);
            QVERIFY(canGoOn() && !find<QLabel>("liftCost")->text().contains(QStringLiteral("Tick Lift")));
            shoot(*m_wizard, QStringLiteral("export-1-lift"));
            m_wizard->button(QWizard::CustomButton1)->click();
            const auto line = QGuiApplication::clipboard()->text();
            QVERIFY2(line.contains(QStringLiteral("--format %1 ").arg(QString::fromStdString(choice.format))) && line.endsWith(QStringLiteral(" --lift")), qPrintable(line));
        }
        QCOMPARE(lifted > 0, !info.config.qkNorm);
        m_wizard->button(QWizard::CustomButton1)->click();
        QVERIFY(!QGuiApplication::clipboard()->text().contains(QStringLiteral("--lift")));
    }

    void aRunWithoutAStudentIsRefused() {
        const auto folder = m_tiny.path(QStringLiteral("runs/unfinished"));
        QVERIFY(QDir().mkpath(folder));
        QVERIFY(QFile::exists(folder + "/recipe.json") || QFile::copy(m_tiny.run() + "/recipe.json", folder + "/recipe.json"));
        begin(folder);
        QVERIFY(!canGoOn());
        QVERIFY2(find<QLabel>("layersLabel")->text().contains(QStringLiteral("has no student yet")), qPrintable(find<QLabel>("layersLabel")->text()));
        QVERIFY(QDir(folder).removeRecursively());
    }

    void nothingIsOverwritten() {
        begin(m_tiny.run());
        m_wizard->next();
        auto* folder = find<QLineEdit>("folderEdit");
        QCOMPARE(folder->text(), m_tiny.run() + QStringLiteral("-hf"));
        QVERIFY(canGoOn());
        const auto taken = m_tiny.path("taken"), file = m_tiny.path("taken/file");
        QVERIFY(QDir().mkpath(taken));
        folder->setText(taken);
        QVERIFY(canGoOn()); // it is empty
        QFile(file).open(QIODevice::WriteOnly);
        folder->setText(QString());
        QVERIFY(!canGoOn());
        for (const auto& path : {taken, file, QStringLiteral("relative/path"), file + QStringLiteral("/below"), QStringLiteral("/proc/linnet-export")}) {
            folder->setText(path);
            QVERIFY2(!canGoOn(), qPrintable(path));
        }
        folder->setText(taken);
        shoot(*m_wizard, QStringLiteral("export-2-where"));
        auto* freeName = find<QPushButton>("freeNameButton");
        QVERIFY(freeName->isVisible());
        freeName->click();
        QCOMPARE(folder->text(), taken + QStringLiteral("-2"));
        QVERIFY(canGoOn() && !freeName->isVisible());
        QVERIFY(find<QLabel>("spaceLabel")->text().contains(QStringLiteral("needed")));
        QVERIFY(QDir(taken).removeRecursively());
    }

    void theSpaceIsEnoughAndNotFarTooMuch() {
        for (const char* dtype : {"f32", "bf16"}) {
            const auto out = m_tiny.path(QStringLiteral("space-") + dtype);
            core::ExportOptions options;
            options.dtype = dtype;
            const auto report = core::orFail(core::exportModel(m_tiny.run().toStdString(), out.toStdString(), options, {"cpu", "", 1, false}));
            std::uint64_t size = 0;
            for (const auto& name : report.files)
                size += std::uint64_t(QFileInfo(out + '/' + QString::fromStdString(name)).size());
            const auto estimate = core::exportBytes(core::orFail(core::readModelInfo(m_tiny.run().toStdString())), core::ExportOptions{"hf", dtype});
            QVERIFY2(estimate >= size && estimate < size + (20 << 20), qPrintable(QStringLiteral("%1 %2").arg(estimate).arg(size)));
        }
    }

    void itWritesChecksAndSaysHowToLoad() {
        begin(m_tiny.run());
        const auto out = m_tiny.path("it's an \"export\"");
        m_wizard->next();
        find<QLineEdit>("folderEdit")->setText(out);
        m_wizard->next();
        shoot(*m_wizard, QStringLiteral("export-3-verify"));
        m_wizard->next();
        QVERIFY(m_wizard->writing());
        QVERIFY(!m_wizard->button(QWizard::BackButton)->isEnabled());
        QTRY_VERIFY_WITH_TIMEOUT(m_wizard->written(), 60000);
        QVERIFY(m_wizard->button(QWizard::FinishButton)->isEnabled());
        QVERIFY(!m_wizard->button(QWizard::BackButton)->isEnabled());
        QCOMPARE(beside(out), QStringList{QFileInfo(out).fileName()});
        const auto result = find<QLabel>("resultLabel")->text();
        QVERIFY2(result.contains(QStringLiteral("logits differ by 0 at most, 0 on average; KL 0 nats, top-1 agreement 1.0000; 16 of 16 greedy tokens")) ||
                     result.contains(QRegularExpression(QStringLiteral("top-1 agreement 1.0000; (\\d+) of \\1 greedy tokens are the same"))),
                 qPrintable(result));
        for (const auto& file : QDir(out).entryList(QDir::Files))
            QVERIFY2(result.contains(file), qPrintable(file));
        QVERIFY(find<QLabel>("stateLabel")->text().contains(QStringLiteral("bit for bit")));
        const auto lines = find<QPlainTextEdit>("loadLines")->toPlainText();
        shoot(*m_wizard, QStringLiteral("export-4-write"));
        find<QPushButton>("copyLinesButton")->click();
        QCOMPARE(QGuiApplication::clipboard()->text(), lines);
        // the lines as they stand: transformers loads the folder by them
        auto python = lines.section(QStringLiteral("\n\n"), 0, 0);
        QFile script(m_tiny.path("load.py"));
        QVERIFY(script.open(QIODevice::WriteOnly));
        script.write((python + QStringLiteral("\nprint(type(model).__name__, len(tokenizer))\n")).toUtf8());
        script.close();
        QProcess loading;
        auto environment = QProcessEnvironment::systemEnvironment();
        environment.insert("HF_HUB_OFFLINE", "1");
        environment.insert("HF_HOME", m_tiny.path("hf-home"));
        loading.setProcessEnvironment(environment);
        loading.start(oraclePython(), {script.fileName()});
        QVERIFY(loading.waitForFinished(120000));
        const auto said = loading.readAllStandardOutput();
        QVERIFY2(said.startsWith("LinnetForCausalLM"), qPrintable(said + loading.readAllStandardError().right(800)));
        const auto again = core::verifyExport(out.toStdString(), {"cpu", "", 1, false});
        QVERIFY2(again, again ? "" : again.error().message.c_str());
        QVERIFY(again->parity.greedyTokens > 0);
        QCOMPARE(again->parity.greedySame, again->parity.greedyTokens);
    }

    void cancelLeavesNothing() {
        begin(m_tiny.run());
        const auto out = m_tiny.path("cancelled");
        toLastPage(out);
        QVERIFY(m_wizard->writing());
        m_wizard->button(QWizard::CancelButton)->click(); // before the worker's first check: the job is queued, or has just begun
        QVERIFY(m_wizard->isVisible());                   // it stays to say what became of it
        QTRY_VERIFY_WITH_TIMEOUT(!m_wizard->writing(), 20000);
        QCOMPARE(beside(out), QStringList());
        QVERIFY2(find<QLabel>("resultLabel")->text().contains(QStringLiteral("Nothing was left")), qPrintable(find<QLabel>("resultLabel")->text()));
        QVERIFY(!m_wizard->written() && m_wizard->button(QWizard::BackButton)->isEnabled());
        m_wizard->back();
        m_wizard->next(); // and again, to the end
        QTRY_VERIFY_WITH_TIMEOUT(m_wizard->written(), 60000);
        QVERIFY(QFile::exists(out + QStringLiteral("/model.safetensors")));
    }

    void aFailureIsSaid() {
        begin(m_tiny.run());
        const auto out = m_tiny.path("fails");
        m_wizard->next();
        find<QLineEdit>("folderEdit")->setText(out);
        m_wizard->next();
        QVERIFY(QDir().mkpath(out + QStringLiteral("/came between"))); // another program was quicker
        m_wizard->next();
        QTRY_VERIFY_WITH_TIMEOUT(!m_wizard->writing(), 20000);
        QVERIFY2(find<QLabel>("resultLabel")->text().contains(QStringLiteral("not empty")), qPrintable(find<QLabel>("resultLabel")->text()));
        QCOMPARE(QDir(out).entryList(QDir::AllEntries | QDir::NoDotAndDotDot), QStringList{QStringLiteral("came between")});
    }

    void theChoicesReachTheExport() {
        begin(m_tiny.run());
        find<QComboBox>("dtypeCombo")->setCurrentIndex(1);
        const auto out = m_tiny.path("rounded");
        m_wizard->next();
        find<QLineEdit>("folderEdit")->setText(out);
        m_wizard->next();
        find<QCheckBox>("verifyCheck")->setChecked(false);
        m_wizard->next();
        QTRY_VERIFY_WITH_TIMEOUT(m_wizard->written(), 60000);
        QFile config(out + QStringLiteral("/config.json"));
        QVERIFY(config.open(QIODevice::ReadOnly));
        QVERIFY(config.readAll().contains("\"dtype\": \"bfloat16\""));
        QVERIFY(find<QLabel>("resultLabel")->text().contains(QStringLiteral("not read back")));
        QVERIFY(find<QLabel>("stateLabel")->text().contains(QStringLiteral("rounded")));
    }

    // ---- plots ------------------------------------------------------------------------------------------------------------------

    void everyPlotHasItsFiles_data() {
        QTest::addColumn<QString>("name");
        for (const char* name : {"curves", "keep curve", "distances", "heat map", "histogram"})
            QTest::newRow(name) << name;
    }
    void everyPlotHasItsFiles() {
        QFETCH(QString, name);
        std::unique_ptr<widgets::PlotWidget> plot;
        if (name == "curves") {
            auto made = std::make_unique<widgets::CurvePlot>();
            made->addCurve("a", "a", Qt::blue);
            made->append("a", {0, 1, 2}, {3, 2, 1});
            plot = std::move(made);
        } else if (name == "keep curve") {
            auto made = std::make_unique<widgets::KeepCurve>();
            widgets::KeepCurveData data;
            data.quantity = QStringLiteral("perplexity");
            data.points = {{0, 60}, {2, 24}};
            made->setData(data);
            plot = std::move(made);
        } else if (name == "distances") {
            auto made = std::make_unique<widgets::DistanceHistogram>();
            widgets::DistanceData data;
            data.edges = {0, 1, 2};
            data.mass = {0.25, 0.75};
            made->setData(data);
            plot = std::move(made);
        } else if (name == "heat map") {
            auto made = std::make_unique<widgets::HeadHeatMap>();
            made->setData({2, 2, {1, 2, 3, 4}, QStringLiteral("distance"), {}, {}});
            plot = std::move(made);
        } else {
            auto made = std::make_unique<widgets::MetricHistogram>();
            made->setData({{1, 2, 3, 4}, QStringLiteral("distance"), {}, {}, false});
            plot = std::move(made);
        }
        plot->resize(400, 300);
        plot->show();
        QVERIFY(QTest::qWaitForWindowExposed(plot.get()));
        QVERIFY(plot->focusPolicy() & Qt::TabFocus);
        QVERIFY(!plot->accessibleName().isEmpty());
        QTemporaryDir folder;
        const std::pair<const char*, const char*> files[] = {{"a.png", "\x89PNG"}, {"a.svg", "<?xml"}, {"a.pdf", "%PDF"}};
        for (const auto& [file, magic] : files) {
            QVERIFY2(plot->save(folder.filePath(QString::fromLatin1(file))), file);
            QFile written(folder.filePath(QString::fromLatin1(file)));
            QVERIFY(written.open(QIODevice::ReadOnly));
            QVERIFY2(written.read(5).startsWith(magic) && written.size() > 500, file);
        }
        QVERIFY(plot->save(folder.filePath("a.CSV")));
        QFile csv(folder.filePath("a.CSV"));
        QVERIFY(csv.open(QIODevice::ReadOnly));
        QCOMPARE(QString::fromUtf8(csv.readAll()), plot->csv());
        QVERIFY(plot->csv().count('\n') >= 3);
        QVERIFY(!plot->save(folder.filePath("a.gif")) && !plot->save(folder.filePath("no/folder.png")));
        plot->copyCsv();
        QCOMPARE(QGuiApplication::clipboard()->text(), plot->csv());
        plot->copyPicture();
        QCOMPARE(QGuiApplication::clipboard()->pixmap().size(), QSize(800, 600));
    }

    void theMenuMeansThePlotWithTheKeyboard() {
        QMainWindow window;
        auto* content = new QWidget;
        auto* layout = new QVBoxLayout(content);
        auto* big = new widgets::CurvePlot;
        auto* small = new widgets::KeepCurve;
        big->setAccessibleName(QStringLiteral("the big one"));
        small->setAccessibleName(QStringLiteral("the small one"));
        auto* edit = new QLineEdit;
        layout->addWidget(big, 3);
        layout->addWidget(small, 1);
        layout->addWidget(edit);
        window.setCentralWidget(content);
        window.resize(500, 500);
        app::PlotExportMenu menu(m_session.get(), &window);
        QCOMPARE(menu.plot(), nullptr);
        window.show();
        QVERIFY(QTest::qWaitForWindowActive(&window));
        edit->setFocus();
        QCOMPARE(menu.plot(), big); // none had the keyboard yet: the largest
        small->setFocus();
        QCOMPARE(menu.plot(), small);
        edit->setFocus(); // the menu bar takes the keyboard too
        QCOMPARE(menu.plot(), small);
        small->hide();
        QCOMPARE(menu.plot(), big);
        small->show();
        small->setFocus();
        QSignalSpy notice(m_session.get(), &app::Session::notice);
        Q_EMIT menu.aboutToShow();
        QCOMPARE(menu.actions()[0]->text(), QStringLiteral("the small one"));
        auto* copy = menu.findChild<QAction*>(QStringLiteral("copyData"));
        QVERIFY(copy);
        copy->trigger();
        QCOMPARE(QGuiApplication::clipboard()->text(), small->csv());
        QCOMPARE(notice.count(), 1);
    }
};

QTEST_MAIN(TestAppExport)
#include "tst_app_export.moc"
