// Inside core/recipe: a recipe as JSON, and how its parts are printed.
#pragma once

#include "core/recipe/recipe.h"

namespace linnet::core {

Json recipeToJson(const Recipe& recipe);                      // canonical key order; "no decay" is null
std::string jsonLine(const Json& json);                       // on one line, shortest round-trip numbers
std::string joinNames(const std::vector<std::string>& names); // "a, b, c"

} // namespace linnet::core
