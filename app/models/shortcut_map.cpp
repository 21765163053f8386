#include "app/models/shortcut_map.h"

#include "app/models/settings.h"

#include <optional>

namespace linnet::app {
namespace {

QString keyOf(const QString& name) {
    return QStringLiteral("shortcuts/") + name;
}

bool sane(const QKeySequence& keys) {
    for (int i = 0; i < keys.count(); ++i)
        if (keys[static_cast<uint>(i)].key() == Qt::Key_unknown)
            return false;
    return true;
}

std::optional<QKeySequence> stored(const QString& name) {
    const auto value = Settings().value(keyOf(name));
    if (value.typeId() != QMetaType::QString)
        return std::nullopt;
    const auto text = value.toString();
    const auto keys = QKeySequence::fromString(text, QKeySequence::PortableText);
    return sane(keys) && (text.isEmpty() || !keys.isEmpty()) ? std::optional(keys) : std::nullopt;
}

} // namespace

QString ShortcutMap::Entry::title() const {
    auto text = action ? action->text() : name;
    if (action && text.startsWith(action->iconText() + QLatin1Char(' '))) // undo: what it is, not what it would undo now
        text = action->iconText();
    text.remove(QLatin1Char('&'));
    while (text.endsWith(QLatin1Char('.')))
        text.chop(1);
    return text;
}

bool ShortcutMap::add(QAction* action, const QString& group) {
    const auto name = action->objectName();
    if (name.isEmpty() || find(name))
        return false;
    m_entries.append({name, group, action, action->shortcut()});
    if (const auto keys = stored(name))
        action->setShortcut(*keys);
    return true;
}

ShortcutMap::Entry* ShortcutMap::find(const QString& name) {
    for (auto& entry : m_entries)
        if (entry.name == name)
            return &entry;
    return nullptr;
}

QKeySequence ShortcutMap::keys(const QString& name) const {
    for (const auto& entry : m_entries)
        if (entry.name == name)
            return entry.action ? entry.action->shortcut() : QKeySequence();
    return {};
}

QStringList ShortcutMap::takenBy(const QKeySequence& keys, const QString& except) const {
    QStringList names;
    if (keys.isEmpty())
        return names;
    for (const auto& entry : m_entries) {
        const auto other = entry.action ? entry.action->shortcut() : QKeySequence();
        if (entry.name != except && !other.isEmpty() && (other.matches(keys) != QKeySequence::NoMatch || keys.matches(other) != QKeySequence::NoMatch))
            names << entry.name;
    }
    return names;
}

void ShortcutMap::apply(Entry& entry, const QKeySequence& keys, bool store) {
    if (entry.action)
        entry.action->setShortcut(keys);
    if (!store)
        return;
    if (keys == entry.preset)
        Settings().remove(keyOf(entry.name));
    else
        Settings().setValue(keyOf(entry.name), keys.toString(QKeySequence::PortableText));
}

void ShortcutMap::assign(const QString& name, const QKeySequence& keys) {
    auto* entry = find(name);
    if (!entry || !sane(keys))
        return;
    for (const auto& other : takenBy(keys, name))
        apply(*find(other), {}, true);
    apply(*entry, keys, true);
    Q_EMIT changed();
}

void ShortcutMap::reset(const QString& name) {
    if (const auto* entry = find(name))
        assign(name, entry->preset);
}

void ShortcutMap::resetAll() {
    for (auto& entry : m_entries)
        apply(entry, entry.preset, true);
    Q_EMIT changed();
}

void ShortcutMap::reload() {
    for (auto& entry : m_entries)
        apply(entry, stored(entry.name).value_or(entry.preset), false);
    Q_EMIT changed();
}

} // namespace linnet::app
