// Targets as text: what the table copies, and what a person may paste from it, from a spreadsheet or by hand.
#pragma once

#include "app/models/recipe_model.h"

namespace linnet::app {

struct TargetLine {
    QString head;                     // "L2 H1"; "" = the line is a plain value
    std::optional<TargetField> field; // of a copied row
    QString text;                     // number, "none" or "": automatic
};
QList<TargetLine> targetLines(const QString& clipboard);

struct PlacedTarget {
    int row = 0; // index into fields
    QString text;
};
// Which row gets which value. `fields`: of the rows to paste into, head by head. Plain values go row by row, one of them to all rows.
// Copied rows go field by field: the first head's values to the first head, and so on; those of a single head go to every head.
QList<PlacedTarget> placeTargets(const QList<TargetLine>& lines, const QList<TargetField>& fields);

} // namespace linnet::app
