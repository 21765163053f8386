// One undoable edit of the recipe: the whole recipe before and after (a recipe is small), so no edit needs a class of its own.
#pragma once

#include "core/recipe/recipe.h"

#include <QElapsedTimer>
#include <QUndoCommand>
#include <functional>

namespace linnet::app {

class RecipeCommand : public QUndoCommand {
public:
    using Apply = std::function<void(const core::Recipe&)>;
    RecipeCommand(core::Recipe before, core::Recipe after, const QString& text, Apply apply);
    void undo() override { m_apply(m_before); }
    void redo() override { m_apply(m_after); }
    int id() const override { return 1; }
    bool mergeWith(const QUndoCommand* next) override; // the same edit again within a second, as a slider makes it

private:
    core::Recipe m_before, m_after;
    Apply m_apply;
    QElapsedTimer m_age;
};

} // namespace linnet::app
