#include "app/commands/recipe_command.h"

#include <set>

namespace linnet::app {

namespace {

constexpr qint64 kMergeMs = 1000;

std::set<std::string> changedKeys(const core::Recipe& before, const core::Recipe& after) {
    std::set<std::string> keys;
    for (const auto& difference : core::diffRecipes(before, after))
        keys.insert(difference.key);
    return keys;
}

} // namespace

RecipeCommand::RecipeCommand(core::Recipe before, core::Recipe after, const QString& text, Apply apply)
    : QUndoCommand(text), m_before(std::move(before)), m_after(std::move(after)), m_apply(std::move(apply)) {
    m_age.start();
}

bool RecipeCommand::mergeWith(const QUndoCommand* next) {
    const auto* other = dynamic_cast<const RecipeCommand*>(next);
    // a tick is an edit of its own; only edits of values are dragged
    if (!other || other->text() != text() || !text().startsWith(QStringLiteral("Set ")) || m_age.elapsed() > kMergeMs)
        return false;
    if (changedKeys(m_before, m_after) != changedKeys(other->m_before, other->m_after))
        return false; // another head or setting
    m_after = other->m_after;
    m_age.restart();
    return true;
}

} // namespace linnet::app
