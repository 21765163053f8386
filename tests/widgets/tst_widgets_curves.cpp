// Live curves: the mathematics by hand, and that a flood of points costs few redraws.
#include "widgets/curve_plot.h"

#include <QFile>
#include <QImage>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QtTest>
#include <cmath>
#include <ctime>
#include <limits>
#include <numeric>

using namespace linnet::widgets;

namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();

void show(QWidget& widget, QSize size) {
    widget.resize(size);
    widget.show();
    QVERIFY(QTest::qWaitForWindowExposed(&widget));
    QTest::qWait(80);
}

void moveTo(CurvePlot& plot, QPoint position) {
    QWidget* target = plot.childAt(plot.rect().center());
    QMouseEvent move(QEvent::MouseMove, position, target->mapToGlobal(position), Qt::NoButton, Qt::NoButton, {});
    QCoreApplication::sendEvent(target, &move);
}

QWidget* canvas(CurvePlot& plot) { return plot.childAt(plot.rect().center()); }

} // namespace

class TstWidgetsCurves : public QObject {
    Q_OBJECT

private slots:
    void smoothingByHand() {
        // weight 1/2: s = 2, 4, 7 (of 4, 6, 10: 2 | 1+3=4 | 2+5=7); divided by 1-1/2, 1-1/4, 1-1/8.
        CurveSeries series;
        series.setSmoothing(0.5);
        series.append(std::vector<double>{0, 1, 2, 3}, std::vector<double>{4, 6, kNan, 10});
        QCOMPARE(series.smoothed()[0], 4.0);
        QCOMPARE(series.smoothed()[1], 16.0 / 3);
        QVERIFY(std::isnan(series.smoothed()[2])); // the gap stays, the average waits
        QCOMPARE(series.smoothed()[3], 8.0);
        series.setSmoothing(0);
        QCOMPARE(series.smoothed()[1], 6.0);
        series.setSmoothing(0.99); // a constant stays itself from the first point
        series.clear();
        series.append(std::vector<double>{0, 1}, std::vector<double>{3, 3});
        QVERIFY(std::abs(series.smoothed()[0] - 3) < 1e-9 && std::abs(series.smoothed()[1] - 3) < 1e-9);
    }

    void aResumedRunReplacesItsTail() {
        CurveSeries series;
        series.setSmoothing(0.5);
        series.append(std::vector<double>{1, 2, 3, 4}, std::vector<double>{10, 20, 30, 40});
        series.append(std::vector<double>{3, 4, 5}, std::vector<double>{31, 41, 51});
        QCOMPARE(series.x(), (std::vector<double>{1, 2, 3, 4, 5}));
        QCOMPARE(series.y(), (std::vector<double>{10, 20, 31, 41, 51}));
        QCOMPARE(series.smoothed().size(), size_t(5));
        CurveSeries straight;
        straight.setSmoothing(0.5);
        straight.append(series.x(), series.y());
        QCOMPARE(series.smoothed(), straight.smoothed());
        series.append(std::vector<double>{kNan}, std::vector<double>{1});
        QCOMPARE(series.x().size(), size_t(5));
    }

    void envelopeKeepsExtremesAndGaps() {
        std::vector<double> x(100000), y(100000);
        for (size_t i = 0; i < x.size(); ++i) {
            x[i] = double(i);
            y[i] = std::sin(double(i) * 0.01);
        }
        y[4711] = 50;
        y[77777] = -60;
        y[50000] = kNan;
        std::vector<double> fewX, fewY;
        envelope(x, y, 1000, fewX, fewY);
        QVERIFY(fewX.size() <= 3000 && fewX.size() >= 1000);
        QVERIFY(std::is_sorted(fewX.begin(), fewX.end()));
        const auto at = [&](double key) { return fewY[size_t(std::find(fewX.begin(), fewX.end(), key) - fewX.begin())]; };
        QCOMPARE(at(4711), 50.0);
        QCOMPARE(at(77777), -60.0);
        QVERIFY(std::isnan(at(50000)));
        for (size_t i = 0; i < fewX.size(); ++i) // points of the input, never means
            QVERIFY(std::isnan(fewY[i]) || fewY[i] == y[size_t(fewX[i])]);
        envelope(std::span(x).first(5), std::span(y).first(5), 100, fewX, fewY);
        QCOMPARE(fewX.size(), size_t(5));
    }

