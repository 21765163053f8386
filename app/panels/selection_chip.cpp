#include "app/panels/selection_chip.h"

#include "app/models/session.h"

#include <QHBoxLayout>
#include <QToolButton>

namespace linnet::app {

SelectionChip::SelectionChip(Session* session, QWidget* parent) : QWidget(parent), m_session(session) {
    setObjectName(QStringLiteral("selectionChip"));
    auto* row = new QHBoxLayout(this);
    row->setContentsMargins(0, 0, 0, 0);
    row->setSpacing(3);
    auto* selection = session->selection();
    const auto button = [this, row](const QString& name, const QString& hint, auto&& slot) {
        auto* made = new QToolButton;
        made->setObjectName(name);
        made->setToolTip(hint);
        made->setToolButtonStyle(Qt::ToolButtonTextOnly);
        connect(made, &QToolButton::clicked, this, slot);
        row->addWidget(made);
        return made;
    };
    m_selected = button(QStringLiteral("chipSelected"), tr("What every view shows; a click or Esc lets go of it"), [selection] { selection->select({}, {}); });
    m_pinned = button(QStringLiteral("chipPinned"), tr("Reference to compare with; a click, or Esc where nothing is selected, lets go of it"), [selection] { selection->setPinned({}); });
    m_locked = button(QStringLiteral("chipLocked"), tr("Targets that alignment keeps as they are; a click selects their heads"), [this] { selectLocked(); });
    connect(selection, &SelectionModel::changed, this, &SelectionChip::refresh);
    connect(selection, &SelectionModel::pinnedChanged, this, &SelectionChip::refresh);
    connect(session->recipe(), &RecipeModel::targetsChanged, this, &SelectionChip::refresh);
    refresh();
}

void SelectionChip::refresh() {
    const auto* selection = m_session->selection();
    const auto name = [](HeadId id) { return tr("L%1 H%2").arg(id.layer).arg(id.head); };
    const auto show = [](QToolButton* button, bool visible, const QString& text) {
        button->setText(text);
        button->setAccessibleName(text);
        button->setVisible(visible);
    };
    const auto others = static_cast<int>(selection->selected().size()) - 1;
    show(m_selected, others >= 0, (others > 0 ? tr("%1 + %2 more").arg(name(selection->primary())).arg(others) : name(selection->primary())) + QStringLiteral(" ✕"));
    show(m_pinned, selection->pinned().valid(), tr("reference %1").arg(name(selection->pinned())) + QStringLiteral(" ✕"));
    int locked = 0;
    for (const auto& [layer, heads] : m_session->recipe()->recipe().targets)
        for (const auto& [head, target] : heads)
            locked += static_cast<int>(target.locked.size());
    show(m_locked, locked > 0, tr("%1 locked").arg(locked));
}

void SelectionChip::selectLocked() {
    QSet<HeadId> set;
    for (const auto& [layer, heads] : m_session->recipe()->recipe().targets)
        for (const auto& [head, target] : heads)
            if (!target.locked.empty())
                set.insert({static_cast<int>(layer), static_cast<int>(head)});
    m_session->selection()->select(set, m_session->selection()->primary());
}

} // namespace linnet::app
