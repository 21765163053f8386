// Whose a recipe is: every recipe is about one teacher, and the window shows one.
#pragma once

#include "core/model/model_api.h"
#include "core/recipe/recipe.h"

#include <QString>

namespace linnet::app {

// Same hash; where one of them has none, same place ("default" is where it lies on this machine).
bool isFor(const core::Recipe& recipe, const core::ModelInfo& teacher);
core::Recipe settingsFor(const core::Recipe& recipe, const core::ModelInfo& teacher); // all of it but the teacher
QString teacherPath(const core::Recipe& recipe); // on this machine; "" where it isn't there
QString teacherName(const core::Recipe& recipe); // short, for a sentence

} // namespace linnet::app