    void indexRangeReachesOverTheEdges() {
        CurveSeries series;
        series.append(std::vector<double>{0, 1, 2, 3, 4, 5}, std::vector<double>(6, 1));
        QCOMPARE(series.indexRange(1.5, 3.5), (std::pair<size_t, size_t>{1, 5}));
        QCOMPARE(series.indexRange(-9, 9), (std::pair<size_t, size_t>{0, 6}));
        QCOMPARE(series.nearest(2.6), size_t(3));
        QCOMPARE(series.nearest(99), size_t(5));
    }

    void noReplotStorm() {
        CurvePlot plot;
        plot.addCurve("loss", "loss", runColorForTest());
        show(plot, {600, 300});
        const int before = plot.replotCount();
        QElapsedTimer clock;
        clock.start();
        for (int i = 0; i < 100000; ++i) {
            plot.append("loss", i, std::sin(i * 0.001));
            if (i % 500 == 0)
                QCoreApplication::processEvents();
        }
        QTest::qWait(80);
        const int replots = plot.replotCount() - before;
        QCOMPARE(plot.pointCount("loss"), size_t(100000));
        QVERIFY(replots >= 1);
        QVERIFY2(replots <= clock.elapsed() / 25 + 3, qPrintable(QString("%1 in %2 ms").arg(replots).arg(clock.elapsed())));
        QCOMPARE(plot.view().xTo, 99999.0);
    }

    void aMillionPointsStayFluent() {
        CurvePlot plot;
        plot.addCurve("loss", "loss", runColorForTest());
        plot.setSmoothing(0.9);
        show(plot, {900, 600});
        std::vector<double> x(1000000), y(x.size());
        std::iota(x.begin(), x.end(), 0.0);
        for (size_t i = 0; i < y.size(); ++i)
            y[i] = double((i * 7919) % 1000);
        plot.append("loss", x, y);
        QTest::qWait(200);
        const std::clock_t cpu = std::clock();
        const int before = plot.replotCount();
        for (int i = 0; i < 10; ++i) {
            const int seen = plot.replotCount();
            plot.append("loss", 1e6 + i, 500);
            QTRY_VERIFY(plot.replotCount() > seen);
        }
        const double msEach = 1000.0 * double(std::clock() - cpu) / CLOCKS_PER_SEC / (plot.replotCount() - before);
        QVERIFY2(msEach < 33, qPrintable(QString("%1 ms of work for a frame").arg(msEach)));
    }

    void followsUntilTheUserZooms() {
        CurvePlot plot;
        plot.addCurve("a", "a", runColorForTest());
        show(plot, {600, 400});
        plot.append("a", {0, 1, 2}, {5, 7, 9});
        QTRY_COMPARE(plot.view().xTo, 2.0);
        QVERIFY(plot.view().yFrom < 5 && plot.view().yTo > 9 && plot.view().yTo < 10);
        QSignalSpy moved(&plot, &CurvePlot::viewChangedByUser);
        QWheelEvent wheel(QPointF(300, 200), plot.mapToGlobal(QPointF(300, 200)), {}, {0, 120}, {}, {}, Qt::NoScrollPhase, false);
        QCoreApplication::sendEvent(canvas(plot), &wheel);
        QCOMPARE(moved.count(), 1);
        const double zoomed = plot.view().xTo;
        QVERIFY(zoomed < 2);
        plot.append("a", 100, 1);
        QTest::qWait(80);
        QCOMPARE(plot.view().xTo, zoomed);
        QTest::mouseDClick(canvas(plot), Qt::LeftButton, {}, QPoint(300, 200));
        QTRY_COMPARE(plot.view().xTo, 100.0);
        QVERIFY(plot.followsData());
    }

