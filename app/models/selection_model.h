// What is selected, pinned and hovered, once for all views. Hover never changes the selection; the pin is a reference to compare with
// and outlives it.
#pragma once

#include <QObject>
#include <QSet>

namespace linnet::app {

struct HeadId {
    int layer = -1, head = -1;
    bool valid() const { return layer >= 0 && head >= 0; }
    bool operator==(const HeadId&) const = default;
    auto operator<=>(const HeadId&) const = default;
};
inline size_t qHash(const HeadId& id, size_t seed = 0) {
    return qHashMulti(seed, id.layer, id.head);
}

class SelectionModel : public QObject {
    Q_OBJECT
public:
    using QObject::QObject;
    const QSet<HeadId>& selected() const { return m_selected; }
    QList<HeadId> sorted() const; // layer-major
    HeadId primary() const { return m_primary; }
    HeadId hovered() const { return m_hovered; }
    HeadId pinned() const { return m_pinned; } // invalid = none
    void select(const QSet<HeadId>& heads, HeadId primary); // replaces
    void toggle(HeadId head);
    void add(const QSet<HeadId>& heads, HeadId primary);
    void selectLayers(const QList<int>& layers, int heads); // all `heads` of each
    void setPrimary(HeadId head);                            // of the selected ones
    void clear();                                            // the selection; where there is none, the pin
    void reset();                                            // everything: another model
    void setHovered(HeadId head);                            // invalid = none
    void setPinned(HeadId head);                             // invalid = none
Q_SIGNALS:
    void changed();
    void hoverChanged();
    void pinnedChanged();

private:
    QSet<HeadId> m_selected;
    HeadId m_primary, m_hovered, m_pinned;
};

} // namespace linnet::app
