#include "app/models/selection_model.h"

#include <algorithm>

namespace linnet::app {

QList<HeadId> SelectionModel::sorted() const {
    QList<HeadId> heads(m_selected.begin(), m_selected.end());
    std::sort(heads.begin(), heads.end());
    return heads;
}

void SelectionModel::select(const QSet<HeadId>& heads, HeadId primary) {
    const auto first = [&] { return heads.isEmpty() ? HeadId{} : *std::min_element(heads.begin(), heads.end()); };
    const HeadId chosen = heads.contains(primary) ? primary : first();
    if (heads == m_selected && chosen == m_primary)
        return;
    m_selected = heads;
    m_primary = chosen;
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

void SelectionModel::selectLayers(const QList<int>& layers, int heads) {
    QSet<HeadId> set;
    for (const int layer : layers)
        for (int head = 0; head < heads; ++head)
            set.insert({layer, head});
    select(set, m_primary);
}

void SelectionModel::setPrimary(HeadId head) {
    if (m_selected.contains(head))
        select(m_selected, head);
}

void SelectionModel::clear() {
    if (m_selected.isEmpty())
        setPinned({});
    select({}, {});
}

void SelectionModel::reset() {
    setHovered({});
    setPinned({});
    select({}, {});
}

void SelectionModel::setPinned(HeadId head) {
    if (head == m_pinned)
        return;
    m_pinned = head;
    Q_EMIT pinnedChanged();
}

void SelectionModel::setHovered(HeadId head) {
    if (head == m_hovered)
        return;
    m_hovered = head;
    Q_EMIT hoverChanged();
}

} // namespace linnet::app
