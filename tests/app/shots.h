// Pictures to look at: where LINNET_SHOTS names a folder, a widget is saved there in both themes (QT_SCALE_FACTOR=2: at 200 %).
#pragma once

#include "widgets/theme.h"

#include <QApplication>
#include <QDir>
#include <QTest>
#include <QWidget>

namespace linnet::tests {

inline void shoot(QWidget& widget, const QString& name) {
    const auto folder = qEnvironmentVariable("LINNET_SHOTS");
    if (folder.isEmpty())
        return;
    QDir().mkpath(folder);
    for (const auto& [theme, suffix] : {std::pair(widgets::Theme::Dark, "dark"), std::pair(widgets::Theme::Light, "light")}) {
        widgets::applyTheme(*qApp, theme);
        QTest::qWait(120);
        widget.grab().save(QStringLiteral("%1/%2-%3-%4.png").arg(folder, name, QString::fromLatin1(suffix)).arg(widget.devicePixelRatioF()));
    }
}

} // namespace linnet::tests
