// Where a measured layer choice is kept: one folder for all recipes that would measure the same numbers.
#pragma once

#include "core/recipe/recipe.h"

#include <filesystem>

namespace linnet::core {

// The recipe less everything that its keep rule's measurement does not depend on. What needs no student (bypass, score) depends on teacher,
// text and slices only; unaligned starts (ga-s2) not on alignment; aligned layers not on what comes after alignment. No measurement
// depends on which layers a rule takes, nor, where no student is made, on pins: SelectionJob::finished names its sets of layers.
Recipe selectionKey(const Recipe& frozen); // `frozen`: with absolute paths; throws Usage for an unknown method

// bankFolder / "select-<hash>"; an empty bankFolder: of the temporary folder.
std::filesystem::path selectionFolder(const Recipe& frozen, const std::filesystem::path& bankFolder);

} // namespace linnet::core
