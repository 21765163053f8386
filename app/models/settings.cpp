#include "app/models/settings.h"

#include <QCoreApplication>
#include <QMap>
#include <QSettings>
#include <QThreadPool>
#include <mutex>
#include <optional>

namespace linnet::app {
namespace {

using Values = QMap<QString, QVariant>;
using Changes = QMap<QString, std::optional<QVariant>>; // nullopt: taken out

void update(Values& values, const Changes& changes) {
    for (auto change = changes.begin(); change != changes.end(); ++change)
        if (*change)
            values[change.key()] = **change;
        else
            values.remove(change.key());
}

class Store {
public:
    static Store& instance() {
        static Store store;
        return store;
    }
    template <typename Read>
    auto read(Read&& reader) {
        const std::lock_guard lock(m_mutex);
        return reader(m_values);
    }
    void change(const Changes& changes) {
        const std::lock_guard lock(m_mutex);
        update(m_values, changes);
        m_waiting.insert(changes);
        if (!std::exchange(m_writing, true))
            m_pool.start([this] { write(); });
    }
    void sync() {
        m_pool.waitForDone();
        exchange({});
    }

private:
    Store() {
        m_pool.setMaxThreadCount(1);
        exchange({});
        qAddPostRoutine(&Settings::sync); // while there is still an application
    }
    void write() {
        for (;;) {
            Changes changes;
            {
                const std::lock_guard lock(m_mutex);
                if (m_waiting.isEmpty()) {
                    m_writing = false;
                    return;
                }
                changes.swap(m_waiting);
            }
            exchange(changes);
        }
    }
    void exchange(const Changes& changes) { // with the file; no lock is held while the disk works
        QSettings file;
        for (auto change = changes.begin(); change != changes.end(); ++change)
            if (*change)
                file.setValue(change.key(), **change);
            else
                file.remove(change.key());
        file.sync();
        Values values;
        for (const auto& key : file.allKeys())
            values[key] = file.value(key);
        const std::lock_guard lock(m_mutex);
        update(values, m_waiting);
        m_values = std::move(values);
    }

    std::mutex m_mutex;
    Values m_values;
    Changes m_waiting;
    bool m_writing = false;
    QThreadPool m_pool; // one thread
};

} // namespace

QVariant Settings::value(const QString& key, const QVariant& fallback) const {
    return Store::instance().read([&](const Values& values) { return values.value(key, fallback); });
}

bool Settings::contains(const QString& key) const {
    return Store::instance().read([&](const Values& values) { return values.contains(key); });
}

QStringList Settings::keys() const {
    return Store::instance().read([](const Values& values) { return values.keys(); });
}

void Settings::setValue(const QString& key, const QVariant& value) {
    Store::instance().change({{key, value}});
}

void Settings::remove(const QString& key) {
    Changes changes;
    for (const auto& each : keys())
        if (each == key || each.startsWith(key + QLatin1Char('/')))
            changes[each] = std::nullopt;
    Store::instance().change(changes);
}

void Settings::clear() {
    Changes changes;
    for (const auto& each : keys())
        changes[each] = std::nullopt;
    Store::instance().change(changes);
}

void Settings::sync() {
    Store::instance().sync();
}

QString Settings::fileName() {
    return QSettings().fileName();
}

} // namespace linnet::app
