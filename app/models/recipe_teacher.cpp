#include "app/models/recipe_teacher.h"

#include "core/convert/convert.h"

#include <QFileInfo>

namespace linnet::app {

QString teacherPath(const core::Recipe& recipe) {
    const auto place = core::guarded([&] { return recipe.teacherSource == "default" ? core::defaultTeacher() : core::resolvePath(recipe, recipe.teacherSource); });
    const auto path = place ? QString::fromStdString(place->string()) : QString();
    return QFileInfo::exists(path) ? path : QString();
}

QString teacherName(const core::Recipe& recipe) {
    const QFileInfo file(QString::fromStdString(recipe.teacherSource));
    return file.fileName().isEmpty() ? file.filePath() : file.fileName();
}

bool isFor(const core::Recipe& recipe, const core::ModelInfo& teacher) {
    if (!recipe.teacherHash.empty() && !teacher.hash.empty())
        return recipe.teacherHash == teacher.hash;
    if (teacher.hash.empty())
        return true; // nothing to tell it by
    const auto path = teacherPath(recipe);
    return !path.isEmpty() && QFileInfo(path).canonicalFilePath() == QFileInfo(QString::fromStdString(teacher.path.string())).canonicalFilePath();
}

core::Recipe settingsFor(const core::Recipe& recipe, const core::ModelInfo& teacher) {
    core::Recipe taken = recipe;
    taken.teacherSource = teacher.path.string();
    taken.teacherHash = teacher.hash;
    return taken;
}

} // namespace linnet::app
