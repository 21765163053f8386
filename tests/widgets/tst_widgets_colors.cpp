// The colour maps against the published values and against models of human vision; the ranges behind the colour bar.
#include "widgets/color_maps.h"
#include "widgets/color_range.h"
#include "widgets/run_look.h"
#include "widgets/theme.h"

#include <QtTest>
#include <cmath>

using namespace linnet::widgets;

namespace {

using Triple = std::array<double, 3>;

Triple linearRgb(QRgb c) {
    const auto decode = [](int v) { // IEC 61966-2-1
        const double s = v / 255.0;
        return s <= 0.04045 ? s / 12.92 : std::pow((s + 0.055) / 1.055, 2.4);
    };
    return {decode(qRed(c)), decode(qGreen(c)), decode(qBlue(c))};
}

Triple lab(const Triple& rgb) { // D65
    const double x = (0.4124564 * rgb[0] + 0.3575761 * rgb[1] + 0.1804375 * rgb[2]) / 0.95047;
    const double y = 0.2126729 * rgb[0] + 0.7151522 * rgb[1] + 0.0721750 * rgb[2];
    const double z = (0.0193339 * rgb[0] + 0.1191920 * rgb[1] + 0.9503041 * rgb[2]) / 1.08883;
    const auto f = [](double t) { return t > 216.0 / 24389 ? std::cbrt(t) : (24389.0 / 27 * t + 16) / 116; };
    return {116 * f(y) - 16, 500 * (f(x) - f(y)), 200 * (f(y) - f(z))};
}

// Machado, Oliveira, Fernandes, IEEE TVCG 15(6) 2009, severity 1.0.
constexpr double kVision[4][3][3] = {
    {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
    {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
    {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
    {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}}};

Triple seen(const Triple& rgb, int vision) {
    Triple out{};
    for (size_t i = 0; i < 3; ++i)
        for (size_t j = 0; j < 3; ++j)
            out[i] += kVision[vision][i][j] * rgb[j];
    for (double& v : out)
        v = std::clamp(v, 0.0, 1.0);
    return out;
}

} // namespace

class TstWidgetsColors : public QObject {
    Q_OBJECT

private slots:
    void publishedValues_data() {
        QTest::addColumn<int>("map");
        QTest::addColumn<int>("index");
        QTest::addColumn<uint>("rgb");
        struct Row {
            ColorMap map;
            int index;
            uint rgb;
        };
        // Entries of matplotlib's tables, taken between and at our anchors.
        for (const Row& r : {Row{ColorMap::Viridis, 0, 0x440154}, Row{ColorMap::Viridis, 64, 0x3b528b},
                             Row{ColorMap::Viridis, 100, 0x2a768e}, Row{ColorMap::Viridis, 128, 0x21918c},
                             Row{ColorMap::Viridis, 170, 0x35b779}, Row{ColorMap::Viridis, 200, 0x70cf57},
                             Row{ColorMap::Viridis, 255, 0xfde725}, Row{ColorMap::Cividis, 0, 0x00224e},
                             Row{ColorMap::Cividis, 64, 0x434e6c}, Row{ColorMap::Cividis, 100, 0x656870},
                             Row{ColorMap::Cividis, 128, 0x7d7c78}, Row{ColorMap::Cividis, 170, 0xa59c74},
                             Row{ColorMap::Cividis, 237, 0xedd54a}, Row{ColorMap::Cividis, 255, 0xfee838}})
            QTest::addRow("%s %d", qPrintable(colorMapName(r.map)), r.index) << int(r.map) << r.index << r.rgb;
    }
    void publishedValues() {
        QFETCH(int, map);
        QFETCH(int, index);
        QFETCH(uint, rgb);
        const QRgb ours = colorTable(ColorMap(map))[size_t(index)];
        QVERIFY(std::abs(qRed(ours) - qRed(rgb)) <= 2);
        QVERIFY(std::abs(qGreen(ours) - qGreen(rgb)) <= 2);
        QVERIFY(std::abs(qBlue(ours) - qBlue(rgb)) <= 2);
    }

    void sequential_data() {
        QTest::addColumn<int>("map");
        for (const ColorMap map : {ColorMap::Viridis, ColorMap::Cividis, ColorMap::Grey})
            QTest::newRow(qPrintable(colorMapName(map))) << int(map);
    }
    void sequential() {
        QFETCH(int, map);
        const ColorTable& table = colorTable(ColorMap(map));
        double before = -1;
        for (size_t i = 0; i < 256; ++i) { // one 8-bit unit of a channel is up to 0.3 L*
            const double lightness = lab(linearRgb(table[i]))[0];
            QVERIFY2(lightness > before - 0.15, qPrintable(QString::number(i)));
            if (i % 4 == 0)
                QVERIFY(i == 0 || lightness > lab(linearRgb(table[i - 4]))[0]);
            before = lightness;
        }
        for (int vision = 0; vision < 4; ++vision)
            for (int a = 0; a < 10; ++a)
                for (int b = 0; b < a; ++b) {
                    const Triple x = lab(seen(linearRgb(mapColor(ColorMap(map), a / 9.0).rgb()), vision));
                    const Triple y = lab(seen(linearRgb(mapColor(ColorMap(map), b / 9.0).rgb()), vision));
                    const double difference = std::hypot(x[0] - y[0], x[1] - y[1], x[2] - y[2]);
                    QVERIFY2(difference > 5, qPrintable(QString("vision %1, steps %2 %3: %4").arg(vision).arg(a).arg(b).arg(difference)));
                }
    }

    void divergingIsNeutralAndBalanced_data() {
        QTest::addColumn<bool>("dark");
        QTest::newRow("light") << false;
        QTest::newRow("dark") << true; // the middle is the darkest
    }
    void divergingIsNeutralAndBalanced() {
        QFETCH(bool, dark);
        const ColorTable& table = colorTable(divergingMap(dark));
        const double up = dark ? -1 : 1;
        const Triple middle = lab(linearRgb(table[127]));
        QVERIFY(std::hypot(middle[1], middle[2]) < 1);
        for (size_t i = 1; i < 128; ++i) {
            QVERIFY(up * lab(linearRgb(table[i]))[0] > up * lab(linearRgb(table[i - 1]))[0] - 0.15);
            QVERIFY(up * lab(linearRgb(table[255 - i]))[0] > up * lab(linearRgb(table[256 - i]))[0] - 0.15);
            QVERIFY(std::abs(lab(linearRgb(table[i]))[0] - lab(linearRgb(table[255 - i]))[0]) < 8);
        }
        for (int vision = 0; vision < 4; ++vision) { // the sign stays visible
            const Triple low = lab(seen(linearRgb(table[60]), vision)), high = lab(seen(linearRgb(table[195]), vision));
            QVERIFY(std::hypot(low[1] - high[1], low[2] - high[2]) > 20);
        }
        const auto ground = PlotColors::fromPalette(themePalette(dark ? Theme::Dark : Theme::Light)).background;
        QVERIFY(std::abs(lab(linearRgb(ground.rgb()))[0] - middle[0]) < 10); // what is nothing does not shine
    }

    void runColorsDiffer_data() {
        QTest::addColumn<int>("set");
        QTest::addColumn<double>("least"); // of CIELAB between any two, whoever looks
        QTest::addColumn<QList<uint>>("published");
        QTest::newRow("Okabe-Ito") << int(RunColors::OkabeIto) << 9.0 << QList<uint>{0x0072b2, 0xe69f00, 0x009e73, 0xcc79a7, 0x56b4e9, 0xd55e00, 0xf0e442};
        QTest::newRow("Tol") << int(RunColors::Tol) << 13.0 << QList<uint>{0x4477aa, 0xee6677, 0x228833, 0xccbb44, 0x66ccee, 0xaa3377, 0xcc3311, 0xbbbbbb};
    }
    void runColorsDiffer() {
        QFETCH(int, set);
        QFETCH(double, least);
        QFETCH(QList<uint>, published);
        const auto color = [&](int index) { return runColor(index, RunColors(set)).rgb(); };
        for (int vision = 0; vision < 4; ++vision)
            for (int a = 0; a < kRunColorCount; ++a)
                for (int b = 0; b < a; ++b) {
                    const Triple x = lab(seen(linearRgb(color(a)), vision)), y = lab(seen(linearRgb(color(b)), vision));
                    const double difference = std::hypot(x[0] - y[0], x[1] - y[1], x[2] - y[2]);
                    QVERIFY2(difference > least, qPrintable(QString("%1: %2 %3: %4").arg(vision).arg(a).arg(b).arg(difference)));
                }
        for (int i = 0; i < published.size(); ++i)
            QCOMPARE(color(i) & 0xffffff, published[i]);
        QCOMPARE(color(8), color(0));
        for (const Theme theme : {Theme::Light, Theme::Dark})
            for (int i = 0; i < kRunColorCount; ++i) { // a line of it is seen; the lightest yellow is weak on white and drawn all the same
                const double paper = lab(linearRgb(PlotColors::fromPalette(themePalette(theme)).background.rgb()))[0];
                QVERIFY(std::abs(lab(linearRgb(color(i)))[0] - paper) > (color(i) == 0xfff0e442 ? 10 : 20));
            }
        QVERIFY(runPenStyle(8) != runPenStyle(0));
    }

    void aLookKeepsLineAndMarker() { // another set changes the colour alone
        for (int look = 0; look < kRunLooks; ++look) {
            setRunColors(RunColors::OkabeIto);
            const auto before = runLook(look);
            const auto name = runColorName(look);
            setRunColors(RunColors::Tol);
            const auto after = runLook(look);
            QVERIFY(after.style == before.style && after.marker == before.marker && after.color != before.color);
            QVERIFY(after.color == runColor(look, RunColors::Tol) && !runColorName(look).isEmpty());
            setRunColors(RunColors::OkabeIto);
            QCOMPARE(runLook(look).color, before.color);
            QCOMPARE(runColorName(look), name);
        }
    }

    void rangeModes() {
        const double nan = std::nan("");
        const std::vector<double> values{1, 2, 4, nan, 10, 20, 30, 40}; // 2 layers x 4 heads
        const ColorRange global(values, 2, 4, ColorScale::Linear, {}, false);
        QCOMPARE(global.minimum(), 1.0);
        QCOMPARE(global.maximum(), 40.0);
        QVERIFY(std::isnan(global.position(nan, 0)));
        QVERIFY(global.hasMissing() && !global.clipsLow() && !global.clipsHigh());

        const ColorRange rows(values, 2, 4, ColorScale::Linear, {ScaleMode::PerLayer}, false);
        QCOMPARE(rows.position(4, 0), 1.0);
        QCOMPARE(rows.position(10, 1), 0.0);

        const ColorRange fixed(values, 2, 4, ColorScale::Linear, ScaleMode::fixed(2, 22), false);
        QCOMPARE(fixed.position(12, 0), 0.5);
        QVERIFY(fixed.clipsLow() && fixed.clipsHigh());
        QVERIFY(fixed.modeText().contains("fixed"));

        const ColorRange octaves(values, 2, 4, ColorScale::Log2, ScaleMode::fixed(1, 16), false);
        QCOMPARE(octaves.position(4, 0), 0.5);
        QVERIFY(octaves.position(0, 0) < 0); // no logarithm: below everything

        const ColorRange around({-1, 3}, 1, 2, ColorScale::Log10, {}, true);
        QCOMPARE(around.position(0, 0), 0.5);
        QCOMPARE(around.minimum(), -3.0);

        std::vector<double> hundred(101);
        for (size_t i = 0; i < hundred.size(); ++i)
            hundred[i] = double(i);
        const ColorRange quantile(hundred, 1, 101, ColorScale::Linear, {ScaleMode::Quantile}, false);
        QCOMPARE(quantile.minimum(), 2.0);
        QCOMPARE(quantile.maximum(), 98.0);
        QVERIFY(ColorRange({nan, nan}, 1, 2, ColorScale::Linear, {}, false).isEmpty());
        QVERIFY(std::isfinite(ColorRange({5, 5}, 1, 2, ColorScale::Linear, {}, false).position(5, 0)));
    }

    void ticksLieInTheRange() {
        for (const ColorScale scale : {ColorScale::Linear, ColorScale::Log2, ColorScale::Log10})
            for (const double high : {1.5, 3.0, 1e3, 1e7}) {
                const ColorRange range({1, high}, 1, 2, scale, {}, false);
                const auto ticks = range.ticks(6);
                QVERIFY2(!ticks.empty() && ticks.size() <= 8, qPrintable(QString("%1 %2").arg(high).arg(ticks.size())));
                for (const auto& tick : ticks)
                    QVERIFY(tick.position > -1e-6 && tick.position < 1 + 1e-6 && !tick.label.isEmpty());
            }
    }

    void textIsReadableInBothThemes() {
        for (const Theme theme : {Theme::Light, Theme::Dark}) {
            const QPalette palette = themePalette(theme);
            const PlotColors colors = PlotColors::fromPalette(palette);
            const double text = lab(linearRgb(colors.text.rgb()))[0], paper = lab(linearRgb(colors.background.rgb()))[0];
            QVERIFY(std::abs(text - paper) > 70);
            QVERIFY(std::abs(lab(linearRgb(colors.axis.rgb()))[0] - paper) > 30);
            QCOMPARE(isDark(palette), theme == Theme::Dark);
        }
    }
    // WCAG 2.2, 1.4.3: 4.5 to 1 for text. Disabled controls are exempt, so what explains must not be written in their colour.
    void contrastOfText_data() {
        QTest::addColumn<QColor>("text");
        QTest::addColumn<QColor>("ground");
        for (const Theme theme : {Theme::Light, Theme::Dark}) {
            const QPalette p = themePalette(theme);
            const auto row = [&](const char* name, const QColor& text, const QColor& ground) { QTest::newRow(qPrintable(QStringLiteral("%1 %2").arg(theme == Theme::Dark ? "dark" : "light", name))) << text << ground; };
            for (const auto ground : {QPalette::Window, QPalette::Base, QPalette::AlternateBase}) {
                for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::PlaceholderText, QPalette::Link})
                    row("text", p.color(role), p.color(ground));
                row("notes of plots", PlotColors::fromPalette(p).axis, p.color(ground));
                const auto states = stateColors(p);
                for (const auto& state : {states.good, states.warning, states.bad, states.running})
                    row("state", state, p.color(ground));
            }
            row("selected", p.color(QPalette::HighlightedText), p.color(QPalette::Highlight));
            row("button", p.color(QPalette::ButtonText), p.color(QPalette::Button));
            row("tip", p.color(QPalette::ToolTipText), p.color(QPalette::ToolTipBase));
        }
    }
    void contrastOfText() {
        QFETCH(const QColor, text);
        QFETCH(const QColor, ground);
        const auto luminance = [](const QColor& color) {
            const auto linear = [](double v) { return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4); };
            return 0.2126 * linear(color.redF()) + 0.7152 * linear(color.greenF()) + 0.0722 * linear(color.blueF());
        };
        const double a = luminance(text), b = luminance(ground), contrast = (std::max(a, b) + 0.05) / (std::min(a, b) + 0.05);
        QVERIFY2(contrast >= 4.5, qPrintable(QStringLiteral("%1 on %2: %3").arg(text.name(), ground.name()).arg(contrast)));
    }
};

QTEST_APPLESS_MAIN(TstWidgetsColors)
#include "tst_widgets_colors.moc"
