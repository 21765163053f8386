// What was opened of late, newest first: models, recipes and runs, each in a list of its own (Settings "recent/...").
#pragma once

#include <QStringList>

namespace linnet::app {

enum class Recent { Models, Recipes, Runs };
inline constexpr int kMaxRecent = 10;

QStringList recents(Recent kind);
void addRecent(Recent kind, const QString& path);
void dropRecent(Recent kind, const QString& path); // it is gone
void clearRecents();

} // namespace linnet::app
