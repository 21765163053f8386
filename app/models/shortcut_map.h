// The keys of every action by name: presets, what a person set instead (Settings "shortcuts/NAME"), and conflicts.
#pragma once

#include <QAction>
#include <QKeySequence>
#include <QObject>
#include <QPointer>

namespace linnet::app {

class ShortcutMap : public QObject {
    Q_OBJECT
public:
    struct Entry {
        QString name, group; // the action's object name; the menu it stands in
        QPointer<QAction> action;
        QKeySequence preset;
        QString title() const; // without mnemonic and dots
    };
    using QObject::QObject;
    // Its shortcut of this moment is the preset; a stored one replaces it. Names are unique; an action without one is refused.
    bool add(QAction* action, const QString& group);
    const QList<Entry>& entries() const { return m_entries; }
    QKeySequence keys(const QString& name) const;
    QStringList takenBy(const QKeySequence& keys, const QString& except) const; // names; equal or a prefix of one another
    void assign(const QString& name, const QKeySequence& keys); // taken from whoever has it
    void reset(const QString& name);
    void resetAll();
    void reload(); // from the settings
Q_SIGNALS:
    void changed();

private:
    Entry* find(const QString& name);
    void apply(Entry& entry, const QKeySequence& keys, bool store);
    QList<Entry> m_entries;
};

} // namespace linnet::app