    void logAxisIgnoresWhatHasNoLogarithm() {
        CurvePlot plot;
        plot.setLogY(true);
        plot.addCurve("a", "a", runColorForTest());
        plot.append("a", {0, 1, 2, 3}, {0.01, -5, 0, 100});
        show(plot, {500, 300});
        QVERIFY(plot.view().yFrom > 0.001 && plot.view().yFrom < 0.01);
        QVERIFY(plot.view().yTo > 100 && plot.view().yTo < 1000);
        plot.setLogY(false);
        QTRY_VERIFY(plot.view().yFrom < -5);
    }

    void hiddenCurvesDoNotCount() {
        CurvePlot plot;
        plot.addCurve("a", "a", runColorForTest());
        plot.addCurve("b", "b", runColorForTest());
        plot.append("a", {0, 1}, {0, 1});
        plot.append("b", {0, 50}, {0, 1000});
        plot.append("nobody", {0, 1}, {0, 1}); // ignored
        plot.setCurveVisible("b", false);
        show(plot, {500, 300});
        QCOMPARE(plot.view().xTo, 1.0);
        QVERIFY(plot.view().yTo < 2);
        plot.removeCurve("a");
        QVERIFY(!plot.hasCurve("a"));
        QCOMPARE(plot.pointCount("a"), size_t(0));
        plot.clear();
        QTest::qWait(80);
        QVERIFY(!plot.hasCurve("b"));
    }

    void hoverFindsTheNearestPoint() {
        CurvePlot plot;
        plot.addCurve("low", "low", runColorForTest());
        plot.addCurve("high", "high", runColorForTest());
        plot.append("low", {0, 1, 2, 3, 4}, {0, 0, 0, 0, 0});
        plot.append("high", {0, 1, 2, 3, 4}, {10, 10, 10, 10, 10});
        show(plot, {600, 400});
        QSignalSpy hovered(&plot, &CurvePlot::pointHovered), left(&plot, &CurvePlot::hoverLeft);
        moveTo(plot, {320, 50}); // the upper line is 30 pixels below the top, the pointer within reach of it
        QCOMPARE(hovered.count(), 1);
        QCOMPARE(hovered[0][0].toString(), "high");
        QCOMPARE(hovered[0][1].toDouble(), 2.0);
        QCOMPARE(hovered[0][2].toDouble(), 10.0);
        moveTo(plot, {320, 200}); // far from both
        QCOMPARE(left.count(), 1);
    }

    void csvHasTheVisibleRange() {
        CurvePlot plot;
        plot.addCurve("a", "run, one", runColorForTest());
        plot.append("a", {0, 1, 2, 3, 4}, {1, 0.1, kNan, 3, 4});
        show(plot, {500, 300});
        plot.setView(0.5, 3.5, 0, 5);
        QTest::qWait(80);
        QCOMPARE(plot.csv(), "curve,x,value,smoothed\n\"run, one\",1,0.1,0.1\n\"run, one\",2,,\n\"run, one\",3,3,3\n");
        QTemporaryDir folder;
        QVERIFY(plot.saveCsv(folder.filePath("a.csv")) && plot.savePng(folder.filePath("a.png")));
        QVERIFY(plot.saveSvg(folder.filePath("a.svg")) && plot.savePdf(folder.filePath("a.pdf")));
        QCOMPARE(QImage(folder.filePath("a.png")).size(), QSize(1000, 600));
        QVERIFY(QFile(folder.filePath("a.svg")).size() > 500);
    }

    void manyCurvesWithMarksInASmallPanel() {
        CurvePlot plot;
        for (int k = 0; k < 40; ++k) {
            const QString id = QString::number(k);
            plot.addCurve(id, "a run with a long name " + id, runColorForTest());
            plot.append(id, {0, 1}, {double(k), double(k) + 1});
        }
        plot.addMark(0.5, "checkpoint");
        plot.setCursor(0.25);
        show(plot, {200, 150});
        QCOMPARE(plot.size(), QSize(200, 150)); // nothing forces it wider
        QVERIFY(plot.minimumSizeHint().width() <= 200);
    }

private:
    static QColor runColorForTest() { return QColor(0, 114, 178); }
};

QTEST_MAIN(TstWidgetsCurves)
#include "tst_widgets_curves.moc"
