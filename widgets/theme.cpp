#include "widgets/theme.h"

#include <QApplication>
#include <QPainter>
#include <QProxyStyle>
#include <QStyleOption>

namespace linnet::widgets {
namespace {

struct Shades {
    QRgb window, base, alternate, button, text, dimmed, disabled, highlight, highlightedText, link, mid, tooltip;
};
constexpr Shades kLight{0xf4f4f5, 0xffffff, 0xf0f2f4, 0xe9eaec, 0x1b1e22, 0x646a71, 0x9aa0a6, 0x1f6fb5, 0xffffff, 0x0b61a4,
                        0xc4c8cc, 0xfffff2};
constexpr Shades kDark{0x24272b, 0x1b1d20, 0x212428, 0x33373c, 0xe4e6e8, 0x9aa1a8, 0x6c7278, 0x2b75b8, 0xffffff, 0x6cb4f0,
                       0x484d53, 0x33373c};

QColor mix(const QColor& a, const QColor& b, double t) {
    return QColor::fromRgbF(float(a.redF() + t * (b.redF() - a.redF())), float(a.greenF() + t * (b.greenF() - a.greenF())),
                            float(a.blueF() + t * (b.blueF() - a.blueF())));
}

class ThemeStyle : public QProxyStyle { // Fusion draws the edge of a tick box darker than the window: unseen in the dark
public:
    ThemeStyle() : QProxyStyle(QStringLiteral("Fusion")) {}
    int styleHint(StyleHint hint, const QStyleOption* option, const QWidget* widget, QStyleHintReturn* result) const override {
        return hint == SH_EtchDisabledText ? 0 : QProxyStyle::styleHint(hint, option, widget, result); // in the dark the etching looks like a double print
    }
    void drawPrimitive(PrimitiveElement element, const QStyleOption* option, QPainter* painter, const QWidget* widget) const override {
        QProxyStyle::drawPrimitive(element, option, painter, widget);
        if ((element != PE_IndicatorCheckBox && element != PE_IndicatorItemViewItemCheck) || !isDark(option->palette))
            return;
        painter->save();
        painter->setBrush(Qt::NoBrush);
        painter->setPen(option->palette.color(option->state & State_Enabled ? QPalette::PlaceholderText : QPalette::Mid));
        painter->drawRect(option->rect.adjusted(0, 0, -1, -1));
        painter->restore();
    }
};

} // namespace

QPalette themePalette(Theme theme) {
    const Shades& s = theme == Theme::Dark ? kDark : kLight;
    const auto color = [](QRgb rgb) { return QColor::fromRgb(rgb); };
    QPalette p;
    p.setColor(QPalette::Window, color(s.window));
    p.setColor(QPalette::Base, color(s.base));
    p.setColor(QPalette::AlternateBase, color(s.alternate));
    p.setColor(QPalette::Button, color(s.button));
    for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText, QPalette::ToolTipText})
        p.setColor(role, color(s.text));
    p.setColor(QPalette::BrightText, color(0xff5c4d));
    p.setColor(QPalette::PlaceholderText, color(s.dimmed));
    p.setColor(QPalette::Highlight, color(s.highlight));
    p.setColor(QPalette::HighlightedText, color(s.highlightedText));
    p.setColor(QPalette::Link, color(s.link));
    p.setColor(QPalette::LinkVisited, color(s.link));
    p.setColor(QPalette::ToolTipBase, color(s.tooltip));
    p.setColor(QPalette::Light, color(s.button).lighter(theme == Theme::Dark ? 130 : 105));
    p.setColor(QPalette::Midlight, color(s.button).lighter(theme == Theme::Dark ? 115 : 102));
    p.setColor(QPalette::Mid, color(s.mid));
    p.setColor(QPalette::Dark, color(s.mid).darker(130));
    p.setColor(QPalette::Shadow, color(s.mid).darker(220));
    for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText, QPalette::HighlightedText, QPalette::PlaceholderText})
        p.setColor(QPalette::Disabled, role, color(s.disabled));
    p.setColor(QPalette::Disabled, QPalette::Highlight, color(s.mid));
    return p;
}

void applyTheme(QApplication& application, Theme theme) {
    application.setStyle(new ThemeStyle); // the application owns it
    application.setPalette(themePalette(theme));
}

bool isDark(const QPalette& palette) {
    return palette.color(QPalette::Window).lightnessF() < palette.color(QPalette::WindowText).lightnessF();
}

StateColors stateColors(const QPalette& palette) {
    const auto color = [](QRgb rgb) { return QColor::fromRgb(rgb); };
    // Blue for good and orange for trouble rather than green and red; every state also has its own glyph.
    if (isDark(palette))
        return {color(0x4fb3a3), color(0xe6a93a), color(0xf2765c), color(0x5aaef0)};
    return {color(0x00786a), color(0x9a5b00), color(0xb93a1b), color(0x1769b0)};
}

PlotColors PlotColors::fromPalette(const QPalette& palette) {
    const QColor base = palette.color(QPalette::Active, QPalette::Base), text = palette.color(QPalette::Active, QPalette::Text);
    PlotColors colors;
    colors.background = base;
    colors.text = text;
    colors.axis = mix(base, text, 0.66); // numbers and notes are written in it too
    colors.grid = mix(base, text, 0.13);
    colors.highlight = isDark(palette) ? QColor::fromRgb(0xff7a45) : QColor::fromRgb(0xd83a00);
    colors.notMeasured = mix(base, text, 0.22);
    colors.fill = palette.color(QPalette::Active, QPalette::Highlight);
    return colors;
}

} // namespace linnet::widgets
