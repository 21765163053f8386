// Distance histogram, step rail, progress strip, empty state, elided label, theme.
#include "widgets/distance_histogram.h"
#include "widgets/elided_label.h"
#include "widgets/empty_state.h"
#include "widgets/plurals.h"
#include "widgets/progress_strip.h"
#include "widgets/step_rail.h"
#include "widgets/theme.h"

#include <QAbstractButton>
#include <QImage>
#include <QProgressBar>
#include <QPushButton>
#include <QSignalSpy>
#include <QToolButton>
#include <QtTest>
#include <cmath>
#include <numeric>

using namespace linnet::widgets;

class TstWidgetsMisc : public QObject {
    Q_OBJECT

private slots:
    void countsReadAsEnglish_data() {
        QTest::addColumn<QString>("text");
        QTest::addColumn<int>("count");
        QTest::addColumn<QString>("said");
        QTest::newRow("none") << "%n head(s) set" << 0 << "0 heads set";
        QTest::newRow("one") << "%n head(s) set" << 1 << "1 head set";
        QTest::newRow("two") << "%n head(s) set" << 2 << "2 heads set";
        QTest::newRow("verb, one") << "%n key(s) (differs|differ); see (a)" << 1 << "1 key differs; see (a)";
        QTest::newRow("verb, many") << "%n key(s) (differs|differ); see (a)" << 3 << "3 keys differ; see (a)";
        QTest::newRow("no choice") << "layer %n" << 1 << "layer 1";
        QTest::newRow("no count") << "of head(s)" << -1 << "of head(s)"; // not a counting text: as it stands
    }
    void countsReadAsEnglish() {
        QFETCH(QString, text);
        QFETCH(int, count);
        QFETCH(QString, said);
        QCOMPARE(QCoreApplication::translate("any", text.toUtf8().constData(), nullptr, count), said); // set up by the header alone
    }

    void decayKernelAgainstTheSum() {
        const std::vector<double> edges{0, 1, 2, 4, 8, 12, 64, 100000};
        for (const double halfLife : {0.5, 3.0, 40.0}) {
            const std::vector<double> mass = decayKernelMass(edges, halfLife);
            const double a = std::pow(2.0, -1 / halfLife);
            for (size_t i = 0; i < mass.size(); ++i) {
                double sum = 0;
                for (int s = int(edges[i]); s < int(edges[i + 1]) && s < 5000; ++s)
                    sum += (1 - a) * std::pow(a, s);
                QVERIFY2(std::abs(mass[i] - sum) < 1e-9, qPrintable(QString("%1 %2").arg(halfLife).arg(i)));
            }
            QVERIFY(std::abs(std::accumulate(mass.begin(), mass.end(), 0.0) - 1) < 1e-9);
        }
        // Half of the mass lies before the half-life.
        QVERIFY(std::abs(decayKernelMass({0, 8, 1e6}, 8)[0] - 0.5) < 1e-12);
        QVERIFY(decayKernelMass({0, 1}, 0).empty());
    }

    void histogramStates() {
        DistanceHistogram histogram;
        histogram.resize(300, 300);
        histogram.show();
        QVERIFY(QTest::qWaitForWindowExposed(&histogram));
        QVERIFY(histogram.isEmpty());
        DistanceData data;
        data.edges = {0, 1, 2, 3, 4, 6, 8};
        data.mass = {0.1, 0.2, 0.3, 0.2, 0.1, 0.1};
        data.p50 = 2.5;
        histogram.setData(data);
        histogram.setDecayHalfLife(2.0);
        QCOMPARE(histogram.kernelMass().size(), data.mass.size());
        const QStringList lines = histogram.csv().trimmed().split('\n');
        QCOMPARE(lines.size(), 7);
        QCOMPARE(lines[2].split(',')[2].toDouble(), 0.2);
        QVERIFY(std::abs(lines[6].split(',')[3].toDouble() - 1) < 1e-12);
        histogram.setDecayHalfLife({});
        QVERIFY(histogram.kernelMass().empty());
        data.edges.pop_back(); // no longer fits
        histogram.setData(data);
        QVERIFY(histogram.isEmpty());
    }

