// The measured choice of layers behind a run: of its own keep rule, or of a choice that was measured before it and written into its recipe
// as a list of layers.
#pragma once

#include "core/convert/convert.h"

#include <optional>
#include <set>

namespace linnet::core {

struct RunSelection {
    Selection selection;
    std::set<std::int64_t> never, always; // the pins that it was measured with
    bool partial = false; // of knownSelection: measuring was stopped (bypass, kl); only the layers that were measured are ranked
    bool whole = false; // of knownSelection: what the recipe asks for, pins and all; measuring it again computes nothing
};
// From report.json, or state.json of a run that goes on or was stopped; else of the choices kept in bankFolder (see selectLayers) the newest
// one for the run's teacher that kept the very same layers. nullopt: nothing was measured for it, or it is there no longer.
std::optional<RunSelection> selectionOfRun(const std::filesystem::path& run, const std::filesystem::path& bankFolder);

// What selectLayers has measured before for this recipe, by its keep rule's method; where the rule measures nothing, by any method: that one
// whose choice are the recipe's own layers, else the newest. Reads small files only. nullopt: nothing, or a recipe that can't be measured.
std::optional<RunSelection> knownSelection(const Recipe& recipe, const std::filesystem::path& bankFolder);

} // namespace linnet::core
