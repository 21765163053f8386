// What can be known of a recipe and its teacher before anything runs: what a conversion would refuse only later, and what it says without
// effect. Torch-free: the command line and the window show both.
#pragma once

#include "core/convert/convert.h"

namespace linnet::core {

// A recipe as it holds for a teacher some of whose layers are converted already (`layerKinds` as ModelInfo has them): those stay converted
// (pins.always), and rules that count layers (uniform, first, last) count among its softmax layers. The same recipe where none is. Throws Usage
// naming the key: a pin or target of a converted layer, more layers to keep than there are.
Recipe recipeOn(const Recipe& recipe, const std::vector<std::string>& layerKinds);

// As a run freezes it: paths that hold from anywhere on this machine, the teacher's hash, a keep file's layers. What can be seen to be wrong
// fails here, before a folder is made: throws Failure. (Defined in convert.cpp.)
Recipe frozenRecipe(const Recipe& recipe);

// validateRecipe's errors; a cache budget that no choice of layers meets, in the dtype that the recipe's device computes in.
std::vector<Error> checkRecipe(const Recipe& recipe, const ModelInfo& teacher);

struct RecipeNote {
    std::string key, text; // dotted key of the recipe
};
// Pins that move a layer against a rule that names its layers; targets that nothing reads (the layer stays softmax, or gets a sliding window).
// A learning rate that is high for few steps. Nothing is said of layers that a measurement has yet to choose. None for a recipe that does not fit the teacher.
std::vector<RecipeNote> recipeNotes(const Recipe& recipe, std::int64_t layers);

} // namespace linnet::core
