// Live curves: the mathematics by hand, and that a flood of points costs few redraws.
#include "widgets/curve_plot.h"
#include "widgets/min_max_pyramid.h"
#include "widgets/run_look.h"

#include <QFile>
#include <QImage>
#include <QSet>
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
        CurveSeries series;
        series.append(x, y);
        std::vector<double> fewX, fewY;
        series.envelope(false, 0, x.size(), 1000, fewX, fewY);
        QVERIFY(fewX.size() <= 3000 && fewX.size() >= 1000);
        QVERIFY(std::is_sorted(fewX.begin(), fewX.end()));
        const auto at = [&](double key) { return fewY[size_t(std::find(fewX.begin(), fewX.end(), key) - fewX.begin())]; };
        QCOMPARE(at(4711), 50.0);
        QCOMPARE(at(77777), -60.0);
        QVERIFY(std::isnan(at(50000)));
        for (size_t i = 0; i < fewX.size(); ++i) // points of the input, never means
            QVERIFY(std::isnan(fewY[i]) || fewY[i] == y[size_t(fewX[i])]);
        series.envelope(false, 0, 5, 100, fewX, fewY);
        QCOMPARE(fewX.size(), size_t(5));
    }

    void thePyramidAgreesWithAScan_data() {
        QTest::addColumn<int>("cut");  // points taken back before the rest is appended
        QTest::addColumn<int>("step"); // points appended at a time
        QTest::newRow("whole") << 0 << 20000;
        QTest::newRow("by one") << 0 << 1;
        QTest::newRow("by 17, resumed") << 4321 << 17;
    }
    void thePyramidAgreesWithAScan() {
        QFETCH(int, cut);
        QFETCH(int, step);
        constexpr size_t n = 20000;
        std::vector<double> values(n);
        std::uint64_t state = 1;
        for (size_t i = 0; i < n; ++i) {
            state = state * 6364136223846793005ull + 1442695040888963407ull;
            values[i] = i % 997 == 500 ? kNan : double(state >> 40);
        }
        MinMaxPyramid pyramid;
        const auto grow = [&](size_t from, size_t to) {
            for (size_t at = from; at < to; at += size_t(step))
                pyramid.update(std::span(values).first(std::min(to, at + size_t(step))), at);
        };
        grow(0, n);
        if (cut > 0) {
            for (size_t i = n - size_t(cut); i < n; ++i)
                values[i] = -values[i];
            pyramid.update(std::span(values).first(n - size_t(cut)), n - size_t(cut));
            grow(n - size_t(cut), n);
        }
        for (size_t trial = 0; trial < 500; ++trial) {
            state = state * 6364136223846793005ull + 1442695040888963407ull;
            const size_t begin = size_t(state >> 33) % n, end = begin + size_t(state >> 20) % (n - begin + 1);
            MinMaxPyramid::Extremes scan;
            for (size_t i = begin; i < end; ++i)
                if (!std::isfinite(values[i]))
                    scan.gap = std::min(scan.gap, i);
                else {
                    if (scan.low == MinMaxPyramid::kNone || values[i] < values[scan.low])
                        scan.low = i;
                    if (scan.high == MinMaxPyramid::kNone || values[i] > values[scan.high])
                        scan.high = i;
                }
            const auto found = pyramid.extremes(values, begin, end);
            QCOMPARE(found.low, scan.low);
            QCOMPARE(found.high, scan.high);
            QCOMPARE(found.gap, scan.gap);
        }
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

    void aMillionPointsPanAndZoom() {
        CurvePlot plot;
        plot.addCurve("loss", "loss", runColorForTest());
        plot.setSmoothing(0.9);
        show(plot, {900, 600});
        std::vector<double> x(1000000), y(x.size());
        std::iota(x.begin(), x.end(), 0.0);
        for (size_t i = 0; i < y.size(); ++i)
            y[i] = 1 + 1e6 / (1e5 + double(i)) + double((i * 7919) % 1000) / 1000;
        plot.append("loss", x, y);
        QTest::qWait(200);
        const std::clock_t cpu = std::clock();
        const int before = plot.replotCount();
        for (int i = 0; i < 30; ++i) { // from all of it to a hundredth, then along it
            const double width = i < 15 ? 1e6 * std::pow(0.74, i) : 1e4, from = i < 15 ? 2e5 * i / 15 : 2e5 + 5e3 * (i - 15);
            const int seen = plot.replotCount();
            plot.setView(from, from + width, 0, 12);
            QTRY_VERIFY(plot.replotCount() > seen);
        }
        const double msEach = 1000.0 * double(std::clock() - cpu) / CLOCKS_PER_SEC / (plot.replotCount() - before);
        qInfo("%.1f ms of work for a frame", msEach);
        QVERIFY2(msEach < 33, qPrintable(QString("%1 ms of work for a frame").arg(msEach)));
    }

    void outliersAreClipped() {
        CurvePlot plot;
        plot.addCurve("a", "a", runColorForTest());
        show(plot, {500, 300});
        std::vector<double> x(101), y(101);
        std::iota(x.begin(), x.end(), 0.0);
        std::iota(y.begin(), y.end(), 0.0); // 0..100: the 2 and 98 % quantiles are 2 and 98
        y[50] = 1e6;
        plot.append("a", x, y);
        QTRY_VERIFY(plot.view().yTo > 1e6);
        plot.setClipOutliers(true);
        QTRY_VERIFY(plot.view().yTo < 110);
        QVERIFY(std::abs(plot.view().yFrom - (2 - 0.05 * 97)) < 1e-9); // sorted: 0..49, 51..100, 1e6: index 98 is 99
        QVERIFY(std::abs(plot.view().yTo - (99 + 0.05 * 97)) < 1e-9);
        plot.setClipOutliers(false);
        QTRY_VERIFY(plot.view().yTo > 1e6);
    }

    void valuesAtTheCursor() {
        CurvePlot plot;
        plot.setSmoothing(0.5);
        CurveLook held;
        held.color = runColorForTest();
        held.smooth = false;
        plot.addCurve("a", "train", runColorForTest());
        plot.addCurve("b", "held out", held);
        plot.append("a", {0, 1, 2}, {4, 6, 10}); // smoothed 4, 16/3, 54/7: by hand as above, without the gap
        plot.append("b", {1, 2}, {7, 8});
        show(plot, {500, 300});
        auto values = plot.valuesAt(1.2);
        QCOMPARE(values.size(), size_t(2));
        QCOMPARE(values[0].name, "train");
        QCOMPARE(values[0].y, 6.0);
        QCOMPARE(values[0].smoothed, 16.0 / 3);
        QCOMPARE(values[1].smoothed, 7.0); // as measured
        QCOMPARE(plot.valuesAt(0.4).size(), size_t(1)); // nothing of b left of 1
        QVERIFY(plot.valuesAt(2.5).empty());
        plot.setCurveVisible("a", false);
        QCOMPARE(plot.valuesAt(1).size(), size_t(1));
    }

    void theKeyboardMovesCursorAndView() {
        CurvePlot plot;
        plot.addCurve("a", "a", runColorForTest());
        plot.append("a", {0, 100}, {0, 1});
        show(plot, {500, 300});
        QSignalSpy cursor(&plot, &CurvePlot::cursorMoved);
        QTest::keyClick(&plot, Qt::Key_Right);
        QCOMPARE(cursor.count(), 1);
        QCOMPARE(cursor[0][0].toDouble(), 51.0); // from the middle, a hundredth on
        QCOMPARE(plot.cursor(), std::optional(51.0));
        QTest::keyClick(&plot, Qt::Key_Left);
        QCOMPARE(plot.cursor(), std::optional(50.0));
        QTest::keyClick(&plot, Qt::Key_Plus);
        QCOMPARE(plot.view().xTo - plot.view().xFrom, 80.0);
        QTest::keyClick(&plot, Qt::Key_Right, Qt::ShiftModifier);
        QCOMPARE(plot.view().xFrom, 20.0);
        QTest::keyClick(&plot, Qt::Key_0);
        QTRY_COMPARE(plot.view().xTo, 100.0);
    }

    void aBandIsTinted() {
        CurvePlot plot;
        for (const char* id : {"low", "high"}) {
            CurveLook look;
            look.color = runColorForTest();
            look.marker = Marker::None;
            plot.addCurve(id, id, look);
        }
        plot.append("low", {0, 1}, {1, 1});
        plot.append("high", {0, 1}, {3, 3});
        plot.addCurve("top", "top", QColor(Qt::black)); // leaves room above the band
        plot.append("top", {0, 1}, {5, 5});
        show(plot, {500, 300});
        const auto at = [&](double share) { return plot.grab().toImage().pixelColor(400, int(280 - share * 260)); };
        const QColor paper = at(0.75);
        QVERIFY2(at(0.3) == paper, "no band yet");
        plot.setBand("low", "high");
        QTest::qWait(80);
        const QColor tinted = at(0.3);
        QVERIFY(tinted != paper && tinted.blue() > tinted.red());
        QCOMPARE(at(0.75), paper);
        plot.removeCurve("low"); // what it was filled to is gone: no crash
        QTest::qWait(80);
    }

    void looksTellRunsApart() {
        QSet<QString> seen;
        for (int look = 0; look < kRunLooks; ++look) {
            const auto made = runLook(look);
            seen.insert(made.color.name() + QString::number(int(made.style)) + QString::number(int(made.marker)));
            QVERIFY(look < kRunColorCount || made.style != runLook(look - kRunColorCount).style); // the same colour, another line
            QVERIFY(look < kRunColorCount || made.marker != runLook(look - kRunColorCount).marker);
            const auto swatch = lookSwatch(made, {26, 12}, 2).toImage();
            QCOMPARE(swatch.size(), QSize(52, 24));
            QCOMPARE(swatch.pixelColor(26, 12).name(), made.color.name());
        }
        QCOMPARE(seen.size(), kRunLooks);
    }

    void theLegendCoversNoCurve() {
        CurvePlot plot;
        plot.setTitle("Alignment");
        plot.setAxisLabels("step", "loss");
        for (int k = 0; k < 6; ++k) {
            CurveLook look;
            look.color = runColor(k);
            look.marker = Marker::None;
            look.group = "20261130-054235-linnet";
            plot.addCurve(QString::number(k), QString("20261130-054235-linnet, layer %1").arg(k), look);
            plot.append(QString::number(k), {0, 1, 2}, {0.0, 0.1 + 0.01 * k, 0.1});
        }
        plot.addCurve("top", "top", QColor(Qt::white)); // makes room above the others
        plot.append("top", {0, 2}, {1, 1});
        show(plot, {700, 320});
        const QImage picture = plot.grab().toImage();
        const auto isText = [&](int x, int y) { return picture.pixelColor(x, y).lightnessF() < 0.35; };
        int above = 0, inside = 0;
        for (int x = 90; x < 660; ++x) { // right of the vertical axis
            for (int y = 0; y < 28; ++y)
                above += isText(x, y);
            for (int y = 60; y < 180; ++y)
                inside += isText(x, y);
        }
        QVERIFY(above > 100);
        QCOMPARE(inside, 0);
        bool swatch = false;
        for (int x = 90; x < 660; ++x)
            for (int y = 0; y < 40; ++y)
                swatch |= std::abs(picture.pixelColor(x, y).hue() - runColor(1).hue()) < 12 && picture.pixelColor(x, y).saturation() > 120; // smooth edges
        QVERIFY(swatch);
        QVERIFY(plot.accessibleDescription().contains("20261130-054235-linnet, layer 5")); // whole, whatever the room
    }

    void denseMarksAreThinned() {
        CurvePlot plot;
        plot.addCurve("a", "a", QColor(Qt::white));
        plot.append("a", {0, 1000}, {0, 1});
        for (int i = 0; i <= 1000; ++i)
            plot.addMark(i, {}, true);
        show(plot, {500, 300});
        const QImage picture = plot.grab().toImage();
        int lowest = 0; // row of the axis
        for (int y = 200; y < 299 && lowest == 0; ++y)
            if (picture.pixelColor(300, y).lightnessF() < 0.7 && picture.pixelColor(301, y).lightnessF() < 0.7 && picture.pixelColor(302, y).lightnessF() < 0.7 && picture.pixelColor(303, y).lightnessF() < 0.7)
                lowest = y;
        QVERIFY(lowest > 200);
        int ticks = 0;
        for (int x = 80; x < 480; ++x)
            ticks += picture.pixelColor(x, lowest - 4).lightnessF() < 0.75 && picture.pixelColor(x - 1, lowest - 4).lightnessF() >= 0.75;
        QVERIFY2(ticks >= 40 && ticks <= 100, qPrintable(QString::number(ticks))); // at least 5 pixels apart on about 420
    }

    void xCanBeLinked() {
        CurvePlot plot;
        plot.addCurve("a", "a", runColorForTest());
        plot.append("a", {0, 1, 2, 3, 4}, {5, 1, 2, 3, 9});
        show(plot, {600, 400});
        QSignalSpy moved(&plot, &CurvePlot::xViewChangedByUser), reset(&plot, &CurvePlot::viewResetByUser);
        plot.setXView(1, 3);
        plot.setView(1, 3, 0, 4);
        plot.setXView(1, 3);
        QVERIFY(moved.isEmpty()); // by the program
        QTRY_VERIFY(plot.view().yTo < 4 && plot.view().yFrom > 0); // 1 to 3 lie in it
        QVERIFY(!plot.followsData());
        QVERIFY(plot.reachesInto(3.5, 9) && plot.reachesInto(-2, 0) && !plot.reachesInto(4.5, 9));
        QTest::keyClick(&plot, Qt::Key_Right, Qt::ShiftModifier);
        QCOMPARE(moved.count(), 1);
        QCOMPARE(moved[0][0].toDouble(), 1.25); // an eighth on
        QCOMPARE(moved[0][1].toDouble(), 3.25);
        QTest::mouseDClick(canvas(plot), Qt::LeftButton, {}, QPoint(300, 200));
        QCOMPARE(reset.count(), 1);
        QTRY_COMPARE(plot.view().xTo, 4.0);
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

    void pointsWithoutALineAreWholeAtTheEdges() {
        CurvePlot plot;
        CurveLook look;
        look.style = Qt::NoPen;
        plot.addCurve("points", "points", look);
        plot.append("points", {5, 17, 25}, {1, 2, 3});
        show(plot, {400, 200});
        QTRY_VERIFY(plot.view().xFrom < 5 && plot.view().xTo > 25);
        QVERIFY(plot.view().xFrom > 3 && plot.view().xTo < 27);
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