    void plotsFollowThePalette() {
        DistanceHistogram histogram;
        histogram.resize(300, 200);
        histogram.show();
        QVERIFY(QTest::qWaitForWindowExposed(&histogram));
        for (const Theme theme : {Theme::Dark, Theme::Light, Theme::Dark}) {
            applyTheme(*qApp, theme);
            const QColor wanted = themePalette(theme).color(QPalette::Base);
            QTRY_COMPARE(histogram.grab().toImage().pixelColor(2, 2), wanted);
        }
        applyTheme(*qApp, Theme::Light);
    }

    void stepRailTellsAndClicks() {
        StepRail rail;
        rail.setSteps({{"open", "Open", StepState::Done, {}}, {"run", "Run", StepState::Blocked, "no teacher"}});
        rail.setCurrent("run");
        rail.resize(220, rail.sizeHint().height());
        rail.show();
        QVERIFY(QTest::qWaitForWindowExposed(&rail));
        QSignalSpy clicked(&rail, &StepRail::stepClicked);
        QTest::mouseClick(rail.row("run"), Qt::LeftButton);
        QTest::keyClick(rail.row("open"), Qt::Key_Space);
        QCOMPARE(clicked.count(), 2);
        QCOMPARE(clicked[0][0].toString(), "run");
        QCOMPARE(clicked[1][0].toString(), "open");
        QVERIFY(rail.row("run")->toolTip().contains("no teacher"));
        rail.setStep("run", StepState::Stale, "targets changed");
        QCOMPARE(rail.steps()[1].state, StepState::Stale);
        QVERIFY(rail.row("run")->accessibleName().contains("out of date"));
        QVERIFY(!rail.row("nobody"));
    }

    void progressStrip() {
        ProgressStrip strip;
        strip.resize(500, 28);
        strip.show();
        auto* bar = strip.findChild<QProgressBar*>();
        auto* stop = strip.findChild<QToolButton*>();
        QVERIFY(!bar->isVisible() && !stop->isVisible());
        strip.start("Profiling");
        QVERIFY(bar->isVisible());
        QCOMPARE(bar->maximum(), 0); // not known yet: it only moves
        strip.setProgress(qint64(3) << 40, qint64(4) << 40, 200);
        QCOMPARE(bar->value(), 750);
        QCOMPARE(strip.etaText(), "3 min 20 s left");
        QSignalSpy stopped(&strip, &ProgressStrip::stopRequested);
        stop->click();
        QCOMPARE(stopped.count(), 1);
        strip.setStopAction("Discard", "Throw the unsaved steps away", false);
        stop->click();
        QCOMPARE(stopped.count(), 1);
        strip.finish("Profile saved");
        QVERIFY(!bar->isVisible() && !strip.isRunning());
        QCOMPARE(strip.taskText(), "Profile saved");
    }

    void durations_data() {
        QTest::addColumn<double>("seconds");
        QTest::addColumn<QString>("text");
        QTest::newRow("seconds") << 12.4 << "12 s";
        QTest::newRow("minute") << 59.6 << "1 min 00 s";
        QTest::newRow("hours") << 7500.0 << "2 h 05 min";
        QTest::newRow("days") << 90000.0 << "1 d 01 h";
        QTest::newRow("unknown") << std::nan("") << "–";
        QTest::newRow("negative") << -1.0 << "–";
    }
    void durations() {
        QFETCH(double, seconds);
        QTEST(durationText(seconds), "text");
    }

    void emptyStateOffersItsAction() {
        EmptyState state("▦", "No teacher open", "Open a folder", "Open…");
        state.show();
        QSignalSpy requested(&state, &EmptyState::actionRequested);
        state.findChild<QPushButton*>()->click();
        QCOMPARE(requested.count(), 1);
        state.setContent("!", "Failed", "tensor blk.3.attn_q.weight is missing");
        QVERIFY(!state.findChild<QPushButton*>()->isVisible());
        QCOMPARE(state.hint(), "tensor blk.3.attn_q.weight is missing");
    }

    void elidedLabelKeepsBothEnds() {
        ElidedLabel label("/models/a/very/long/path/that/does/not/fit/teacher.gguf");
        label.resize(label.sizeHint().width(), 20);
        QCOMPARE(label.shownText(), label.text());
        QVERIFY(label.toolTip().isEmpty());
        label.resize(150, 20);
        label.show();
        QVERIFY(label.shownText().startsWith("/mod") && label.shownText().endsWith("gguf"));
        QCOMPARE(label.toolTip(), label.text());
        QVERIFY(label.minimumSizeHint().width() < 150);
    }
};

QTEST_MAIN(TstWidgetsMisc)
#include "tst_widgets_misc.moc"
