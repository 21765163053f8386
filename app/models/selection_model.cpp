#include "app/models/selection_model.h"

#include <algorithm>

namespace linnet::app {

QList<HeadId> SelectionModel::sorted() const {
    QList<HeadId> heads(m_selected.begin(), m_selected.end());
    std::sort(heads.begin(), heads.end());
    return heads;
}

void SelectionModel::select(const QSet<HeadId>& heads, HeadId primary) {
    if (heads == m_selected && primary == m_primary)
        return;
    m_selected = heads;
    m_primary = heads.contains(primary) ? primary : heads.isEmpty() ? HeadId{} : sorted().front();
    Q_EMIT changed();
}

void SelectionModel::toggle(HeadId head) {
    auto heads = m_selected;
    const bool removed = heads.remove(head);
    if (!removed)
        heads.insert(head);
    select(heads, removed ? m_primary : head);
}

void SelectionModel::add(const QSet<HeadId>& heads, HeadId primary) {
    select(m_selected | heads, primary);
}

void SelectionModel::clear() {
    select({}, {});
}

void SelectionModel::setHovered(HeadId head) {
    if (head == m_hovered)
        return;
    m_hovered = head;
    Q_EMIT hoverChanged();
}

} // namespace linnet::app
