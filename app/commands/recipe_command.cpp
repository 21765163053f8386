#include "app/commands/recipe_command.h"

namespace linnet::app {

constexpr qint64 kMergeMs = 1000;

RecipeCommand::RecipeCommand(core::Recipe before, core::Recipe after, const QString& text, Apply apply)
    : QUndoCommand(text), m_before(std::move(before)), m_after(std::move(after)), m_apply(std::move(apply)) {
    m_age.start();
}

bool RecipeCommand::mergeWith(const QUndoCommand* next) {
    const auto* other = dynamic_cast<const RecipeCommand*>(next);
    // a tick is an edit of its own; only edits of values are dragged
    if (!other || other->text() != text() || !text().startsWith(QStringLiteral("Set ")) || m_age.elapsed() > kMergeMs)
        return false;
    m_after = other->m_after;
    m_age.restart();
    return true;
}

} // namespace linnet::app
