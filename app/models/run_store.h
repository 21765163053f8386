// What the window remembers about runs beside their folders: names, looks, the baseline, the queue with its recipes, and run folders
// that lie elsewhere. One small file in the app's data folder, written by a FileJournal; nothing of it enters recipes or run folders.
#pragma once

#include "core/recipe/recipe.h"

#include <QList>
#include <QMap>
#include <QString>

namespace linnet::app {

struct RunMemory {
    struct Run {
        QString name;  // "": that of its folder
        int look = -1; // -1: none yet
        bool shown = false; // ticked: drawn in Curves
    };
    struct Waiting {
        QString folder;
        core::Recipe recipe;
    };
    QMap<QString, Run> runs; // by folder
    QList<Waiting> queue;    // first to start first
    QStringList added;       // run folders outside the runs folder
    QString baseline;        // a folder, ""
};

RunMemory readRunMemory(const QString& file); // what can't be read is left out
std::string runMemoryText(const RunMemory& memory);

} // namespace linnet::app
