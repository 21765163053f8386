// Light, dark or as the desktop has it: the choice is stored (Settings "window/theme") and applied to the whole application.
#pragma once

#include <QDBusMessage> // moc needs the whole type: the bus looks the slot up by it
#include <QObject>
#include <QVariant>
#include <optional>

namespace linnet::app {

enum class ThemeChoice { System, Light, Dark };

// The portal's org.freedesktop.appearance color-scheme: 1 dark, 2 light; nested variants are opened. nullopt: no preference.
std::optional<bool> darkOfPortal(QVariant value);

class ThemeKeeper : public QObject {
    Q_OBJECT
public:
    explicit ThemeKeeper(QObject* parent = nullptr); // applies what is stored; asks the desktop, and listens to it
    ThemeChoice choice() const { return m_choice; }
    void choose(ThemeChoice choice); // applied and stored
    void reload();                   // from the settings
    bool systemIsDark() const;
Q_SIGNALS:
    void changed();
private Q_SLOTS:
    void portalChanged(const QDBusMessage& said); // group, key, value

private:
    void askDesktop();
    void heard(std::optional<bool> dark);
    void apply();
    ThemeChoice m_choice = ThemeChoice::System;
    std::optional<bool> m_portalDark;
};

} // namespace linnet::app
