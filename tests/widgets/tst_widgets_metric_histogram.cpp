// The histogram of a map: bins against a count by hand, handles that are the colour range, a brush, keyboard, and what its pixels show.
#include "widgets/metric_histogram.h"

#include <QSignalSpy>
#include <QtTest>
#include <cmath>
#include <numeric>

using namespace linnet::widgets;

namespace {

const double kNone = std::nan("");

void show(MetricHistogram& histogram, QSize size = {480, 160}) {
    histogram.resize(size);
    histogram.show();
    QVERIFY(QTest::qWaitForWindowExposed(&histogram));
    QTRY_VERIFY(histogram.replotCount() > 0);
    QTest::qWait(30);
}

int total(const MetricHistogram& histogram) {
    return std::accumulate(histogram.bins().begin(), histogram.bins().end(), 0, [](int sum, const auto& bin) { return sum + bin.count; });
}

void drag(MetricHistogram& histogram, QPoint from, QPoint to, Qt::KeyboardModifiers modifiers = {}) {
    QTest::mousePress(&histogram, Qt::LeftButton, modifiers, from);
    QMouseEvent move(QEvent::MouseMove, to, histogram.mapToGlobal(to), Qt::LeftButton, Qt::LeftButton, modifiers);
    QCoreApplication::sendEvent(&histogram, &move);
    QTest::mouseRelease(&histogram, Qt::LeftButton, modifiers, to);
}

} // namespace

class TstWidgetsMetricHistogram : public QObject {
    Q_OBJECT

private slots:
    void binsByHand_data() {
        QTest::addColumn<std::vector<double>>("values");
        QTest::addColumn<ColorScale>("scale");
        QTest::addColumn<bool>("diverging");
        QTest::addColumn<QList<int>>("counts"); // 8 bins: fewer than 16 values
        // 0 .. 8 in bins of width 1: the last one takes its high end too
        QTest::newRow("linear") << std::vector<double>{0, 0.5, 1, 7.9, 8, kNone} << ColorScale::Linear << false << QList<int>{2, 1, 0, 0, 0, 0, 0, 2};
        // 1 .. 256: an octave a bin; 0 and below have no place on the axis
        QTest::newRow("log2") << std::vector<double>{1, 1.9, 2, 4, 255, 256, 0, -3} << ColorScale::Log2 << false << QList<int>{2, 1, 1, 0, 0, 0, 0, 2};
        // -4 .. 4 though the lowest is -1: zero in the middle
        QTest::newRow("diverging") << std::vector<double>{-1, -0.5, 0.5, 4} << ColorScale::Log2 << true << QList<int>{0, 0, 0, 2, 1, 0, 0, 1};
    }
    void binsByHand() {
        QFETCH(std::vector<double>, values);
        QFETCH(ColorScale, scale);
        QFETCH(bool, diverging);
        QFETCH(QList<int>, counts);
        MetricHistogram histogram;
        histogram.setData({values, "distance", "tokens", scale, diverging});
        QList<int> found;
        for (const auto& bin : histogram.bins())
            found << bin.count;
        QCOMPARE(found, counts);
        histogram.setSelected(std::vector<bool>(values.size(), true));
        for (const auto& bin : histogram.bins())
            QCOMPARE(bin.selected, bin.count);
        histogram.setSelected({true}); // of another size: none
        QCOMPARE(histogram.bins().front().selected, 0);
    }

    void everyMeasuredHeadIsInOneBin() {
        std::vector<double> values;
        for (int i = 0; i < 4096; ++i)
            values.push_back(std::exp(0.001 * i) * (1 + 0.3 * std::sin(i)));
        values.push_back(kNone);
        MetricHistogram histogram;
        histogram.setData({values, {}, {}, ColorScale::Log10, false});
        QCOMPARE(total(histogram), 4096);
        for (size_t i = 1; i < histogram.bins().size(); ++i)
            QVERIFY(qFuzzyCompare(histogram.bins()[i].low, histogram.bins()[i - 1].high));
    }

    void handlesAreTheRange() {
        MetricHistogram histogram;
        histogram.setData({{0, 2, 4, 6, 8, 10}, {}, {}, ColorScale::Linear, false});
        histogram.setRange({{0, 10}});
        show(histogram);
        QSignalSpy dragged(&histogram, &MetricHistogram::rangeDragged), brushed(&histogram, &MetricHistogram::brushed), reset(&histogram, &MetricHistogram::rangeReset);
        connect(&histogram, &MetricHistogram::rangeDragged, &histogram, [&](double low, double high) { histogram.setRange({{low, high}}); });
        const int y = histogram.plotArea().center().y();
        const QPoint high(int(std::lround(histogram.xOf(10))), y), to(int(std::lround(histogram.xOf(6))), y);
        drag(histogram, high, to);
        QVERIFY(dragged.count() > 0);
        QCOMPARE(brushed.count(), 0);
        QCOMPARE(histogram.range()->first, 0.0);
        QVERIFY(std::abs(histogram.range()->second - 6) < 0.05);
        drag(histogram, {int(std::lround(histogram.xOf(0))), y}, {int(std::lround(histogram.xOf(9))), y}); // past the other end: it keeps a width
        QVERIFY(histogram.range()->first < histogram.range()->second);
        QTest::mouseDClick(&histogram, Qt::LeftButton, {}, {int(std::lround(histogram.xOf(histogram.range()->second))), y});
        QCOMPARE(reset.count(), 1);
        histogram.setRange({}); // per layer: no handles, a drag there brushes
        drag(histogram, {int(std::lround(histogram.xOf(1))), y}, {int(std::lround(histogram.xOf(5))), y});
        QCOMPARE(brushed.count(), 1);
    }

