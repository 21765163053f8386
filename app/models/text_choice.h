// The recipe's text (data.text) as a person names it: "default", "self:N" (N sequences that the teacher writes), or files and folders
// divided by semicolons. And what can be seen of it before anything is read: is it there, is it enough.
#pragma once

#include "core/recipe/recipe.h"

#include <QString>

namespace linnet::app {

QString textToShow(const std::vector<std::string>& text);
std::vector<std::string> textFromTyped(const QString& typed);

struct TextLook {
    QString problem; // one sentence, "" = none is seen
    QString says;    // "3 files, 1.2 MB"
};
TextLook lookAtText(const core::Recipe& recipe); // reads no content; of a large folder the first thousand files

} // namespace linnet::app
