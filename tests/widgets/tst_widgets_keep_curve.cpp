// The curve of layers kept, and the part of a panel that folds away.
#include "widgets/collapsible.h"
#include "widgets/keep_curve.h"

#include <QLabel>
#include <QSignalSpy>
#include <QToolButton>
#include <QtTest>
#include <limits>

using namespace linnet::widgets;

class TstWidgetsKeepCurve : public QObject {
    Q_OBJECT

    static KeepCurveData data() {
        KeepCurveData made;
        made.points = {{4, 21.5}, {3, 22}, {2, 24}, {1, std::numeric_limits<double>::infinity()}, {0, 60}}; // descending, as a ranking has it
        made.quantity = "perplexity";
        made.teacher = 20;
        return made;
    }
    static std::unique_ptr<KeepCurve> shown(const KeepCurveData& with) {
        auto curve = std::make_unique<KeepCurve>();
        curve->resize(360, 260);
        curve->setData(with);
        curve->show();
        // as its owner does: what is picked becomes the choice
        connect(curve.get(), &KeepCurve::picked, curve.get(), [made = curve.get()](int kept) { made->setChoice(kept); });
        return QTest::qWaitForWindowExposed(curve.get()) ? std::move(curve) : nullptr;
    }

private slots:
    void aClickAndADragPick() {
        const auto curve = shown(data());
        QVERIFY(curve);
        QSignalSpy picked(curve.get(), &KeepCurve::picked);
        QTRY_VERIFY(curve->pointPosition(3).x() > curve->pointPosition(2).x() + 10);
        const auto at = [&](int kept) { return QPoint(curve->pointPosition(kept).x(), curve->height() / 2); }; // anywhere above or below it
        QTest::mouseClick(curve.get(), Qt::LeftButton, {}, at(3));
        QCOMPARE(picked.size(), 1);
        QCOMPARE(curve->choice(), std::optional(3));
        QTest::mousePress(curve.get(), Qt::LeftButton, {}, at(3));
        QMouseEvent move(QEvent::MouseMove, at(2), curve->mapToGlobal(at(2)), Qt::NoButton, Qt::LeftButton, {});
        QCoreApplication::sendEvent(curve.get(), &move);
        QCoreApplication::sendEvent(curve.get(), &move); // the same point again is no news
        QCOMPARE(picked.size(), 2);
        QCOMPARE(picked.last().front().toInt(), 2);
    }

    void theKeysPick() {
        const auto curve = shown(data());
        QVERIFY(curve);
        const auto press = [&](Qt::Key key) {
            QTest::keyClick(curve.get(), key);
            return curve->choice();
        };
        QCOMPARE(press(Qt::Key_End), std::optional(4));
        QCOMPARE(press(Qt::Key_Left), std::optional(3));
        QCOMPARE(press(Qt::Key_Left), std::optional(2));
        QCOMPARE(press(Qt::Key_Left), std::optional(0)); // 1 has no value
        QCOMPARE(press(Qt::Key_Left), std::optional(0));
        QCOMPARE(press(Qt::Key_Right), std::optional(2));
        QCOMPARE(press(Qt::Key_Home), std::optional(0));
    }

    void whatItSays() {
        KeepCurve curve;
        QVERIFY(curve.isEmpty());
        curve.setData(data());
        QCOMPARE(curve.readout(2), QStringLiteral("2 kept: perplexity 24, 1.200 x the teacher's"));
        QCOMPARE(curve.readout(1), QString());
        QCOMPARE(curve.csv(), QStringLiteral("kept,perplexity,teacher\n0,60,20\n2,24,20\n3,22,20\n4,21.5,20\n"));
        QVERIFY(!curve.isLogarithmic());
        auto far = data();
        far.points.push_back({5, 1});
        curve.setData(far);
        QVERIFY(curve.isLogarithmic());
        auto cache = data();
        cache.points = {{0, 1 << 20}, {6, 4 << 20}};
        cache.bytes = true, cache.teacher = 4 << 20, cache.quantity = "cache";
        curve.setData(cache);
        QCOMPARE(curve.readout(0), QStringLiteral("0 kept: cache 1.0 MiB, 25 % of the teacher's"));
        curve.setData({});
        QVERIFY(curve.isEmpty());
        curve.setChoice(3); // of nothing: no harm
        QCOMPARE(curve.readout(3), QString());
    }

    void allInOnePoint() {
        KeepCurveData one;
        one.points = {{7, 21}};
        const auto curve = shown(one);
        QVERIFY(curve);
        QTRY_VERIFY(curve->rect().contains(curve->pointPosition(7)));
    }

    void aPartFoldsAway() {
        auto* content = new QLabel("inside");
        Collapsible part("Method", content);
        part.show();
        QVERIFY(QTest::qWaitForWindowExposed(&part));
        QSignalSpy toggled(&part, &Collapsible::toggled);
        QVERIFY(!content->isVisible());
        part.header()->setFocus();
        QTest::keyClick(part.header(), Qt::Key_Space);
        QVERIFY(content->isVisible() && part.isExpanded());
        part.setExpanded(false);
        QVERIFY(!content->isVisible());
        QCOMPARE(toggled.size(), 2);
    }
};

QTEST_MAIN(TstWidgetsKeepCurve)
#include "tst_widgets_keep_curve.moc"