    void aDivergingRangeStaysSymmetric() {
        MetricHistogram histogram;
        histogram.setData({{-3, 1, 8}, {}, {}, ColorScale::Linear, true});
        histogram.setRange({{-8, 8}});
        show(histogram);
        QSignalSpy dragged(&histogram, &MetricHistogram::rangeDragged);
        const int y = histogram.plotArea().center().y();
        drag(histogram, {int(std::lround(histogram.xOf(-8))), y}, {int(std::lround(histogram.xOf(-4))), y});
        QVERIFY(dragged.count() > 0);
        QCOMPARE(dragged.last()[0].toDouble(), -dragged.last()[1].toDouble());
        QVERIFY(std::abs(dragged.last()[1].toDouble() - 4) < 0.1);
    }

    void aDragBetweenBrushes() {
        MetricHistogram histogram;
        histogram.setData({{0, 2, 4, 6, 8, 10}, {}, {}, ColorScale::Linear, false});
        histogram.setRange({{0, 10}});
        show(histogram);
        QSignalSpy brushed(&histogram, &MetricHistogram::brushed);
        const int y = histogram.plotArea().center().y();
        const auto at = [&](double value) { return QPoint(int(std::lround(histogram.xOf(value))), y); };
        drag(histogram, at(7), at(3), Qt::ControlModifier); // either way round
        QCOMPARE(brushed.count(), 1);
        QVERIFY(std::abs(brushed[0][0].toDouble() - 3) < 0.05 && std::abs(brushed[0][1].toDouble() - 7) < 0.05);
        QCOMPARE(brushed[0][2].value<Qt::KeyboardModifiers>(), Qt::ControlModifier);
        const auto& bin = histogram.bins()[1]; // 8 bins of 1.25: the one that holds 2
        QCOMPARE(bin.count, 1);
        QTest::mouseClick(&histogram, Qt::LeftButton, {}, at((bin.low + bin.high) / 2));
        QCOMPARE(brushed.count(), 2);
        QVERIFY(brushed[1][0].toDouble() == bin.low && brushed[1][1].toDouble() < bin.high); // [low, high), as it is counted
    }

    void keyboard() {
        MetricHistogram histogram;
        histogram.setData({{0, 2, 4, 6, 8, 10}, {}, {}, ColorScale::Linear, false});
        histogram.setRange({{0, 10}});
        show(histogram);
        histogram.setFocus();
        QSignalSpy dragged(&histogram, &MetricHistogram::rangeDragged), brushed(&histogram, &MetricHistogram::brushed), reset(&histogram, &MetricHistogram::rangeReset);
        QTest::keyClick(&histogram, Qt::Key_Right);
        QVERIFY(dragged.takeFirst()[0].toDouble() > 0); // the low end first
        QTest::keyClick(&histogram, Qt::Key_Up);
        QTest::keyClick(&histogram, Qt::Key_Left);
        const auto moved = dragged.takeFirst();
        QCOMPARE(moved[0].toDouble(), 0.0);
        QVERIFY(moved[1].toDouble() < 10);
        QTest::keyClick(&histogram, Qt::Key_Return);
        QCOMPARE(brushed.takeFirst().mid(0, 2), (QVariantList{0.0, 10.0}));
        QTest::keyClick(&histogram, Qt::Key_Delete);
        QCOMPARE(reset.count(), 1);
    }

    void barsHaveTheColoursOfTheMap() {
        MetricHistogram histogram;
        std::vector<double> values(64);
        std::iota(values.begin(), values.end(), 0); // 16 bins, four heads each
        histogram.setData({values, {}, {}, ColorScale::Linear, false});
        histogram.setRange({{0, 63}});
        for (const auto map : {ColorMap::Viridis, ColorMap::Cividis, ColorMap::Grey}) {
            histogram.setColorMap(map);
            show(histogram);
            const QImage picture = histogram.grab().toImage();
            const int count = int(histogram.bins().size());
            for (int i = 1; i + 1 < count; ++i) { // the handles stand on the first and the last
                const double x = (histogram.xOf(histogram.bins()[size_t(i)].low) + histogram.xOf(histogram.bins()[size_t(i)].high)) / 2;
                const QColor seen = picture.pixelColor((QPointF(x, histogram.plotArea().bottom() - 4) * picture.devicePixelRatio()).toPoint());
                const QColor wanted = mapColor(map, (i + 0.5) / count);
                QVERIFY2(std::abs(seen.red() - wanted.red()) <= 4 && std::abs(seen.green() - wanted.green()) <= 4 && std::abs(seen.blue() - wanted.blue()) <= 4, qPrintable(QString::number(i)));
            }
        }
    }

    void nothingMeasuredSaysWhy() {
        MetricHistogram histogram;
        histogram.setEmptyText("Press Profile.");
        histogram.setData({std::vector<double>(12, kNone), {}, {}, ColorScale::Log2, false});
        show(histogram);
        QVERIFY(histogram.bins().empty());
        QCOMPARE(histogram.csv(), "from,to,heads,selected\n");
        QTest::mouseClick(&histogram, Qt::LeftButton, {}, histogram.rect().center()); // nothing there to press
        QTest::keyClick(&histogram, Qt::Key_Right);
        histogram.setData({{0, -1}, {}, {}, ColorScale::Log2, false}); // none has a place on a log axis
        QVERIFY(histogram.bins().empty());
        histogram.setData({{5, 5, 5}, {}, {}, ColorScale::Log2, false}); // one value: a bin holds it
        QCOMPARE(total(histogram), 3);
    }
};

QTEST_MAIN(TstWidgetsMetricHistogram)
#include "tst_widgets_metric_histogram.moc"
