// What one head's targets are applied to.
#pragma once

#include "app/models/recipe_model.h"

namespace linnet::app {

class Session;

enum class Spread { Group, Layer, Model, Similar }; // heads of the same key/value head, layer, model, or alike by profile
inline constexpr int kSimilarHeads = 5;

// The others, without `from`; Similar: the nearest first, none without a profile.
QList<HeadId> spreadHeads(Session& session, HeadId from, Spread spread);

struct SpreadResult {
    int heads = 0;  // that got at least one value
    int idle = 0;   // of those: in layers that the recipe keeps as softmax
    int locked = 0; // cells left as they are because they are locked
    QString refused; // why nothing was done, ""
};
// Gives the user values that `from` has in these fields to the heads, as one undo step.
SpreadResult spreadTargets(Session& session, HeadId from, const QList<TargetField>& fields, Spread spread);

} // namespace linnet::app
