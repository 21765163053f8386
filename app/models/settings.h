// The window's settings: QSettings' file, read once and kept in memory. A thread of its own writes what changes, because QSettings
// syncs to the disk in whatever thread sets a value, and the window never waits for a disk. Another window's changes are seen
// after sync() and after each write of ours.
#pragma once

#include <QString>
#include <QStringList>
#include <QVariant>

namespace linnet::app {

class Settings { // any number of them, from any thread: they share one memory
public:
    QVariant value(const QString& key, const QVariant& fallback = {}) const;
    bool contains(const QString& key) const;
    QStringList keys() const;
    void setValue(const QString& key, const QVariant& value);
    void remove(const QString& key); // and what is below it
    void clear();
    static void sync(); // waits until the file holds everything, and reads it again
    static QString fileName();
};

} // namespace linnet::app
