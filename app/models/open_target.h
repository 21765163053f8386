// What a path that was dropped, typed or found in a list is: a teacher, a run, a recipe, or none of them, and then why.
#pragma once

#include <QString>

class QMimeData;

namespace linnet::app {

enum class OpenKind { Model, Run, Recipe, Wrong };

struct OpenTarget {
    OpenKind kind = OpenKind::Wrong;
    QString path; // what to open; of a file inside a model folder: the folder
    QString why;  // Wrong only: a sentence
};

OpenTarget openTarget(const QString& path);
OpenTarget openTarget(const QMimeData& dropped); // exactly one local path

} // namespace linnet::app
