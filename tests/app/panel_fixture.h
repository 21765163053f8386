// What tests of panels begin with: settings of their own, and a session that holds the made-up teacher with a recipe of its layers.
#pragma once

#include "app/models/session.h"
#include "tests/app/fake_teacher.h"

#include <QCoreApplication>
#include <QStandardPaths>

namespace linnet::tests {

inline void useTestSettings(const char* program) {
    QStandardPaths::setTestModeEnabled(true);
    QCoreApplication::setOrganizationName(QStringLiteral("Linnet"));
    QCoreApplication::setApplicationName(QString::fromLatin1(program));
}

inline void adoptFakes(app::Session& session) { // layers 3 and 5 are converted
    session.adopt(fakeTeacher(), fakeProfile());
    auto recipe = core::defaultRecipe("cpu", "naive");
    recipe.keep = core::parseKeepRule("layers:0,1,2,4");
    session.recipe()->load(recipe);
}

} // namespace linnet::tests
