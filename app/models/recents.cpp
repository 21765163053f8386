#include "app/models/recents.h"

#include "app/models/settings.h"

#include <QFileInfo>

namespace linnet::app {
namespace {

QString keyOf(Recent kind) {
    return kind == Recent::Models ? QStringLiteral("recent/models") : kind == Recent::Recipes ? QStringLiteral("recent/recipes") : QStringLiteral("recent/runs");
}

} // namespace

QStringList recents(Recent kind) {
    QStringList list = Settings().value(keyOf(kind)).toStringList();
    list.removeAll(QString());
    list.removeDuplicates();
    return list.mid(0, kMaxRecent);
}

void addRecent(Recent kind, const QString& path) {
    const auto whole = QFileInfo(path).absoluteFilePath();
    QStringList list = recents(kind);
    list.removeAll(whole);
    list.prepend(whole);
    Settings().setValue(keyOf(kind), QStringList(list.mid(0, kMaxRecent)));
}

void dropRecent(Recent kind, const QString& path) {
    QStringList list = recents(kind);
    list.removeAll(path);
    Settings().setValue(keyOf(kind), list);
}

void clearRecents() {
    Settings().remove(QStringLiteral("recent"));
}

} // namespace linnet::app
